"""Opening, fencing and stopping, over one storage that outlives the registries."""

import asyncio

import pytest

from delayed_tracker.core.values.columns import BEFORE_ALL, Position, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.errors import Fenced, Overloaded, PollEnded, Recovering, ShuttingDown
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker
from delayed_tracker.service.telemetry.log_rate_limiter import MINUTE_MS
from delayed_tracker.storage.errors import StorageUnavailable
from tests.service.harness.registry_life import down, fill, open_tracker, positions_of, restarted
from tests.service.harness.shell import (
    KEY,
    OTHER,
    Gate,
    elapse,
    failing,
    indexes,
    make_registry,
    rows,
    settle,
)


async def test_a_new_tracker_is_empty_at_epoch_1(registry, storage):
    """The epoch is recorded before the open returns."""
    _, opened = await open_tracker(registry)
    assert (opened.epoch, opened.mark_delete, opened.recovered_count) == (1, BEFORE_ALL, 0)
    assert (await storage.inner.list(*KEY)).epoch == 1


async def test_every_open_has_an_epoch_of_its_own_across_restarts(registry, storage, clock):
    """Every open fences, also by the same owner, and a restart does not repeat an epoch."""
    epochs = [(await open_tracker(registry))[1].epoch for _ in range(3)]
    again = await restarted(registry, storage, clock)
    epochs += [(await open_tracker(again))[1].epoch for _ in range(2)]
    assert epochs == sorted(set(epochs))
    await again.close()


async def test_a_new_owner_gets_the_leases_back_and_the_old_one_is_fenced(registry, clock):
    """All leases return at once, and every call with the old epoch is refused."""
    host, old = await open_tracker(registry, owner="first")
    host.add(old.epoch, indexes(clock.now_ms(), (1, 0, 5)))
    await elapse(clock, 5)
    taken = await host.poll(old.epoch, max_count=1, wait_ms=0, lease_ms=60_000)
    _, new = await open_tracker(registry, owner="second")
    assert rows(await host.poll(new.epoch, max_count=1, wait_ms=0, lease_ms=60_000)) == [(1, 0)]
    with pytest.raises(Fenced, match="'second'") as raised:
        host.ack(old.epoch, taken.lease_id, PositionColumns.of([(1, 0)]))
    assert raised.value.metadata == {"given_epoch": "1", "epoch": "2", "owner": "second"}
    with pytest.raises(Fenced):
        host.add(old.epoch, indexes(clock.now_ms(), (1, 1, 5)))
    with pytest.raises(Fenced):
        await registry.close_tracker(KEY, old.epoch)
    with pytest.raises(Fenced):
        await clear_tracker(registry, KEY, old.epoch)


async def test_concurrent_opens_share_one_recovery(registry, storage):
    """One read of the catalogue serves all opens; each gets an epoch of its own, and the last one is the owner."""
    storage.before["list"] = gate = Gate()
    opens = [asyncio.create_task(registry.open(KEY, owner=f"owner {n}", mark_delete=None)) for n in range(3)]
    await settle()
    assert gate.held_count == 1
    assert registry.recovering_count == 1
    with pytest.raises(Recovering):
        registry.host(KEY).contains(positions_of(1))
    gate.open()
    await settle()
    assert [opened.result().epoch for opened in opens] == [1, 2, 3]
    assert registry.host(KEY).owner == "owner 2"


async def test_an_open_that_ran_into_its_deadline_may_be_repeated(registry, storage):
    """The recovery goes on without the caller, and the next open joins it."""
    storage.before["list"] = gate = Gate()
    first = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
    await settle()
    first.cancel()
    await settle()
    again = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
    await settle()
    assert gate.held_count == 1
    gate.open()
    await settle()
    assert again.result().epoch == 1


async def test_an_open_cancelled_while_it_fences_leaves_a_usable_tracker(registry, storage, clock):
    """It is unknown if the epoch was recorded, so the old owner is fenced, and later effects do not conflict."""
    host, old = await open_tracker(registry)
    storage.before["replace"] = gate = Gate()
    reopening = asyncio.create_task(registry.open(KEY, owner="other", mark_delete=None))
    await settle()
    reopening.cancel()
    await settle()
    gate.open()
    with pytest.raises(Fenced):
        host.require_owner(old.epoch)
    _, new = await open_tracker(registry)
    await fill(host, new.epoch, clock)
    assert host.counters.snapshots_stored == 5


async def test_an_open_whose_fence_fails_says_unavailable_and_can_be_repeated(registry, storage, clock):
    """The open may be repeated, even if the storage had applied the epoch."""
    host, old = await open_tracker(registry)
    storage.after["replace"] = failing(down(), down(), down())
    failed = asyncio.create_task(registry.open(KEY, owner="other", mark_delete=None))
    await elapse(clock, 1_000)
    with pytest.raises(StorageUnavailable):
        failed.result()
    with pytest.raises(Fenced):
        host.require_owner(old.epoch)
    _, new = await open_tracker(registry)
    assert new.epoch == 3
    await fill(host, new.epoch, clock)
    assert host.counters.snapshots_stored == 5


async def test_mark_delete_given_at_open_trims(registry, clock):
    """In open and closed trackers the acknowledged positions are dropped; a lower position changes nothing."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, 2)
    _, again = await open_tracker(registry, mark_delete=Position(1, 4))
    assert again.mark_delete == Position(1, 4)
    assert host.stats().trimmed_count == 5
    _, lower = await open_tracker(registry, mark_delete=Position(1, 0))
    assert lower.mark_delete == Position(1, 4)
    _, unknown = await open_tracker(registry, mark_delete=BEFORE_ALL)
    assert unknown.mark_delete == Position(1, 4)


async def test_trackers_beyond_the_limit_are_refused(storage, clock):
    """An open above the limit is refused until a tracker is closed."""
    registry = make_registry(storage, clock, service_limits=ServiceLimits(trackers_max=1))
    await registry.start()
    _, opened = await open_tracker(registry)
    with pytest.raises(Overloaded):
        await open_tracker(registry, OTHER)
    await registry.close_tracker(KEY, opened.epoch)
    await open_tracker(registry, OTHER)
    await registry.close()


async def test_drain_refuses_calls_and_finishes_effects(registry, storage, clock):
    """New calls get SHUTTING_DOWN, effects end within the grace period, and every tracker is closed."""
    host, opened = await open_tracker(registry)
    storage.before["create_bucket_snapshot"] = gate = Gate()
    await fill(host, opened.epoch, clock, 1)
    draining = asyncio.create_task(registry.drain(10_000))
    await settle()
    assert not registry.serving
    for call in (
        registry.open(KEY, owner="x", mark_delete=None),
        clear_tracker(registry, KEY, 1),
        registry.close_tracker(KEY, 1),
    ):
        with pytest.raises(ShuttingDown):
            await call
    with pytest.raises(ShuttingDown):
        registry.host(KEY)
    assert not draining.done()
    gate.open()
    await settle()
    assert draining.done()
    assert registry.counters.snapshots_stored == 1
    assert registry.tracker_count == 0
    assert clock.next_timer_in_ms() is None


async def test_drain_ends_with_the_grace_period(registry, storage, clock):
    """An operation that hangs is cancelled in time to undo what it has done, and leaves nothing in the storage."""
    host, opened = await open_tracker(registry)
    storage.before["create_bucket_snapshot"] = Gate()
    await fill(host, opened.epoch, clock, 3)
    draining = asyncio.create_task(registry.drain(10_000))
    await elapse(clock, 7_499)
    assert not draining.done()
    await elapse(clock, 1)
    assert draining.done()
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    await registry.close()
    await registry.close()


async def test_drain_ends_recoveries_and_whoever_waits_for_them(registry, storage):
    """A waiting open is refused because the service stops."""
    storage.before["list"] = Gate()
    opening = asyncio.create_task(open_tracker(registry))
    await settle()
    await registry.drain(1_000)
    with pytest.raises(ShuttingDown):
        await opening
    assert registry.tracker_count == 0


async def test_drain_ends_polls(registry, clock):
    """A waiting poll does not delay the stop."""
    host, opened = await open_tracker(registry)
    poll = asyncio.create_task(host.poll(opened.epoch, max_count=1, wait_ms=60_000, lease_ms=1_000))
    await settle()
    await registry.drain(1_000)
    with pytest.raises(ShuttingDown):
        await poll
    assert not issubclass(ShuttingDown, PollEnded)


async def test_idle_trackers_cost_no_timers(registry, clock):
    """A thousand trackers without work set no timer."""
    for number in range(1_000):
        await open_tracker(registry, KEY._replace(subscription=f"idle {number}"))
    assert clock.next_timer_in_ms() == MINUTE_MS  # the log's, which counts the lines it left out
    clock.advance(MINUTE_MS)
    assert clock.next_timer_in_ms() is None
    assert registry.tracker_count == 1_000


def test_limits_that_no_service_can_work_with_are_refused():
    """Each limit is at least 1, and the default lease is within the maximum."""
    with pytest.raises(InvalidInput, match="batch_max"):
        ServiceLimits(batch_max=0)
    with pytest.raises(InvalidInput, match="lease_default_ms"):
        ServiceLimits(lease_default_ms=10, lease_max_ms=9)
