"""Steps of the wall clock change what is due, but no duration."""

import asyncio

import pytest

from delayed_tracker.service import clock as clock_module
from delayed_tracker.service.clock import SystemClock
from delayed_tracker.storage.errors import StorageUnavailable
from tests.service.harness.shell import KEY, TINY, bucketful, elapse, failing, indexes, make_registry, rows, settle

HOUR_MS = 3_600_000
LEASE_MS = 30_000


@pytest.fixture
async def opened(registry):
    opened = await registry.open(KEY, owner="tests", mark_delete=None)
    return registry.host(KEY), opened.epoch


def _poll(host, epoch, *, wait_ms=60_000):
    return asyncio.create_task(host.poll(epoch, max_count=10, wait_ms=wait_ms, lease_ms=LEASE_MS))


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS], ids=["forward", "back"])
async def test_a_step_of_the_wall_clock_neither_ends_nor_prolongs_a_lease(opened, clock, by_ms):
    """A lease ends after the requested time, with any calls in between."""
    host, epoch = opened
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 5)))
    await elapse(clock, 5)
    await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=LEASE_MS)
    clock.step_wall(by_ms)
    host.add(epoch, indexes(clock.now_ms(), (2, 0, HOUR_MS)))
    await elapse(clock, LEASE_MS - 1)
    assert host.stats().leased_count == 1
    await elapse(clock, 1)
    assert (host.stats().leased_count, host.stats().lease_expired_count) == (0, 1)


async def test_a_step_back_is_noticed_while_only_a_poll_waits(opened, clock):
    """The lease ends on time without a call, and its message reaches the poll by the end of the step."""
    host, epoch = opened
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 5)))
    await elapse(clock, 5)
    await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=LEASE_MS)
    poll = _poll(host, epoch)
    await settle()
    clock.step_wall(-10_000)
    await elapse(clock, LEASE_MS)
    assert poll.done()
    assert rows(poll.result()) == [(1, 0)]


async def test_a_step_forward_makes_due_what_a_poll_waits_for(opened, clock):
    """Deadlines are moments of the wall clock, in spite of steps."""
    host, epoch = opened
    host.add(epoch, indexes(clock.now_ms(), (1, 0, HOUR_MS)))
    poll = _poll(host, epoch)
    await elapse(clock, 10)
    clock.step_wall(HOUR_MS)
    await elapse(clock, 0)
    assert rows(poll.result()) == [(1, 0)]


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS], ids=["forward", "back"])
async def test_a_failed_store_is_tried_again_after_its_back_off_whatever_the_wall_clock_does(
    opened, clock, storage, by_ms
):
    """A step of the wall clock neither shortens nor prolongs the pause before a retry."""
    host, epoch = opened
    storage.before["create_bucket_snapshot"] = failing(*[StorageUnavailable("away")] * 3)
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=10 * HOUR_MS))
    host.add(epoch, bucketful(clock.now_ms(), 2, delay_ms=10 * HOUR_MS))
    while not host.stats().effects_failed_count:
        await elapse(clock, 1)
    clock.step_wall(by_ms)
    host.next_delivery_ms()
    await elapse(clock, TINY.retry_backoff_ms - 1)
    assert host.counters.snapshots_stored == 0
    await elapse(clock, 1)
    assert host.counters.snapshots_stored == 1


class _SteppedClock(SystemClock):
    """The machine's clock, whose wall clock a test can step."""

    stepped_ms = 0

    def now_ms(self):
        return super().now_ms() + self.stepped_ms


async def test_real_timers_notice_a_step_in_either_direction(monkeypatch, storage):
    """A waiting poll is answered soon after the wall clock has reached its message's deadline, with any steps."""
    monkeypatch.setattr(clock_module, "WALL_CHECK_MS", 5)
    clock = _SteppedClock()
    registry = make_registry(storage, clock, limits=TINY)
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    host = registry.host(KEY)
    host.add(epoch, indexes(clock.now_ms(), (1, 0, HOUR_MS)))
    poll = _poll(host, epoch)
    looked = asyncio.Event()
    clock.stepped_ms = -HOUR_MS
    clock.call_later(20, looked.set)
    await looked.wait()
    assert not poll.done()
    clock.stepped_ms = HOUR_MS
    assert rows(await asyncio.wait_for(poll, 5)) == [(1, 0)]
    await registry.close()
