"""Tests of inflating untrusted zlib streams, and of the cache of blocks."""

import zlib

import numpy as np
import pytest

from delayed_tracker.ledger.errors import CompressedDataInvalid
from delayed_tracker.ledger.offload import inflating
from delayed_tracker.ledger.offload.entry_rows import EntryRows
from delayed_tracker.ledger.offload.inflating import inflate, inflate_some
from delayed_tracker.ledger.offload.recent_rows import RecentRows


@pytest.fixture(params=["zlib-ng", "zlib"])
def either(request, monkeypatch):
    """Select the faster zlib or the one of the standard library."""
    if request.param == "zlib":
        monkeypatch.setattr(inflating, "_zlib", zlib)
        monkeypatch.setattr(inflating, "_StreamError", zlib.error)
    else:
        assert inflating._zlib is not zlib


@pytest.mark.usefixtures("either")
def test_a_stream_is_whole_and_alone():
    """A stream must end exactly at the end of its bytes, and give exactly the expected bytes."""
    stream = zlib.compress(b"hello" * 9)
    assert inflate(stream, 45) == b"hello" * 9
    assert inflate(memoryview(stream), 99) == b"hello" * 9
    for wrong, size_max, says in (
        (stream, 44, "hold more than 44 bytes"),
        (stream[:-1], 45, "cut short"),
        (stream + b"x", 45, "more than one stream"),
        (b"", 0, "cut short"),
        (b"hello", 45, "do not inflate"),
        (stream[:-1] + bytes([stream[-1] ^ 1]), 45, "do not inflate"),
    ):
        with pytest.raises(CompressedDataInvalid, match=says):
            inflate(wrong, size_max)


@pytest.mark.usefixtures("either")
def test_a_stream_that_would_fill_the_memory():
    """A stream that could expand a thousandfold is refused before inflating."""
    with pytest.raises(CompressedDataInvalid, match="hold more than 1000 bytes"):
        inflate(zlib.compress(bytes(50_000_000)), 1000)


@pytest.mark.usefixtures("either")
def test_many_streams(monkeypatch):
    """Among many streams, damaged ones give an error and no bytes, and large ones are bounded."""
    streams = [zlib.compress(b"%d" % number) for number in range(4)]
    assert inflate_some(streams, 1 << 20) == ([b"0", b"1", b"2", b"3"], {})
    values, damaged = inflate_some([streams[0], b"no", streams[2]], 1 << 20)
    assert (values, list(damaged)) == ([b"0", b"", b"2"], [1])
    assert inflate_some(streams, 2) == ([b"0", b"1"], {})
    assert inflate_some(streams, 1) == ([b"0"], {})

    monkeypatch.setattr(inflating, "VALUE_BYTES_MAX", 100)
    values, damaged = inflate_some([streams[0], zlib.compress(bytes(101))], 50)
    assert (values, list(damaged)) == ([b"0", b""], [1])


def test_the_oldest_rows_go_first():
    """The cache is bounded in bytes and drops the least recently used rows; a row larger than the cache is not kept."""

    def rows(size: int) -> EntryRows:
        return EntryRows(bytes(size), 0, np.zeros(1, np.int64), np.zeros(1, np.int64))

    recent = RecentRows(300)
    kept = [rows(84) for _ in range(4)]
    for offset, each in enumerate(kept[:3]):
        recent.put("f", offset, each)
    assert recent.get("f", 0) is kept[0]
    recent.put("f", 3, kept[3])
    assert [recent.get("f", offset) is not None for offset in range(4)] == [True, False, True, True]
    recent.put("f", 4, rows(300))
    assert recent.get("f", 4) is None
    assert recent.get("g", 0) is None
