"""Tests that a size in a file allocates no more memory than the file justifies."""

import struct
import tracemalloc
import zlib
from uuid import UUID

import pytest

from delayed_tracker.ledger.offload.blob_source import BlobLedgerStore
from delayed_tracker.ledger.offload.blob_store import open_blob_store
from delayed_tracker.ledger.offload.map_file import open_map_file
from delayed_tracker.ledger.offload.recent_rows import RecentRows
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.harness.log_files import message
from tests.ledger.offload.blob_files import BlobWriter
from tests.ledger.offload.damage import assert_all_told
from tests.ledger.offload.sequence_files import ESCAPE, SYNC, MapFileWriter, vint

PAYLOADS = [message(payload=b"%d" % number) for number in range(4)]
HUGE = 2**31 - 1
PEAK_BYTES_MAX = 2_000_000


def assert_little_is_allocated(ledger) -> None:
    ledger.read(0, 0)  # This read loads the kernels.
    tracemalloc.start()
    try:
        pieces = list(ledger.scan(0, 3))
        read = ledger.read(0, 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < PEAK_BYTES_MAX
    for answer in (pieces, [read]):
        assert_all_told(answer, 0, 3)
        assert any(piece.bad_entries for piece in answer)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.RECORD])
def test_a_record(tmp_path, compression):
    """A record that claims to be longer than the file allocates nothing."""
    writer = MapFileWriter(PAYLOADS, compression)
    at = writer.offsets[2]
    writer.data = writer.data[:at] + struct.pack(">i", HUGE) + writer.data[at + 4 :]
    assert_little_is_allocated(open_map_file(writer.save(tmp_path), 7, RecentRows()))


@pytest.mark.parametrize("stream", range(4))
def test_a_stream_of_a_block(tmp_path, stream):
    """A stream that claims to be longer than the file allocates nothing."""
    writer = MapFileWriter(PAYLOADS, Compression.BLOCK, sync_every=2)
    streams = [vint(3) + b"abc"] * stream + [vint(HUGE) + b"abc"]
    broken = ESCAPE + SYNC + vint(2) + b"".join(streams)
    writer.data = writer.data[: writer.offsets[1]] + broken
    assert_little_is_allocated(open_map_file(writer.save(tmp_path), 7, RecentRows()))


@pytest.mark.parametrize("count", [HUGE, (1 << 24) - 1])
def test_the_records_of_a_block(tmp_path, count):
    """A record count that exceeds the key lengths, or value sizes that exceed the inflated bytes, allocate nothing."""
    writer = MapFileWriter(PAYLOADS, Compression.BLOCK, sync_every=2)
    stream = zlib.compress(b"\x08")
    writer.data = writer.data[: writer.offsets[1]] + ESCAPE + SYNC + vint(count) + (vint(len(stream)) + stream) * 4
    assert_little_is_allocated(open_map_file(writer.save(tmp_path), 7, RecentRows()))


def test_values_of_a_block(tmp_path):
    """Value lengths with a sum of gigabytes allocate nothing."""
    writer = MapFileWriter(PAYLOADS, Compression.BLOCK, sync_every=2)
    streams = [
        zlib.compress(part) for part in (b"\x08" * 3, struct.pack(">3q", 1, 2, 3), vint(HUGE) * 3, b"\0\0\0\1x" * 3)
    ]
    packed = b"".join(vint(len(stream)) + stream for stream in streams)
    writer.data = writer.data[: writer.offsets[1]] + ESCAPE + SYNC + vint(3) + packed
    assert_little_is_allocated(open_map_file(writer.save(tmp_path), 7, RecentRows()))


def test_an_entry_of_a_blob(tmp_path):
    """An entry that claims to be longer than its block allocates nothing."""
    writer = BlobWriter(PAYLOADS)
    at = writer.offsets[2]
    writer.data = writer.data[:at] + struct.pack(">i", HUGE) + writer.data[at + 4 :]
    writer.save(tmp_path, UUID(int=1), 7)
    store = BlobLedgerStore(open_blob_store(str(tmp_path)))
    ledger = store.open(TopicName.parse("a/b/c"), 7, [UUID(int=1)], entry_count=None)
    assert_little_is_allocated(ledger)
