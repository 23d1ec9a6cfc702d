"""Durations and outcomes of calls to the storage, and the lag of the event loop."""

import asyncio

import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.instruments.clock_steps import STEP_MS_MIN, ClockSteps
from delayed_tracker.service.instruments.histogram import Histogram
from delayed_tracker.service.instruments.loop_lag import LOOK_S, LoopLag
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt, SnapshotNotFound, StorageUnavailable
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from tests.service.harness.shell import KEY, ControlledStorage, bucketful, elapse, failing, make_registry, settle
from tests.service.metrics.scraping import scraped, summed


def of(samples, operation):
    """Return the calls of an operation by outcome, without zeros."""
    return {
        key[3].removeprefix("outcome="): value
        for key, value in samples.items()
        if key[0] == "delayed_tracker_storage_operations_total" and key[2] == f"operation={operation}" and value
    }


async def test_each_call_is_measured_by_operation_and_backend():
    """Each retry counts as a call, and every call has a duration."""
    clock, inner = ManualClock(), ControlledStorage()
    storage = MeasuredStorage(inner, "shelf", clock)
    registry = make_registry(storage, clock)
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch

    async def takes_a_second(*_args, **_kwargs):
        clock.advance(1_000)

    inner.before["create_bucket_snapshot"] = failing(StorageUnavailable("once"))
    inner.before["replace"] = takes_a_second
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).seal(epoch)
    await elapse(clock, 1_000)
    samples = await scraped(registry, storage=storage)
    assert of(samples, "create_bucket_snapshot") == {"ok": 1, "unavailable": 1}
    assert samples["delayed_tracker_storage_retries_total",] == 1
    labels = ("backend=shelf", "operation=replace")
    assert samples["delayed_tracker_storage_operation_duration_seconds_sum", *labels] == pytest.approx(1)
    counted = summed(samples, "delayed_tracker_storage_operations_total")
    assert counted == summed(samples, "delayed_tracker_storage_operation_duration_seconds_count") > 3
    await registry.close()


@pytest.mark.parametrize(("error", "outcome"), [
    (SnapshotNotFound("x"), "not_found"), (SnapshotCorrupt("x"), "corrupt"), (SnapshotConflict("x"), "conflict"),
    (StorageUnavailable("x"), "unavailable"), (InvalidInput("first", 0, "x"), "failed"), (MemoryError(), "failed"),
    (asyncio.CancelledError(), "cancelled"),
])  # fmt: skip
async def test_what_becomes_of_a_call_is_counted_and_raised(error, outcome):
    """The wrapper counts the error of a call by outcome and raises it."""
    inner = ControlledStorage()
    inner.before["get_bucket_snapshot_segments"] = failing(error)
    storage = MeasuredStorage(inner, "shelf", ManualClock())
    with pytest.raises(type(error)):
        await storage.get_bucket_snapshot_segments(1, 1, 1)
    assert {
        name: count for name, count in storage.operations["get_bucket_snapshot_segments"].outcomes.items() if count
    } == {outcome: 1}


class Loop:
    """Event loop whose timers fire when the test says so."""

    def __init__(self):
        self.now_s = 0.0
        self.asked = []

    def time(self):
        return self.now_s

    def call_later(self, delay_s, callback, *args):
        self.asked.append((self.now_s + delay_s, callback, args))
        return asyncio.TimerHandle(self.now_s + delay_s, callback, args, asyncio.get_running_loop())

    def turn(self, late_s):
        when_s, callback, args = self.asked.pop()
        self.now_s = when_s + late_s
        callback(*args)


async def test_the_lag_of_the_loop_is_what_it_is_late_by():
    """The lag is measured again after each timer, and not after a stop."""
    loop, lag = Loop(), Histogram((0.01, 0.1))
    look = LoopLag(lag)
    look._ask(loop)
    for late_s in (0.0, 0.05, 3.0, 0.0):
        loop.turn(late_s)
    assert lag.counts == [2, 1, 1]
    assert lag.sum == pytest.approx(3.05)
    assert loop.asked[0][0] == pytest.approx(loop.now_s + LOOK_S)
    look.stop()
    look.stop()
    await settle()


def test_steps_of_the_wall_clock_are_counted():
    """Half a second and more is a step, in either direction; time that passes, slewing and a late look are none."""
    clock = ManualClock()
    steps = ClockSteps(clock)
    steps.start()
    for step_ms, passed_ms in ((0, 5_000), (STEP_MS_MIN - 1, 1_000), (1 - STEP_MS_MIN, 1_000), (0, 60_000)):
        clock.step_wall(step_ms)
        clock.advance(passed_ms)
    assert (steps.forward_count, steps.back_count) == (0, 0)
    clock.step_wall(STEP_MS_MIN)
    with capture_logs() as lines:
        clock.advance(3_000)
    assert [(line["event"], line["step_ms"]) for line in lines] == [
        ("the wall clock was set, or the machine was suspended", STEP_MS_MIN)
    ]
    assert (steps.forward_count, steps.back_count) == (1, 0)
    clock.step_wall(-3_600_000)
    clock.advance(3_000)
    assert (steps.forward_count, steps.back_count) == (1, 1)
    steps.stop()
    steps.stop()
    clock.step_wall(3_600_000)
    clock.advance(3_000)
    assert (steps.forward_count, steps.back_count) == (1, 1)


async def test_the_space_that_a_storage_takes_is_shown_and_not_that_of_one_without_bounds(tmp_path):
    """The space is read at the start and then in the background; a storage without bounds has no sample."""
    clock = ManualClock()
    storage = MeasuredStorage(SqliteStorage(tmp_path / "tracker.db"), "sqlite", clock)
    registry = make_registry(storage, clock)
    await registry.start()
    assert storage.space.space is not None
    samples = await scraped(registry, storage=storage)
    assert samples["delayed_tracker_storage_used_bytes", "backend=sqlite"] == storage.space.space.used_bytes > 0
    assert samples["delayed_tracker_storage_free_bytes", "backend=sqlite"] == storage.space.space.free_bytes > 0
    await registry.close()
    unbounded = MeasuredStorage(MemoryStorage(), "memory", clock)
    registry = make_registry(unbounded, clock)
    await registry.start()
    await settle()
    samples = await scraped(registry, storage=unbounded)
    assert not [key for key in samples if key[0].startswith("delayed_tracker_storage_used")]
    await registry.close()


async def test_slow_calls_are_logged_ten_a_minute():
    """With what they were about; those at the threshold are not slow, and the minute ends with the number of the others."""
    clock, inner = ManualClock(), ControlledStorage()
    storage = MeasuredStorage(inner, "memory", clock, slow_ms=100)
    await storage.start()

    async def takes(ms):
        async def hook(*_args):
            clock.advance(ms)

        inner.before["list"] = hook
        await storage.list(*KEY)

    with capture_logs() as logs:
        await takes(100)
        for _ in range(12):
            await takes(101)
        clock.advance(60_000)
    slow = {"event": "storage is slow", "log_level": "warning", "operation": "list"}
    told = slow | {
        "duration_ms": 101,
        "topic": KEY.topic,
        "subscription": KEY.subscription,
        "outcome": "ok",
    }
    assert logs == [*[told] * 10, slow | {"suppressed": 2}]
