"""Mark-delete, clear and epochs: guarantees for a dispatcher, one sentence for each test."""

import pytest

from delayed_tracker.core.engine.effect_results import DeleteFailed, SnapshotFailed, SnapshotsDeleted
from delayed_tracker.core.engine.effects import DeleteSnapshots, StoreSnapshot
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import LATER_MS, STRICT, Shell, due_shell, positions


def test_mark_delete_drops_bits_and_leases_at_or_below():
    """Positions acknowledged in the cursor are neither pending nor leased."""
    shell = due_shell()
    shell.pop(2, lease_ms=50)
    outcome = shell.core.advance_mark_delete(Position(1, 0), shell.now)
    assert (outcome.mark_delete, outcome.trimmed_count) == (Position(1, 0), 1)
    assert shell.contains((1, 0), (1, 1)) == [False, True]
    assert shell.core.stats().leased_count == 1
    assert shell.core.advance_mark_delete(Position(2, 0), shell.now).trimmed_count == 3
    assert shell.next_wakeup_ms() is None
    shell.core.check()


def test_a_lower_mark_delete_is_ignored_and_the_current_one_answered():
    """A lower mark-delete is ignored, since calls may overtake each other."""
    shell = due_shell()
    shell.core.advance_mark_delete(Position(1, 1), shell.now)
    for lower in (Position(1, 0), Position(1, 1), Position(0, 99)):
        outcome = shell.core.advance_mark_delete(lower, shell.now)
        assert (outcome.mark_delete, outcome.trimmed_count) == (Position(1, 1), 0)
    assert shell.core.mark_delete == Position(1, 1)


def test_later_acks_below_mark_delete_succeed_without_effect():
    """Later acks below mark-delete change nothing and are returned as unknown."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.core.advance_mark_delete(Position(1, 1), shell.now)
    outcome = shell.core.ack(lease_id, positions((1, 0), (1, 1), (1, 2)), shell.now)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (1, [], [0, 1])


@pytest.mark.parametrize("position", [Position(-1, 0), Position(0, -2), BEFORE_ALL])
def test_a_mark_delete_that_is_no_position_is_refused(position):
    """Entry -1 of a ledger is allowed, a negative ledger is not."""
    shell = due_shell()
    with pytest.raises(InvalidInput, match="mark_delete"):
        shell.core.advance_mark_delete(position, shell.now)
    assert len(shell.core) == 4


def test_a_bucket_wholly_below_mark_delete_is_deleted():
    """A bucket below mark-delete is deleted from catalogue and storage, also while one of its segments is loading."""
    shell = due_shell()
    shell.core.seal_mutable_bucket(shell.now)
    bucket_id = shell.store()
    shell.core.advance_mark_delete(Position(2, 0), shell.now)
    (effect,) = shell.asked(DeleteSnapshots)
    assert effect.bucket_ids == (bucket_id,)
    assert shell.core.buckets() == []
    shell.core.check()


def test_a_failed_deletion_is_tried_again():
    """A failed deletion is requested again for the same bucket until it succeeds."""
    shell = due_shell(limits=TrackerLimits(strict=True, retry_backoff_ms=5))
    shell.core.seal_mutable_bucket(shell.now)
    bucket_id = shell.store()
    shell.core.advance_mark_delete(Position(2, 0), shell.now)
    assert shell.core.apply(DeleteFailed(shell.next(DeleteSnapshots).effect_id), shell.now)
    assert shell.next_wakeup_ms() == shell.now_ms + 5
    shell.pass_time(5)
    again = shell.next(DeleteSnapshots)
    assert again.bucket_ids == (bucket_id,)
    assert shell.core.apply(SnapshotsDeleted(again.effect_id), shell.now)
    assert shell.next_wakeup_ms() is None


def test_objects_that_cannot_be_deleted_are_tried_ever_more_seldom():
    """A storage may refuse it for good, and nobody waits for what no catalogue names."""
    shell = due_shell(limits=TrackerLimits(strict=True, retry_backoff_ms=5))
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    shell.core.advance_mark_delete(Position(2, 0), shell.now)
    pauses = []
    for _ in range(11):
        assert shell.core.apply(DeleteFailed(shell.next(DeleteSnapshots).effect_id, is_dropped=True), shell.now)
        pauses.append(shell.next_wakeup_ms() - shell.now_ms)
        shell.pass_time(pauses[-1])
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 1_280, 1_280]
    assert shell.core.apply(SnapshotsDeleted(shell.next(DeleteSnapshots).effect_id), shell.now)
    assert shell.next_wakeup_ms() is None


def test_clear_forgets_everything_and_answers_how_much():
    """A clear drops pending and leased positions, and requests the deletion of snapshots under a new epoch."""
    shell = due_shell()
    shell.core.seal_mutable_bucket(shell.now)
    bucket_id = shell.store()
    shell.pop(2, lease_ms=50)
    shell.add((LATER_MS, 3, 0))
    assert shell.core.clear(shell.now) == 5
    assert (len(shell.core), shell.core.epoch, shell.next_wakeup_ms()) == (0, 2, None)
    (effect,) = shell.asked(DeleteSnapshots)
    assert (effect.epoch, effect.bucket_ids) == (2, (bucket_id,))
    assert shell.core.buckets() == []
    shell.core.check()


def test_clear_is_legal_when_there_is_nothing_and_with_only_mutable_ones():
    """A clear is allowed in any state and always fences older writers."""
    shell = Shell.with_limits(STRICT)
    assert shell.core.clear(shell.now) == 0
    assert [effect.bucket_ids for effect in shell.asked(DeleteSnapshots)] == [()]
    shell.add((LATER_MS, 1, 0))
    assert shell.core.clear(shell.now) == 1
    shell.core.check()


def test_results_of_effects_from_before_a_clear_are_ignored():
    """A store that ends after the clear returns False, so that its snapshot is removed again."""
    shell = due_shell()
    shell.core.seal_mutable_bucket(shell.now)
    shell.asked(StoreSnapshot)
    shell.core.clear(shell.now)
    effect = shell.next(StoreSnapshot)
    assert not shell.core.apply(SnapshotFailed(effect.effect_id), shell.now)
    shell.pending.insert(0, effect)
    shell.store()
    assert (len(shell.core), shell.core.buckets()) == (0, [])


def test_a_new_epoch_returns_all_leases_at_once():
    """The new owner gets the positions that the old one held; effects in flight stay valid."""
    shell = due_shell()
    shell.core.seal_mutable_bucket(shell.now)
    rows = shell.pop_rows(lease_ms=50_000)
    shell.core.begin_epoch(2, shell.now)
    assert shell.core.stats().leased_count == 0
    assert shell.pop_rows(lease_ms=50) == rows
    shell.store()
    assert [view.bucket_id for view in shell.core.buckets()] == [1]
    shell.core.check()


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_must_rise(epoch):
    """An epoch must be higher than the last: two owners of one epoch could not be distinguished."""
    shell = due_shell()
    shell.pop(lease_ms=50)
    with pytest.raises(InvalidInput, match="epoch"):
        shell.core.begin_epoch(epoch, shell.now)
    assert shell.core.stats().leased_count == 3
