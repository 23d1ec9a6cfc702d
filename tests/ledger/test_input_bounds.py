"""Tests that a small input with large compressed or claimed sizes takes little memory and names the exceeded bound."""

import base64
import gzip
import json
import os
import struct
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.bookkeeper import log_files
from delayed_tracker.ledger.bookkeeper.entry_logs import open_entry_logs
from delayed_tracker.ledger.compaction import TopicCompactionService
from delayed_tracker.ledger.compaction.compacted_entry import encode_compacted
from delayed_tracker.ledger.compaction.rebatch import batch_slots
from delayed_tracker.ledger.compression import Codec, compress, decompress
from delayed_tracker.ledger.errors import (
    CompressedDataInvalid,
    EntriesUnreadable,
    LedgerFileInvalid,
    MetadataInvalid,
    PayloadInvalid,
)
from delayed_tracker.ledger.messages import MessageOptions
from delayed_tracker.ledger.messages.batch import join_batch
from delayed_tracker.ledger.messages.keys import KEY_BYTES_MAX, load_key_files
from delayed_tracker.ledger.messages.reader import MessageReader
from delayed_tracker.ledger.metadata import metadata_dump
from delayed_tracker.ledger.metadata.managed_ledger import parse_managed_ledger
from delayed_tracker.ledger.metadata.metadata_dump import MetadataDump
from delayed_tracker.ledger.offload.map_file import open_map_file
from delayed_tracker.ledger.offload.recent_rows import RecentRows
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.ledger.topic.topic_log import CompactedLog
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfoMetadata
from tests.ledger.harness.list_ledger import ListLedger, topic_of
from tests.ledger.harness.log_files import header
from tests.ledger.messages.producer import entry, metadata_of, slot
from tests.ledger.offload.sequence_files import MapFileWriter

MB = 1 << 20


@contextmanager
def at_most(peak_bytes_max: int) -> Iterator[None]:
    """Fail if the block allocates more memory than this at any time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < peak_bytes_max


def zeros_gzip(start: bytes, times: int) -> bytes:
    """Return ``start`` and multiples of 16 MB of zeros as consecutive gzip members, which count as one file."""
    return gzip.compress(start) + gzip.compress(bytes(16 * MB)) * times


def test_a_key_file_without_end():
    """A device given as a key is read up to the bound of keys."""
    with at_most(5 * KEY_BYTES_MAX), pytest.raises(InvalidInput, match="it has more than 65536 bytes"):
        load_key_files({"key": "/dev/zero"})


def test_a_log_that_is_a_device(tmp_path):
    """A device given as a log is read up to the size that the system reports, 0, and has no records."""
    log = tmp_path / "0.log"
    log.symlink_to("/dev/zero")
    with at_most(MB):
        assert log_files.open_log_file(log) == (b"", None)


def test_a_dump_from_a_pipe_without_end(tmp_path, monkeypatch):
    """A dump from a pipe is held to the bound of compressed dumps, because a pipe has no size."""
    monkeypatch.setattr(metadata_dump, "UNPACKED_BYTES_MAX", MB)
    pipe = tmp_path / "dump"
    os.mkfifo(pipe)
    lines = (b'{"path": "/%d"}\n' % number for number in range(10**5))
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(_write_until_closed, pipe, lines)
        with (
            at_most(20 * MB),
            pytest.raises(LedgerFileInvalid, match=r"dump holds more than 1048576 bytes of metadata"),
        ):
            MetadataDump.load(pipe)
        assert isinstance(written.exception(), BrokenPipeError)
    file = tmp_path / "dump.jsonl"
    file.write_bytes(b'{"path": "/a"}\n' * (2 * MB // 16))
    assert len(MetadataDump.load(file)) == 1


def _write_until_closed(pipe: Path, lines: Iterator[bytes]) -> None:
    with pipe.open("wb") as opened:
        opened.writelines(lines)


@pytest.mark.slow
def test_a_dump_of_one_line_without_end(tmp_path):
    """A 1.6 MB dump with one line of 1.6 GB is refused after the bound of a line."""
    file = tmp_path / "dump.jsonl.gz"
    file.write_bytes(zeros_gzip(b'{"path": "/a"}\n', 100))
    with (
        at_most(5 * metadata_dump.LINE_BYTES_MAX),
        pytest.raises(LedgerFileInvalid, match=r"dump\.jsonl\.gz, line 2 is longer than 33554432 bytes"),
    ):
        MetadataDump.load(file)


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        [b"\n"] * 30_000,
        [b'{"path": "/%d"}\n' % number for number in range(30_000)],
        [b'{"path": "/%d", "value": "%s"}\n' % (number, base64.b64encode(bytes(MB))) for number in range(8)],
    ],
    ids=["empty", "short", "long"],
)
def test_a_dump_of_lines_without_end(tmp_path, monkeypatch, lines):
    """The memory of nodes beside their bytes counts against the bound; a plain file has no bound."""
    monkeypatch.setattr(metadata_dump, "UNPACKED_BYTES_MAX", 4 * MB)
    content = b"".join(lines)
    packed, plain = tmp_path / "dump.jsonl.gz", tmp_path / "dump.jsonl"
    packed.write_bytes(gzip.compress(content, 1))
    plain.write_bytes(content)
    with at_most(12 * MB), pytest.raises(LedgerFileInvalid, match=r"dump\.jsonl\.gz unpacks to more than .* by gunzip"):
        MetadataDump.load(packed)
    assert len(MetadataDump.load(plain)) in {0, len(lines)}


def test_a_path_of_many_levels(tmp_path):
    """A path of many levels costs its own length only."""
    path = "/a" * 50_000
    (tmp_path / "dump.jsonl").write_text(json.dumps({"path": path}) + "\n")
    with at_most(4 * MB):
        dump = MetadataDump.load(tmp_path / "dump.jsonl")
        assert dump.children(path[:-2]) == ["a"]
        assert dump.children("/a/a") == ["a"]


def test_a_line_of_many_brackets(tmp_path):
    """Nesting that is too deep for the parser is an error that names the line."""
    (tmp_path / "dump.jsonl").write_bytes(b'{"path": "/a", "more": ' + b"[" * 100_000 + b"\n")
    with pytest.raises(LedgerFileInvalid, match=r"dump\.jsonl, line 1: .*recursion"):
        MetadataDump.load(tmp_path / "dump.jsonl")


@pytest.mark.slow
def test_a_packed_log_without_end(tmp_path, monkeypatch):
    """A packed log takes disk and not memory; it is read up to the bound of a bookie's log, and the rest is bad."""
    monkeypatch.setattr(log_files, "UNPACKED_BYTES_MAX", 8 * MB)
    (tmp_path / "0.log").write_bytes(header())
    open_entry_logs([tmp_path / "0.log"]).close()  # This call loads the kernels.
    (tmp_path / "0.log.gz").write_bytes(zeros_gzip(header(), 20))
    with at_most(6 * MB), open_entry_logs([tmp_path / "0.log.gz"]) as logs:
        (bad,) = logs.damage
    assert "unpacks to more than 8388608 bytes" in bad.reason
    assert "unpack it by gunzip" in bad.reason


def bomb(codec: Codec, size: int) -> bytes:
    """Return a stream that decompresses to ``size`` bytes; consecutive ZSTD frames count as one stream."""
    if codec is Codec.ZSTD:
        return compress(codec, bytes(16 * MB)) * (size // (16 * MB))
    return compress(codec, bytes(size))


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZLIB, Codec.ZSTD, Codec.SNAPPY])
def test_messages_that_become_larger_than_the_limit(codec):
    """A message that would exceed the limit is refused before anything is allocated, whatever size it claims."""
    size = 128 * MB if codec is Codec.ZSTD else 24 * MB
    stream = bomb(codec, size)
    options = MessageOptions(message_bytes_max=8 * MB)
    for claimed, says, peak in (
        (size, "more than the limit of 8388608; .*--message-bytes-max", 2 * MB),
        (MB, f"bytes of {codec.name} ", 4 * MB),
    ):
        log = topic_of({1: [entry(metadata_of(uncompressed_size=claimed, compression=codec), stream)]})
        kept = len(stream) * 4
        with at_most(peak + kept), pytest.raises(EntriesUnreadable, match=says):
            list(MessageReader(log, options).read())
    with at_most(MB + len(stream)), pytest.raises(CompressedDataInvalid, match=f"{codec.name} claim to decompress to"):
        decompress(codec, stream, 1 << 30, size_max=64 * MB)


def test_a_small_zstd_batch_that_claims_a_gigabyte():
    """A ZSTD batch of 32 KB that expands to 1 GiB is kept by compaction as it is, and refused by readers."""
    stream = bomb(Codec.ZSTD, 1 << 30)
    assert len(stream) < 128 << 10
    metadata = metadata_of(uncompressed_size=1 << 30, compression=Codec.ZSTD, num_messages_in_batch=1)
    with at_most(MB):
        with pytest.raises(CompressedDataInvalid, match=r"claim to decompress to 1073741824 bytes.* 0 to 67108864"):
            batch_slots(metadata, stream)
        with pytest.raises(EntriesUnreadable, match="more than the limit of 67108864"):
            list(MessageReader(topic_of({1: [entry(metadata, stream)]})).read())


@pytest.mark.slow
def test_a_small_zstd_batch_of_many_empty_messages():
    """A ZSTD batch of 2 KB with more empty messages than any producer sends is refused, and kept whole by compaction."""
    count = 150_000
    payload = join_batch([slot(0, b"")]) * count
    stream = compress(Codec.ZSTD, payload)
    assert len(stream) < 2 << 10
    metadata = metadata_of(uncompressed_size=len(payload), compression=Codec.ZSTD, num_messages_in_batch=count)
    says = "the batch has 150000 messages, more than the limit of 100000; .*batchingMaxMessages"
    with pytest.raises(PayloadInvalid, match=says):
        batch_slots(metadata, stream)
    compacted = ListLedger(9, [encode_compacted(Position(1, 0), -1, entry(metadata, stream))])
    with at_most(4 * MB), pytest.raises(EntriesUnreadable, match=says):
        TopicCompactionService(CompactedLog(compacted, Position(1, 0))).get_last_message_position()


def test_a_metadata_value_that_claims_a_gigabyte():
    """A value of the metadata store that claims a gigabyte exceeds its own bound."""
    claims = ManagedLedgerInfoMetadata(compression_type=Codec.ZSTD, uncompressed_size=1 << 30).SerializeToString()
    stored = b"\x47\x78" + struct.pack(">i", len(claims)) + claims + bomb(Codec.ZSTD, 1 << 30)
    with at_most(MB), pytest.raises(MetadataInvalid, match="out of range 0 to 16777216"):
        parse_managed_ledger(stored)


@pytest.mark.slow
@pytest.mark.parametrize("compression", [Compression.RECORD, Compression.BLOCK])
def test_values_of_a_map_file_that_become_large(tmp_path, compression):
    """Values of two kilobytes that inflate to two megabytes are held a few at a time."""
    payloads = [bytes(2 * MB)] * 40
    writer = MapFileWriter(payloads, compression, sync_every=2)
    ledger = open_map_file(writer.save(tmp_path / str(UUID(int=1))), 7, RecentRows())
    with at_most(50 * MB):
        for piece in ledger.scan(0, 39):
            assert not piece.bad_entries
            del piece
