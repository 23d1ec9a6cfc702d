"""A log's changes give the same tracker however many are applied at a time, and many need few buckets."""

import pytest

from delayed_tracker.core.engine.effects import StoreSnapshot
from delayed_tracker.core.values.changes import Added, MarkDeleteAdvanced, OfferedThrough, Removed, Rescheduled
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import LATER_MS, Shell, positions

LIMITS = TrackerLimits(strict=True, min_index_count_per_bucket=4, max_num_buckets=50)
HISTORY = [
    Added(IndexColumns.of([(LATER_MS, 1, entry) for entry in range(5)])),
    Removed(positions((1, 0), (1, 3))),
    OfferedThrough(Position(1, 4)),
    Added(IndexColumns.of([(LATER_MS, 2, entry) for entry in range(5)])),
    Rescheduled(IndexColumns.of([(LATER_MS + 7, 1, 2), (LATER_MS + 5, 2, 2)])),
    MarkDeleteAdvanced(Position(1, 1)),
    Removed(positions((2, 0))),
    Added(IndexColumns.of([(LATER_MS + 1, 1, 3), (LATER_MS, 1, 1)])),
    OfferedThrough(Position(2, 4)),
]


def replayed(changes, at_a_time):
    """Return a tracker to which the changes were applied."""
    shell = Shell.with_limits(LIMITS)
    shell.core.begin_journal(0, BEFORE_ALL)
    for start in range(0, len(changes), at_a_time):
        part = changes[start : start + at_a_time]
        shell.core.replay(range(start + 1, start + 1 + len(part)), part)
        shell.core.check()
    return shell


@pytest.mark.parametrize("at_a_time", [2, 4, len(HISTORY)])
def test_changes_may_be_applied_together(at_a_time):
    """Deadlines, counters, cursor and claim are those of one after the other."""
    single, together = replayed(HISTORY, 1), replayed(HISTORY, at_a_time)
    for shell in (single, together):
        assert shell.core.last_change == len(HISTORY)
        assert shell.core.offered_through == Position(2, 4)
    one, other = single.core.stats(), together.core.stats()
    assert (one.pending_count, one.recovered_count, one.mark_delete) == (
        other.pending_count,
        other.recovered_count,
        other.mark_delete,
    )
    drained = single.drain()
    assert drained == together.drain()
    assert (LATER_MS + 5, 2, 2) in drained
    assert (LATER_MS + 1, 1, 3) in drained
    assert len(drained) == other.pending_count


def test_what_has_come_and_gone_seals_no_bucket():
    """Batches of a log that were acknowledged leave no bucket behind."""
    batches = [[(LATER_MS, ledger, entry) for entry in range(10)] for ledger in range(1, 61)]
    changes = [Added(IndexColumns.of(rows)) for rows in batches]
    changes += [Removed(positions(*[row[1:] for row in rows])) for rows in batches]
    assert replayed(changes, 1).asked(StoreSnapshot) != []
    shell = replayed(changes, len(changes))
    assert shell.core.last_change == 120
    assert shell.asked(StoreSnapshot) == []
    assert shell.core.stats().pending_count == 0
