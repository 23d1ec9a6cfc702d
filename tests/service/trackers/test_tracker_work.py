"""Work on trackers: few at a time, one task for each, and none that hangs delays another for long."""

import asyncio

import pytest

from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.trackers.tracker_work import LONG_MS, TrackerWork
from tests.service.harness.shell import Gate, elapse, settle

KEYS = [TrackerKey("topic", str(number)) for number in range(5)]


class Performed:
    """Records the trackers that were worked on; some hang until their gate is opened."""

    def __init__(self):
        self.keys = []
        self.gates = {}

    async def __call__(self, key):
        self.keys.append(key)
        if key in self.gates:
            await self.gates[key]()


@pytest.fixture
def performed():
    return Performed()


@pytest.fixture
def work(performed, clock):
    return TrackerWork("a test", performed, at_once=2, clock=clock)


async def test_one_that_hangs_takes_one_place(work, performed):
    """The others go through the other place, in the order in which they were asked for."""
    performed.gates[KEYS[0]] = gate = Gate()
    for key in KEYS:
        work.ask(key)
    await settle()
    assert performed.keys == KEYS
    assert [work.is_under_way(key) for key in KEYS] == [True, False, False, False, False]
    gate.open()
    await settle()
    assert not work.is_under_way(KEYS[0])


async def test_as_many_are_under_way_as_there_are_places(work, performed):
    """A tracker that waits can be withdrawn."""
    performed.gates = {KEYS[0]: Gate(), KEYS[1]: Gate()}
    for key in KEYS:
        work.ask(key)
    work.withdraw(KEYS[3])
    await settle()
    assert performed.keys == KEYS[:2]
    performed.gates[KEYS[1]].open()
    await settle()
    assert performed.keys == [*KEYS[:3], KEYS[4]]
    performed.gates[KEYS[0]].open()


async def test_those_that_hang_take_up_no_room_after_a_while(work, performed, clock):
    """However many they are, the others have their turn, and the end of a task that took long changes nothing."""
    performed.gates = {key: Gate() for key in KEYS[:4]}
    for key in KEYS:
        work.ask(key)
    for ended in (2, 4, 5):
        await settle()
        assert performed.keys == KEYS[:ended]
        await elapse(clock, LONG_MS)
    performed.gates.pop(KEYS[0]).open()
    await settle()
    assert [work.is_under_way(key) for key in KEYS] == [False, True, True, True, False]
    work.ask(KEYS[0])
    await settle()
    assert performed.keys == [*KEYS, KEYS[0]]
    for gate in performed.gates.values():
        gate.open()
    await settle()
    assert clock.next_timer_in_ms() is None


async def test_what_is_asked_meanwhile_is_done_once_more(work, performed):
    """Never by two tasks at the same time, and not once for each request."""
    performed.gates[KEYS[0]] = gate = Gate()
    for _ in range(3):
        work.ask(KEYS[0])
        await settle()
    assert performed.keys == [KEYS[0]]
    gate.open()
    await settle()
    assert performed.keys == [KEYS[0]] * 2


async def test_a_close_begins_nothing_more(work, performed):
    """It waits for what is under way."""
    performed.gates = {KEYS[0]: Gate(), KEYS[1]: Gate()}
    for key in KEYS:
        work.ask(key)
    await settle()
    closing = asyncio.create_task(work.close())
    for gate in performed.gates.values():
        await settle()
        assert not closing.done()
        gate.open()
    await closing
    assert performed.keys == KEYS[:2]


async def test_an_error_is_reported_and_ends_nothing_else(performed, clock):
    """The handler of the event loop gets it, as that of a task of its own."""

    async def fail(key):
        await performed(key)
        if key == KEYS[0]:
            raise ZeroDivisionError

    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    work = TrackerWork("a test", fail, at_once=1, clock=clock)
    for key in KEYS[:2]:
        work.ask(key)
    await settle()
    assert performed.keys == KEYS[:2]
    assert [(each["message"], type(each["exception"])) for each in reported] == [("a test failed", ZeroDivisionError)]
