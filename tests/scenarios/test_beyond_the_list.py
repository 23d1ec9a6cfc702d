"""Cases that are not in the list but follow from the invariants: ends of ranges, and verbs during other operations."""

from dataclasses import replace

import numpy as np
import pytest

from delayed_tracker.core.engine.effects import MergeSnapshots
from delayed_tracker.core.values.columns import (
    ENTRY_ID_MAX,
    INT63_MAX,
    IndexColumns,
    Position,
    PositionColumns,
    index_columns,
)
from delayed_tracker.core.values.verb_results import Delivery
from tests.scenarios.desk import CREATE, DELETE, LOAD, MERGE, Desk

FAR = 3_600_000
CORNERS = [(0, 0), (0, ENTRY_ID_MAX), (INT63_MAX, 0), (INT63_MAX, ENTRY_ID_MAX)]


def everything(desk: Desk) -> PositionColumns:
    return PositionColumns.of(sorted(desk.unacked))


def leased(desk: Desk, count: int, *, lease_ms: int = 1_000) -> Delivery:
    """Return a lease of due positions."""
    delivery = desk.core.pop_due(count, desk.now, lease_ms=lease_ms)
    desk.perform()
    return delivery


@pytest.mark.parametrize("seal_at", [1, 50])
def test_minimum_and_maximum_values_survive_seal_recovery_and_trim(seal_at: int) -> None:
    """First and last ledger, entry and time can be sealed, recovered and trimmed, and are never due."""
    desk = Desk(seal_at=seal_at)
    desk.add([(*position, INT63_MAX - desk.now_ms) for position in CORNERS])
    desk.A(5, 5, 100)
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    desk.restart()
    assert all(desk.tracked(*CORNERS, (5, 5)))
    desk.sleep(100)
    assert desk.due() == [(5, 5)]
    assert desk.core.next_delivery_ms() == INT63_MAX
    assert [desk.mark_delete(*position) for position in CORNERS] == [1, 1, 1, 1]
    assert (desk.catalogue, desk.next_wakeup_ms()) == ([], None)


def test_deadlines_at_both_ends_with_the_longest_delay_allowed() -> None:
    """Deadline 0 is due, and a maximum delay beyond the end of time refuses nothing."""
    desk = Desk(max_delay_ms=INT63_MAX)
    outcome = desk.offer(IndexColumns.of([(0, 1, 0), (INT63_MAX, 1, 1)]))
    assert (outcome.due.tolist(), outcome.beyond_max_delay.tolist(), outcome.added_count) == ([0], [], 1)


def test_a_million_in_one_call_is_one_step() -> None:
    """A million positions in one call are tracked in one step, and sealed at the maximum within the ledger."""
    desk = Desk()
    count = 1_000_000
    deadlines = np.arange(desk.now_ms + FAR, desk.now_ms + FAR + count)
    outcome = desk.core.add(index_columns(deadlines, np.full(count, 7), np.arange(count)), desk.now)
    stats = desk.core.stats()
    assert (outcome.added_count, desk.count, stats.mutable_count) == (count, count, 0)
    assert len(desk.core.take_effects()) == 1


def test_a_position_a_thousand_times_in_one_batch_is_tracked_once_or_not_at_all() -> None:
    """In one batch the first of several repeats decides, due or not; later ones do not add the position again."""
    desk = Desk(seal_at=2)
    outcome = desk.add([(1, 1, 1_000 - number) for number in range(1_000)])
    assert (outcome.added_count, outcome.duplicate.tolist()) == (1, list(range(1, 1_000)))
    assert desk.core.next_delivery_ms() == desk.now_ms + 1_000
    outcome = desk.add([(1, 1, 0), *[(1, 1, FAR)] * 999])
    assert (outcome.added_count, len(outcome.due), len(outcome.duplicate)) == (0, 1_000, 0)
    assert desk.count == 0


def test_one_bucket_allowed_and_a_seal_at_every_ledger() -> None:
    """With segments of one index and a merge for each seal, everything comes once, also after a restart."""
    desk = Desk(seal_at=3, seg=1, max_num_buckets=1, max_step_per_segment_ms=1)
    for ledger_id in range(40):
        desk.add([(ledger_id, entry_id, 10_000 + 7 * ledger_id + entry_id) for entry_id in range(4)])
        assert len(desk.catalogue) <= 1
    desk.restart()
    assert desk.rescan() == []
    assert sorted(desk.drain()) == sorted(desk.unacked)


@pytest.mark.parametrize("how", ["cancel", "trim", "deliver", "refuse", "clear", "reset"])
def test_sources_that_drain_while_they_are_merged_leave_nothing(how: str) -> None:
    """If the sources of a merge drain during it, the merged snapshot and the sources are deleted."""
    desk = Desk(seal_at=3, seg=2, max_num_buckets=1)
    desk.held.add(MERGE)
    for ledger_id in range(3):
        desk.add([(ledger_id, entry_id, 1_000 + entry_id) for entry_id in range(4)])
    assert any(isinstance(effect, MergeSnapshots) for effect in desk.waiting)
    match how:
        case "cancel":
            desk.core.cancel(everything(desk), desk.now)
        case "trim":
            desk.mark_delete(50)
        case "deliver":
            desk.sleep(1_005)
            assert len(desk.due()) == len(desk.unacked)
        case "refuse":
            desk.now_ms += 5_000
            assert len(desk.rescan()) == len(desk.unacked)
        case "clear":
            desk.core.clear(desk.now)
        case "reset":
            desk.core.reset_cursor(Position(0, 0), desk.now)
    desk.perform()
    desk.release(MERGE)
    assert (desk.count, desk.catalogue, list(desk.snapshots)) == (0, [], [])
    assert desk.next_wakeup_ms() is None


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "failed"])
@pytest.mark.parametrize("how", ["cancel", "trim", "ack"])
def test_a_bucket_that_drains_while_it_is_sealed_leaves_nothing(how: str, stored: bool) -> None:
    """A bucket that drains while it is sealed leaves no bucket, no catalogue entry and no wake-up, stored or not."""
    desk = Desk(seal_at=3, seg=2)
    desk.held.add(CREATE)
    desk.add([(1, entry_id, 10) for entry_id in range(5)])
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    if how == "ack":
        desk.now_ms += 10
        delivery = leased(desk, 10)
        desk.core.ack(delivery.lease_id, delivery.indexes.positions, desk.now)
    elif how == "trim":
        desk.mark_delete(1, 100)
    else:
        desk.core.cancel(everything(desk), desk.now)
    if not stored:
        desk.failing.add(CREATE)
    desk.release(CREATE)
    desk.sleep(desk.limits.retry_backoff_ms)
    assert (desk.count, desk.core.buckets(), desk.catalogue, desk.next_wakeup_ms()) == (0, [], [], None)


def test_mark_delete_in_the_middle_of_a_lease_takes_the_lower_half() -> None:
    """The ack of a whole lease counts the positions still tracked, and returns the others."""
    desk = Desk()
    desk.add([(1, entry_id, 10) for entry_id in range(20)])
    desk.now_ms += 10
    delivery = leased(desk, 20)
    assert desk.mark_delete(1, 9) == 10
    outcome = desk.core.ack(delivery.lease_id, delivery.indexes.positions, desk.now)
    assert (outcome.changed_count, outcome.unknown.tolist(), outcome.stale.tolist()) == (10, list(range(10)), [])
    assert desk.core.stats().trimmed_count == 10


def test_an_ack_of_before_a_reset_touches_nothing_that_came_after_it() -> None:
    """After a reset an old lease is unknown, and after a replay and a new lease it is stale."""
    desk = Desk()
    desk.add([(1, entry_id, 10) for entry_id in range(20)])
    desk.now_ms += 10
    old = leased(desk, 20)
    desk.core.reset_cursor(Position(0, -1), desk.now)
    outcome = desk.core.ack(old.lease_id, old.indexes.positions, desk.now)
    assert (outcome.changed_count, len(outcome.unknown)) == (0, 20)
    desk.add([(1, entry_id, 10) for entry_id in range(20)])
    desk.now_ms += 10
    assert len(leased(desk, 20).indexes) == 20
    outcome = desk.core.ack(old.lease_id, old.indexes.positions, desk.now)
    assert (outcome.changed_count, len(outcome.stale)) == (0, 20)
    assert desk.count == 20


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "in memory"])
@pytest.mark.parametrize("delta_ms", [-5_000, 0, 500, INT63_MAX], ids=["past", "now", "later", "end of time"])
def test_a_nack_to_a_deadline_counts_once(delta_ms: int, sealed: bool) -> None:
    """A second nack of the same lease changes nothing, whatever its deadline."""
    desk = Desk()
    desk.add([(1, entry_id, 10) for entry_id in range(5)])
    if sealed:
        desk.core.seal_mutable_bucket(desk.now)
        desk.perform()
    desk.sleep(10)
    delivery = leased(desk, 3)
    positions, deadline_ms = delivery.indexes.positions, min(desk.now_ms + delta_ms, INT63_MAX)
    nack = desk.core.nack
    assert nack(delivery.lease_id, positions, desk.now, deliver_at_ms=deadline_ms).changed_count == 3
    again = nack(delivery.lease_id, positions, desk.now, deliver_at_ms=desk.now_ms)
    assert (again.changed_count, len(again.stale)) == (0, 3)
    desk.perform()
    assert len(desk.due()) == (5 if delta_ms <= 0 else 2)
    assert desk.core.next_delivery_ms() == (deadline_ms if delta_ms > 0 else None)


def test_an_extend_that_comes_too_late_extends_nothing() -> None:
    """At its expiry a lease has ended, whole or in part, and its positions are due for every poll."""
    desk = Desk()
    desk.add([(1, entry_id, 10) for entry_id in range(5)])
    desk.now_ms += 10
    delivery = leased(desk, 5, lease_ms=10)
    desk.now_ms += 10
    assert desk.core.extend(delivery.lease_id, None, desk.now, lease_ms=50).extended_count == 0
    named = desk.core.extend(delivery.lease_id, delivery.indexes.positions, desk.now, lease_ms=50)
    assert (named.extended_count, len(named.stale)) == (0, 5)
    assert len(desk.due()) == 5


@pytest.mark.parametrize(
    "by_ms", [-86_400_000, -3_600_000, 3_600_000], ids=["a day back", "an hour back", "an hour on"]
)
def test_a_clock_stepped_while_everything_fails(by_ms: int) -> None:
    """Leases and retries keep their duration, deadlines follow the clock, and nothing is lost or doubled."""
    desk = Desk(seal_at=5, seg=2, prefetch_window_ms=1_000, max_num_buckets=2)
    desk.failing = {CREATE, LOAD, MERGE, DELETE}
    for ledger_id in range(5):
        desk.add([(ledger_id, entry_id, 100 + 500 * entry_id) for entry_id in range(6)])
    desk.now_ms += 200
    leased(desk, 3)
    desk.step_wall(by_ms)
    desk.failing.clear()
    desk.sleep(999)
    assert desk.core.stats().leased_count == 3
    desk.sleep(2_000)
    stats = desk.core.stats()
    assert (stats.leased_count, stats.lease_expired_count, len(desk.catalogue)) == (0, 3, 2)
    assert sorted(desk.drain()) == sorted(desk.unacked)


@pytest.mark.parametrize("strict_first", [True, False])
def test_strict_and_not_across_a_restart(strict_first: bool) -> None:
    """Positions sealed under one cutoff and recovered under the other come once, on offer or when due."""
    desk = Desk(seal_at=3, seg=2, tick_ms=1_000, strict=strict_first)
    desk.add([(1, entry_id, 1_500 + 700 * entry_id) for entry_id in range(6)])
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    desk.now_ms += 1_000
    desk.limits = replace(desk.limits, strict=not strict_first)
    desk.restart()
    assert sorted(desk.rescan() + desk.drain()) == sorted(desk.unacked)


def test_a_load_of_before_a_reset_brings_nothing_back() -> None:
    """Rows of a load from before a reset do not replace the new deadlines of the same positions."""
    desk = Desk(seal_at=3, seg=2)
    desk.add([(1, entry_id, 100 + entry_id) for entry_id in range(6)])
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    desk.held = {LOAD, DELETE}
    desk.sleep(200)
    desk.core.reset_cursor(Position(1, 2), desk.now)
    desk.add([(1, entry_id, 50) for entry_id in range(6)])
    desk.release(LOAD, DELETE)
    assert (desk.count, desk.due()) == (3, [])
    desk.sleep(50)
    assert desk.due() == [(1, 3), (1, 4), (1, 5)]


def test_a_position_dated_anew_keeps_its_last_deadline_through_a_crash() -> None:
    """A position rescheduled into a later bucket keeps its last deadline through a crash."""
    desk = Desk(seal_at=3, late_indexes_max=1)
    desk.add([(1, entry_id, 5_000) for entry_id in range(3)])
    desk.core.seal_mutable_bucket(desk.now)
    desk.perform()
    desk.core.cancel(PositionColumns.of([(1, 1)]), desk.now)
    desk.A(1, 1, 50_000)
    assert len(desk.catalogue) == 2
    desk.restart()
    desk.sleep(6_000)
    assert desk.due() == [(1, 0), (1, 2)]
    assert desk.drain() == [(1, 1)]
