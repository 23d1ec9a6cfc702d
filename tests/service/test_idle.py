"""Tens of thousands of trackers without work."""

import asyncio
import gc
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context

import pytest

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.telemetry.log_rate_limiter import MINUTE_MS
from delayed_tracker.service.trackers.gate import TrackerGate
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.shell import elapse, make_registry

pytestmark = pytest.mark.long

DAY_MS = 86_400_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "bytes_max"), [(1_000, 6 * 10**6), pytest.param(10_000, 50 * 10**6, marks=pytest.mark.deep)]
)
def test_idle_trackers_cost_some_kilobytes_each_and_no_wake_up(count, bytes_max):
    """Open trackers without work for a day of virtual time have no timer, no wake-up and no waiting task."""
    in_a_new_process(_no_wake_up, count, bytes_max)


def in_a_new_process(measure, *args):
    """Measure memory where no thread of another test allocates any meanwhile."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        processes.submit(measure, *args).result()


def _no_wake_up(count, bytes_max):
    woken = []
    wake = TrackerGate.wake

    def noted(gate):
        woken.append(gate)
        wake(gate)

    TrackerGate.wake = noted
    # The debug mode of the event loop is off: it keeps a stack for every task and every timer.
    asyncio.run(_idle(count, bytes_max), debug=False)
    assert woken == []


async def _idle(count, bytes_max):
    clock = ManualClock()
    registry = make_registry(MemoryStorage(), clock, limits=TrackerLimits())
    await registry.start()

    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            await registry.open(TrackerKey(f"persistent://t/n/topic-{number}", "s"), owner="idle", mark_delete=None)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    print(f"{taken / count:,.0f} bytes for each of {count:,} trackers")
    await elapse(clock, MINUTE_MS)  # the log's timer, which counts the lines it left out
    assert clock.next_timer_in_ms() is None
    await elapse(clock, DAY_MS)
    assert clock.next_timer_in_ms() is None
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert taken <= bytes_max
    await registry.close()


@pytest.mark.slow
@pytest.mark.parametrize("count", [500, pytest.param(2_000, marks=pytest.mark.deep)])
def test_unloaded_trackers_cost_less_than_half_of_loaded_ones(count):
    """Each has a hundred indexes that are due in a month; the records in the add log do not count."""
    in_a_new_process(_unload, count)


def _unload(count):
    with suppress(AssertionError):
        asyncio.run(_unloaded(5), debug=False)  # loads modules and kernels
    asyncio.run(_unloaded(count), debug=False)


async def _unloaded(count):
    clock, log, limits = ManualClock(), MemoryAddLog(), ServiceLimits(tracker_idle_unload_ms=DAY_MS)
    registry = make_registry(MemoryStorage(), clock, limits=TrackerLimits(), service_limits=limits, add_log=log)
    await registry.start()
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            key = TrackerKey(f"persistent://t/n/topic-{number}", "s")
            opened = await registry.open(key, owner="idle", mark_delete=None)
            rows = [(clock.now_ms() + 30 * DAY_MS + entry, 1, entry) for entry in range(100)]
            host = registry.host(key)
            host.add(opened.epoch, IndexColumns.of(rows))
            await host.until_durable()
        gc.collect()
        loaded = tracemalloc.get_traced_memory()[0] - await log.size_bytes()
        await elapse(clock, 2 * DAY_MS)
        assert registry.idle.unloaded_count == count
        gc.collect()
        unloaded = tracemalloc.get_traced_memory()[0] - await log.size_bytes()
    finally:
        tracemalloc.stop()
    print(f"{loaded / count:,.0f} bytes for each of {count:,} trackers, {unloaded / count:,.0f} when they are unloaded")
    assert unloaded < loaded / 2
    await registry.close()
