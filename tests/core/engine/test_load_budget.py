"""Limit of the rows that several trackers load together: which tracker reads, which waits, and in which order."""

from dataclasses import replace

import pytest

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effect_results import SegmentsLoaded, SnapshotStored
from delayed_tracker.core.engine.effects import LoadSegments, StoreSnapshot
from delayed_tracker.core.engine.load_budget import LoadBudget
from delayed_tracker.core.rules.seal import seal
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerLimits

LIMITS = TrackerLimits(
    tick_ms=0,
    strict=True,
    min_index_count_per_bucket=1,
    max_indexes_per_segment=5,
    prefetch_window_ms=1_000,
    load_indexes_max=20,
)


def at(now_ms: int) -> Instant:
    """Return an instant at which both clocks show the same."""
    return Instant(now_ms, now_ms)


class Stored:
    """A tracker with one stored bucket, whose loads the test answers."""

    def __init__(self, budget: LoadBudget, *, first_ms: int, count: int = 20, ledger_id: int = 1) -> None:
        self.core = TrackerCore(replace(LIMITS, loaded_indexes_max=budget.rows_max))
        self.core.load_within(budget.share(), at(0))
        rows = [(first_ms + entry_id, ledger_id, entry_id) for entry_id in range(count)]
        self.core.add(IndexColumns.of(rows), at(0))
        self.core.seal_mutable_bucket(at(0))
        (store,) = self.core.take_effects()
        assert isinstance(store, StoreSnapshot)
        self.sealed = seal(store.frozen)
        self.core.apply(SnapshotStored(store.effect_id, 7, self.sealed, snapshot_bytes=1), at(0))
        self.asked: list[LoadSegments] = []

    def wake(self, now_ms: int) -> None:
        self.core.wake(at(now_ms))
        self.take()

    def take(self) -> None:
        self.asked += [effect for effect in self.core.take_effects() if isinstance(effect, LoadSegments)]

    def load(self, now_ms: int) -> None:
        """Answer the requested loads."""
        asked, self.asked = self.asked, []
        for load in asked:
            starts = self.sealed.bounds.starts
            rows = self.sealed.indexes.take(slice(int(starts[load.first]), int(starts[load.last + 1])))
            assert self.core.apply(SegmentsLoaded(load.effect_id, rows), at(now_ms))
        self.take()

    def pop(self, count: int, now_ms: int) -> int:
        taken = len(self.core.pop_due(count, at(now_ms), lease_ms=0).indexes)
        self.take()
        self.core.check()
        return taken

    @property
    def asked_count(self) -> int:
        return sum(self.sealed.bounds.count[load.first : load.last + 1].sum() for load in self.asked)


def test_one_tracker_reads_ahead_no_more_than_there_is_room_for():
    """A tracker reads whole segments, the last of which may exceed the maximum; requested rows count at once."""
    budget = LoadBudget(12)
    tracker = Stored(budget, first_ms=5_000)
    tracker.wake(4_500)
    assert (tracker.asked_count, budget.held_count) == (10, 10)
    tracker.load(4_500)
    assert (tracker.asked_count, budget.held_count) == (5, 15)
    tracker.load(4_500)
    assert (tracker.asked_count, budget.held_count) == (0, 15)
    assert budget.waiting_count == 1
    tracker.core.check()


def test_who_is_full_of_rows_keeps_nobody_from_what_is_due():
    """The other tracker reads one segment at a time, when it is due, and the next after that is handed out."""
    budget = LoadBudget(20)
    full, other = Stored(budget, first_ms=5_000), Stored(budget, first_ms=5_100)
    full.wake(4_500)
    other.wake(4_500)
    assert (full.asked_count, other.asked_count) == (20, 0)
    full.load(4_500)
    other.wake(5_200)
    assert other.asked_count == 5
    other.load(5_200)
    assert not other.asked
    assert budget.held_count == 25
    assert other.pop(100, 5_200) == 5
    other.core.wake(at(6_300))  # the rows that were taken are consumed
    other.take()
    assert other.asked_count == 5


def test_the_nearest_deadline_is_the_first_to_find_room():
    """Waiting trackers get room in the order of their deadlines, and none overtakes one with an earlier deadline."""
    budget = LoadBudget(20)
    full = Stored(budget, first_ms=5_000)
    full.wake(4_500)
    full.load(4_500)
    later, sooner = Stored(budget, first_ms=5_300), Stored(budget, first_ms=5_200)
    later.wake(4_600)
    sooner.wake(4_600)
    assert budget.waiting_count == 2
    assert full.pop(20, 5_019) == 20
    full.core.wake(at(6_100))
    assert budget.held_count == 0
    assert budget.has_room_for_waiting
    later.wake(5_020)
    assert not later.asked, "it overtook who waits for an earlier deadline"
    assert budget.pop_waiting() is sooner.core.load_share
    sooner.wake(5_020)
    assert sooner.asked_count == 20
    assert budget.pop_waiting() is later.core.load_share
    assert not budget.waiting_count


def test_a_wake_up_is_announced_for_what_is_due_though_there_is_no_room():
    """A waiting tracker is woken by room or by its first deadline, whichever comes first."""
    budget = LoadBudget(20)
    full, other = Stored(budget, first_ms=5_000), Stored(budget, first_ms=5_500)
    full.wake(4_600)
    assert other.core.next_timer().wall_ms == 4_500
    other.wake(4_600)
    assert other.core.next_timer().wall_ms == 5_500
    other.core.check()


@pytest.mark.parametrize("end", ["close", "delete"])
def test_a_tracker_that_ends_waits_for_nothing(end):
    """A tracker that ends leaves the line: those behind it would otherwise wait for ever."""
    budget = LoadBudget(20)
    full, other = Stored(budget, first_ms=5_000), Stored(budget, first_ms=5_100)
    full.wake(4_500)
    other.wake(4_500)
    assert budget.waiting_count == 1
    getattr(other.core, end)(at(4_500))
    assert budget.waiting_count == 0


def test_what_is_forgotten_gives_its_room_back():
    """Clearing a tracker, moving its cursor and dropping it free the room of its rows."""
    budget = LoadBudget(20)
    tracker = Stored(budget, first_ms=5_000)
    tracker.wake(4_500)
    assert budget.held_count == 20
    tracker.core.clear(at(4_500))
    assert budget.held_count == 0
    tracker.core.load_share.close()
    tracker.core.check()


def test_trackers_with_equal_deadlines_do_not_wait_for_each_other():
    """A woken tracker reads: two trackers that give way to each other would be woken for ever."""
    budget = LoadBudget(20)
    full = Stored(budget, first_ms=5_000)
    full.wake(4_500)
    full.load(4_500)
    one, two = Stored(budget, first_ms=5_200), Stored(budget, first_ms=5_200)
    one.wake(4_600)
    two.wake(4_600)
    full.pop(20, 5_019)
    full.core.wake(at(6_100))
    assert budget.pop_waiting() is one.core.load_share
    one.wake(5_020)
    assert one.asked_count == 20
