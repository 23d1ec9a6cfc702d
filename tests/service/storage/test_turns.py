"""The order in which recoveries begin, and how many are under way."""

import asyncio

import pytest

from delayed_tracker.service.errors import Recovering, ShuttingDown, TrackerKey
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.turns import Turns
from delayed_tracker.service.trackers.recoveries import RECOVERIES_AT_ONCE
from delayed_tracker.storage.errors import StorageUnavailable
from tests.service.harness.registry_life import FAR_MS
from tests.service.harness.shell import KEY, Gate, bucketful, elapse, indexes, settle

AT_ONCE, LOOK_MS = 2, 50
HANGING = tuple(f"hanging {number}" for number in range(AT_ONCE))


class Recoveries:
    """Recoveries that run until they are ended, in the order in which they began."""

    def __init__(self, turns):
        self.turns = turns
        self.begun = []
        self._tasks = {}

    async def join(self, *trackers, due_ms=None):
        for tracker in trackers:
            self.turns.join(tracker, due_ms=due_ms)
            self._tasks[tracker] = asyncio.create_task(self._run(tracker))
        await settle()

    async def _run(self, tracker):
        await self.turns.until_turn(tracker)
        self.begun.append(tracker)

    async def end(self, *trackers):
        for tracker in trackers:
            self._tasks.pop(tracker).cancel()
            self.turns.leave(tracker)
            await settle()

    async def end_all(self):
        for tracker in list(self._tasks):
            await self.end(tracker)


@pytest.fixture
async def recoveries(clock):
    recoveries = Recoveries(Turns(AT_ONCE, LOOK_MS, clock))
    await recoveries.join(*HANGING)
    yield recoveries
    await recoveries.end_all()
    assert recoveries.turns.running_count == 0
    assert clock.next_timer_in_ms() is None


async def test_those_that_are_not_awaited_begin_by_deadline_then_in_order(recoveries):
    """An unknown deadline comes last."""
    await recoveries.join("unknown", "unknown too")
    await recoveries.join("late", due_ms=2_000)
    await recoveries.join("soon", due_ms=1_000)
    assert recoveries.begun == [*HANGING]
    await recoveries.end(HANGING[0], "soon", "late", "unknown")
    assert recoveries.begun == [*HANGING, "soon", "late", "unknown", "unknown too"]


async def test_a_tracker_that_is_asked_comes_before_one_whose_open_waits(recoveries):
    """Both come before one that nobody waits for, whatever its deadline."""
    await recoveries.join("due", due_ms=1)
    await recoveries.join("left", "opened", "asked")
    recoveries.turns.ask("asked")
    recoveries.turns.ask("not recovered")
    with recoveries.turns.awaited("opened"), recoveries.turns.awaited("not recovered"):
        with recoveries.turns.awaited("left"):
            pass
        await recoveries.end(HANGING[0], "asked", "opened")
    assert recoveries.begun == [*HANGING, "asked", "opened", "due"]


async def test_a_turn_that_is_given_up_goes_to_the_next(recoveries):
    """A recovery that is cancelled before its turn has no part in the bound."""
    await recoveries.join("given up", "next")
    await recoveries.end("given up", HANGING[0])
    assert recoveries.begun == [*HANGING, "next"]
    assert recoveries.turns.running_count == AT_ONCE


async def test_those_that_hang_take_up_room_only_at_first(recoveries, clock):
    """Trackers whose storage hangs delay the others by milliseconds, whether others end meanwhile or not."""
    trackers = [f"tracker {number}" for number in range(8)]
    await recoveries.join(*trackers)
    await elapse(clock, LOOK_MS - 1)
    assert recoveries.begun == [*HANGING]
    await elapse(clock, 1)
    assert recoveries.begun == [*HANGING, *trackers[:2]]
    await recoveries.end(trackers[0])
    assert recoveries.begun == [*HANGING, *trackers[:3]]
    await elapse(clock, LOOK_MS)
    assert recoveries.begun == [*HANGING, *trackers[:5]]
    await recoveries.end(*HANGING)
    assert recoveries.begun == [*HANGING, *trackers[:5]], "they took up no room"
    await elapse(clock, 2 * LOOK_MS)
    assert recoveries.begun == [*HANGING, *trackers]


async def test_room_returns_when_none_waits(recoveries):
    """Those that begin without a wait take up room as well."""
    await recoveries.join("a", "b", "c")
    await recoveries.end(*HANGING, "a", "b", "c")
    await recoveries.join(*"defgh")
    assert recoveries.turns.running_count == AT_ONCE


async def test_one_that_is_awaited_after_it_was_given_up_is_forgotten(recoveries):
    """Its caller leaves later than its task, as at a stop."""
    await recoveries.join("given up")
    with recoveries.turns.awaited("given up"):
        await recoveries.end("given up")
    await recoveries.end(*HANGING)
    assert recoveries.turns.running_count == 0


async def test_callers_that_come_and_go_leave_nothing_behind(recoveries):
    """Each wait moves the tracker forward and back again."""
    await recoveries.join("left", "next")
    for _ in range(1_000):
        with recoveries.turns.awaited("left"):
            pass
    assert len(recoveries.turns._order) < 200
    await recoveries.end(HANGING[0])
    assert recoveries.begun == [*HANGING, "left"]


KEYS = tuple(TrackerKey(f"persistent://lab/main/{number}", "many") for number in range(RECOVERIES_AT_ONCE + 3))


def opening(registry, *keys):
    """Return tasks that open the trackers, in order."""
    return [asyncio.create_task(registry.open(key, owner="tests", mark_delete=None)) for key in keys]


async def test_a_call_moves_the_recovery_of_its_tracker_forward(registry, storage):
    """Opens take turns; the tracker of a call that is refused with RECOVERING comes next, one whose caller left last."""
    gate, begun = Gate(), []

    async def note_and_hold(topic, _cursor, **_what):
        begun.append(topic)
        await gate()

    storage.before["replace"] = note_and_hold
    opens = opening(registry, *KEYS)
    await settle()
    assert gate.held_count == RECOVERIES_AT_ONCE
    assert registry.recovering_count == len(KEYS)
    with pytest.raises(Recovering):
        (await registry.loaded_host(KEYS[-1])).stats()
    opens[RECOVERIES_AT_ONCE].cancel()
    await settle()
    gate.open()
    await asyncio.wait(opens)
    await settle()
    order = [*range(RECOVERIES_AT_ONCE), RECOVERIES_AT_ONCE + 2, RECOVERIES_AT_ONCE + 1, RECOVERIES_AT_ONCE]
    assert begun == [KEYS[number].topic for number in order]
    assert registry.recovering_count == 0


async def test_a_failed_recovery_gives_its_turn_to_the_next(registry, storage):
    """Errors of a recovery go to its caller, and the next one begins."""

    async def fail(topic, _cursor):
        if topic != KEY.topic:
            raise StorageUnavailable("down")

    storage.before["list"] = fail
    opens = opening(registry, *KEYS, KEY)
    await elapse(registry.clock, 20_000)
    *failed, opened = opens
    assert [type(each.exception()) for each in failed] == [StorageUnavailable] * len(KEYS)
    assert opened.result().epoch == 1


async def test_recoveries_that_wait_end_when_the_service_stops(registry, storage):
    """Callers are told that it stops."""
    storage.before["list"] = Gate()
    opens = opening(registry, *KEYS)
    await settle()
    await registry.drain(0)
    assert [type(each.exception()) for each in opens] == [ShuttingDown] * len(KEYS)
    assert registry.recovering_count == 0


async def test_the_number_of_buckets_that_are_stored_at_once_is_bounded(registry, storage, clock):
    """Trackers that seal together store one after the other, and those of one tracker that hangs leave room."""
    at_once = ServiceLimits().tracker_operations_max + 2
    storage.before["create_bucket_snapshot"] = gate = Gate()
    hosts = []
    for number in range(at_once + 2):
        key = TrackerKey(f"persistent://lab/main/{number}", "many")
        opened = await registry.open(key, owner="tests", mark_delete=None)
        hosts.append(registry.host(key))
        hosts[-1].add(opened.epoch, bucketful(clock.now_ms(), 1, delay_ms=FAR_MS))
        hosts[-1].add(opened.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    assert gate.held_count == at_once
    gate.open()
    await settle()
    assert [host.counters.snapshots_stored for host in hosts] == [1] * len(hosts)
