"""Adding: guarantees for a dispatcher, one sentence for each test."""

import itertools
import weakref
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.engine.effect_results import SnapshotStored
from delayed_tracker.core.engine.effects import DeleteSnapshots, LoadSegments, StoreSnapshot
from delayed_tracker.core.rules.seal import seal
from delayed_tracker.core.values.columns import INT63_MAX, Position
from delayed_tracker.core.values.errors import InvalidInput, TrackerClosed
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import LATER_MS, START_MS, STRICT, Shell, due_shell, positions


@pytest.mark.parametrize(("strict", "cutoff_ms"), [(True, START_MS), (False, START_MS + 1_000)])
def test_an_index_at_the_cutoff_is_due_and_one_after_it_is_tracked(strict, cutoff_ms):
    """The cutoff is now with strict delivery, otherwise now + tick."""
    shell = Shell.with_limits(TrackerLimits(strict=strict, tick_ms=1_000))
    outcome = shell.add((cutoff_ms, 1, 0), (cutoff_ms + 1, 1, 1), (cutoff_ms - 1, 1, 2))
    assert outcome.due.tolist() == [0, 2]
    assert outcome.added_count == 1
    assert shell.contains((1, 0), (1, 1), (1, 2)) == [False, True, False]


def test_the_first_of_a_repeated_position_wins():
    """The first offer of a position repeated in a batch is tracked, and the others are returned as duplicates."""
    shell = Shell.with_limits(STRICT)
    outcome = shell.add((LATER_MS + 5, 1, 0), (LATER_MS, 1, 0), (LATER_MS + 9, 1, 0))
    assert outcome.duplicate.tolist() == [1, 2]
    assert shell.drain() == [(LATER_MS + 5, 1, 0)]


@pytest.mark.parametrize("tracked_before", [False, True])
def test_a_repeat_has_the_outcome_of_a_first_row_that_is_not_tracked(tracked_before):
    """The rows may be two callers'.

    If the second were told that its position is tracked, and the first is gone, nobody would send it.
    """
    shell = Shell.with_limits(replace(STRICT, max_delay_ms=LATER_MS))
    if tracked_before:
        shell.add((LATER_MS, 1, 0))
    outcome = shell.add(
        (0, 1, 0), (3 * LATER_MS, 1, 1), (LATER_MS, 1, 2), *((LATER_MS, 1, entry) for entry in (2, 1, 0))
    )
    assert (outcome.due.tolist(), outcome.duplicate.tolist()) == ([0, 5], [3])
    assert (outcome.beyond_max_delay.tolist(), outcome.added_count) == ([1, 4], 1)
    assert shell.contains((1, 0), (1, 1), (1, 2)) == [False, False, True]
    shell.core.check()


def test_a_repeat_of_a_leased_position_is_a_duplicate():
    """A leased position is tracked, whatever the deadlines that it is offered with."""
    shell = due_shell(1)
    shell.pop(lease_ms=50)
    outcome = shell.add((0, 1, 0), (0, 1, 0), (0, 2, 0), (0, 2, 0))
    assert (outcome.due.tolist(), outcome.duplicate.tolist()) == ([2, 3], [0, 1])


def test_a_tracked_position_added_again_keeps_its_deadline():
    """A tracked position added again is a duplicate and keeps its deadline, for an earlier or a later one."""
    shell = Shell.with_limits(STRICT)
    shell.add((LATER_MS, 1, 0))
    assert shell.add((LATER_MS - 9, 1, 0)).duplicate.tolist() == [0]
    assert shell.add((LATER_MS + 9, 1, 0)).duplicate.tolist() == [0]
    assert len(shell.core) == 1
    assert shell.drain() == [(LATER_MS, 1, 0)]


def test_due_is_checked_before_duplicate_and_clears_the_bit():
    """A tracked position offered again when it is due belongs to the dispatcher: the tracker forgets it."""
    shell = Shell.with_limits(STRICT)
    shell.add((LATER_MS, 1, 0))
    outcome = shell.add((START_MS, 1, 0))
    assert (outcome.due.tolist(), outcome.duplicate.tolist()) == ([0], [])
    assert shell.contains((1, 0)) == [False]
    assert shell.core.stats().refused_as_due_count == 1
    assert shell.next_wakeup_ms() is None
    shell.pass_time(60_000)
    assert shell.pop_rows() == []


def test_a_leased_position_is_answered_duplicate_even_when_due():
    """A leased position is a duplicate even when due: a second copy of it must not be sent."""
    shell = Shell.with_limits(STRICT)
    shell.add((START_MS + 1, 1, 0))
    shell.now_ms += 1
    shell.pop(lease_ms=500)
    outcome = shell.add((0, 1, 0), (LATER_MS, 1, 0))
    assert (outcome.due.tolist(), outcome.duplicate.tolist()) == ([], [0, 1])
    assert shell.contains((1, 0)) == [True]


def test_a_position_added_after_its_ack_is_tracked_anew():
    """A position added after its ack is tracked again: there are no tombstones."""
    shell = Shell.with_limits(STRICT)
    shell.add((START_MS + 1, 1, 0))
    shell.now_ms += 1
    assert shell.pop_rows() == [(START_MS + 1, 1, 0)]
    assert shell.add((LATER_MS, 1, 0)).added_count == 1
    assert shell.drain() == [(LATER_MS, 1, 0)]


@pytest.mark.parametrize("again_ms", [LATER_MS - 7, LATER_MS, LATER_MS + 7])
def test_a_readded_position_is_delivered_only_at_its_new_deadline(again_ms):
    """A position removed at one deadline and added at another is delivered once, at the last."""
    shell = Shell.with_limits(STRICT)
    shell.add((LATER_MS, 1, 0), (LATER_MS + 1, 1, 1))
    shell.add((0, 1, 0))
    shell.add((again_ms, 1, 0))
    shell.core.check()
    assert shell.drain() == sorted([(again_ms, 1, 0), (LATER_MS + 1, 1, 1)])


def test_deadlines_up_to_the_maximum_delay_are_tracked():
    """Exactly the maximum is allowed; beyond it the offset is returned and the index is not tracked."""
    shell = Shell.with_limits(TrackerLimits(strict=True, max_delay_ms=100))
    outcome = shell.add((START_MS + 100, 1, 0), (START_MS + 101, 1, 1))
    assert (outcome.added_count, outcome.beyond_max_delay.tolist()) == (1, [1])
    assert shell.contains((1, 0), (1, 1)) == [True, False]


def test_a_tracked_position_beyond_the_maximum_delay_is_a_duplicate():
    """A tracked position stays as it is, whatever the deadline of the offer."""
    shell = Shell.with_limits(TrackerLimits(strict=True, max_delay_ms=100))
    shell.add((START_MS + 100, 1, 0))
    outcome = shell.add((START_MS + 9_999, 1, 0))
    assert (outcome.duplicate.tolist(), outcome.beyond_max_delay.tolist()) == ([0], [])


def test_positions_at_or_below_mark_delete_are_not_tracked():
    """Positions at or below mark-delete are acknowledged, due or not."""
    shell = Shell.with_limits(STRICT)
    shell.core.advance_mark_delete(Position(1, 5), shell.now)
    outcome = shell.add((LATER_MS, 1, 5), (LATER_MS, 1, 6), (0, 0, 9))
    assert (outcome.below_mark_delete.tolist(), outcome.added_count) == ([0, 2], 1)


def test_deadlines_at_the_end_of_time_are_tracked():
    """2^63-1 is a deadline like any other."""
    shell = Shell.with_limits(TrackerLimits())
    shell.add((INT63_MAX, INT63_MAX, 2**32 - 1))
    assert shell.core.next_delivery_ms() == INT63_MAX - 1_000
    shell.core.seal_mutable_bucket(shell.now)
    shell.perform_all()
    shell.core.check()
    shell.now_ms = INT63_MAX - 1_000
    shell.perform_all()
    shell.core.wake(shell.now)
    shell.perform_all()
    assert shell.pop_rows() == [(INT63_MAX, INT63_MAX, 2**32 - 1)]


def test_an_empty_batch_changes_nothing():
    """An empty batch is answered with empty offsets."""
    shell = Shell.with_limits(STRICT)
    assert shell.add().added_count == 0
    assert shell.core.take_effects() == []


def test_any_order_of_ledgers_is_legal():
    """A ledger may lie inside the mutable bucket's range, below it, or above it."""
    shell = Shell.with_limits(STRICT)
    assert shell.add((LATER_MS, 5, 0)).added_count == 1
    assert shell.add((LATER_MS, 9, 0)).added_count == 1
    assert shell.add((LATER_MS, 7, 0), (LATER_MS, 2, 0)).added_count == 2
    assert len(shell.core) == 4
    shell.core.check()


def test_the_mutable_bucket_is_sealed_when_the_next_ledger_arrives():
    """A bucket with enough indexes is sealed, without the row of the next ledger."""
    shell = Shell.with_limits(TrackerLimits(strict=True, min_index_count_per_bucket=3))
    shell.add(*[(LATER_MS, 1, entry) for entry in range(4)])
    assert shell.asked(StoreSnapshot) == []
    shell.add((LATER_MS, 2, 0))
    (effect,) = shell.asked(StoreSnapshot)
    assert (effect.frozen.first, effect.frozen.last, len(effect.frozen)) == (Position(1, 0), Position(1, 3), 4)
    assert shell.core.stats().mutable_count == 1


def test_one_batch_may_seal_several_buckets():
    """One batch may seal several buckets: batch boundaries do not matter."""
    shell = Shell.with_limits(TrackerLimits(strict=True, min_index_count_per_bucket=1, mutable_indexes_max=2))
    shell.add(*[(LATER_MS, ledger, entry) for ledger in range(3) for entry in range(4)])
    assert [len(effect.frozen) for effect in shell.asked(StoreSnapshot)] == [2] * 6
    shell.core.check()


def test_late_positions_become_a_bucket_of_their_own():
    """Late positions above the maximum become a bucket, and the mutable bucket does not change."""
    shell = Shell.with_limits(TrackerLimits(strict=True, late_indexes_max=2))
    shell.add((LATER_MS, 9, 0))
    shell.core.seal_mutable_bucket(shell.now)
    shell.perform_all()
    shell.add((LATER_MS, 10, 0), (LATER_MS, 3, 0), (LATER_MS, 9, 0), (LATER_MS, 8, 5))
    (effect,) = shell.asked(StoreSnapshot)
    assert (effect.frozen.first, effect.frozen.last) == (Position(3, 0), Position(8, 5))
    stats = shell.core.stats()
    assert (stats.late_count, stats.mutable_count, stats.duplicate_count) == (0, 1, 1)


def test_positions_stay_visible_while_they_are_sealed():
    """Positions are contained, counted and delivered from memory before the store has ended."""
    shell = Shell.with_limits(STRICT)
    shell.add((START_MS + 5, 1, 0), (LATER_MS, 1, 1))
    assert shell.core.seal_mutable_bucket(shell.now)
    assert shell.contains((1, 0), (1, 1)) == [True, True]
    shell.now_ms += 5
    assert shell.pop_rows() == [(START_MS + 5, 1, 0)]
    shell.store()
    shell.core.check()
    assert shell.drain() == [(LATER_MS, 1, 1)]


def test_sealing_nothing_answers_false():
    """An empty bucket is not stored."""
    shell = Shell.with_limits(STRICT)
    assert not shell.core.seal_mutable_bucket(shell.now)
    assert shell.core.take_effects() == []


def test_an_index_that_fails_to_persist_stays_in_memory_and_is_tried_again():
    """A failed store is tried again after the back-off, with the content that is left then."""
    shell = Shell.with_limits(TrackerLimits(strict=True, retry_backoff_ms=10))
    shell.add((START_MS + 5, 1, 0), (LATER_MS, 1, 1))
    shell.core.seal_mutable_bucket(shell.now)
    shell.fail_store()
    assert shell.next_wakeup_ms() == START_MS + 5
    shell.pass_time(9)
    assert shell.asked(StoreSnapshot) == []
    assert shell.pop_rows() == [(START_MS + 5, 1, 0)]
    shell.pass_time(1)
    (effect,) = shell.asked(StoreSnapshot)
    assert len(effect.frozen) == 1
    shell.perform_all()
    assert shell.drain() == [(LATER_MS, 1, 1)]


def test_a_store_that_fails_again_and_again_is_tried_ever_later():
    """Eight times the back-off at most; once it was stored, the next bucket begins anew."""
    shell = Shell.with_limits(TrackerLimits(strict=True, retry_backoff_ms=10))
    shell.add((LATER_MS, 1, 0))
    shell.core.seal_mutable_bucket(shell.now)
    for pause_ms in (10, 20, 40, 80, 80):
        shell.fail_store()
        shell.pass_time(pause_ms - 1)
        assert shell.asked(StoreSnapshot) == []
        shell.pass_time(1)
    shell.store()
    shell.add((LATER_MS, 2, 0))
    shell.core.seal_mutable_bucket(shell.now)
    shell.fail_store()
    shell.pass_time(10)
    assert len(shell.asked(StoreSnapshot)) == 1


@pytest.mark.parametrize("cancelled_count", [0, 1, 3])
def test_what_is_nearly_due_stays_loaded_when_it_is_stored(cancelled_count):
    """Rows that are nearly due and still tracked stay loaded, and no others."""
    shell = Shell.with_limits(
        TrackerLimits(strict=True, prefetch_window_ms=10, load_indexes_min=1, max_indexes_per_segment=3)
    )
    near = [(START_MS + 5, 1, entry) for entry in range(3)]
    shell.add(*near, (LATER_MS, 1, 3))
    shell.core.seal_mutable_bucket(shell.now)
    left, cancelled = near[: 3 - cancelled_count], near[3 - cancelled_count :]
    shell.core.cancel(positions(*[row[1:] for row in cancelled]), shell.now)
    shell.store()
    shell.core.check()
    assert shell.core.stats().loaded_count == len(left)
    shell.pass_time(5)
    assert shell.asked(LoadSegments) == []
    assert shell.pop_rows() == left


@pytest.mark.parametrize("is_measured_when_stored", [False, True])
def test_memory_of_a_sealed_bucket_follows_what_it_loses(is_measured_when_stored):
    """Ten thousand consecutive entries take a few bytes; without every third of them they take 8 KiB."""
    shell = Shell.with_limits(STRICT)
    rows = [(LATER_MS, 1, entry) for entry in range(10_000)]
    shell.add(*rows)
    shell.core.seal_mutable_bucket(shell.now)
    if is_measured_when_stored:
        shell.store()
        assert shell.core.stats().membership_bytes < 1_000
    shell.core.cancel(positions(*[row[1:] for row in rows[::3]]), shell.now)
    if not is_measured_when_stored:
        shell.store()
    assert 8_192 < shell.core.stats().membership_bytes < 9_000
    shell.core.check()


def test_what_stays_loaded_does_not_keep_the_rest_of_its_bucket_in_memory():
    """Three rows that stay loaded do not keep the memory of a million."""
    shell = Shell.with_limits(
        TrackerLimits(strict=True, prefetch_window_ms=10, load_indexes_min=1, max_indexes_per_segment=1)
    )
    shell.add((START_MS + 5, 1, 0), (LATER_MS, 1, 1))
    shell.core.seal_mutable_bucket(shell.now)
    effect = shell.next(StoreSnapshot)
    sealed = seal(effect.frozen)
    columns = [weakref.ref(getattr(sealed.indexes, field.name)) for field in fields(sealed.indexes)]
    shell.core.apply(SnapshotStored(effect.effect_id, 1, sealed, snapshot_bytes=100), shell.now)
    assert shell.core.stats().loaded_count == 1
    del effect, sealed
    assert [column() for column in columns] == [None, None, None]


def test_a_bucket_drained_while_it_is_stored_is_deleted_afterwards():
    """The order is always: new object, commit, switch, delete the old."""
    shell = Shell.with_limits(STRICT)
    shell.add((START_MS + 5, 1, 0))
    shell.core.seal_mutable_bucket(shell.now)
    shell.now_ms += 5
    shell.pop()
    assert shell.asked(DeleteSnapshots) == []
    bucket_id = shell.store()
    (effect,) = shell.asked(DeleteSnapshots)
    assert effect.bucket_ids == (bucket_id,)
    shell.core.check()


def test_a_closed_tracker_refuses_and_keeps_its_snapshots():
    """Close ends leases and seals nothing: a replay covers the mutable bucket."""
    shell = Shell.with_limits(STRICT)
    shell.add((START_MS + 5, 1, 0), (LATER_MS, 1, 1))
    shell.now_ms += 5
    shell.pop(lease_ms=100)
    shell.core.close(shell.now)
    shell.core.close(shell.now)
    assert shell.core.stats().leased_count == 0
    assert shell.core.take_effects() == []
    with pytest.raises(TrackerClosed):
        shell.add((LATER_MS, 2, 0))
    with pytest.raises(TrackerClosed):
        shell.pop()


def test_a_deleted_tracker_refuses_adds():
    """The positions of a deleted tracker are dropped, and the deletion of its snapshots is requested."""
    shell = Shell.with_limits(STRICT)
    shell.add((LATER_MS, 1, 0))
    shell.core.seal_mutable_bucket(shell.now)
    bucket_id = shell.store()
    assert shell.core.delete(shell.now) == 1
    (effect,) = shell.asked(DeleteSnapshots)
    assert effect.bucket_ids == (bucket_id,)
    with pytest.raises(TrackerClosed):
        shell.add((LATER_MS, 1, 0))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("min_index_count_per_bucket", 0),
        ("mutable_indexes_max", 0),
        ("max_step_per_segment_ms", 0),
        ("max_indexes_per_segment", 0),
        ("max_indexes_per_segment", -2),
        ("tick_ms", -1),
        ("max_delay_ms", -1),
        ("retry_backoff_ms", 0),
    ],
)
def test_limits_no_tracker_can_work_with_are_refused(setting, value):
    """Invalid limits are refused with their name and value."""
    with pytest.raises(InvalidInput) as error:
        TrackerLimits(**{setting: value})
    assert (error.value.field, error.value.value) == (setting, value)


rows = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 4), st.integers(0, 5)),
    unique_by=lambda row: row[1:],
    max_size=30,
)
tiny_limits = st.builds(
    TrackerLimits,
    strict=st.just(True),
    min_index_count_per_bucket=st.integers(1, 5),
    mutable_indexes_max=st.integers(1, 8),
    late_indexes_max=st.integers(1, 4),
    max_delay_ms=st.sampled_from([0, 30]),
)


@given(tiny_limits, rows, st.lists(st.integers(0, 30), max_size=5).map(sorted))
def test_batches_split_differently_give_the_same_state(limits, offered, cuts):
    """Batches without repeats give the same answers, buckets and sealed rows, however they are divided."""
    shifted = [(START_MS + delay, ledger, entry) for delay, ledger, entry in offered]
    whole, split = Shell.with_limits(limits), Shell.with_limits(limits)
    expected = whole.add(*shifted)
    edges = [0, *cuts, len(shifted)]
    outcomes = [(start, split.add(*shifted[start:end])) for start, end in itertools.pairwise(edges)]
    for kind in ("due", "duplicate", "beyond_max_delay", "below_mark_delete"):
        got = sorted({start + offset for start, outcome in outcomes for offset in getattr(outcome, kind).tolist()})
        assert got == getattr(expected, kind).tolist()
    assert split.core.buckets() == whole.core.buckets()
    stores = [
        [(effect.frozen.first, effect.frozen.last, list(effect.frozen.live.to_columns())) for effect in effects]
        for effects in (split.asked(StoreSnapshot), whole.asked(StoreSnapshot))
    ]
    assert stores[0] == stores[1]
    split.core.check()
    assert split.drain() == whole.drain()
