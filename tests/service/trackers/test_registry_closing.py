"""Closing, clearing and deleting trackers, and the content of the storage afterwards."""

import asyncio

import pytest

from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.service.errors import Fenced, TrackerNotOpen
from delayed_tracker.service.operations.clearing import clear, delete
from delayed_tracker.storage.errors import StorageUnavailable
from tests.service.harness.registry_life import FAR_MS, down, fill, open_tracker, restarted
from tests.service.harness.shell import (
    KEY,
    OTHER,
    Gate,
    bucketful,
    elapse,
    failing,
    indexes,
    settle,
)


async def test_a_closed_tracker_answers_not_open_and_keeps_its_snapshots(registry, storage, clock):
    """A close ends leases and drops the mutable bucket; the next open finds the sealed buckets."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    with pytest.raises(TrackerNotOpen):
        host.add(opened.epoch, bucketful(clock.now_ms(), 9))
    _, again = await open_tracker(registry)
    assert again.recovered_count == 25
    assert registry.counters.snapshots_stored == 5


async def test_rows_17_and_42_close_waits_for_a_pending_create_and_blocks_nobody(registry, storage, clock):
    """Calls are refused at once, the close returns after the create, and an open waits (rows 17 and 42)."""
    host, opened = await open_tracker(registry)
    storage.before["create_bucket_snapshot"] = gate = Gate()
    await fill(host, opened.epoch, clock, 1)
    closing = asyncio.create_task(registry.close_tracker(KEY, opened.epoch))
    await settle()
    assert not closing.done()
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    reopening = asyncio.create_task(open_tracker(registry))
    await asyncio.wait_for(open_tracker(registry, OTHER), 1)
    assert not reopening.done()
    gate.open()
    await settle()
    assert closing.done()
    _, again = reopening.result()
    assert again.recovered_count == 5


async def test_closing_goes_on_when_the_caller_goes_away(registry, storage, clock):
    """A cancelled close still closes the tracker."""
    host, opened = await open_tracker(registry)
    storage.before["create_bucket_snapshot"] = gate = Gate()
    await fill(host, opened.epoch, clock, 1)
    closing = asyncio.create_task(registry.close_tracker(KEY, opened.epoch))
    await settle()
    closing.cancel()
    gate.open()
    await settle()
    assert registry.tracker_count == 0


async def test_what_was_consumed_does_not_come_back_after_a_close(registry, storage, clock):
    """A close records consumption, so that a restart tracks only the remaining positions, including leased ones."""
    host, opened = await open_tracker(registry)
    host.add(opened.epoch, bucketful(clock.now_ms(), 1, delay_ms=100_000, step_ms=1))
    host.add(opened.epoch, indexes(clock.now_ms(), (1, 9, FAR_MS), (2, 0, FAR_MS)))
    await settle()
    await elapse(clock, 100_010)
    delivery = await host.poll(opened.epoch, max_count=4, wait_ms=0, lease_ms=60_000)
    host.ack(opened.epoch, delivery.lease_id, PositionColumns.of([(1, 0), (1, 1)]))
    again = await restarted(registry, storage, clock)
    clock.step_wall(-60_000)  # so that the segments are not skipped as due
    host, opened = await open_tracker(again)
    assert host.contains(PositionColumns.of([(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 9)])).tolist() == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    await again.close()


async def test_a_checkpoint_that_fails_costs_duplicates_only(registry, storage, clock):
    """A failed checkpoint is counted, and the close succeeds."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    storage.before["list"] = failing(down())
    await registry.close_tracker(KEY, opened.epoch)
    assert registry.counters.checkpoints_failed == 1


async def test_clear_is_durable_and_raises_the_epoch(registry, storage, clock):
    """No position comes back after a restart; the old epoch is fenced, and the new one is valid."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    cleared = await clear(registry, KEY, opened.epoch)
    assert (cleared.cleared_count, cleared.epoch) == (26, opened.epoch + 1)
    with pytest.raises(Fenced):
        host.require_owner(opened.epoch)
    host.require_owner(cleared.epoch)
    await settle()
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    again = await restarted(registry, storage, clock)
    _, opened = await open_tracker(again)
    assert opened.recovered_count == 0
    assert opened.epoch > cleared.epoch
    await again.close()


async def test_clear_is_legal_for_a_tracker_that_is_not_loaded(registry, storage, clock):
    """With the last epoch a clear deletes all positions, and an older epoch is fenced (rows 36 and 69)."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    with pytest.raises(Fenced):
        await clear(registry, KEY, opened.epoch + 1)
    cleared = await clear(registry, KEY, opened.epoch)
    assert (cleared.cleared_count, cleared.epoch) == (25, opened.epoch + 1)
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    _, again = await open_tracker(registry)
    assert (again.recovered_count, again.epoch) == (0, opened.epoch + 2)


async def test_clear_of_a_tracker_that_nobody_ever_opened_is_not_open(registry):
    """A tracker that was never opened has no epoch, and the remedy is to open it."""
    with pytest.raises(TrackerNotOpen):
        await clear(registry, KEY, 1)


async def _reopened(registry, storage, clock):
    """Return a tracker with 25 positions in storage, whose next recovery waits at the gate, and its last epoch."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    storage.before["list_bucket_snapshots"] = gate = Gate()
    opening = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
    await settle()
    assert registry.recovering_count == 1
    return opened.epoch, gate, opening


@pytest.mark.parametrize("reset_to", [None, Position(3, 0)], ids=["clear", "reset"])
async def test_a_clear_waits_for_a_recovery_and_gets_a_definite_answer(registry, storage, clock, reset_to):
    """After the recovery the new owner's epoch clears the tracker, and the old owner's is fenced."""
    epoch, gate, opening = await _reopened(registry, storage, clock)
    fenced = asyncio.create_task(clear(registry, KEY, epoch, reset_to=reset_to))
    applied = asyncio.create_task(clear(registry, KEY, epoch + 1, reset_to=reset_to))
    await settle()
    assert not fenced.done()
    assert not applied.done()
    gate.open()
    await settle()
    with pytest.raises(Fenced):
        await fenced
    assert (await applied).cleared_count == 25
    assert (await opening).recovered_count == 25
    assert registry.host(KEY).stats().pending_count == 0


async def test_a_clear_that_gives_up_waiting_ends_nothing(registry, storage, clock):
    """A cancelled clear does not end the recovery for the callers that opened the tracker."""
    epoch, gate, opening = await _reopened(registry, storage, clock)
    clearing = asyncio.create_task(clear(registry, KEY, epoch + 1))
    await settle()
    clearing.cancel()
    gate.open()
    assert (await opening).recovered_count == 25


async def test_a_deletion_goes_on_when_the_recovery_it_waits_for_fails(registry, storage, clock):
    """A tracker whose recovery fails is deleted all the same."""
    _, gate, opening = await _reopened(registry, storage, clock)
    deleting = asyncio.create_task(delete(registry, KEY, None))
    await settle()
    storage.before["list_bucket_snapshots"] = failing(*[down()] * 2)
    storage.after["list_bucket_snapshots"] = failing(down())
    gate.open()
    await elapse(clock, 10_000)
    with pytest.raises(StorageUnavailable):
        await opening
    assert (await deleting).position_count == 25
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
