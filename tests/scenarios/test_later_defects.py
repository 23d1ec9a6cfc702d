"""Defects of Pulsar's trackers that were reported after the list of rows was made; each docstring has their number."""

import itertools

import numpy as np
import pytest

from delayed_tracker.core.engine.effects import DeleteSnapshots, LoadSegments, MergeSnapshots
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, Position, PositionColumns, index_columns
from delayed_tracker.core.values.verb_results import BucketState
from tests.scenarios.desk import DELETE, LOAD, MERGE, Desk

FAR = 3_600_000


def assert_each_in_time(desk: Desk, positions: list[tuple[int, int]]) -> None:
    """Hand out all that is left: these positions, each at its deadline and once."""
    for deadline_ms in sorted({desk.unacked[Position(*position)] for position in positions}):
        desk.sleep(deadline_ms - 1 - desk.now_ms)
        assert desk.due() == []
        desk.sleep(1)
        assert desk.due() == sorted(each for each in positions if desk.unacked[Position(*each)] == deadline_ms)
    desk.sleep(1_000)  # bits are cleared up to a second after their use
    assert (desk.count, desk.next_wakeup_ms()) == (0, None)


def test_a_cursor_inside_a_bucket_of_several_ledgers_costs_a_restart_nothing() -> None:
    """A bucket of ledgers 1 to 3 is kept when ledger 1 is trimmed, and all above comes (apache/pulsar #26240)."""
    desk = Desk(seal_at=9, seg=2)
    desk.add([(ledger, entry, 1_000 + 100 * entry + ledger) for ledger in (1, 2, 3) for entry in range(3)])
    desk.A(4, 0, 2_000)
    stored = list(desk.catalogue)
    assert len(stored) == 1
    assert desk.mark_delete(2, 0) == 4
    desk.restart()
    above = [(2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
    assert desk.tracked((1, 2), (2, 0), *above) == [False, False, *[True] * 5]
    assert (desk.catalogue, list(desk.snapshots)) == (stored, stored)
    assert not any(isinstance(effect, DeleteSnapshots) for effect in desk.performed)
    assert desk.rescan() == []
    assert_each_in_time(desk, [*above, (4, 0)])
    assert (desk.catalogue, desk.snapshots) == ([], {})


@pytest.mark.parametrize("held", [set(), {LOAD}], ids=["loaded", "being loaded"])
def test_a_cursor_past_all_that_is_loaded_leaves_the_next_segment_its_wakeup(held: set[type]) -> None:
    """The segment behind the trimmed one is loaded and handed out by wake-ups alone (apache/pulsar #26280)."""
    desk = Desk(seal_at=4, seg=2, load_indexes_max=2, max_step_per_segment_ms=1_000)
    desk.add([(1, 0, 1_000), (1, 1, 1_000), (3, 0, 50_000), (3, 1, 50_001)])
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    desk.held |= held
    desk.sleep(1_000)
    assert desk.mark_delete(2, 5) == 2
    desk.release(*held)
    assert [(effect.first, effect.last) for effect in desk.performed if isinstance(effect, LoadSegments)] == [(0, 0)]
    assert desk.core.stats().loaded_count == 0
    assert desk.next_timer_ms() == desk.next_wakeup_ms() == desk.unacked[Position(3, 0)]
    assert desk.drain() == [(3, 0), (3, 1)]
    assert desk.now_ms == desk.unacked[Position(3, 1)]


@pytest.mark.parametrize("restarted", [False, True], ids=["goes on", "restarted"])
def test_sources_that_cannot_be_deleted_after_a_merge_count_no_more(restarted: bool) -> None:
    """A merge counts once, each position comes once, and a retry deletes the sources (apache/pulsar #26239)."""
    desk = Desk(seal_at=3, seg=2, max_num_buckets=1)
    desk.failing.add(DELETE)
    desk.add([(ledger, entry, 1_000 * ledger + entry) for ledger in (1, 2, 3) for entry in range(3)])
    (merged,) = desk.catalogue
    assert (desk.core.stats().merge_count, desk.count, len(desk.snapshots)) == (1, 9, 3)
    desk.sleep(1_002)
    assert desk.due() == [(1, 0), (1, 1), (1, 2)]
    desk.mark_delete(1, 2)
    if restarted:
        desk.restart()
        assert (desk.core.stats().merge_count, desk.count) == (0, 3)
        assert desk.rescan() == []
    else:
        desk.failing.clear()
        desk.sleep(desk.limits.retry_backoff_ms)
        assert list(desk.snapshots) == desk.catalogue == [merged]
        assert desk.core.stats().merge_count == 1
    desk.failing.clear()
    assert_each_in_time(desk, sorted(desk.unacked))


@pytest.mark.parametrize("excess", [1, 4])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_any_number_of_buckets_comes_back_to_a_small_limit(limit: int, excess: int) -> None:
    """With one bucket or four too many, merges succeed until the limit is reached (apache/pulsar #26241)."""
    desk = Desk(seal_at=2, seg=2)
    for ledger_id in range(1, limit + excess + 1):
        desk.add([(ledger_id, entry_id, FAR + 10 * ledger_id + entry_id) for entry_id in range(3)])
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    assert len(desk.catalogue) == limit + excess
    desk.restart(max_num_buckets=limit)
    stats = desk.core.stats()
    assert len(desk.catalogue) == len(desk.snapshots) == limit
    assert (stats.effects_failed_count, desk.count) == (0, 3 * (limit + excess))
    assert stats.merge_count == sum(isinstance(effect, MergeSnapshots) for effect in desk.performed)
    assert_each_in_time(desk, sorted(desk.unacked))


@pytest.mark.parametrize("loaded_first", [True, False])
def test_a_merge_of_a_bucket_with_one_segment_left_to_load_and_one_with_none(loaded_first: bool) -> None:
    """Each position of both comes once and in time (apache/pulsar #26242)."""
    desk = Desk(seal_at=2, seg=2, max_num_buckets=1, prefetch_window_ms=5_000, max_step_per_segment_ms=1_000)
    desk.held.add(MERGE)
    buckets = [[1_000, 1_001], [1_000, 1_001, 50_000, 50_001]]
    for ledger_id, deadlines in enumerate(buckets if loaded_first else buckets[::-1], 1):
        desk.add([(ledger_id, entry_id, in_ms) for entry_id, in_ms in enumerate(deadlines)])
    desk.A(3, 0, FAR)
    assert [type(effect) for effect in desk.waiting] == [MERGE]
    (unloaded,) = desk.core.unloaded()
    assert len(unloaded.bounds) == 1
    desk.release(MERGE)
    assert (desk.core.stats().merge_count, len(desk.catalogue)) == (1, 1)
    assert_each_in_time(desk, sorted(desk.unacked))


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "in memory"])
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "not strict"])
def test_a_hundred_thousand_positions_with_one_deadline(strict: bool, sealed: bool) -> None:
    """Polls, acks and replays in turn get each position once and in order (apache/pulsar #25681)."""
    count, batch = 100_000, 1_000
    desk = Desk(seal_at=count, tick_ms=1_000, strict=strict)
    deadline_ms = desk.now_ms + 60_000
    rows = index_columns(np.full(count, deadline_ms), np.full(count, 1), np.arange(count))
    assert desk.offer(rows).added_count == count
    if sealed:
        assert desk.core.seal_mutable_bucket(desk.now) == count
        desk.perform()
    desk.sleep(desk.limits.due_from_ms(deadline_ms) - desk.now_ms)
    for first in range(0, count, 2 * batch):
        delivery = desk.core.pop_due(batch, desk.now, lease_ms=60_000)
        leased, replayed = rows.take(slice(first, first + batch)), rows.take(slice(first + batch, first + 2 * batch))
        assert list(delivery.indexes) == list(leased)
        assert desk.core.next_delivery_ms() == desk.limits.due_from_ms(deadline_ms)
        again = desk.offer(leased)
        assert (again.added_count, len(again.due)) == (0, 0)
        assert desk.core.ack(delivery.lease_id, leased.positions, desk.now).changed_count == batch
        desk.perform()
        assert desk.core.next_delivery_ms() == desk.limits.due_from_ms(deadline_ms)
        assert desk.offer(replayed).due.tolist() == list(range(batch))
        assert desk.count == count - first - 2 * batch
        assert (desk.core.next_delivery_ms() is None) == (desk.count == 0)
    assert (desk.due(), desk.catalogue, desk.next_wakeup_ms()) == ([], [], None)


EDGES = [65_534, 65_535, 65_536, 65_537, 131_071, ENTRY_ID_MAX]
"""Entries on both sides of the ends of a bitmap's containers, and the highest."""


@pytest.mark.parametrize("batch", [True, False], ids=["batch", "single rows"])
def test_entries_at_the_ends_of_containers_stay_what_they_are(batch: bool) -> None:
    """Seal, merge, restart, every question and a lease leave out none and invent none (apache/pulsar #20176)."""
    desk = Desk(seal_at=len(EDGES), seg=2, max_num_buckets=1)
    rows = [(ledger, entry, 1_000) for ledger in (1, 2) for entry in EDGES]
    for part in [rows] if batch else [[row] for row in rows]:
        assert desk.add(part).added_count == len(part)
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    assert desk.core.stats().merge_count == 1
    desk.restart()
    beside = [65_533, 65_538, 131_070, 131_072, ENTRY_ID_MAX - 1, 0]
    for ledger in (1, 2):
        assert desk.tracked(*((ledger, entry) for entry in [*EDGES, *beside])) == [True] * 6 + [False] * 6
        assert desk.core.filter_range(ledger, 65_533, 65_538) == [(65_533, 65_533), (65_538, 65_538)]
        assert desk.core.filter_range(ledger, 65_535, 65_536) == []
        assert desk.core.filter_range(ledger, 0, ENTRY_ID_MAX) == [
            (0, 65_533), (65_538, 131_070), (131_072, ENTRY_ID_MAX - 1)
        ]  # fmt: skip
    desk.sleep(1_000)
    delivery = desk.core.pop_due(100, desk.now, lease_ms=60_000)
    assert list(delivery.indexes.positions) == [row[:2] for row in rows]
    assert all(desk.tracked(*(row[:2] for row in rows)))
    outcome = desk.core.ack(delivery.lease_id, delivery.indexes.positions, desk.now)
    desk.perform()
    assert (outcome.changed_count, desk.count, desk.catalogue) == (len(rows), 0, [])
    assert desk.core.filter_range(1, 0, ENTRY_ID_MAX) == [(0, ENTRY_ID_MAX)]


@pytest.mark.parametrize("how", ["handed out", "cancelled"])
@pytest.mark.parametrize("drained", ["on time", "late"])
def test_of_two_buckets_that_overlap_one_may_drain(drained: str, how: str) -> None:
    """A bucket of late positions and one in whose range it lies keep their own members (apache/pulsar #19901)."""
    desk = Desk(seal_at=6, seg=2, late_indexes_max=3)
    near, far = 1_000, 50_000
    deadlines = {"on time": far, "late": far} | {drained: near}
    members = {
        "on time": [(ledger, entry) for ledger in (1, 2, 3) for entry in (0, 5)],
        "late": [(ledger, 3) for ledger in (1, 2, 3)],
    }
    desk.add([(*position, deadlines["on time"]) for position in members["on time"]])
    desk.A(4, 0, FAR)
    desk.add([(*position, deadlines["late"]) for position in members["late"]])
    first, second = (bucket for bucket in desk.core.buckets() if bucket.state is BucketState.SEALED)
    assert first.first < second.first < second.last < first.last
    gone = members.pop(drained)
    if how == "handed out":
        desk.sleep(near)
        assert desk.due() == sorted(gone)
    else:
        desk.core.cancel(PositionColumns.of(gone), desk.now)
        desk.perform()
    (kept,) = members.values()
    assert len(desk.catalogue) == len(desk.snapshots) == 1
    assert desk.tracked(*gone, *kept) == [False] * len(gone) + [True] * len(kept)
    assert_each_in_time(desk, [*kept, (4, 0)])


@pytest.mark.parametrize("reset", [False, True], ids=["clear", "reset"])
@pytest.mark.parametrize("order", list(itertools.permutations([LOAD, DELETE, MERGE])))
def test_results_that_end_after_a_clear_bring_nothing_back(order: tuple[type, ...], reset: bool) -> None:
    """A load, a deletion and a merge of before a clear end in any order, and new adds stay (apache/pulsar #26280)."""
    desk = Desk(seal_at=3, seg=2, max_num_buckets=2)
    desk.held |= set(order)
    old = [(ledger, entry, 1_000 + entry) for ledger in (1, 2, 3, 4) for entry in range(3)]
    desk.add(old[:6])
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    desk.mark_delete(1, 2)
    desk.add(old[6:])
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    desk.sleep(1_000)
    assert {type(effect) for effect in desk.waiting} == set(order)
    assert (desk.core.reset_cursor(Position(0, 0), desk.now) if reset else desk.core.clear(desk.now)) == 9
    desk.unacked.clear()
    desk.perform()
    desk.add([(4, entry, 20_000) for entry in range(3)])
    for kind in order:
        desk.release(kind)
        assert desk.tracked(*((ledger, entry) for ledger in (1, 2, 3) for entry in range(3))) == [False] * 9
    assert (desk.catalogue, desk.snapshots, desk.count) == ([], {}, 3)
    assert_each_in_time(desk, [(4, entry) for entry in range(3)])
