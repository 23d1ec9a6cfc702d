"""Tests that verification detects any changed byte of the files that locate offloaded entries, or it has no effect."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from delayed_tracker.ledger.entry.frame import split_frame
from delayed_tracker.ledger.errors import ErrorPolicy, LedgerError
from delayed_tracker.ledger.offload.blob_source import open_blobs
from delayed_tracker.ledger.offload.map_file_source import open_map_files
from delayed_tracker.ledger.offload.offload_source import OffloadSource
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.ledger.queries.verify import verify_topics, verify_unclaimed
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfo
from tests.ledger.harness.log_files import flipped, message, topic_path, write_dump
from tests.ledger.offload.blob_files import BlobWriter, streamed
from tests.ledger.offload.sequence_files import MapFileWriter, ledger_metadata

UUID_7 = UUID("2c4a22d4-580e-475d-8292-2a705a9bc71d")
PAYLOADS = [message(payload=b"%d" % number * number) for number in range(4)]
CHANGES = (0x01, 0x10, 0x80, 0xFF)
Answer = list[tuple[object, ...]]


def answers(open_source: Callable[[], OffloadSource]) -> Answer | None:
    """Return everything that a source answers about its topics, with all entries; None if verification finds damage."""
    try:
        with open_source() as source:
            verdicts = [*verify_topics(source, source.topics()), *verify_unclaimed(source)]
            if not verdicts or not all(verdict.sound for verdict in verdicts):
                return None
            return list(_told(source))
    except LedgerError:
        return None


def _told(source: OffloadSource) -> Iterator[tuple[object, ...]]:
    for topic in source.topics():
        for ledger in source.topic_log(topic).ledgers:
            yield topic, ledger.ledger_id, ledger.last_entry_id, ledger.payload_bytes
            for piece in [*ledger.scan(0, ledger.last_entry_id), ledger.read(1, 1)]:
                yield from ((int(row), piece.entries.payload(at)) for at, row in enumerate(piece.entries.entry_id))


def passed_as_sound(file: Path, open_source: Callable[[], OffloadSource]) -> tuple[set[int], set[int]]:
    """Return the bytes with an undetected change: those without effect, and those with one."""
    whole, content = answers(open_source), file.read_bytes()
    assert whole is not None
    harmless, harmful = set(), set()
    for at in range(len(content)):
        for change in CHANGES:
            file.write_bytes(content[:at] + bytes([content[at] ^ change]) + content[at + 1 :])
            found = answers(open_source)
            if found is not None:
                (harmless if found == whole else harmful).add(at)
    file.write_bytes(content)
    return harmless, harmful


@pytest.mark.slow
def test_every_byte_of_a_blob_index(tmp_path):
    """Changes without effect are in unused fields; only the topic's name is stored once without a checksum."""
    metadata = ledger_metadata(PAYLOADS)
    writer = BlobWriter(PAYLOADS, block_bytes=200, metadata=metadata)
    writer.save(tmp_path, UUID_7, 7)
    harmless, harmful = passed_as_sound(
        tmp_path / f"{UUID_7}-ledger-7-index", lambda: open_blobs(str(tmp_path), on_error=ErrorPolicy.SKIP)
    )
    name = b"lab/main/persistent/orders"
    named = writer.index.index(name)
    assert harmful <= set(range(named, named + len(name))) - {
        named + name.index(b"persistent") + at for at in range(10)
    }
    blocks = range(32 + len(metadata), len(writer.index))
    part_ids = {at for at in blocks if (at - blocks.start) % 20 in range(8, 12)}
    assert harmless & set(blocks) == part_ids
    # Before the state, the metadata has quorum and ensemble sizes (2 bytes each), the length and the last entry.
    assert harmless & set(range(36)) == {33, 35}
    assert not harmless & set(range(36, 42))


def test_what_the_broker_put_in_front_has_no_checksum_in_a_blob(tmp_path):
    """Broker time and index in a blob are not covered by any checksum, while MapFiles have checksums of their own."""
    framed = [message(index=number) for number in range(4)]
    frame = split_frame(framed[0])
    BlobWriter(framed, metadata=ledger_metadata(framed)).save(tmp_path / "blobs", UUID_7, 7)
    map_file = tmp_path / "map-files/lab/main/persistent/orders" / f"7-{UUID_7}"
    MapFileWriter(framed, Compression.NONE).save(map_file, checksums=True)
    places = (
        (tmp_path / "blobs" / f"{UUID_7}-ledger-7", lambda: open_blobs(str(tmp_path / "blobs"))),
        (map_file / "data", lambda: open_map_files(tmp_path / "map-files")),
    )

    unnoticed = []
    for file, open_source in places:
        whole, content = answers(open_source), file.read_bytes()
        assert whole is not None
        # The last byte of the broker metadata is the message index.
        for of_entry in (frame.broker_end - 1, frame.metadata_end):
            file.write_bytes(flipped(content, content.index(framed[2]) + of_entry, 0x01))
            found = answers(open_source)
            unnoticed.append(found is not None and found != whole)
        file.write_bytes(content)
    assert unnoticed == [True, False, False, False]


@pytest.mark.slow
def test_every_byte_of_a_streamed_index(tmp_path):
    """With the topic's metadata, which streaming offload needs, no change has an effect."""
    data, told = streamed({7: PAYLOADS})
    (tmp_path / str(UUID_7)).write_bytes(data)
    (tmp_path / f"{UUID_7}-index").write_bytes(told)
    info = ManagedLedgerInfo()
    size = sum(map(len, PAYLOADS))
    ledger = info.ledger_info.add(ledger_id=7, timestamp=1, entries=len(PAYLOADS), size=size)
    msb, lsb = (UUID_7.int >> 64), (UUID_7.int & ((1 << 64) - 1)) - (1 << 64)
    last = len(PAYLOADS) - 1
    ledger.offload_context.offload_segment.add(uid_msb=msb, uid_lsb=lsb, complete=True, end_entry_id=last)
    dump = write_dump(tmp_path / "dump.jsonl", {topic_path(): info.SerializeToString()})
    harmless, harmful = passed_as_sound(
        tmp_path / f"{UUID_7}-index", lambda: open_blobs(str(tmp_path), metadata_dump=dump, on_error=ErrorPolicy.SKIP)
    )
    assert not harmful
    assert not harmless & set(range(24))


@pytest.mark.deep
@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("name", ["index", ".index.crc", ".data.crc"])
def test_every_byte_beside_the_data_of_a_map_file(tmp_path, compression, name):
    """With checksums, every change is detected.

    The exception is the chunk size in a checksum file with one chunk, which covers the same bytes.
    """
    directory = tmp_path / "lab/main/persistent/orders" / f"7-{UUID_7}"
    MapFileWriter(PAYLOADS, compression, sync_every=2, index_every=2).save(directory, checksums=True)
    harmless, harmful = passed_as_sound(directory / name, lambda: open_map_files(tmp_path))
    assert not harmful
    assert harmless <= (set(range(4, 8)) if name.endswith(".crc") else set())


@pytest.mark.deep
@pytest.mark.parametrize("compression", list(Compression))
@pytest.mark.parametrize("name", ["index", "data"])
def test_every_byte_of_a_map_file_without_checksums(tmp_path, compression, name):
    """Without checksums, an undetected change has no effect."""
    directory = tmp_path / "lab/main/persistent/orders" / f"7-{UUID_7}"
    MapFileWriter(PAYLOADS, compression, sync_every=2, index_every=2).save(directory)
    _, harmful = passed_as_sound(directory / name, lambda: open_map_files(tmp_path))
    assert not harmful
