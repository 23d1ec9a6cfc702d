"""Reschedule: guarantees for a dispatcher that gives tracked positions another deadline, one sentence for each test."""

import tracemalloc
from dataclasses import replace

import pytest

from delayed_tracker.core.engine.effects import LoadSegments, StoreSnapshot
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.errors import TrackerClosed
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.core.values.verb_results import MessagePlace, RescheduleOutcome
from tests.core.harness.shell import DUE_MS, LATER_MS, START_MS, STRICT, Row, Shell, due_shell, positions

NEAR = replace(STRICT, prefetch_window_ms=1_000, retry_backoff_ms=10)
PLACES = ("memory", "late", "sealing", "failed store", "loaded segment", "unloaded segment", "loading segment")
KINDS = (
    (TrackerKind.BUCKET, "memory"),
    (TrackerKind.BUCKET, "unloaded segment"),
    (TrackerKind.IN_MEMORY, "memory"),
)


def rescheduled(shell: Shell, *rows: Row) -> RescheduleOutcome:
    outcome = shell.core.reschedule(IndexColumns.of(rows), shell.now)
    shell.core.check()
    return outcome


def shell_with(place: str, limits: TrackerLimits = NEAR) -> Shell:
    """Return a shell whose positions (1, 0) to (1, 3) are all in one place, and due at LATER_MS or soon."""
    shell = Shell.with_limits(limits)
    if place == "late":
        shell.add((LATER_MS, 2, 0))
        shell.core.seal_mutable_bucket(shell.now)
        shell.store()
        shell.core.cancel(positions((2, 0)), shell.now)
        shell.add((LATER_MS, 2, 1))
        shell.core.seal_mutable_bucket(shell.now)
        shell.store()
    near = DUE_MS if place == "loaded segment" else LATER_MS
    shell.add(*((near, 1, entry) for entry in range(4)))
    if place not in {"memory", "late"}:
        shell.core.seal_mutable_bucket(shell.now)
        if place == "failed store":
            shell.fail_store()
        elif place != "sealing":
            shell.store()
    if place == "loading segment":
        shell.pass_time(LATER_MS - 500 - shell.now_ms)
        assert shell.asked(LoadSegments)
    return shell


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("by_ms", [-300, 0, 5_000])
def test_a_position_comes_out_once_under_its_new_deadline(place, by_ms):
    """Wherever the copies are, and whatever is in flight, the old deadline never comes out and the others stay."""
    shell = shell_with(place)
    expected_place = {"late": "memory", "sealing": "memory", "failed store": "memory"}.get(place, place)
    before = shell.core.explain(Position(1, 1), shell.now)
    assert before.place is MessagePlace(expected_place)
    old_ms = DUE_MS if place == "loaded segment" else LATER_MS
    new_ms = max(old_ms + by_ms, shell.now_ms + 50)
    assert rescheduled(shell, (new_ms, 1, 1), (new_ms, 1, 2)).rescheduled_count == 2
    assert shell.core.explain(Position(1, 1), shell.now).deliver_at_ms == new_ms
    expected = [(old_ms, 1, 0), (new_ms, 1, 1), (new_ms, 1, 2), (old_ms, 1, 3)]
    others = [(LATER_MS, 2, 1)] if place == "late" else []
    assert shell.drain() == sorted([*expected, *others])
    shell.perform_all()
    assert not shell.snapshots, "the snapshots are drained"


@pytest.mark.parametrize("place", PLACES)
def test_a_snapshot_stored_after_it_has_the_new_deadline_alone(place):
    """The bucket that a position moved to is sealed and stored as any other."""
    shell = shell_with(place)
    rescheduled(shell, (LATER_MS + 7_000, 1, 1))
    shell.core.seal_open_buckets(shell.now)
    shell.pass_time(10)
    stored_before = set(shell.snapshots)
    frozen_before = place == "sealing"
    while shell.asked(StoreSnapshot):
        shell.store()
    stored = [row for bucket_id in shell.snapshots.keys() - stored_before for row in shell.snapshots[bucket_id].indexes]
    old = [(LATER_MS, 1, 1)] if frozen_before else []
    assert [row for row in stored if row[1:] == (1, 1)] == [*old, (LATER_MS + 7_000, 1, 1)]
    assert shell.drain()[-1] == (LATER_MS + 7_000, 1, 1)


def test_each_row_has_one_outcome():
    """Leased, untracked, repeated and too distant rows are unchanged, and named by ascending offsets."""
    shell = due_shell(2, replace(STRICT, max_delay_ms=100_000))
    shell.add((LATER_MS, 1, 5), (LATER_MS, 1, 6), (LATER_MS, 1, 7))
    shell.pop(1, lease_ms=50)
    far_ms = shell.now_ms + 100_001
    outcome = rescheduled(
        shell,
        (LATER_MS, 9, 9),
        (LATER_MS, 1, 0),
        (far_ms - 1, 1, 5),
        (far_ms, 1, 6),
        (far_ms - 2, 1, 5),
        (shell.now_ms, 1, 7),
        (LATER_MS, 9, 9),
        (LATER_MS, 1, 6),
        (LATER_MS, 8, 8),
    )
    assert outcome.rescheduled_count == 2
    assert outcome.due.tolist() == [5]
    assert outcome.duplicate.tolist() == [4, 6, 7]
    assert outcome.leased.tolist() == [1]
    assert outcome.unknown.tolist() == [0, 8]
    assert outcome.beyond_max_delay.tolist() == [3]
    shell.pass_time(50)
    assert shell.pop_rows() == [(DUE_MS, 1, 0), (DUE_MS, 1, 1), (DUE_MS, 1, 7)]
    assert shell.drain() == [(LATER_MS, 1, 6), (LATER_MS, 2, 0), (far_ms - 1, 1, 5)]


@pytest.mark.parametrize(("kind", "place"), KINDS)
def test_what_becomes_due_is_polled_at_once(kind, place):
    """A new deadline that is due needs no wake-up and no replay: the position stays tracked until a poll takes it."""
    shell = shell_with(place, replace(NEAR, kind=kind))
    outcome = rescheduled(shell, (shell.now_ms - 5, 1, 2), (shell.now_ms, 1, 3), (shell.now_ms + 1, 1, 1))
    assert (outcome.rescheduled_count, outcome.due.tolist()) == (3, [0, 1])
    assert shell.contains((1, 2), (1, 3)) == [True, True]
    next_ms = shell.core.next_delivery_ms()
    assert next_ms is not None
    assert next_ms <= shell.now_ms
    assert shell.pop_rows() == [(START_MS - 5, 1, 2), (START_MS, 1, 3)]
    assert shell.drain() == [(START_MS + 1, 1, 1), (LATER_MS, 1, 0)]


@pytest.mark.parametrize(("kind", "place"), KINDS)
def test_a_repetition_gives_the_same_result(kind, place):
    """A call whose answer was lost is repeated without harm: no second copy comes out."""
    shell = shell_with(place, replace(NEAR, kind=kind))
    rows = [(LATER_MS + 1, 1, 0), (shell.now_ms, 1, 1), (LATER_MS, 7, 7)]
    answers = [rescheduled(shell, *rows) for _ in range(3)]
    assert {answer.rescheduled_count for answer in answers} == {2}
    assert {tuple(answer.due.tolist()) for answer in answers} == {(1,)}
    assert {tuple(answer.unknown.tolist()) for answer in answers} == {(2,)}
    assert shell.drain() == [(START_MS, 1, 1), (LATER_MS, 1, 2), (LATER_MS, 1, 3), (LATER_MS + 1, 1, 0)]


def test_a_late_ack_does_not_acknowledge_it():
    """The lease that handed a position out ended before it got the new deadline: its ack is stale."""
    shell = due_shell(2)
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.pass_time(50)
    rescheduled(shell, (LATER_MS, 1, 0))
    outcome = shell.core.ack(lease_id, positions((1, 0), (1, 1)), shell.now)
    assert (outcome.changed_count, outcome.stale.tolist()) == (1, [0])
    assert shell.drain() == [(LATER_MS, 1, 0), (LATER_MS, 2, 0)]


def test_an_unchanged_position_may_still_be_acknowledged_late():
    """A row that is refused because its deadline is too distant leaves everything as it was."""
    shell = due_shell(1, replace(STRICT, max_delay_ms=100_000))
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.pass_time(50)
    assert rescheduled(shell, (shell.now_ms + 100_001, 1, 0)).beyond_max_delay.tolist() == [0]
    assert shell.core.ack(lease_id, positions((1, 0)), shell.now).changed_count == 1


def test_it_counts_neither_as_added_nor_as_gone():
    """The equation of the counters holds, and new deadlines have a count of their own, those of nacks included."""
    shell = due_shell(2)
    before = shell.core.stats()
    rescheduled(shell, (LATER_MS, 1, 0), (LATER_MS + 1, 2, 0))
    delivery = shell.pop(lease_ms=50)
    shell.core.nack(delivery.lease_id, delivery.indexes.positions, shell.now, deliver_at_ms=LATER_MS)
    after = shell.core.stats()
    assert after.rescheduled_count == 3
    assert (after.added_count, after.pending_count) == (before.added_count, before.pending_count)


def test_a_lost_snapshot_does_not_take_along_what_has_left_it():
    """Positions with a new deadline no longer depend on the snapshot that had them."""
    shell = shell_with("loading segment")
    rescheduled(shell, (LATER_MS + 1, 1, 1))
    shell.fail_load(lost=True)
    assert shell.core.stats().dropped_as_corrupt_count == 3
    assert shell.drain() == [(LATER_MS + 1, 1, 1)]


def test_rescheduled_positions_leave_a_bounded_number_of_copies():
    """However often the deadlines of the same positions change, removed copies do not fill the memory."""
    shell = shell_with("memory")
    for number in range(5_000):
        shell.core.reschedule(IndexColumns.of([(LATER_MS + number, 1, 1)]), shell.now)
    assert shell.core.stats().loaded_count < 2_000
    shell.core.check()
    assert shell.drain()[-1] == (LATER_MS + 4_999, 1, 1)


def test_a_closed_tracker_refuses_it():
    """A tracker that was closed changes nothing."""
    shell = due_shell()
    shell.core.close(shell.now)
    with pytest.raises(TrackerClosed):
        rescheduled(shell, (LATER_MS, 1, 0))


def test_a_reschedule_after_many_looks_at_its_own_positions_alone():
    """Nothing is built from all positions that were rescheduled before."""
    shell = Shell.with_limits(STRICT)
    shell.add(*((LATER_MS + entry, 1, entry) for entry in range(10_000)))
    for first in range(0, 9_000, 1_000):  # of more at once, the old copies would be dropped
        rescheduled(shell, *((LATER_MS + 30_000 + entry, 1, entry) for entry in range(first, first + 1_000)))
    for entry in (9_000, 9_001):  # the first sorts what was added before
        tracemalloc.start()
        shell.core.reschedule(IndexColumns.of([(LATER_MS + 30_000, 1, entry)]), shell.now)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 100_000
    shell.core.check()
