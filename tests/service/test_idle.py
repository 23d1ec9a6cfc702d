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

TRACKER_BYTES_MAX = 5_000
"""Fifty megabytes for ten thousand of them."""
DAY_MS = 86_400_000


@pytest.mark.slow
@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.deep)])
def test_idle_trackers_cost_five_kilobytes_each_and_no_wake_up(monkeypatch, count):
    """Opened, and then nothing for a day of virtual time: no timer is armed, no tracker is woken, no task waits."""
    woken = []
    wake = TrackerHost.wake

    def noted(host):
        woken.append(host)
        wake(host)

    monkeypatch.setattr(TrackerHost, "wake", noted)
    # No debug mode of the event loop: it keeps a stack for every task and every timer.
    asyncio.run(_idle(count), debug=False)
    assert woken == []


async def _idle(count):
    clock = ManualClock()
    registry = make_registry(MemoryStorage(), clock, limits=TrackerLimits())
    await registry.start()

    async def open_some(kind, count):
        for number in range(count):
            await registry.open(
                TrackerKey(f"persistent://t/{kind}/topic-{number}", "s"), owner="idle", mark_delete=None
            )

    await open_some("first", 100)  # these pay for what all share
    gc.collect()
    tracemalloc.start()
    try:
        await open_some("then", count)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    print(f"{taken / count:,.0f} bytes for each of {count:,} trackers")
    assert clock.next_timer_in_ms() is None
    await elapse(clock, DAY_MS)
    assert clock.next_timer_in_ms() is None
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert taken <= count * TRACKER_BYTES_MAX
    await registry.close()
