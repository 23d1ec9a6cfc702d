"""Tests of the file of ``--state``."""

import json
from pathlib import Path

import pytest

from delayed_tracker.cli.pulsar import gc_state
from delayed_tracker.cli.pulsar.gc_state import FORMAT, VERSION, GcState
from delayed_tracker.cli.pulsar.missing_cursors import Sighting
from delayed_tracker.cluster.errors import GcStateInvalid, GcStateUnusable, TooManyTrackers
from delayed_tracker.core.values.errors import InvalidInput

HEADER = {
    "format": FORMAT,
    "version": VERSION,
    "root": "/pulsar",
    "instance": "b1",
    "service": "tracker:7650",
    "scope": {"topic": "", "prefix": "persistent://t/"},
}
FOUND = {
    ("persistent://t/ns/orders", "zwölf"): Sighting(1_800_000_000_000, 7),
    ("persistent://t/ns/a b", ""): Sighting(0, 2**64 - 1),
}


@pytest.fixture
def state(tmp_path: Path) -> GcState:
    return GcState(tmp_path / "gc.json", HEADER)


def test_what_is_written_is_read(state: GcState):
    """A file that does not exist yet is a first run; each write replaces the whole."""
    assert state.read() == {}
    state.write(FOUND)
    assert state.read() == FOUND
    state.write({})
    assert state.read() == {}
    assert list(state.path.parent.iterdir()) == [state.path]


def test_any_changed_byte_is_refused(state: GcState):
    """Also one that makes a time earlier, so that a tracker would be deleted too soon."""
    state.write(FOUND)
    whole = state.path.read_bytes()
    for place in range(len(whole) - 1):
        state.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            read = state.read()
        except GcStateInvalid as error:
            assert str(state.path) in error.message  # noqa: PT017  # a change within white space does no harm
        else:
            assert read == FOUND, place
    state.path.write_bytes(whole[:-20])
    with pytest.raises(GcStateInvalid, match="is damaged; nothing was deleted; remove it"):
        state.read()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged"),
        (b"\xff", "is damaged"),
        (b"[" * 100_000, "is damaged"),
        (b"[]", "is no file of `pulsar gc --state`"),
        (b'{"format": "another"}', "is no file of `pulsar gc --state`"),
        (json.dumps({**HEADER, "version": 2}).encode(), "has version 2, this program reads 1"),
        (json.dumps({**HEADER, "trackers": []}).encode(), "is damaged"),
    ],
)
def test_other_files_are_refused(state: GcState, content: bytes, message: str):
    """Each with its remedy."""
    state.path.write_bytes(content)
    with pytest.raises(GcStateInvalid, match=message):
        state.read()


@pytest.mark.parametrize(
    "rows", [None, {}, [1], [[]], [["t", "s", 1]], [["t", "s", -1, 0]], [["t", "s", True, 0]], [["t", 1, 1, 0]]]
)
def test_rows_that_are_none_are_refused(state: GcState, rows: object):
    """Even with the right checksum, as another program may have written it."""
    document = {**HEADER, "trackers": rows}
    state.path.write_text(json.dumps({"crc32c": gc_state._checksum(document), **document}), encoding="utf-8")
    with pytest.raises(GcStateInvalid, match="is damaged"):
        state.read()


@pytest.mark.parametrize("key", ["root", "instance", "service", "scope"])
def test_the_file_of_something_else_is_refused(state: GcState, key: str):
    """A sighting of another cluster says nothing about this one."""
    GcState(state.path, {**HEADER, key: "other"}).write(FOUND)
    with pytest.raises(InvalidInput, match=f"another {key}"):
        state.read()


def test_a_file_that_is_too_large_is_neither_written_nor_read(state: GcState, monkeypatch):
    """The old one stays."""
    state.write({})
    monkeypatch.setattr(gc_state, "STATE_BYTES_MAX", 300)
    with pytest.raises(TooManyTrackers, match="give --topic-prefix"):
        state.write(FOUND)
    assert state.read() == {}
    state.path.write_bytes(b" " * 301)
    with pytest.raises(GcStateUnusable, match="more than 300 bytes"):
        state.read()


def test_a_place_that_cannot_be_used_is_an_error(tmp_path: Path):
    """A directory in the place of the file, and a file in a directory that does not exist."""
    with pytest.raises(GcStateUnusable, match="cannot be read"):
        GcState(tmp_path, HEADER).read()
    with pytest.raises(GcStateUnusable, match="cannot be written"):
        GcState(tmp_path / "no" / "gc.json", HEADER).write(FOUND)
