"""A cursor that moves, back or forth, while what is tracked above it stays: one sentence for each test."""

import pytest

from delayed_tracker.core.engine.effect_results import SnapshotFailed
from delayed_tracker.core.engine.effects import DeleteSnapshots, StoreSnapshot
from delayed_tracker.core.values.changes import Added, CursorMoved
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import DUE_MS, LATER_MS, STRICT, Shell, positions

LATE = TrackerLimits(strict=True, late_indexes_max=1_000)


def moved(shell: Shell, position: Position) -> int:
    dropped = shell.core.move_cursor(position, shell.now)
    shell.core.check()
    return dropped


@pytest.fixture(params=["mutable", "late", "sealing", "stored"])
def trimmed(request) -> Shell:
    """A tracker with entries 0 to 9 of ledger 1 in one kind of bucket, of which 0 to 4, due last, were trimmed."""
    shell = Shell.with_limits(LATE)
    if request.param == "late":
        shell.add((LATER_MS, 9, 0))
        shell.core.seal_mutable_bucket(shell.now)
        shell.store()
    shell.add(*[(DUE_MS + 100 - entry, 1, entry) for entry in range(10)])
    if request.param in {"sealing", "stored"}:
        shell.core.seal_mutable_bucket(shell.now)
    if request.param == "stored":
        shell.store()
    shell.core.advance_mark_delete(Position(1, 4), shell.now)
    return shell


def test_what_is_above_keeps_its_deadline(trimmed):
    """Nothing that is tracked is dropped by a move back, and nothing that was trimmed comes back by itself."""
    before = trimmed.core.stats()
    assert moved(trimmed, Position(0, 7)) == 0
    after = trimmed.core.stats()
    assert (after.pending_count, after.trimmed_count, after.mark_delete) == (before.pending_count, 5, Position(0, 7))
    assert after.epoch == before.epoch + 1
    drained = [row for row in trimmed.drain() if row[1] == 1]
    assert drained == [(DUE_MS + 100 - entry, 1, entry) for entry in reversed(range(5, 10))]


def test_what_was_trimmed_is_added_again_with_the_new_deadline(trimmed):
    """The old copy of a row, in memory or in a snapshot, neither comes out nor hides the new one."""
    moved(trimmed, BEFORE_ALL)
    again = [(DUE_MS + 200 + entry, 1, entry) for entry in range(5)]
    outcome = trimmed.add(*again, (LATER_MS, 1, 7))
    assert (outcome.added_count, outcome.duplicate.tolist(), len(outcome.below_mark_delete)) == (5, [5], 0)
    trimmed.core.check()
    drained = [row for row in trimmed.drain() if row[1] == 1]
    assert drained == [(DUE_MS + 100 - entry, 1, entry) for entry in reversed(range(5, 10))] + again


def test_a_deadline_from_before_the_trim_is_forgotten():
    """A position that was rescheduled, trimmed and added again has the deadline of the last add alone."""
    shell = Shell.with_limits(LATE)
    shell.add((LATER_MS, 1, 0), (LATER_MS, 1, 1), (DUE_MS, 1, 2))
    shell.core.reschedule(IndexColumns.of([(DUE_MS + 30, 1, 1)]), shell.now)
    shell.core.advance_mark_delete(Position(1, 1), shell.now)
    moved(shell, Position(1, 0))
    shell.add((DUE_MS + 60, 1, 1))
    shell.core.check()
    assert shell.drain() == [(DUE_MS, 1, 2), (DUE_MS + 60, 1, 1)]


def test_a_position_with_the_same_deadline_twice_has_one_copy_left():
    """A new deadline that is the old one leaves two equal copies, which a move makes one."""
    shell = Shell.with_limits(LATE)
    shell.add((LATER_MS, 1, 0), (LATER_MS, 1, 1))
    shell.core.reschedule(IndexColumns.of([(LATER_MS, 1, 1)]), shell.now)
    moved(shell, BEFORE_ALL)
    assert shell.drain() == [(LATER_MS, 1, 0), (LATER_MS, 1, 1)]


def test_a_move_forth_trims(trimmed):
    """A higher position drops what is at or below it, as an advance does, and a drained bucket is deleted."""
    assert moved(trimmed, Position(1, 6)) == 2
    assert trimmed.contains((1, 6), (1, 7)) == [False, True]
    assert moved(trimmed, Position(1, 9)) == 3
    assert trimmed.contains((1, 9)) == [False]
    trimmed.perform_all()
    assert len(trimmed.snapshots) == len(trimmed.core)
    assert trimmed.core.stats().trimmed_count == 10


def test_leases_return_and_later_ones_may_hold_what_was_trimmed():
    """Leases are void; a position that was trimmed under one can be leased and returned again."""
    shell = Shell.with_limits(LATE)
    shell.add(*[(DUE_MS, 1, entry) for entry in range(4)])
    shell.now_ms = DUE_MS
    old = shell.pop(3, lease_ms=50)
    shell.core.advance_mark_delete(Position(1, 1), shell.now)
    moved(shell, Position(0, 0))
    assert shell.core.stats().leased_count == 0
    assert shell.core.ack(old.lease_id, positions((1, 2)), shell.now).stale.tolist() == [0]
    shell.add((DUE_MS + 5, 1, 0), (DUE_MS + 5, 1, 1))
    shell.pass_time(5)
    again = shell.pop(10, lease_ms=50)
    assert list(again.indexes) == [(DUE_MS, 1, 2), (DUE_MS, 1, 3), (DUE_MS + 5, 1, 0), (DUE_MS + 5, 1, 1)]
    assert shell.core.ack(again.lease_id, positions((1, 0), (1, 2)), shell.now).changed_count == 2
    shell.pass_time(50)
    shell.core.check()
    assert shell.pop_rows() == [(DUE_MS, 1, 3), (DUE_MS + 5, 1, 1)]


@pytest.mark.parametrize(
    ("claim", "position", "expected"),
    [
        (Position(5, 0), Position(1, 4), Position(1, 4)),
        (Position(1, 2), Position(1, 4), Position(1, 2)),
        (Position(5, 0), BEFORE_ALL, BEFORE_ALL),
        (BEFORE_ALL, Position(1, 4), BEFORE_ALL),
    ],
)
def test_the_claim_falls_to_the_position(claim, position, expected):
    """The dispatcher offers again from the new position, or from its claim if that is lower."""
    shell = Shell.with_limits(LATE)
    shell.core.begin_journal(0, claim)
    moved(shell, position)
    assert shell.core.offered_through == expected
    shell.core.advance_offered_through(Position(6, 0))
    assert shell.core.offered_through == Position(6, 0)


def test_the_move_is_noted_with_what_was_trimmed_before():
    """The log learns both positions: that the tracker stood higher may be in no record, after an open with a position."""
    shell = Shell.with_limits(LATE)
    shell.core.begin_journal(0, BEFORE_ALL)
    shell.core.advance_mark_delete(Position(3, 3), shell.now)
    shell.core.take_changes()
    moved(shell, Position(2, 0))
    moved(shell, Position(4, 0))
    assert shell.core.take_changes() == [
        CursorMoved(Position(2, 0), Position(3, 3)),
        CursorMoved(Position(4, 0), Position(4, 0)),
    ]


@pytest.mark.parametrize("position", [Position(-1, 0), Position(0, -2)])
def test_a_position_that_is_none_changes_nothing(position):
    """It is refused before leases end or the epoch rises."""
    shell = Shell.with_limits(STRICT)
    with pytest.raises(InvalidInput, match="mark_delete"):
        shell.core.move_cursor(position, shell.now)
    assert shell.core.epoch == 1


def test_a_store_of_before_that_fails_is_tried_again_without_what_was_trimmed():
    """The old epoch may fail to commit: the next attempt has what is left."""
    shell = Shell.with_limits(LATE)
    shell.add(*[(LATER_MS, 1, entry) for entry in range(4)])
    shell.core.seal_mutable_bucket(shell.now)
    effect = shell.next(StoreSnapshot)
    shell.core.advance_mark_delete(Position(1, 1), shell.now)
    moved(shell, Position(0, 0))
    shell.add((LATER_MS + 5, 1, 0))
    shell.core.apply(SnapshotFailed(effect.effect_id), shell.now)
    shell.pass_time(shell.core.limits.retry_backoff_ms)
    bucket_id = shell.store()
    assert list(shell.snapshots[bucket_id].indexes) == [(LATER_MS, 1, 2), (LATER_MS, 1, 3)]
    assert shell.drain() == [(LATER_MS, 1, 2), (LATER_MS, 1, 3), (LATER_MS + 5, 1, 0)]


def test_a_loss_needs_no_replay_of_its_own_after_a_move():
    """The dispatcher replays everything above the position, and with it what a snapshot has lost."""
    shell = Shell.with_limits(LATE)
    shell.core.begin_journal(0, BEFORE_ALL)
    shell.core.replay([1], [Added(IndexColumns.of([(DUE_MS, 1, 0)]))])
    shell.core._lifecycle.replay_required = True
    moved(shell, Position(0, 0))
    assert not shell.core.replay_required
    assert not shell.asked(DeleteSnapshots)
