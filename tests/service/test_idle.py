"""Tens of thousands of trackers without work."""

import asyncio
import gc
import tracemalloc

import pytest

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.telemetry.log_rate_limiter import MINUTE_MS
from delayed_tracker.service.trackers.gate import TrackerGate
from delayed_tracker.storage.memory import MemoryStorage
from tests.service.harness.shell import elapse, make_registry

DAY_MS = 86_400_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "bytes_max"), [(1_000, 6 * 10**6), pytest.param(10_000, 50 * 10**6, marks=pytest.mark.deep)]
)
def test_idle_trackers_cost_some_kilobytes_each_and_no_wake_up(monkeypatch, count, bytes_max):
    """Open trackers without work for a day of virtual time have no timer, no wake-up and no waiting task."""
    woken = []
    wake = TrackerGate.wake

    def noted(gate):
        woken.append(gate)
        wake(gate)

    monkeypatch.setattr(TrackerGate, "wake", noted)
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
