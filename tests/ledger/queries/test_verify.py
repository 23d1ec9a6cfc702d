"""Tests of verifying every checksum of whole topics."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

import pytest

from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import LedgerFileInvalid, MetadataInvalid
from delayed_tracker.ledger.queries.verify import LedgerVerdict, verify_topics
from delayed_tracker.ledger.topic.topic_log import CompactedLog, TopicLog
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.compaction.compacting import COMPACTED_LEDGER_ID, compacted
from tests.ledger.harness.disks import DiskFiles, cursor_at
from tests.ledger.harness.list_ledger import ListLedger, topic_of
from tests.ledger.harness.log_files import flipped
from tests.ledger.messages.producer import single

ONE, TWO = "persistent://lab/main/one", "persistent://lab/main/two"
PENDING_ACKS = "persistent://lab/main/one__transaction_pending_ack"
SOUND = [single(b"a", partition_key="a"), single(b"b", partition_key="b")]


class Shelf:
    """Source of the given topics; a topic without a log has damaged metadata."""

    def __init__(self, logs: Mapping[str, TopicLog | None], left: CompactedLog | None = None) -> None:
        self.logs = logs
        self.left = left

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def topics(self, beside: TopicName | None = None) -> list[str]:
        return sorted(self.logs)

    def topic_log(self, topic: str) -> TopicLog:
        log = self.logs[topic]
        if log is None:
            raise MetadataInvalid(f"{topic} is damaged")
        return log

    def compacted_log(self, topic: str) -> CompactedLog | None:
        return self.left if topic == ONE else None

    def close(self) -> None:
        """Do nothing."""


class UnreadableFrom(ListLedger):
    """Ledger whose file ends too early."""

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        yield self.read(0, 0)
        raise LedgerFileInvalid("the file is cut short")


def verified(shelf: Shelf) -> list[LedgerVerdict]:
    return list(verify_topics(shelf, shelf.topics()))


def test_what_is_sound_is_said_to_be():
    """Undamaged ledgers are reported as sound, including empty ones and entries that are not messages."""
    log = topic_of({3: SOUND, 4: []}, topic=ONE)
    acks = topic_of({5: [b"no message"]}, topic=PENDING_ACKS)
    verdicts = verified(Shelf({ONE: log, PENDING_ACKS: acks}))
    assert [(verdict.ledger_id, verdict.entry_count, verdict.sound) for verdict in verdicts] == [
        (3, 2, True),
        (4, 0, True),
        (5, 1, True),
    ]
    assert verdicts[0].payload_bytes == sum(map(len, SOUND))


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([*SOUND, flipped(SOUND[0], len(SOUND[0]) - 1)], "CRC32C of the message is not the stored"),
        ([*SOUND, None], "missing"),
        ([*SOUND, b"no message"], "cut short"),
    ],
)
def test_bad_entries_are_named(entries, why):
    """Bad entries are reported with position and reason, and the next ledger is verified, too."""
    damaged, behind = verified(Shelf({ONE: topic_of({3: entries, 4: SOUND}, topic=ONE)}))
    assert (damaged.sound, damaged.bad_count, behind.sound) == (False, 1, True)
    assert (damaged.entry_count, damaged.sound_count, behind.sound_count) == (3, 2, 2)
    assert (damaged.bad_entries[0].ledger_id, damaged.bad_entries[0].entry_id) == (3, 2)
    assert why in damaged.bad_entries[0].reason


def test_what_cannot_be_read_at_all_ends_nothing():
    """A damaged topic or a file that is cut short does not stop the verification."""
    log = TopicLog(topic_of({}, topic=TWO).name, (UnreadableFrom(3, SOUND), ListLedger(4, SOUND)))
    first, second, third = verified(Shelf({ONE: None, TWO: log}))
    assert (first.topic, first.ledger_id, first.problem, first.sound) == (ONE, None, f"{ONE} is damaged", False)
    assert (second.ledger_id, second.problem, second.sound) == (3, "the file is cut short", False)
    assert (first.sound_count, second.sound_count, third.sound_count) == (0, 1, 2)
    assert (third.ledger_id, third.sound) == (4, True)


def test_what_compaction_left_is_verified():
    """Entries of a compacted ledger are verified in their own form, and a bad one has its position in the topic."""
    log = topic_of({3: SOUND}, topic=ONE)
    left = compacted(log)
    *_, verdict = verified(Shelf({ONE: log}, left))
    assert (verdict.ledger_id, verdict.compacted, verdict.sound, verdict.entry_count) == (
        COMPACTED_LEDGER_ID,
        True,
        True,
        2,
    )
    assert verdict.sound_count == 2
    rows = left.ledger.read(0, 1).entries
    second = rows.payload(1)
    damaged = CompactedLog(
        ListLedger(COMPACTED_LEDGER_ID, [rows.payload(0), flipped(second, len(second) - 1)]), left.horizon
    )
    *_, verdict = verified(Shelf({ONE: log}, damaged))
    (bad,) = verdict.bad_entries
    assert verdict.sound_count == 1
    assert str(bad).startswith("entry 3:1: CRC32C of the message is not the stored")
    assert str(bad).endswith(f"; compaction kept it as {COMPACTED_LEDGER_ID}:1")


def test_a_lost_compaction_cursor_hides_no_ledger(tmp_path):
    """If the compaction cursor is lost, the topic's own ledgers are still verified."""
    files = DiskFiles(tmp_path)
    files.add_ledger(5, SOUND)
    info = cursor_at(5, -1)
    info.cursors_ledger_id = 12
    files.add_cursor(info, "__compaction")

    with files.open() as disk:
        lost, verdict = verify_topics(disk, disk.topics())

    assert (lost.ledger_id, lost.sound) == (None, False)
    assert lost.problem is not None
    assert lost.problem.startswith("ledger 12: it holds a cursor's state")
    assert (verdict.ledger_id, verdict.entry_count, verdict.sound_count) == (5, 2, 2)


def test_progress_counts_every_entry_once():
    """Progress ascends over all ledgers up to the total, also past a file that cannot be read."""
    seen: list[tuple[int, int]] = []
    unreadable = TopicLog(topic_of({}, topic=TWO).name, (UnreadableFrom(3, SOUND),))
    shelf = Shelf({ONE: topic_of({3: SOUND * 4, 4: SOUND}, topic=ONE), TWO: unreadable})
    list(verify_topics(shelf, shelf.topics(), progress=lambda done, total: seen.append((done, total))))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert {total for _, total in seen} == {12}
    assert seen[-1] == (12, 12)
