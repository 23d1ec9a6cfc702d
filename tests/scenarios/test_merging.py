"""Rows of Pulsar's defects about merging buckets, cancelling and moving the cursor. Test names contain the row."""

import math

import pytest

from delayed_tracker.core.engine.effect_results import MergeFailed
from delayed_tracker.core.engine.effects import DeleteSnapshots, LoadSegments, MergeSnapshots, StoreSnapshot
from delayed_tracker.core.rules.merge_plan import adjacent_with_fewest, merge_group_size
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from tests.scenarios.desk import LOAD, MERGE, Desk

FAR = 3_600_000


def seal_buckets(desk: Desk, sizes: list[int], in_ms: int = FAR) -> None:
    """Seal a bucket of each size, ledgers 1, 2, ..., and add one position to the mutable bucket."""
    for ledger_id, size in enumerate(sizes, 1):
        desk.add([(ledger_id, entry_id, in_ms + 1_000 * entry_id) for entry_id in range(size)])
    desk.A(len(sizes) + 1, 0, FAR)


def two_of_five(**limits: int) -> Desk:
    """Return a desk with two buckets, one too many, of five positions in three segments each."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=1, **limits)
    seal_buckets(desk, [5, 5])
    return desk


def everything(desk: Desk) -> list[Position]:
    return sorted(desk.unacked)


def test_row_01_a_merged_snapshot_holds_everything_its_sources_held() -> None:
    """After a merge of partly loaded buckets and a restart, all ten positions come out."""
    desk = two_of_five(prefetch_window_ms=FAR)
    assert len(desk.catalogue) == 1
    desk.restart()
    assert desk.count == 10
    assert sorted(desk.drain()) == everything(desk)[:10]


def test_row_02_a_position_is_delivered_once_after_a_merge() -> None:
    """Positions that were loaded before a merge are loaded again with the merged segments, and still come once."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=1, prefetch_window_ms=FAR)
    desk.held.add(MERGE)
    seal_buckets(desk, [5, 5], in_ms=1_000)
    assert desk.core.stats().loaded_count == 11
    desk.release(MERGE)
    assert sorted(desk.drain()) == everything(desk)
    assert desk.count == 0


def test_row_10_ranges_are_those_of_live_buckets() -> None:
    """400 seals and their merges leave no range behind."""
    desk = Desk(seal_at=1, max_num_buckets=5)
    for ledger_id in range(1, 402):
        desk.A(ledger_id, 0, FAR)
    assert len(desk.core._state.members.ranges) == len(desk.catalogue) == len(desk.snapshots) == 5
    assert desk.count == 401


@pytest.mark.long
def test_row_11_merging_is_amortised() -> None:
    """In 500 seals with ten buckets allowed, each index is rewritten a bounded number of times."""
    desk = Desk(seal_at=1, max_num_buckets=10)
    for ledger_id in range(1, 502):
        desk.A(ledger_id, 0, FAR)
    rewritten = desk.core.stats().merged_index_count
    assert rewritten <= 3 * 500 * math.log2(500)


def test_several_buckets_are_merged_at_once() -> None:
    """After a storage comes back, up to four buckets become one in one merge."""
    desk = Desk(seal_at=1, max_num_buckets=4)
    desk.held.add(StoreSnapshot)
    for ledger_id in range(1, 11):
        desk.A(ledger_id, 0, FAR)
    desk.held.add(MERGE)
    desk.release(StoreSnapshot)
    desk.release(MERGE)
    sizes = [len(effect.sources) for effect in desk.performed if isinstance(effect, MergeSnapshots)]
    assert max(sizes) == 4
    assert len(desk.catalogue) == 4


@pytest.mark.parametrize(
    ("remaining", "group_size", "start"),
    [
        ([5, 3, 2, 4, 3], 2, 1),
        ([5, 3, 2, 4, 3], 4, 1),
        ([1, 1, 1], 2, 0),
        ([9, 1, 9, 1, 1], 2, 3),
        ([3], 2, None),
    ],
)
def test_the_adjacent_buckets_with_the_fewest_indexes_are_merged(remaining, group_size, start) -> None:
    """The choice is right for the proposal's example, for ties, and for nothing to choose from."""
    assert adjacent_with_fewest(remaining, group_size) == start


@pytest.mark.parametrize(
    ("count", "limit", "size"), [(5, 4, 2), (6, 4, 3), (9, 4, 4), (4, 4, 1), (2, 1, 2), (9, -1, 0)]
)
def test_a_merge_takes_as_many_as_it_needs(count, limit, size) -> None:
    """A merge takes enough buckets to return to the limit, at most four; with -1 none."""
    assert merge_group_size(count, limit) == size


def test_row_15_a_failed_merge_keeps_its_sources() -> None:
    """After a failed merge and a restart without a replay, every source is there."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=1)
    desk.failing.add(MERGE)
    seal_buckets(desk, [5, 5])
    assert any(isinstance(effect, MergeSnapshots) for effect in desk.performed)
    assert len(desk.catalogue) == 2
    assert not any(isinstance(effect, DeleteSnapshots) for effect in desk.performed)
    desk.held.add(MERGE)
    desk.restart()
    assert desk.count == 10


def test_row_16_delivery_goes_on_during_a_merge() -> None:
    """While a merge is blocked, everything that becomes due is loaded and handed out."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=1)
    desk.held.add(MERGE)
    seal_buckets(desk, [5, 5], in_ms=1_000)
    desk.sleep(3_000)
    assert len(desk.due()) == 6
    desk.sleep(10_000)
    assert len(desk.due()) == 4
    desk.release(MERGE)
    assert (desk.catalogue, desk.snapshots) == ([], {})


def test_row_16_what_waits_for_a_load_when_a_merge_ends_is_loaded_from_the_merged_snapshot() -> None:
    """The switch drops a load in flight, and its segments come from the new snapshot without an outside event."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=1)
    desk.held |= {MERGE, LOAD}
    seal_buckets(desk, [5, 5], in_ms=1_000)
    desk.sleep(20_000)
    assert desk.due() == []
    desk.release(MERGE)
    desk.release(LOAD)
    assert len(desk.due()) == 10


def test_row_17_a_merge_that_ends_after_close_leaves_one_truth() -> None:
    """The store has either the sources or the replacement, never neither."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=1)
    desk.held.add(MERGE)
    seal_buckets(desk, [5, 5])
    desk.core.close(desk.now)
    desk.release(MERGE)
    desk.restart()
    assert desk.count == 10


def test_row_L4_a_failed_merge_is_tried_again() -> None:
    """After a failed merge loads continue, and the merge succeeds later by its own wake-up."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=1)
    desk.failing.add(MERGE)
    seal_buckets(desk, [5, 5])
    desk.failing.clear()
    desk.sleep(10)
    assert desk.core.stats().merge_count == 1
    assert len(desk.catalogue) == 1


def test_a_merge_that_fails_where_none_was_possible_before_is_tried_again_once() -> None:
    """A failed merge is retried once after its pause, and no wake-up is in the past.

    No group of five buckets fits an entry. Of six buckets one group fits, but that merge fails, and a sixth drains
    meanwhile.
    """
    desk = Desk(seal_at=2, max_num_buckets=1)
    desk.held.add(MERGE)

    def fail(**how: bool) -> None:
        (merge,) = (effect for effect in desk.waiting if isinstance(effect, MergeSnapshots))
        desk.waiting.remove(merge)
        desk.core.apply(MergeFailed(merge.effect_id, **how), desk.now)
        desk.perform()

    seal_buckets(desk, [2] * 5)
    while any(isinstance(effect, MergeSnapshots) for effect in desk.waiting):
        fail(too_large=True)
    desk.add([(6, 1, FAR), (7, 0, FAR)])
    (merge,) = (effect for effect in desk.waiting if isinstance(effect, MergeSnapshots))
    merging = {source.bucket_id for source in merge.sources}
    spared = next(view for view in desk.core.buckets() if view.bucket_id and view.bucket_id not in merging)
    desk.core.cancel(PositionColumns.of([(spared.first.ledger_id, entry_id) for entry_id in range(2)]), desk.now)
    desk.perform()
    fail()
    timer_ms = desk.next_timer_ms()
    assert timer_ms == desk.now_ms + desk.limits.retry_backoff_ms
    desk.now_ms = timer_ms
    desk.core.wake(desk.now)
    desk.perform()
    timer_ms = desk.next_timer_ms()
    assert timer_ms is None or timer_ms > desk.now_ms


def test_another_set_of_as_many_buckets_is_looked_at_again() -> None:
    """After one bucket drains and another is stored in the same step, the new neighbours are merged.

    No group of the three buckets before fits an entry.
    """
    desk = Desk(seal_at=2, max_num_buckets=1)
    desk.held.add(MERGE)
    seal_buckets(desk, [2] * 3, in_ms=1_000)
    while merges := [effect for effect in desk.waiting if isinstance(effect, MergeSnapshots)]:
        desk.waiting.remove(merges[0])
        desk.core.apply(MergeFailed(merges[0].effect_id, too_large=True), desk.now)
        desk.perform()
    desk.held.add(StoreSnapshot)
    desk.add([(4, 1, FAR), (5, 0, FAR)])
    desk.sleep(2_000)
    leases = {}
    for _ in range(6):
        delivery = desk.core.pop_due(1, desk.now, lease_ms=60_000)
        leases[next(iter(delivery.indexes.positions))] = delivery
    # Bits of whole leases are cleared when bits are read, as long as other positions are leased.
    for position in ((2, 0), (2, 1)):
        desk.core.ack(leases[position].lease_id, leases[position].indexes.positions, desk.now)
    assert not any(isinstance(effect, MergeSnapshots) for effect in desk.waiting)
    desk.release(StoreSnapshot)
    (merge,) = (effect for effect in desk.waiting if isinstance(effect, MergeSnapshots))
    assert merge.first.ledger_id in (1, 3)


def test_groups_that_were_too_large_are_forgotten_with_their_buckets() -> None:
    """A tracker that seals and drains for months remembers only merges that could be retried."""
    desk = Desk(seal_at=2, max_num_buckets=1)
    desk.held.add(MERGE)
    for round_number in range(5):
        first = 10 * round_number + 1
        desk.add([(ledger, entry, FAR) for ledger in range(first, first + 4) for entry in range(2)])
        while merges := [effect for effect in desk.waiting if isinstance(effect, MergeSnapshots)]:
            desk.waiting.remove(merges[0])
            desk.core.apply(MergeFailed(merges[0].effect_id, too_large=True), desk.now)
            desk.perform()
        known = {view.bucket_id for view in desk.core.buckets()}
        barred = desk.core._merger._too_large
        assert barred
        assert all(known.issuperset(group) for group in barred)
        drained = PositionColumns.of([(ledger, entry) for ledger in range(first, first + 3) for entry in range(2)])
        desk.core.cancel(drained, desk.now)
        desk.perform()


def test_a_merge_drops_what_was_acknowledged_meanwhile_from_what_is_tracked() -> None:
    """Positions handed out during a merge do not come back with it."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=1)
    desk.held.add(MERGE)
    seal_buckets(desk, [5, 5], in_ms=1_000)
    desk.sleep(1_000)
    gone = desk.due()
    assert len(gone) == 2
    desk.release(MERGE)
    assert sorted([*gone, *desk.drain()]) == everything(desk)


@pytest.mark.parametrize("loaded", [True, False])
def test_row_41_moving_the_cursor_invalidates_what_was_derived_from_it(loaded: bool) -> None:
    """After three seals and a reset during a merge, no bucket is left and each message is delivered once."""
    desk = Desk(seal_at=3, max_num_buckets=2)
    desk.held.add(MERGE)
    seal_buckets(desk, [3, 3, 3])
    if not loaded:
        desk.restart()
    assert desk.core.reset_cursor(Position(-1, -1), desk.now) in (9, 10)
    desk.release(MERGE)
    desk.perform()
    assert (desk.catalogue, desk.snapshots) == ([], {})
    assert desk.count == 0
    assert desk.rescan() == []
    assert sorted(desk.drain()) == everything(desk)


def test_row_41_a_reset_may_move_back() -> None:
    """After a reset to an earlier position, positions below the old mark-delete position are tracked again."""
    desk = Desk()
    desk.mark_delete(5, 9)
    assert desk.A(5, 3, FAR).below_mark_delete.tolist() == [0]
    desk.core.reset_cursor(Position(5, 2), desk.now)
    assert desk.core.mark_delete == Position(5, 2)
    assert desk.A(5, 3, FAR).added_count == 1


def test_a_cancelled_position_added_anew_comes_at_its_new_deadline_only() -> None:
    """The copy at the old deadline does not come back from memory, from a snapshot, or from a merged one."""
    for sealed in (False, True):
        desk = Desk(seal_at=2 if sealed else 100, max_num_buckets=1)
        seal_buckets(desk, [2, 2], in_ms=1_000)
        desk.core.cancel(IndexColumns.of([(0, 1, 0)]).positions, desk.now)
        desk.perform()
        desk.A(1, 0, 50_000)
        desk.sleep(10_000)
        assert Position(1, 0) not in desk.due()
        desk.sleep(40_000)
        assert desk.due() == [Position(1, 0)]


def test_a_merge_does_not_revive_a_removed_copy() -> None:
    """A position that was sent, added again and sealed elsewhere keeps its new deadline when both buckets merge."""
    desk = Desk(seal_at=5, seg=2, max_num_buckets=2, late_indexes_max=1, prefetch_window_ms=FAR)
    desk.held.add(MERGE)
    seal_buckets(desk, [5, 5], in_ms=1_000)
    desk.offer(IndexColumns.of([(0, 1, 3)]))
    desk.A(1, 3, 50_000)
    desk.release(MERGE)
    assert desk.core.stats().merge_count == 1
    desk.sleep(40_000)
    assert Position(1, 3) not in desk.due()
    desk.sleep(10_000)
    assert desk.due() == [Position(1, 3)]


def test_merges_load_nothing_into_the_heap() -> None:
    """A merge of far deadlines reads in the shell only: the tracker's memory does not grow."""
    desk = two_of_five()
    assert desk.core.stats().loaded_count == 1
    assert not any(isinstance(effect, LoadSegments) for effect in desk.performed)
