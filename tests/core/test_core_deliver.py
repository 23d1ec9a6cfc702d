"""Polls and their effects: guarantees for a dispatcher, one sentence for each test."""

import numpy as np
import pytest

from delayed_tracker.core.engine.effect_results import (
    DeleteFailed,
    SegmentLoadFailed,
    SegmentsLoaded,
    SnapshotFailed,
    SnapshotsDeleted,
)
from delayed_tracker.core.engine.effects import DeleteSnapshots, LoadSegments
from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import DUE_MS, LATER_MS, START_MS, STRICT, Shell, due_shell

# -- polls


@pytest.mark.parametrize(("limits", "first_ms"), [(STRICT, DUE_MS), (TrackerLimits(tick_ms=40), DUE_MS - 40)])
def test_handed_out_at_the_cutoff_and_not_a_millisecond_before(limits, first_ms):
    """Strict delivery is at the deadline, otherwise one tick before; the next delivery is exact."""
    shell = due_shell(1, limits)
    assert shell.core.next_delivery_ms() == first_ms
    shell.now_ms = first_ms - 1
    assert shell.pop_rows() == []
    shell.now_ms = first_ms
    assert shell.pop_rows() == [(DUE_MS, 1, 0)]


def test_an_answer_is_ordered_by_deadline_then_position():
    """An answer is ordered across buckets and memory."""
    shell = Shell.with_limits(STRICT)
    rows = [(DUE_MS + 2, 1, 1), (DUE_MS, 3, 0), (DUE_MS, 1, 2), (DUE_MS + 2, 1, 0), (DUE_MS + 1, 2, 0)]
    for row in rows:
        shell.add(row)
        if row[0] == DUE_MS:
            shell.core.seal_mutable_bucket(shell.now)
            shell.perform_all()
    shell.now_ms = DUE_MS + 2
    assert shell.pop_rows() == sorted(rows)


def test_hand_off_forgets_at_once():
    """A lease of 0 ms is no lease: it has no id, clears the bits, and nothing returns."""
    shell = due_shell()
    delivery = shell.pop(lease_ms=0)
    assert (len(delivery.indexes), delivery.lease_id, delivery.expires_at_ms) == (3, 0, 0)
    assert shell.contains((1, 0), (1, 1), (1, 2), (2, 0)) == [False, False, False, True]
    stats = shell.core.stats()
    assert (stats.handed_off_count, stats.leased_count, stats.pending_count) == (3, 0, 1)


def test_a_poll_takes_no_more_than_asked_and_the_rest_stays_due():
    """No position is handed out twice."""
    shell = due_shell()
    assert shell.pop_rows(2, lease_ms=50) == [(DUE_MS, 1, 0), (DUE_MS, 1, 1)]
    assert shell.core.next_delivery_ms() == DUE_MS
    assert shell.pop_rows(2, lease_ms=50) == [(DUE_MS, 1, 2)]
    assert shell.pop_rows(2, lease_ms=50) == []
    assert shell.core.next_delivery_ms() == LATER_MS


def test_nothing_due_makes_no_lease():
    """An empty answer has lease id 0."""
    shell = Shell.with_limits(STRICT)
    assert shell.pop(lease_ms=50).lease_id == 0
    assert shell.next_wakeup_ms() is None


@pytest.mark.parametrize(("count", "lease_ms"), [(0, 10), (-1, 10), (1, -1), (1, INT63_MAX)])
def test_a_poll_out_of_range_takes_nothing(count, lease_ms):
    """An error changes nothing, and neither does an overflow of the expiry."""
    shell = due_shell()
    with pytest.raises(InvalidInput):
        shell.pop(count, lease_ms=lease_ms)
    assert len(shell.pop_rows()) == 3


def test_what_is_loaded_does_not_wait_for_what_is_loading():
    """A slow storage delays only its own segments."""
    limits = TrackerLimits(strict=True, max_indexes_per_segment=2, load_indexes_max=2, retry_backoff_ms=5)
    shell = due_shell(4, limits)
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    assert shell.asked(LoadSegments) != []
    assert shell.pop_rows() == [(DUE_MS, 1, 0), (DUE_MS, 1, 1)]
    assert shell.core.next_delivery_ms() == DUE_MS, "the rest is due, and announced"
    shell.load()
    assert shell.pop_rows() == [(DUE_MS, 1, 2), (DUE_MS, 1, 3)]


@pytest.mark.parametrize(("load_indexes_min", "last_segment"), [(1, 1), (2, 1), (3, 2), (5, 3), (100, 4)])
def test_a_load_takes_following_segments_along(load_indexes_min, last_segment):
    """A load includes following segments: thousands of small reads would cost more than their memory."""
    limits = TrackerLimits(
        strict=True,
        max_indexes_per_segment=2,
        prefetch_window_ms=0,
        load_indexes_min=load_indexes_min,
        load_indexes_max=8,
    )
    shell = Shell.with_limits(limits)
    shell.add(*[(DUE_MS + 10 * (entry // 2), 1, entry) for entry in range(12)])
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    assert shell.core.stats().loaded_count == 0
    shell.pass_time(DUE_MS - START_MS)
    (load,) = shell.asked(LoadSegments)
    assert (load.first, load.last + 1) == (0, last_segment)
    shell.core.check()


def test_a_failed_load_is_tried_again_and_delivers_once():
    """The load pointer moves only after a success."""
    limits = TrackerLimits(strict=True, prefetch_window_ms=10, retry_backoff_ms=5)
    shell = due_shell(2, limits)
    shell.now_ms = START_MS
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    assert shell.next_wakeup_ms() == DUE_MS - 10
    shell.pass_time(90)
    for _ in range(2):
        shell.fail_load()
        shell.core.check()
        shell.pass_time(5)
    shell.load()
    assert shell.pop_rows() == [(DUE_MS, 1, 0), (DUE_MS, 1, 1)]
    assert shell.core.stats().effects_failed_count == 2


def test_a_lost_snapshot_drops_its_positions_and_asks_for_a_replay():
    """Bits without a copy are dropped: they would suppress the replay. A new owner starts without the flag."""
    limits = TrackerLimits(strict=True, prefetch_window_ms=0, max_indexes_per_segment=2)
    shell = due_shell(2, limits)
    shell.now_ms = START_MS
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    shell.pass_time(100)
    shell.fail_load(lost=True)
    assert shell.core.replay_required
    assert shell.contains((1, 0), (1, 1), (2, 0)) == [False, False, False]
    assert shell.core.stats().dropped_as_corrupt_count == 3
    assert len(shell.asked(DeleteSnapshots)) == 1
    shell.core.begin_epoch(2, shell.now)
    assert not shell.core.replay_required


def test_loaded_rows_that_contradict_the_bounds_are_a_lost_snapshot():
    """Rows of another bucket must not be delivered under this bucket's bits."""
    limits = TrackerLimits(strict=True, prefetch_window_ms=0)
    shell = due_shell(2, limits)
    shell.now_ms = START_MS
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    shell.pass_time(100)
    effect = shell.next(LoadSegments)
    rows = shell.segments(effect)
    assert shell.core.apply(SegmentsLoaded(effect.effect_id, rows.take(slice(0, 1))), shell.now)
    assert shell.core.replay_required
    shell.core.check()


def test_rows_that_were_stored_in_another_order_are_delivered_in_time_order():
    """Rows inside a foreign segment need not be sorted."""
    shell = due_shell(3, TrackerLimits(strict=True, prefetch_window_ms=0))
    shell.now_ms = START_MS
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    shell.pass_time(100)
    effect = shell.next(LoadSegments)
    rows = shell.segments(effect)
    assert shell.core.apply(SegmentsLoaded(effect.effect_id, rows.take(np.array([3, 2, 0, 1]))), shell.now)
    assert shell.pop_rows() == [(DUE_MS, 1, 0), (DUE_MS, 1, 1), (DUE_MS, 1, 2)]
    shell.core.check()


def test_results_of_forgotten_effects_are_ignored():
    """Each result of a forgotten effect returns False and changes nothing."""
    shell = due_shell()
    rows = shell.pop(lease_ms=50).indexes
    assert not shell.core.apply(SnapshotFailed(99), shell.now)
    assert not shell.core.apply(SegmentsLoaded(99, rows), shell.now)
    assert not shell.core.apply(SegmentLoadFailed(99, lost=True), shell.now)
    assert not shell.core.apply(SnapshotsDeleted(99), shell.now)
    assert not shell.core.apply(DeleteFailed(99), shell.now)
    assert shell.core.stats().effects_failed_count == 0
    shell.core.check()


# -- memory


def test_positions_dated_anew_many_times_leave_a_bounded_number_of_copies():
    """Removed copies are swept: the copies left are about as many as the tracked positions."""
    shell = Shell.with_limits(STRICT)
    for round_ in range(100):
        rows = [(LATER_MS + round_, 1, entry) for entry in range(200)]
        shell.add(*rows)
        if round_ < 99:
            shell.add(*[(0, 1, entry) for entry in range(200)])
    shell.core.check()
    assert shell.core.stats().loaded_count <= 2 * 200 + 1_024
    assert shell.drain() == rows


def test_cancelled_positions_leave_a_bounded_number_of_copies():
    """Positions that are refused as due soon after leave no tracked position and few copies."""
    shell = Shell.with_limits(STRICT)
    for start in range(0, 20_000, 200):
        shell.add(*[(LATER_MS, 1, start + entry) for entry in range(200)])
        shell.add(*[(0, 1, start + entry) for entry in range(200)])
    shell.core.check()
    assert len(shell.core) == 0
    assert shell.core.stats().loaded_count <= 1_024
    memory = shell.core._state.mutable.memory
    assert memory is not None
    assert len(memory.removed or ()) <= 1_024
    assert shell.next_wakeup_ms() is None


def test_leases_that_run_out_again_and_again_leave_one_copy_of_each():
    """Returned rows are merged into runs whose number stays logarithmic."""
    shell = due_shell(300)
    for _ in range(50):
        while shell.pop_rows(7, lease_ms=10):
            pass
        shell.pass_time(10)
        shell.core.check()
    assert shell.core.stats().loaded_count == 301
    assert len(shell.core._state.heap) <= 10
    assert len(shell.pop_rows()) == 300


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_drained_trackers_hold_nothing(count):
    """A drained tracker has no copy, no lease, no bucket and no wake-up."""
    shell = due_shell(count, TrackerLimits(strict=True, min_index_count_per_bucket=3, max_indexes_per_segment=2))
    shell.core.seal_mutable_bucket(shell.now)
    assert len(shell.drain()) == count + 1
    shell.perform_all()
    stats = shell.core.stats()
    assert (stats.pending_count, stats.loaded_count, stats.bucket_count, stats.snapshot_bytes) == (0, 0, 0, 0)
    assert stats.membership_bytes == 0
    assert shell.next_wakeup_ms() is None
    assert not shell.snapshots


def test_adds_and_polls_in_turn_leave_few_runs():
    """A poll that reads the open run closes it; the rest must not stay a run of its own."""
    shell = Shell.with_limits(TrackerLimits(tick_ms=0))
    for number in range(500):
        shell.add((shell.now_ms + 1, 1, 2 * number), (10**9 + number, 1, 2 * number + 1))
        shell.pass_time(1)
        assert len(shell.pop_rows()) == 1
    assert len(shell.core._state.heap) <= 12
    shell.core.check()


def test_clear_leaves_nothing_to_replay():
    """A clear also covers the positions that were lost before it."""
    shell = Shell.with_limits(TrackerLimits(min_index_count_per_bucket=1, tick_ms=0, prefetch_window_ms=0))
    shell.add((50_000, 1, 0))
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    shell.pass_time(50_000)
    shell.fail_load(lost=True)
    assert shell.core.replay_required
    shell.core.clear(shell.now)
    assert not shell.core.replay_required


def test_what_is_in_memory_anyway_does_not_use_up_the_budget_for_loading():
    """Rows of the mutable bucket do not use the budget: due segments would be loaded one by one, each after a poll."""
    limits = TrackerLimits(
        tick_ms=0,
        min_index_count_per_bucket=1,
        max_indexes_per_segment=2,
        loaded_indexes_max=20,
        loads_in_flight_max=6,
        prefetch_window_ms=0,
    )
    shell = Shell.with_limits(limits)
    for ledger in range(6):
        shell.add(*[(50_000, ledger, entry) for entry in range(2)])
    shell.core.seal_mutable_bucket(shell.now)
    shell.perform_all()
    shell.add(*[(10**9, 9, entry) for entry in range(30)])
    shell.pass_time(50_000)
    assert len(shell.asked(LoadSegments)) == 6
    shell.perform_all()
    assert len(shell.pop_rows()) == 12
    shell.core.check()


def test_loads_under_way_count_against_the_budget_too():
    """Memory depends on the polls and not on the number of buckets, even if all rows become due at once."""
    limits = TrackerLimits(tick_ms=0, min_index_count_per_bucket=1, loaded_indexes_max=20, prefetch_window_ms=0)
    shell = Shell.with_limits(limits)
    for ledger in range(12):
        shell.add(*[(50_000, ledger, entry) for entry in range(10)])
    shell.core.seal_mutable_bucket(shell.now)
    shell.perform_all()
    shell.pass_time(50_000)
    assert len(shell.asked(LoadSegments)) == 2
    taken = 0
    while taken < 120:
        shell.perform_all()
        assert shell.core.stats().loaded_count <= 30
        taken += len(shell.pop_rows(10))
    assert len(shell.core) == 0
