"""Tens of thousands of trackers that have nothing to do."""

import asyncio
import gc
import tracemalloc

import pytest

from snapshot_storage.memory import MemoryStorage
from tests.service.shell import elapse, make_registry
from tracker.core.limits import TrackerLimits
from tracker.service.clock import ManualClock
from tracker.service.errors import TrackerKey
from tracker.service.host import TrackerHost

TRACKERS = 10_000
BYTES_MAX = 50 * 10**6
DAY_MS = 86_400_000


@pytest.mark.slow
def test_ten_thousand_idle_trackers_cost_fifty_megabytes_and_no_wake_up(monkeypatch):
    """Opened, and then nothing for a day of virtual time: no timer is armed, no tracker is woken, no task waits."""
    woken = []
    wake = TrackerHost.wake

    def noted(host):
        woken.append(host)
        wake(host)

    monkeypatch.setattr(TrackerHost, "wake", noted)
    # No debug mode of the event loop: it keeps a stack for every task and every timer.
    asyncio.run(_idle(), debug=False)
    assert woken == []


async def _idle():
    clock = ManualClock()
    registry = make_registry(MemoryStorage(), clock, limits=TrackerLimits())
    await registry.start()
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(TRACKERS):
            await registry.open(TrackerKey(f"persistent://t/n/topic-{number}", "s"), owner="idle", mark_delete=None)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    print(f"{taken / TRACKERS:,.0f} bytes for each of {TRACKERS:,} trackers")
    assert clock.next_timer_in_ms() is None
    await elapse(clock, DAY_MS)
    assert clock.next_timer_in_ms() is None
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert taken <= BYTES_MAX
    await registry.close()
