"""Tests of the file and offset of entries that the storage returned as good and that are damaged."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction import Compaction, TopicCompactionService
from delayed_tracker.ledger.compaction.compacted_entry import encode_compacted
from delayed_tracker.ledger.compaction.compacted_ledger import unreadable_kept
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.messages import MessageOptions, MessageReader
from delayed_tracker.ledger.offload.map_file import open_map_file
from delayed_tracker.ledger.offload.recent_rows import RecentRows
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.ledger.queries.verify import verify_topics
from delayed_tracker.ledger.source_url import open_source
from delayed_tracker.ledger.topic.entry_location import unreadable_entry
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.topic_log import CompactedLog
from tests.ledger.harness.disks import DiskFiles
from tests.ledger.harness.list_ledger import ListLedger, topic_of
from tests.ledger.harness.log_files import TOPIC, flipped
from tests.ledger.local.disks import QuickDisk
from tests.ledger.messages.producer import single
from tests.ledger.offload.blob_files import BlobWriter
from tests.ledger.offload.sequence_files import MapFileWriter, ledger_metadata

ENTRIES = [single(b"%d" % number * 40) for number in range(30)]
ENTRIES[21] = flipped(ENTRIES[21], -1)


def save_entry_log(directory: Path, entries: Sequence[bytes]) -> str:
    disk = DiskFiles(directory)
    disk.add_ledger(0, entries)
    disk.open().close()
    return f"bookkeeper+file:{directory}/ledgers?metadata={directory}/dump.jsonl.gz"


def save_local(directory: Path, entries: Sequence[bytes]) -> str:
    with open_writer(directory / "local", TOPIC, now_ms=1, disk=QuickDisk()) as writer:
        writer.append_many(list(entries), now_ms=1)
    return f"ledger:{directory}/local"


def save_blob(directory: Path, entries: Sequence[bytes]) -> str:
    metadata = ledger_metadata(entries, "lab/main/persistent/orders")
    BlobWriter(entries, block_bytes=1_000, metadata=metadata).save(directory, UUID(int=7), 0)
    return f"offload+blob:{directory}"


def save_map_file(compression: Compression) -> Callable[[Path, Sequence[bytes]], str]:
    def save(directory: Path, entries: Sequence[bytes]) -> str:
        place = directory / "lab/main/persistent/orders" / f"0-{UUID(int=7)}"
        MapFileWriter(entries, compression).save(place)
        return f"offload+mapfile:{directory}"

    return save


@pytest.mark.parametrize(
    ("save", "header_bytes"),
    [(save_entry_log, 40), (save_local, 40), (save_blob, 12), (save_map_file(Compression.NONE), 20)],
)
def test_file_and_offset_are_named(tmp_path, save: Callable[[Path, Sequence[bytes]], str], header_bytes):
    """A full read, a search and a compaction report the file and the offset of the record."""
    with open_source(save(tmp_path, ENTRIES)) as source:
        (verdict,) = verify_topics(source, source.topics())
        (bad,) = verdict.bad_entries
        assert bad.file is not None
        assert Path(bad.file).read_bytes().index(ENTRIES[21]) == bad.offset + header_bytes
        assert (bad.ledger_id, bad.entry_id) == (0, 21)

        with pytest.raises(EntriesUnreadable, match=f"entry 0:21 in {bad.file} at byte {bad.offset}: CRC32C"):
            EntryLookup(source.topic_log(TOPIC)).metadata(21)

        log = source.topic_log(TOPIC)
        reader = MessageReader(log, MessageOptions(on_error=ErrorPolicy.SKIP))
        assert len(list(reader.read())) == 29
        plan = Compaction(log=log, on_error=ErrorPolicy.SKIP).choose()
        assert plan is not None
        assert [*reader.bad_entries, *plan.bad_entries] == [bad, bad]


def kept_locally(directory: Path, *kept: bytes) -> CompactedLog:
    """Return the result of a compaction in a local ledger."""
    with open_source(save_local(directory, kept)) as source:
        return CompactedLog(source.topic_log(TOPIC).ledger(0), Position(0, 20))


def test_what_compaction_kept_does_not_lie_in_the_topics_ledgers(tmp_path):
    """A wrong entry of a compacted ledger is reported with its position and its place in the compacted ledger."""
    left = kept_locally(tmp_path, *(encode_compacted(Position(0, at), -1, ENTRIES[at]) for at in (2, 21)))
    log = topic_of({0: ENTRIES[:21]})

    reader = MessageReader(log, MessageOptions(on_error=ErrorPolicy.SKIP))
    assert len(list(TopicCompactionService(left).read_compacted(reader))) == 1
    with pytest.raises(EntriesUnreadable) as raised:
        Compaction(log=log, previous=left).choose()

    for bad in (*reader.bad_entries, *raised.value.bad_entries):
        assert (bad.ledger_id, bad.entry_id) == (0, 21)
        assert "compaction kept it as 0:1" in bad.reason
        assert bad.file is not None
        record = Path(bad.file).read_bytes()[bad.offset :]
        assert record.endswith(ENTRIES[21])
        assert len(record) < len(ENTRIES[21]) + 70


def test_questions_to_what_compaction_kept(tmp_path):
    """Queries about a compacted topic report a wrong entry with file and offset in the compacted ledger."""
    no_message = encode_compacted(Position(0, 3), -1, b"no message")
    for number, broken in enumerate((no_message, b"not in the compacted form")):
        directory = tmp_path / str(number)
        directory.mkdir()
        left = kept_locally(directory, encode_compacted(Position(0, 2), -1, ENTRIES[2]), broken)
        service = TopicCompactionService(left)
        for ask in (service.get_last_message_position, partial(service.find_entry_by_publish_time, 1 << 62)):
            with pytest.raises(EntriesUnreadable) as raised:
                ask()
            (bad,) = raised.value.bad_entries
            assert (bad.ledger_id, bad.entry_id) == (0, 1)
            assert bad.file is not None
            record = Path(bad.file).read_bytes()[bad.offset :]
            assert record.endswith(broken)
            assert len(record) < len(broken) + 50


def test_other_damage_hides_where_compaction_kept_an_entry(tmp_path):
    """If other damage hides the place of a compacted entry, only the compacted ledger is reported."""
    kept = [encode_compacted(Position(0, at), -1, ENTRIES[at]) for at in (2, 21)]
    left = kept_locally(tmp_path, kept[0], b"damaged", kept[1])
    bad = unreadable_kept(left.ledger, Position(0, 21), "is wrong")
    assert str(bad) == "entry 0:21: is wrong; it lies in the compacted ledger 0"
    bad = unreadable_kept(left.ledger, Position(0, 22), "is wrong")
    assert bad.file is None


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("index", ["there", "damaged", "lost"])
def test_any_entry_of_a_map_file(tmp_path, compression, index):
    """Any entry of a MapFile is located, by record or block, also with an unusable index."""
    writer = MapFileWriter([b"%d" % number for number in range(300)], compression)
    if index != "there":
        writer.index = b"damaged" if index == "damaged" else None
    ledger = open_map_file(writer.save(tmp_path), 7, RecentRows())
    for entry_id in (0, 5, 127, 128, 200, 299):
        assert ledger.locate(entry_id) == (str(tmp_path / "data"), writer.offsets[entry_id])
    (tmp_path / "data").write_bytes(writer.data[: writer.offsets[200] + 9])
    assert open_map_file(tmp_path, 7, RecentRows()).locate(200) is None


def test_a_ledger_that_knows_no_files():
    """A ledger without files reports only the entry."""
    assert str(unreadable_entry(ListLedger(3, []), 5, "is damaged")) == "entry 3:5: is damaged"


def test_what_damage_hides(tmp_path):
    """The place is unknown for an entry behind a wrong size in a block, and for an entry that no log has."""
    with open_source(save_blob(tmp_path, ENTRIES)) as source:
        (data,) = tmp_path.glob("*-ledger-0")
        data.write_bytes(flipped(data.read_bytes(), 128 + 12 + len(ENTRIES[0]) + 2, 0xFF))
        assert source.topic_log(TOPIC).ledger(0).locate(4) is None
    with open_source(save_entry_log(tmp_path, ENTRIES)) as source:
        assert source.topic_log(TOPIC).ledger(0).locate(30) is None
