"""Tests of tiered storage as a source of topics: with or without metadata, alone or with other sources."""

import re
from pathlib import Path
from uuid import UUID

import obstore
import pytest
from obstore.store import MemoryStore

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy, LedgerFileInvalid, TopicNotFound
from delayed_tracker.ledger.offload.blob_source import BlobLedgerStore, open_blobs
from delayed_tracker.ledger.offload.blob_store import BlobStore
from delayed_tracker.ledger.offload.map_file_source import open_map_files
from delayed_tracker.ledger.offload.offload_source import OffloadSource
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.ledger.queries.topic_queries import last_message
from delayed_tracker.ledger.source_url import open_source, open_sources
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.combined_source import CombinedSource
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfo
from tests.ledger.harness.disks import DiskFiles
from tests.ledger.harness.log_files import TOPIC, topic_path, write_dump
from tests.ledger.offload.blob_files import BlobWriter, streamed
from tests.ledger.offload.sequence_files import MapFileWriter, ledger_metadata

MANAGED_LEDGER = "lab/main/persistent/orders"
UUIDS = [UUID(int=(1 << 127) + number) for number in range(9)]
PAYLOADS = {number: [b"%d/%d" % (number, entry) for entry in range(5)] for number in range(9)}


def save_map_file(
    base: Path, ledger_id: int, *, uuid: UUID | None = None, managed_ledger: str = MANAGED_LEDGER
) -> Path:
    directory = base / managed_ledger / f"{ledger_id}-{uuid or UUIDS[ledger_id]}"
    return MapFileWriter(PAYLOADS[ledger_id], Compression.RECORD).save(directory, checksums=True)


def save_blob(base: Path, ledger_id: int, *, uuid: UUID | None = None, managed_ledger: str = MANAGED_LEDGER) -> Path:
    metadata = ledger_metadata(PAYLOADS[ledger_id], managed_ledger)
    return BlobWriter(PAYLOADS[ledger_id], metadata=metadata).save(base, uuid or UUIDS[ledger_id], ledger_id)


KINDS = pytest.mark.parametrize(("save", "open_kind"), [(save_map_file, open_map_files), (save_blob, open_blobs)])


def save_dump(
    base: Path,
    *,
    offloaded: list[int],
    others: tuple[int, ...] = (),
    still_open: tuple[int, ...] = (),
    entry_count: int = 5,
) -> Path:
    """Write metadata of the topic; ``others`` were not offloaded completely, ``still_open`` not at all."""
    info = ManagedLedgerInfo()
    for ledger_id in still_open:
        info.ledger_info.add(ledger_id=ledger_id)
    for ledger_id in (*offloaded, *others):
        ledger = info.ledger_info.add(ledger_id=ledger_id, timestamp=1, entries=entry_count, size=1)
        context = ledger.offload_context
        context.complete = ledger_id in offloaded
        number = UUIDS[ledger_id].int
        context.uid_msb, context.uid_lsb = (number >> 64) - (1 << 64), number & ((1 << 64) - 1)
    info.properties.add(key="index", value="41")
    info.terminated_position.ledger_id, info.terminated_position.entry_id = 9, 9
    return write_dump(base / "dump.jsonl", {topic_path(): info.SerializeToString()})


def read_all(source) -> list[tuple[int, int, bytes]]:
    return [
        (piece.entries.ledger_id[row], piece.entries.entry_id[row], piece.entries.payload(row))
        for piece in source.topic_log(TOPIC).scan()
        for row in range(len(piece.entries))
    ]


def entries_of(*ledger_ids: int) -> list[tuple[int, int, bytes]]:
    return [(number, entry, payload) for number in ledger_ids for entry, payload in enumerate(PAYLOADS[number])]


@KINDS
def test_topics_that_are_found(tmp_path, save, open_kind):
    """Topics are found with decoded names, also with a cluster in the name, but without Pulsar's own state."""
    for number, name in enumerate(
        (
            MANAGED_LEDGER,
            "lab/main/persistent/a%2Fb+c",
            "lab/west/main/persistent/old",
            "lab/main/persistent/orders-sub__transaction_pending_ack",
        )
    ):
        save(tmp_path, number, managed_ledger=name)
    save(tmp_path, 7)

    with open_kind(tmp_path if open_kind is open_map_files else str(tmp_path)) as source:
        assert source.topics() == ["persistent://lab/main/a/b c", TOPIC, "persistent://lab/west/main/old"]
        assert read_all(source) == entries_of(0, 7)
        assert source.compacted_log(TOPIC) is None
        with pytest.raises(TopicNotFound, match=r"similar names: .*orders"):
            source.topic_log("persistent://lab/main/order")


@KINDS
def test_names_of_others_are_passed_over(tmp_path, save, open_kind):
    """A number in the digits of another script is no ledger's."""
    save(tmp_path, 1)
    save(tmp_path, 3)
    for path in list(tmp_path.rglob(f"*{UUIDS[3]}*")):
        path.rename(path.with_name(re.sub("(^|ledger-)3(?=-|$)", "\\1\u0663", path.name)))
    with open_kind(tmp_path if open_kind is open_map_files else str(tmp_path)) as source:
        assert read_all(source) == entries_of(1)


@KINDS
def test_metadata_names_the_ledgers(tmp_path, save, open_kind):
    """A copy that the metadata does not name, such as a failed attempt, is not read."""
    for number in (1, 2, 3):
        save(tmp_path, number)
    save(tmp_path, 2, uuid=UUIDS[8])
    dump = save_dump(tmp_path, offloaded=[3, 2])

    with open_kind(str(tmp_path), metadata_dump=dump) as source:
        assert source.topics() == [TOPIC]
        log = source.topic_log(TOPIC)
        assert read_all(source) == entries_of(2, 3)
        assert log.properties == {"index": "41"}
        assert log.terminated_at == (9, 9)
        assert source.compacted_log(TOPIC) is None


@KINDS
def test_a_ledger_that_is_nowhere(tmp_path, save, open_kind):
    """An absent ledger, never offloaded or with a lost copy, is named and loses only its own entries."""
    save(tmp_path, 1)
    for offloaded, others, says in (
        ([1, 4], (), "does not have the copy that the metadata names"),
        ([1], (4,), "has no copy of it"),
    ):
        dump = save_dump(tmp_path, offloaded=offloaded, others=others)
        with open_kind(str(tmp_path), metadata_dump=dump) as source:
            assert read_all(source) == entries_of(1)
            absent = source.topic_log(TOPIC).ledger(4)
            assert (absent.last_entry_id, absent.closed, absent.payload_bytes) == (4, False, None)
            (bad,) = absent.read(1, 3).bad_entries
            assert str(bad) == f"entries 4:1 to 3: {tmp_path} {says}"
            assert bad.remedy == "give the bookies' disks together with it"
            assert absent.read(3, 2).bad_entries == ()
            assert list(source.topic_parts(TOPIC).whole) == [1]


@KINDS
def test_the_ledger_that_is_still_written_to(tmp_path, save, open_kind):
    """The ledger that is still written to is absent with unknown length, and not taken for an empty one."""
    save(tmp_path, 1)
    dump = save_dump(tmp_path, offloaded=[1], still_open=(2,))
    with open_kind(str(tmp_path), metadata_dump=dump) as source:
        log = source.topic_log(TOPIC)
        (bad,) = log.ledgers[1].read(0, log.ledgers[1].last_entry_id).bad_entries
        assert str(bad) == f"ledger 2: {tmp_path} has no copy of it"
        assert read_all(source) == entries_of(1)
        with pytest.raises(EntriesUnreadable, match=r"ledger 2: .*; give the bookies' disks"):
            last_message(EntryLookup(log))


@KINDS
def test_metadata_of_other_ledgers(tmp_path, save, open_kind):
    """A copy with another number of entries than in the topic's metadata is refused."""
    save(tmp_path, 1)
    dump = save_dump(tmp_path, offloaded=[1], entry_count=6)
    with (
        open_kind(str(tmp_path), metadata_dump=dump) as source,
        pytest.raises(LedgerFileInvalid, match=r"ledger 1 has 5 entries, the metadata of .* says 6"),
    ):
        source.topic_log(TOPIC)


@KINDS
def test_a_place_that_has_no_ledgers(tmp_path, save, open_kind):
    """The error for an empty or missing directory describes the expected content."""
    del save
    with pytest.raises(InvalidInput, match=r"give the (bucket or )?directory in which"):
        open_kind(str(tmp_path))
    with pytest.raises(InvalidInput, match="give a directory that exists"):
        open_kind(str(tmp_path / "nothing"))


def test_a_map_file_that_lies_there_twice(tmp_path):
    """A ledger with two copies and no metadata is absent, because the complete copy is unknown; others are read."""
    other = "lab/main/persistent/other"
    save_map_file(tmp_path, 0)
    save_map_file(tmp_path, 2, managed_ledger=other)
    for uuid in UUIDS[6:9]:
        save_map_file(tmp_path, 1, uuid=uuid)
    with open_map_files(tmp_path) as source:
        assert source.topics() == [TOPIC, "persistent://lab/main/other"]
        assert read_all(source) == entries_of(0)
        (bad,) = source.topic_log(TOPIC).ledger(1).read(0, 0).bad_entries
        assert str(bad) == f"ledger 1: {tmp_path / MANAGED_LEDGER} has it twice or more, as {UUIDS[6]} and {UUIDS[8]}"
        assert bad.remedy == "give metadata=DUMP, which says which copy is whole"
        # If another source has the ledger, nothing is missing.
        save_blob(tmp_path / "bucket", 1)
        with CombinedSource([source, open_blobs(str(tmp_path / "bucket"))]) as both:
            assert read_all(both) == entries_of(0, 1)
        save_blob(tmp_path / "other bucket", 3)
        with CombinedSource([source, open_blobs(str(tmp_path / "other bucket"))]) as both:
            assert [ledger.ledger_id for ledger in both.topic_log(TOPIC).ledgers] == [0, 1, 3]
    save_map_file(tmp_path, 1)
    with open_map_files(tmp_path, metadata_dump=save_dump(tmp_path, offloaded=[1])) as source:
        assert read_all(source) == entries_of(1)


def test_streamed_ledgers_by_metadata(tmp_path):
    """Objects of streamed ledgers are found by the segments of the offload context, which is not complete itself."""
    info = ManagedLedgerInfo()
    ledger = info.ledger_info.add(ledger_id=1, timestamp=1, entries=5, size=1)
    for uuid, first, part in ((UUIDS[5], 0, PAYLOADS[1][:2]), (UUIDS[4], 2, PAYLOADS[1][2:])):
        data, told = streamed({1: part}, first=first, ended=False)
        (tmp_path / str(uuid)).write_bytes(data)
        (tmp_path / f"{uuid}-index").write_bytes(told)
        msb, lsb = (uuid.int >> 64) - (1 << 64), uuid.int & ((1 << 64) - 1)
        ledger.offload_context.offload_segment.add(
            uid_msb=msb, uid_lsb=lsb, complete=True, end_entry_id=first + len(part) - 1
        )
    dump = write_dump(tmp_path / "dump.jsonl", {topic_path(): info.SerializeToString()})

    with open_blobs(str(tmp_path), metadata_dump=dump) as source:
        assert read_all(source) == entries_of(1)


def test_data_that_is_gone_is_an_error_of_its_topic(tmp_path):
    """Missing data fails only its topic, and only if no complete copy of the ledger exists under another name."""
    other = "lab/main/persistent/other"
    save_blob(tmp_path, 1)
    save_blob(tmp_path, 2, managed_ledger=other)
    (tmp_path / f"{UUIDS[2]}-ledger-2").unlink()
    with open_blobs(str(tmp_path)) as source:
        assert source.topics() == [TOPIC, "persistent://lab/main/other"]
        assert read_all(source) == entries_of(1)
        with pytest.raises(LedgerFileInvalid, match=f"{UUIDS[2]}-ledger-2 is not there, its index says"):
            source.topic_log("persistent://lab/main/other")

    for number in (0, 8):
        save_blob(tmp_path, 1, uuid=UUIDS[number])
    (tmp_path / f"{UUIDS[0]}-ledger-1").write_bytes(b"")
    with open_blobs(str(tmp_path)) as source:
        assert read_all(source) == entries_of(1)


def test_a_damaged_index_costs_its_ledger(tmp_path):
    """A damaged index without a second copy loses its ledger if the bucket names the topic, and else fails opening."""
    for number in (1, 2, 3):
        save_blob(tmp_path, number)
    save_blob(tmp_path, 3, uuid=UUIDS[8])
    damaged = [f"{UUIDS[number]}-ledger-{number}-index" for number in (2, 3)]
    for name in damaged:
        (tmp_path / name).write_bytes(b"no index")
    with pytest.raises(
        LedgerFileInvalid, match=f"{damaged[0]} is cut short.*; give metadata=DUMP, .* or move the object"
    ):
        open_blobs(str(tmp_path))

    bucket = MemoryStore()
    for file in tmp_path.iterdir():
        obstore.put(bucket, file.name, file.read_bytes(), attributes={"ManagedLedgerName": MANAGED_LEDGER})
    with OffloadSource(BlobLedgerStore(BlobStore("memory", bucket))) as source:
        assert read_all(source) == entries_of(1, 3)
        (bad,) = source.topic_log(TOPIC).ledger(2).read(0, 0).bad_entries
        assert str(bad).startswith(f"ledger 2: memory/{damaged[0]} is cut short")
        assert bad.remedy == "restore it from a copy, or give the bookies' disks together with it"


def test_an_index_whose_name_has_no_ledger(tmp_path):
    """The error for an index without a ledger id in its name gives the expected name."""
    save_blob(tmp_path, 1)
    named = tmp_path / f"{UUIDS[1]}-ledger-1-index"
    named.rename(tmp_path / f"{UUIDS[1]}-index")
    with pytest.raises(LedgerFileInvalid, match=f"{UUIDS[1]}-index is the index of one ledger.*name it"):
        open_blobs(str(tmp_path))


def reasons(place: str | Path) -> list[str]:
    """Return the reasons of the objects that no topic claims."""
    with open_blobs(str(place), on_error=ErrorPolicy.SKIP) as source:
        return [bad.reason for bad in source.unclaimed()]


def test_data_without_an_index(tmp_path):
    """Data without an index is listed, even if it is all there is, except beside a complete copy of the ledger."""
    for number in (1, 2):
        save_blob(tmp_path, number)
    (tmp_path / f"{UUIDS[8]}-ledger-1").write_bytes(b"given up")
    assert reasons(tmp_path) == []
    for number in (1, 2):
        (tmp_path / f"{UUIDS[number]}-ledger-{number}-index").unlink()
    with open_blobs(str(tmp_path)) as source:
        assert source.topics() == []
    assert reasons(tmp_path) == [
        f"{tmp_path}/{key} has no index"
        for key in (f"{UUIDS[1]}-ledger-1", f"{UUIDS[2]}-ledger-2", f"{UUIDS[8]}-ledger-1")
    ]
    with CombinedSource([open_blobs(str(tmp_path))]) as source:
        assert [(bad.ledger_id, bad.entry_count) for bad in source.unclaimed()] == [(1, 0), (2, 0), (1, 0)]
    with open_blobs(str(tmp_path), metadata_dump=save_dump(tmp_path, offloaded=[1])) as source:
        assert not source.unclaimed()


def test_an_index_that_names_no_topic(tmp_path):
    """An index without a topic, or with an invalid topic name, is listed."""
    save_blob(tmp_path, 1)
    for number, name in ((2, "lab/main/non-persistent/orders"), (3, "lab/main/persistent/or ders"), (4, "")):
        save_blob(tmp_path, number, managed_ledger=name)
    with open_blobs(str(tmp_path)) as source:
        assert source.topics() == [TOPIC]
    assert reasons(tmp_path) == [
        f"{tmp_path}/{UUIDS[number]}-ledger-{number}-index names no topic" for number in (2, 3, 4)
    ]


def test_an_object_that_belongs_to_another_topic_than_its_index_says():
    """An index whose topic differs from the topic in the bucket's attribute is listed."""
    memory = MemoryStore()
    writer = BlobWriter(PAYLOADS[1], metadata=ledger_metadata(PAYLOADS[1], MANAGED_LEDGER))
    key = f"{UUIDS[1]}-ledger-1"
    obstore.put(memory, key, writer.data)
    for owner, unclaimed in ((MANAGED_LEDGER, []), ("lab/main/persistent/other", [1])):
        obstore.put(memory, f"{key}-index", writer.index, attributes={"managedledgername": owner})
        source = OffloadSource(BlobLedgerStore(BlobStore("memory", memory)))
        assert [bad.ledger_id for bad in source.unclaimed()] == unclaimed
        assert source.topics() == ([] if unclaimed else [TOPIC])


def test_a_directory_without_data(tmp_path):
    """A directory without data makes the ledger absent, unless there is a complete copy."""
    (save_map_file(tmp_path, 1) / "data").unlink()
    (save_map_file(tmp_path, 2, uuid=UUIDS[7]) / "data").unlink()
    save_map_file(tmp_path, 2)
    with open_map_files(tmp_path) as source:
        (bad,) = source.topic_log(TOPIC).ledger(1).read(0, 0).bad_entries
        assert bad.reason == f"{tmp_path / MANAGED_LEDGER}/1-{UUIDS[1]} has no data file"
        assert not source.topic_log(TOPIC).ledger(2).read(0, 4).bad_entries


def test_bookies_and_tiered_storage_together(tmp_path):
    """Each ledger is read from the first source that has all of it, so deleted ledgers come from the copy."""
    for number in (1, 2):
        save_map_file(tmp_path, number)
    disk = DiskFiles(tmp_path)
    for number in (1, 2, 3):
        disk.add_ledger(number, PAYLOADS[number])
    # The bookies have only a leftover of ledger 2.
    del disk.records[6:10]
    disk.open().close()
    bookies = f"bookkeeper+file:{tmp_path}/ledgers?metadata={tmp_path}/dump.jsonl.gz"
    copies = f"offload+mapfile:{tmp_path}"

    for urls, kinds in (
        ([bookies, copies], ["EntryLog", "MapFile", "EntryLog"]),
        ([copies, bookies], ["MapFile"] * 2 + ["EntryLog"]),
    ):
        with open_sources(urls) as source:
            assert source.topics() == [TOPIC]
            assert [type(ledger).__name__ for ledger in source.topic_log(TOPIC).ledgers] == [
                f"{kind}Ledger" for kind in kinds
            ]
            assert read_all(source) == entries_of(1, 2, 3)
            assert source.compacted_log(TOPIC) is None
            with pytest.raises(TopicNotFound):
                source.topic_log("persistent://lab/main/other")
            with pytest.raises(TopicNotFound):
                source.compacted_log("persistent://lab/main/other")


def test_what_no_source_has_whole(tmp_path):
    """A ledger that all sources have in part is read with bad entries, and an absent ledger keeps its place."""
    save_blob(tmp_path / "bucket", 1)
    disk = DiskFiles(tmp_path)
    for number in (1, 2):
        disk.add_ledger(number, PAYLOADS[number])
    del disk.records[6:8]
    disk.open().close()
    bookies = f"bookkeeper+file:{tmp_path}/ledgers?metadata={tmp_path}/dump.jsonl.gz"
    with open_sources([bookies, f"offload+blob:{tmp_path}/bucket"]) as source:
        answer = source.topic_log(TOPIC).ledger(2).read(0, 4)
        assert answer.entries.entry_id.tolist() == [0, 3, 4]
        assert [bad.entry_id for bad in answer.bad_entries] == [1]

    dump = save_dump(tmp_path / "bucket", offloaded=[1], others=(6,))
    with (
        CombinedSource(
            [open_blobs(str(tmp_path / "bucket"), metadata_dump=dump), open_blobs(str(tmp_path / "bucket"))]
        ) as source,
    ):
        assert isinstance(source.topic_log(TOPIC).ledger(6), AbsentLedger)
        assert read_all(source) == entries_of(1)


def test_copies_alone_together(tmp_path):
    """Without metadata, the ledgers of a topic are all that are found."""
    save_map_file(tmp_path / "files", 1)
    save_map_file(tmp_path / "files", 3)
    save_blob(tmp_path / "bucket", 2)
    with open_sources([f"offload+mapfile:{tmp_path}/files", f"offload+blob:file://{tmp_path}/bucket"]) as source:
        assert read_all(source) == entries_of(1, 2, 3)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("offload+mapfile:/a,/b", "give one place"),
        ("offload+mapfile:/a?openLedgers=live", "options of offload.mapfile are metadata"),
        ("offload+blob:nowhere://bucket", "give s3://, gs://, az:// or file://"),
        ("offload+blob:/no/such/directory", "give a directory that exists, or a URL"),
    ],
)
def test_a_wrong_url_says_what_to_write(url, says):
    """The error for a wrong URL has a remedy."""
    with pytest.raises(InvalidInput, match=says):
        open_source(url)


def test_no_source_at_all():
    """A combination of no sources is refused."""
    with pytest.raises(InvalidInput, match="give at least one source"):
        open_sources([])
