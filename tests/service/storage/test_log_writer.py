"""Group commits of the add log: what shares one, what waits for it, what happens when it fails, and the bounds."""

import asyncio
import random
from dataclasses import replace

import pytest

from delayed_tracker.core.values.changes import Added, Removed
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns
from delayed_tracker.service.errors import Overloaded, TrackerKey
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.log_writer import LogWriter
from delayed_tracker.service.storage.tracker_log import TrackerLog
from delayed_tracker.storage.errors import LogBroken, SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.testing.faulty import FaultPlan
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog
from tests.service.harness.shell import KEY, OTHER, ControlledStorage, Gate, elapse, failing, settle

LIMITS = ServiceLimits(
    add_log_bytes_max=10_000,
    add_log_pending_bytes_max=2_000,
    consumption_window_positions=10,
    consumption_window_ms=200,
    storage_backoff_ms=50,
)
DOWN = FaultPlan(error_before=1.0)


class Life:
    """A writer over a real memory log whose operations a test may hold or fail, and the trackers that it fenced."""

    def __init__(self, clock, limits):
        self.faulty = FaultyAddLog(MemoryAddLog(), FaultPlan())
        self.log = ControlledStorage(self.faulty)
        self.fenced = []
        self.writer = LogWriter(
            self.log, limits, clock=clock, rng=random.Random(0), writer="me", fenced=self.fenced.append
        )
        self.trackers = {}

    async def tracker(self, key=KEY, epoch=1):
        await self.faulty.inner.take_over(*key, epoch=epoch, writer="me")
        return self.trackers.setdefault(key, TrackerLog(key, lambda: epoch))

    def add(self, tracker, *changes):
        self.writer.add(tracker, list(changes), tracker.last_number + len(changes))

    async def numbers(self, key=KEY):
        page = await self.faulty.inner.read(*key, after=0, bytes_max=2**20)
        return [each.number for each in page.records]


def added(count=1):
    return Added(IndexColumns.of([(1_000, 1, entry) for entry in range(count)]))


def removed(count=1):
    return Removed(PositionColumns.of([(1, entry) for entry in range(count)]))


@pytest.fixture
async def life(clock):
    life = Life(clock, replace(LIMITS))
    await life.log.start()
    yield life
    life.log.open_gates()
    life.faulty.plan = FaultPlan()
    await life.writer.close()


async def test_trackers_share_a_commit_and_what_comes_meanwhile_the_next(life):
    """While one commit is written, the records of all trackers gather for the next one."""
    one, other = await life.tracker(), await life.tracker(OTHER)
    gate = life.log.before["append"] = Gate()
    life.add(one, added())
    first = asyncio.create_task(life.writer.until_durable(one, 1))
    await settle()
    life.add(one, added(), added())
    life.add(other, added())
    waiting = [asyncio.create_task(life.writer.until_durable(*each)) for each in ((one, 3), (other, 1))]
    await settle()
    assert not first.done()
    gate.open()
    await asyncio.gather(first, *waiting)
    assert (life.writer.commit_count, life.writer.record_count, life.writer.pending_bytes) == (2, 4, 0)
    assert (await life.numbers(), await life.numbers(OTHER)) == ([1, 2, 3], [1])
    assert life.writer.log_bytes == one.log_bytes + other.log_bytes


async def test_what_comes_right_after_a_commit_begins_the_next(life):
    """A caller that is woken by a commit may add at once, and waits for a commit of its own."""
    tracker = await life.tracker()
    async with asyncio.timeout(5):
        for number in (1, 2, 3):
            life.add(tracker, added())
            await life.writer.until_durable(tracker, number)
    assert life.writer.commit_count == 3


async def test_a_failed_commit_is_unknown_to_its_callers_and_written_again(life, clock):
    """The callers are told to repeat; the same records are written after a pause that grows, and have no gap."""
    tracker = await life.tracker()
    life.faulty.plan = FaultPlan(error_after=1.0)
    life.add(tracker, added(), added())
    waits = [asyncio.create_task(life.writer.until_durable(tracker, number)) for number in (1, 2)]
    for error in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(error, StorageUnavailable)
        assert "unknown whether the call took effect; repeat it" in error.message
    assert (life.writer.failed_count, tracker.durable_number, life.writer.is_broken) == (1, 0, False)
    assert life.writer.failure is not None
    await elapse(clock, 49)
    assert life.writer.failed_count == 2  # half of the pause, or more
    await elapse(clock, 60_000)
    assert 10 < life.writer.failed_count < 30  # five seconds at most
    life.faulty.plan = FaultPlan()
    await elapse(clock, 5_000)
    assert (life.writer.failure, tracker.durable_number, life.writer.pending_bytes) == (None, 2, 0)
    assert await life.numbers() == [1, 2]


async def test_a_fenced_tracker_does_not_hold_up_the_others(life):
    """Another process has taken one tracker over: its callers learn of it, the others' records are durable."""
    mine, theirs = await life.tracker(), await life.tracker(OTHER)
    await life.faulty.inner.take_over(*OTHER, epoch=2, writer="they")
    life.add(mine, added())
    life.add(theirs, added(), removed(3))
    lost = asyncio.create_task(life.writer.until_durable(theirs, 2))
    await life.writer.until_durable(mine, 1)
    with pytest.raises(SnapshotConflict, match="taken over"):
        await lost
    assert life.fenced == [OTHER]
    assert theirs.is_lost
    assert (life.writer.pending_bytes, life.writer.unwritten_removed_count) == (0, 0)
    life.add(theirs, added())
    assert life.writer.pending_bytes == 0  # nothing more of it is written
    with pytest.raises(SnapshotConflict):
        await life.writer.until_durable(theirs, 3)


async def test_after_a_failed_fsync_nothing_is_written(life, clock):
    """Callers, acknowledgements that wait and later adds get the error; the log is never asked again."""
    life.writer.limits.consumption_window_positions = 1
    tracker = await life.tracker()
    gate = life.log.before["append"] = Gate()
    life.add(tracker, added(), removed())
    waits = [
        asyncio.create_task(life.writer.wait_for_window(tracker)),
        asyncio.create_task(life.writer.until_durable(tracker, 1)),
    ]
    await settle()
    life.log.before["append"] = failing(LogBroken("fsync failed"))
    life.log.after["append"] = failing(LogBroken("fsync failed"))
    gate.open()
    window, durable = await asyncio.gather(*waits, return_exceptions=True)
    assert isinstance(window, LogBroken)
    assert isinstance(durable, StorageUnavailable)
    assert life.writer.is_broken
    for refused in (life.writer.wait_for_window(tracker), life.writer.until_durable(tracker, 2)):
        with pytest.raises(LogBroken):
            await refused
    with pytest.raises(LogBroken):
        life.writer.require_room(tracker)
    life.add(tracker, added())
    life.writer.write_now()
    await elapse(clock, 60_000)
    assert life.log.calls.count("append") == 1


async def test_a_full_log_and_too_much_that_waits_are_refused(life, clock):
    """At either bound the error says which, and nothing is applied; the room comes back."""
    tracker = await life.tracker()
    life.faulty.plan = DOWN
    while life.writer.pending_bytes < LIMITS.add_log_pending_bytes_max:
        life.writer.require_room(tracker)
        life.add(tracker, added(20))
    with pytest.raises(Overloaded, match="addLogPendingBytesMax"):
        life.writer.require_room(tracker)
    life.faulty.plan = FaultPlan()
    while life.writer.log_bytes < LIMITS.add_log_bytes_max:
        life.writer.write_now()
        await settle()
        life.add(tracker, added(20))
    with pytest.raises(Overloaded, match=r"the add log has \d+ bytes \(addLogBytesMax\)"):
        life.writer.require_room(tracker)
    await life.writer.until_durable(tracker, tracker.last_number)
    await life.writer.cut(tracker, tracker.last_number)
    life.writer.require_room(tracker)
    assert life.writer.log_bytes == tracker.log_bytes == 0
    assert await life.numbers() == []


async def fill_log(life, tracker):
    while True:
        life.writer.require_room(tracker)
        life.add(tracker, added(20))
        await life.writer.until_durable(tracker, tracker.last_number)


async def test_no_tracker_has_the_room_of_all_others(life):
    """Trackers whose snapshots cannot be stored are refused while the others are not."""
    filled = []
    for topic in ("first", "second", "third"):
        filled.append(tracker := await life.tracker(TrackerKey(topic, "s")))
        with pytest.raises(Overloaded, match="of this tracker that are not in stored snapshots"):
            await fill_log(life, tracker)
    small = await life.tracker(TrackerKey("fourth", "s"))
    life.writer.require_room(small)
    shares = [tracker.log_bytes / LIMITS.add_log_bytes_max for tracker in filled]
    assert shares == pytest.approx([2 / 3, 2 / 9, 2 / 27], abs=0.02)


async def test_acknowledgements_wait_for_a_window_that_is_full_by_count(life):
    """From half of the limit on a commit is being written, and at the limit they wait for it."""
    tracker = await life.tracker()
    gate = life.log.before["append"] = Gate()
    life.add(tracker, removed(4))
    await settle()
    assert not gate.held_count  # nobody waits for consumed positions
    life.add(tracker, removed(1))
    await life.writer.wait_for_window(tracker)
    await settle()
    assert gate.held_count == 1
    life.add(tracker, removed(4))
    await life.writer.wait_for_window(tracker)
    life.add(tracker, removed(1))
    waiting = asyncio.create_task(life.writer.wait_for_window(tracker))
    await settle()
    assert (waiting.done(), life.writer.unwritten_removed_count) == (False, 10)
    gate.open()
    await waiting
    assert life.writer.unwritten_removed_count == 0


async def test_consumed_positions_are_written_when_half_of_the_window_is_over(life, clock):
    """No caller is needed: a timer begins the commit."""
    tracker = await life.tracker()
    life.add(tracker, removed())
    await elapse(clock, 99)
    assert life.writer.unwritten_removed_count == tracker.unwritten_removed_count == 1
    await elapse(clock, 1)
    assert life.writer.unwritten_removed_count == tracker.unwritten_removed_count == 0
    assert await life.numbers() == [1]


async def test_acknowledgements_wait_for_a_window_that_is_full_by_time(life, clock):
    """While commits fail, positions that were consumed longer ago than the window hold up the others."""
    tracker = await life.tracker()
    life.faulty.plan = DOWN
    life.add(tracker, removed())
    await elapse(clock, 199)
    await life.writer.wait_for_window(tracker)
    await elapse(clock, 1)
    waiting = asyncio.create_task(life.writer.wait_for_window(tracker))
    await elapse(clock, 10_000)
    assert not waiting.done()
    life.faulty.plan = FaultPlan()
    await elapse(clock, 5_000)
    await waiting


async def test_the_window_of_what_a_commit_leaves_goes_on(life, clock, monkeypatch):
    """A commit of a limited size does not have the consumed position that has begun the window."""
    monkeypatch.setattr("delayed_tracker.service.storage.log_writer._COMMIT_BYTES_MAX", 1)
    tracker, other = await life.tracker(), await life.tracker(OTHER)
    gate = life.log.before["append"] = Gate()
    life.add(other, added())
    life.add(tracker, removed())
    life.writer.write_now()
    await elapse(clock, 150)
    assert gate.held_count == 1
    gate.open()
    life.log.before["append"] = Gate()
    await elapse(clock, 50)
    assert (life.writer.unwritten_removed_count, life.writer.window_is_full) == (1, True)


async def test_a_tracker_that_is_closed_during_a_commit_that_fails_holds_up_nobody(life, clock):
    """It has nothing to write any more, and the others are written with the next commit."""
    tracker, other = await life.tracker(), await life.tracker(OTHER)
    gate = life.log.before["append"] = Gate()
    life.add(tracker, added())
    life.writer.write_now()
    await settle()
    life.add(other, added())
    waiting = asyncio.create_task(life.writer.until_durable(other, 1))
    await settle()
    life.writer.retire(tracker)
    life.log.before["append"] = failing(None)
    life.log.after["append"] = failing(StorageUnavailable("one commit fails"))
    gate.open()
    with pytest.raises(StorageUnavailable):
        await waiting
    await elapse(clock, 1_000)
    await life.writer.until_durable(other, 1)
    assert (await life.numbers(), await life.numbers(OTHER)) == ([1], [1])
    assert (life.writer.failure, life.writer.pending_bytes) == (None, 0)


@pytest.mark.parametrize("fails", [True, False])
async def test_a_window_ends_with_what_was_in_it(life, clock, fails):
    """A tracker that is closed has nothing to write, and no commit would end its window for the others."""
    tracker, other = await life.tracker(), await life.tracker(OTHER)
    gate = life.log.before["append"] = Gate()
    life.add(tracker, removed())
    if fails:
        life.writer.write_now()
        await settle()
        life.log.after["append"] = failing(StorageUnavailable("one commit fails"))
    life.writer.retire(tracker)
    gate.open()
    await elapse(clock, 60_000)
    assert not life.writer.window_is_full
    await life.writer.wait_for_window(other)


async def test_an_error_that_nobody_expects_holds_up_nobody_for_long(life, clock):
    """Callers that wait for the window go on with the next commit, which comes by itself."""
    tracker = await life.tracker()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
    life.log.before["append"] = failing(RuntimeError("a bug"), RuntimeError("again"))
    life.add(tracker, removed(10))
    waiting = asyncio.create_task(life.writer.wait_for_window(tracker))
    await elapse(clock, 60_000)
    await waiting
    assert life.log.calls.count("append") == 3


async def test_an_error_after_a_commit_leaves_nobody_without_an_answer(life):
    """All of its callers are answered before anybody looks at the log's size, which may begin to seal."""
    told, trackers = [], [await life.tracker(), await life.tracker(OTHER)]
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail(_tracker):
        raise RuntimeError("a bug")

    life.writer.committed = fail
    for tracker in trackers:
        life.add(tracker, added())
    waiting = [asyncio.create_task(life.writer.until_durable(tracker, 1)) for tracker in trackers]
    await settle()
    assert all(one.done() and one.exception() is None for one in waiting)
    assert life.writer.pending_bytes == 0


async def test_an_error_that_nobody_expects_loses_nothing(life, clock):
    """Callers are told that the outcome is unknown, and the next commit has the records."""
    tracker = await life.tracker()
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    life.log.before["append"] = failing(RuntimeError("a bug"))
    life.add(tracker, added())
    with pytest.raises(StorageUnavailable, match="a bug"):
        await life.writer.until_durable(tracker, 1)
    await settle()
    assert [str(error) for error in told] == ["a bug"]
    await life.writer.until_durable(tracker, 1)
    assert await life.numbers() == [1]


async def test_who_waits_for_the_window_is_told_when_the_tracker_is_closed(life, clock):
    """The log may not work for long; the call then finds that there is no tracker."""
    tracker = await life.tracker()
    life.faulty.plan = DOWN
    life.add(tracker, removed(10))
    waiting = asyncio.create_task(life.writer.wait_for_window(tracker))
    await elapse(clock, 1_000)
    assert not waiting.done()
    life.writer.retire(tracker)
    await settle()
    await waiting


async def test_a_cut_that_fails_is_left_to_the_next(life):
    """The records stay, and stay counted."""
    tracker = await life.tracker()
    life.add(tracker, added())
    await life.writer.until_durable(tracker, 1)
    size = life.writer.log_bytes
    life.faulty.plan = DOWN
    await life.writer.cut(tracker, 1)
    assert (await life.numbers(), life.writer.log_bytes, tracker.log_bytes) == ([1], size, size)
    life.faulty.plan = FaultPlan()
    await life.writer.cut(tracker, 1)
    assert (await life.numbers(), life.writer.log_bytes) == ([], 0)


async def test_a_close_writes_what_waits_once(life):
    """If that fails, it stays unwritten: nobody was told that it is durable."""
    tracker = await life.tracker()
    life.add(tracker, removed(3))
    life.faulty.plan = DOWN
    await life.writer.close()
    assert life.log.calls.count("append") == 1
    assert await life.numbers() == []


async def test_a_close_ends_the_pause_after_a_failed_commit(life):
    """It tries once more at once, however long the pause would be."""
    tracker = await life.tracker()
    life.faulty.plan = DOWN
    life.add(tracker, removed(3))
    life.writer.write_now()
    await settle()
    life.faulty.plan = FaultPlan()
    await life.writer.close()
    assert await life.numbers() == [1]
