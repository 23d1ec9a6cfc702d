"""The bounds on unstored indexes alone: what is sealed early, and who waits in line."""

import asyncio

from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.trackers.unstored import UnstoredBound
from tests.service.harness.shell import (
    elapse,
    settle,
)

LIMITS = ServiceLimits(unstored_indexes_max=40, tracker_unstored_indexes_max=20, retry_after_ms=70)


class Filling:
    """A fake tracker that only counts: sealed indexes stay unstored until ``store``."""

    def __init__(self, bound):
        self.unstored = bound.share()
        self.filling_count = self.sealing_count = 0

    def add(self, count):
        self.filling_count += count
        self._hold()

    def seal_open_buckets(self):
        self.sealing_count, self.filling_count = self.sealing_count + self.filling_count, 0
        self._hold()

    def store(self):
        self.sealing_count = 0
        self._hold()

    def _hold(self):
        self.unstored.hold(self.filling_count + self.sealing_count, self.sealing_count)


def fillings(count, kind=TrackerKind.BUCKET, clock=None):
    trackers = []
    bound = UnstoredBound(LIMITS, kind, lambda: trackers, clock or ManualClock())
    trackers += [Filling(bound) for _ in range(count)]
    return bound, trackers


async def test_there_is_room_below_both_maxima():
    """There is room below the limit of a tracker and below that of all; a closed tracker makes room."""
    bound, (one, two, three) = fillings(3)
    one.add(19)
    assert one.unstored.has_room
    one.add(15)
    assert [each.unstored.has_room for each in (one, two)] == [False, True]
    two.add(6)
    assert not three.unstored.has_room
    one.unstored.close()
    assert three.unstored.has_room
    assert bound.unstored_count == 6


async def test_what_fills_is_sealed_when_all_is_full_the_largest_first():
    """The largest buckets are sealed first, until a quarter of the limit is sealing."""
    _, trackers = fillings(10)
    for number, tracker in enumerate(trackers):
        tracker.add(number)
    await settle()
    assert [tracker.sealing_count for tracker in trackers] == [0] * 8 + [8, 9]


async def test_what_fills_is_sealed_when_its_tracker_is_full():
    """A full tracker is sealed, since its bucket may never become large enough otherwise."""
    _, (one, two) = fillings(2)
    two.add(5)
    one.add(20)
    await settle()
    assert (one.sealing_count, two.sealing_count) == (20, 0)


async def test_a_tracker_of_which_nothing_is_stored_does_not_keep_the_others_from_it():
    """Sealed buckets that are not stored count for some seconds; then the largest of the others are sealed in its place."""
    clock = ManualClock()
    bound, (hanging, *others) = fillings(5, clock=clock)
    hanging.add(12)
    hanging.seal_open_buckets()
    for other in others:
        other.add(7)
    assert bound.is_full
    await elapse(clock, 9_000)
    assert [other.sealing_count for other in others] == [0] * 4
    await elapse(clock, 1_000)
    assert sorted(other.sealing_count for other in others) == [0, 0, 0, 7]
    for other in others:
        other.store()
    assert not bound.is_full
    # It is known at once the next time.
    others[0].add(7)
    others[1].add(7)
    await settle()
    assert sum(other.sealing_count for other in others) >= 7
    hanging.store()
    assert others[0].unstored.has_room


async def test_an_outage_seals_less_and_less_early():
    """While nothing at all is stored, a quarter of what is left is sealed in ever longer steps, and nothing else happens."""
    clock, asked = ManualClock(), []
    trackers = []

    def all_trackers():
        asked.append(clock.elapsed_ms())
        return trackers

    bound = UnstoredBound(LIMITS, TrackerKind.BUCKET, all_trackers, clock)
    trackers += [Filling(bound) for _ in range(40)]
    for tracker in trackers:
        tracker.add(1)
    sealed = []
    for _ in range(12):
        await elapse(clock, 10_000)
        sealed.append(sum(tracker.sealing_count for tracker in trackers))
    assert sealed == [18, 18, 24, 24, 24, 24, 28, 28, 28, 28, 28, 28]
    await elapse(clock, 3_600_000)
    assert sum(tracker.sealing_count for tracker in trackers) == 40
    # Nothing is left to seal: what changes is not looked for in all trackers.
    asked.clear()
    for tracker in trackers:
        tracker.unstored.hold(1, 1)
    trackers[0].unstored.hold(2, 2)
    await settle()
    assert asked == []
    for tracker in trackers[1:]:
        tracker.store()
    assert trackers[1].unstored.has_room


async def test_trackers_in_memory_are_not_asked_to_seal():
    """In-memory trackers store nothing, so only removed positions make room."""
    _, (one,) = fillings(1, TrackerKind.IN_MEMORY)
    one.add(50)
    await settle()
    assert one.sealing_count == 0


async def test_those_who_wait_take_turns():
    """If there is room, one waiting call of each tracker is woken, and each that ends wakes the next."""
    bound, (one, two) = fillings(2)
    one.add(20)
    two.add(20)
    called = []

    async def wait(name, tracker):
        await tracker.unstored.wait_for_room()
        called.append(name)
        tracker.add(5)

    waiting = [asyncio.create_task(wait(*each)) for each in (("1a", one), ("1b", one), ("2a", two))]
    await settle()
    assert (bound.waiting_count, called) == (3, [])
    one.seal_open_buckets()
    one.store()
    await settle()
    # The second call of the first tracker was woken when the first one had taken its part of the room.
    assert called == ["1a", "1b"]
    assert bound.waiting_count == 1
    two.seal_open_buckets()
    two.store()
    await settle()
    assert (called, bound.waiting_count, bound.held_back_count) == (["1a", "1b", "2a"], 0, 3)
    await asyncio.gather(*waiting)


async def test_who_gives_up_waiting_passes_its_turn_on():
    """A woken stream that is cancelled wakes the next one."""
    _, (one,) = fillings(1)
    one.add(20)
    first, second = (asyncio.create_task(one.unstored.wait_for_room()) for _ in range(2))
    await settle()
    one.seal_open_buckets()
    one.store()
    first.cancel()
    await settle()
    assert second.done()
