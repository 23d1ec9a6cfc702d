"""Closing trackers, and the content of the storage afterwards."""

import asyncio

import pytest

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.service.errors import TrackerNotOpen
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
    host.cancel(opened.epoch, PositionColumns.of([(1, 0)]))
    storage.before["list"] = failing(down())
    await registry.close_tracker(KEY, opened.epoch)
    assert registry.counters.checkpoints_failed == 1


@pytest.mark.parametrize("hangs", [False, True])
async def test_effects_that_are_cut_off_may_undo_what_they_have_begun(registry, storage, clock, hangs):
    """They have the last quarter of the time. The storage stays open until they have ended, or it is over."""
    host, opened = await open_tracker(registry)
    begun, undone = asyncio.Event(), Gate()

    async def begin(*_args, **_options):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await undone()

    storage.before["create_bucket_snapshot"] = begin
    await fill(host, opened.epoch, clock, 1)
    await begun.wait()
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    closing = asyncio.create_task(registry.drain(8_000))
    await elapse(clock, 5_900)
    assert undone.held_count == 0
    await elapse(clock, 200)
    assert undone.held_count == 1
    assert not closing.done()
    if hangs:
        await elapse(clock, 1_900)
        assert closing.done()
    undone.open()
    await closing
    await settle()
    assert reported == []
