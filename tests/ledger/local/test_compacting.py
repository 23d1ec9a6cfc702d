"""Tests of compacting topics in local ledgers."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction import TopicCompactionService
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy, MetadataInvalid, TopicNotFound
from delayed_tracker.ledger.local.compacting import LocalCompaction, compact_local_topic
from delayed_tracker.ledger.local.errors import LedgerInUse
from delayed_tracker.ledger.local.files.disk import Disk
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, TopicDirectory
from delayed_tracker.ledger.local.ledger_ids import take_ledger_id
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.rollover import RolloverLimits
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.messages import MessageReader
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.harness.log_files import flipped
from tests.ledger.local.disks import TOPIC, FailingDisk, PowerCut, QuickDisk, RecordingDisk
from tests.ledger.messages.producer import batch, single, slot


def append(directory: Path, entries: Iterable[bytes], disk: Disk | None = None) -> None:
    limits = RolloverLimits(entries_max=3)
    with open_writer(directory, TOPIC, now_ms=9, limits=limits, disk=disk or QuickDisk()) as writer:
        writer.append_many(list(entries), now_ms=9)


def compact(directory: Path, disk: Disk | None = None, **options) -> LocalCompaction | None:
    return compact_local_topic(directory, TOPIC, now_ms=9, disk=disk or QuickDisk(), **options)


def consumed(directory: Path) -> list[tuple[str | None, bytes]]:
    """Return the messages that a consumer of the compacted topic receives."""
    with open_local_ledgers(directory) as source:
        service = TopicCompactionService(source.compacted_log(TOPIC))
        messages = service.read_compacted(MessageReader(source.topic_log(TOPIC)))
        return [(message.key, message.payload) for message in messages]


def compacted_files(directory: Path) -> TopicDirectory:
    return LedgerDirectory(directory).topic(TopicName.parse(TOPIC)).compacted


def value(key: str, number: int) -> bytes:
    return single(b"%s%d" % (key.encode(), number), partition_key=key)


def test_a_compacted_topic_is_read_from_its_compacted_ledger(tmp_path):
    """A compacted topic is read from its compacted ledger up to the horizon, and its last message without the topic."""
    append(
        tmp_path,
        [value("a", 0), value("b", 0), batch([slot(0, b"x"), slot(1, b"a1", partition_key="a")]), value("b", 1)],
    )

    made = compact(tmp_path)
    append(tmp_path, [value("a", 2)])

    assert consumed(tmp_path) == [("a", b"a1"), ("b", b"b1"), ("a", b"a2")]
    assert (made.horizon, made.summary.entry_count, made.bad_entries) == ((1, 0), 2, ())
    with open_local_ledgers(tmp_path) as source:
        left = source.compacted_log(TOPIC)
        assert (left.horizon, left.ledger.ledger_id, left.ledger.payload_bytes) == (
            made.horizon,
            made.ledger_id,
            made.summary.payload_bytes,
        )
        assert TopicCompactionService(left).get_last_message_position()[:3] == (1, 0, -1)


def test_a_topic_that_was_never_compacted(tmp_path):
    """A topic that was never compacted is read as it is, and a missing topic is an error."""
    append(tmp_path, [value("a", 0), value("a", 1)])
    assert consumed(tmp_path) == [("a", b"a0"), ("a", b"a1")]
    with open_local_ledgers(tmp_path) as source:
        assert source.compacted_log(TOPIC) is None
        with pytest.raises(TopicNotFound):
            source.compacted_log("lab/main/other")
    with pytest.raises(TopicNotFound):
        compact_local_topic(tmp_path, "lab/main/other", now_ms=9)


def test_the_next_compaction_replaces_the_last(tmp_path):
    """The next compaction continues from the last and leaves one ledger, whose id no other ledger has."""
    append(tmp_path, [value("a", 0), value("b", 0)])
    first = compact(tmp_path)
    append(tmp_path, [value("a", 1)])

    second = compact(tmp_path)

    assert consumed(tmp_path) == [("b", b"b0"), ("a", b"a1")]
    assert compacted_files(tmp_path).ledger_ids() == [second.ledger_id]
    with open_local_ledgers(tmp_path) as source:
        ids = [ledger.ledger_id for ledger in source.topic_log(TOPIC).ledgers]
    assert sorted([*ids, first.ledger_id, second.ledger_id]) == [0, 1, 2, 3]


def test_nothing_to_compact(tmp_path):
    """An empty topic has no compacted ledger, and a topic of which nothing is kept has an empty one."""
    append(tmp_path, [])
    assert compact(tmp_path) is None
    assert compacted_files(tmp_path).ledger_ids() == []

    append(tmp_path, [value("a", 0), single(b"", partition_key="a")])
    made = compact(tmp_path)
    assert (made.summary.entry_count, made.horizon.entry_id) == (0, 1)
    assert consumed(tmp_path) == []
    assert compact(tmp_path) is None


def test_messages_without_a_key_are_kept_if_they_are_to_be(tmp_path):
    """Messages without a key are dropped by default, and kept on request."""
    append(tmp_path, [single(b"x"), value("a", 0)])
    compact(tmp_path)
    assert consumed(tmp_path) == [("a", b"a0")]
    append(tmp_path, [single(b"y")])
    compact(tmp_path, retain_null_key=True)
    assert consumed(tmp_path) == [("a", b"a0"), (None, b"y")]


def test_more_than_one_write_takes(tmp_path):
    """Megabytes of kept messages are written in several pieces."""
    entries = [(str(number), bytes([number]) * 1_500_000) for number in range(5)]
    append(tmp_path, [single(payload, partition_key=key) for key, payload in entries])
    disk = RecordingDisk()
    compact(tmp_path, disk)
    assert consumed(tmp_path) == entries
    assert len([step for step in disk.steps if step.kind == "write" and len(step.content) > 1_000_000]) == 2


def test_a_topic_is_compacted_while_it_is_written(tmp_path):
    """A topic is compacted while it is written, up to the entries that are durable by then."""
    with open_writer(tmp_path, TOPIC, now_ms=9, disk=QuickDisk()) as writer:
        writer.append_many([value("a", 0), value("a", 1)], now_ms=9)
        writer.flush()
        writer.append_many([value("a", 2)], now_ms=9)
        assert compact(tmp_path).horizon == Position(0, 1)
    assert consumed(tmp_path) == [("a", b"a1"), ("a", b"a2")]


def test_only_one_compacts_at_a_time(tmp_path):
    """A second compaction at the same time is refused with the process that runs the first."""
    append(tmp_path, [value("a", 0)])
    told = []

    class Curious(QuickDisk):
        def create(self, path: Path):
            with pytest.raises(LedgerInUse, match="this process writes to the compacted ledgers of"):
                compact(tmp_path)
            told.append(path)
            return super().create(path)

    compact(tmp_path, Curious())
    assert told
    assert compact(tmp_path) is not None


def test_damage_fails_or_is_listed(tmp_path):
    """Damage fails the compaction or is listed, and a failure leaves the previous result."""
    append(tmp_path, [value("a", 0)])
    compact(tmp_path)
    append(tmp_path, [value("b", 0), flipped(value("a", 1), -1)])

    with pytest.raises(EntriesUnreadable, match=r"CRC32C .*; give on_error=skip to go on"):
        compact(tmp_path)
    assert len(compacted_files(tmp_path).ledger_ids()) == 1

    made = compact(tmp_path, on_error=ErrorPolicy.SKIP)
    assert [bad.entry_id for bad in made.bad_entries] == [1]


def test_progress_counts_every_entry_once_in_either_phase(tmp_path):
    """Progress counts previously compacted entries by the kept ones, and counts unreadable entries, too."""
    append(tmp_path, [value("a", 0), value("a", 1), value("b", 0), value("a", 2)])
    told = []
    compact(tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(3, 8), (4, 8), (7, 8), (8, 8)]

    append(tmp_path, [value("b", 1), flipped(value("b", 2), -1)])
    told.clear()
    compact(tmp_path, progress=lambda done, total: told.append((done, total)), on_error=ErrorPolicy.SKIP)
    assert told == [(2, 8), (4, 8), (6, 8), (8, 8)]


def test_a_damaged_pointer_is_an_error(tmp_path):
    """A flipped byte in the pointer to the compacted ledger is an error that names the file."""
    append(tmp_path, [value("a", 0)])
    compact(tmp_path)
    pointer = compacted_files(tmp_path).metadata
    content = pointer.read_bytes()
    for at in range(len(content)):
        pointer.write_bytes(flipped(content, at))
        with pytest.raises(MetadataInvalid, match="compacted/metadata"):
            consumed(tmp_path)


def test_ids_stay_unique_when_they_are_counted_anew(tmp_path):
    """Ids of compacted ledgers count when the next free id is computed again."""
    append(tmp_path, [value("a", 0)])
    made = compact(tmp_path)
    place = LedgerDirectory(tmp_path)
    place.ids.unlink()
    assert take_ledger_id(place, QuickDisk()) == made.ledger_id + 1


ENTRIES = [value(key, number) for number, key in enumerate("abacab")]
LATER = [value("b", 7), single(b"", partition_key="c")]
AFTER_BOTH = {"a": b"a4", "b": b"b7", "c": b""}


@pytest.mark.slow
def test_a_full_disk_leaves_what_was_there(tmp_path):
    """A full disk at any step leaves the previous result, and the next compaction succeeds and removes leftovers."""
    append(tmp_path, ENTRIES)
    compact(tmp_path)
    append(tmp_path, LATER)
    refused = 0
    while True:
        disk = FailingDisk()
        disk.refuses = lambda _step, _path, disk=disk, last=refused: disk.steps > last
        try:
            compact(tmp_path, disk)
        except OSError:
            refused += 1
            assert {**dict(consumed(tmp_path)), "c": b""} == AFTER_BOTH
        else:
            break
    assert refused >= 10
    assert consumed(tmp_path) == [("a", b"a4"), ("b", b"b7")]
    assert len(compacted_files(tmp_path).ledger_ids()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0.0, 0.6, 1.0])
def test_a_power_cut_leaves_the_old_or_the_new(tmp_path, kept):
    """A power cut behind any step, with torn writes, leaves the old or the new result, and compaction works again."""
    written = tmp_path / "written"
    written.mkdir()
    disk = RecordingDisk()
    append(written, ENTRIES, disk)
    compact(written, disk)
    append(written, LATER, disk)
    begin = len(disk.steps)
    compact(written, disk)
    assert len(disk.steps) - begin >= 10
    for step in range(begin, len(disk.steps) + 1):
        image = tmp_path / f"image-{step}"
        image.mkdir()
        PowerCut(written, kept=kept, seed=step).after(disk.steps[:step], image)

        assert {**dict(consumed(image)), "c": b""} == AFTER_BOTH

        compact(image)
        assert consumed(image) == [("a", b"a4"), ("b", b"b7")]
        assert len(compacted_files(image).ledger_ids()) == 1
