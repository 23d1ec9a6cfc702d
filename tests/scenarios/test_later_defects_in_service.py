"""Defects of a service that were reported after the list of rows was made: closes, restarts, and what they leave."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import PollEnded
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.registry_life import (
    FAR_MS,
    closed_in_time,
    down,
    fill,
    open_tracker,
    positions_of,
    restarted,
)
from tests.service.harness.shell import KEY, TINY, ControlledStorage, elapse, failing, make_registry, rows, settle

DAY_MS = 86_400_000
MONTH_MS = 30 * DAY_MS
DELAYS_MS = (5 * DAY_MS, 10 * DAY_MS, MONTH_MS, MONTH_MS + 500, 50 * DAY_MS, 60 * DAY_MS)
"""Three are over after a month. The third and the fourth are in one segment."""


async def handed_out(host: TrackerHost, epoch: int) -> list[tuple[int, int]]:
    """Return all that is due, a poll at a time."""
    positions: list[tuple[int, int]] = []
    while polled := rows(await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=0)):
        positions += polled
        await settle()
    return positions


@pytest.mark.parametrize("logged", [True, False], ids=["add log", "replay"])
async def test_a_month_without_an_owner_costs_no_position_and_doubles_none(logged: bool) -> None:
    """The half whose deadlines have passed comes at once, the rest in time, from the add log or a replay."""
    storage, clock, log = ControlledStorage(), ManualClock(), MemoryAddLog() if logged else None
    registry = make_registry(storage, clock, add_log=log)
    await registry.start()
    host, opened = await open_tracker(registry)
    start_ms = clock.now_ms()
    offered = [
        (start_ms + delay_ms, ledger, entry) for ledger in range(1, 7) for entry, delay_ms in enumerate(DELAYS_MS)
    ]
    for start in range(0, len(offered), len(DELAYS_MS)):  # one ledger at a time, so that the log is cut behind most
        host.add(opened.epoch, IndexColumns.of(offered[start : start + len(DELAYS_MS)]))
        await settle()
    again = await restarted(registry, storage, clock, add_log=log)
    await elapse(clock, MONTH_MS)
    host, opened = await open_tracker(again)
    if logged:
        assert opened.recovered_count == len(offered)
        sent = []
    else:
        outcome = host.add(opened.epoch, IndexColumns.of(offered))
        sent = [offered[offset][1:] for offset in outcome.due.tolist()]
    sent += await handed_out(host, opened.epoch)
    assert sorted(sent) == [(ledger, entry) for ledger in range(1, 7) for entry in (0, 1, 2)]
    for entry, delay_ms in enumerate(DELAYS_MS[3:], 3):
        await elapse(clock, start_ms + delay_ms - 1 - clock.now_ms())
        assert await handed_out(host, opened.epoch) == []
        await elapse(clock, 1)
        assert await handed_out(host, opened.epoch) == [(ledger, entry) for ledger in range(1, 7)]
    assert host.stats().pending_count == 0
    await again.close()


@pytest.mark.parametrize("first", ["close", "wake-up"])
@pytest.mark.parametrize("what", ["load", "delivery", "lease"])
async def test_a_close_in_the_turn_of_a_wake_up_leaves_no_error_and_no_timer(what: str, first: str) -> None:
    """The wake-up is due before or after the close has begun, in the same turn of the event loop."""
    reported: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    storage, clock = ControlledStorage(), ManualClock()
    registry = make_registry(storage, clock)
    await registry.start()
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, delay_ms=10_000)
    if what != "load":
        await elapse(clock, 10_000 if what == "lease" else 9_000)
    waiting = None
    if what == "lease":
        assert len((await host.poll(opened.epoch, max_count=50, wait_ms=0, lease_ms=5)).indexes)
    elif what == "delivery":
        waiting = asyncio.create_task(host.poll(opened.epoch, max_count=50, wait_ms=60_000, lease_ms=60_000))
        await settle()
    in_ms = clock.next_timer_in_ms()
    assert in_ms
    closing = asyncio.create_task(registry.close_tracker(KEY, opened.epoch))
    if first == "close":
        await asyncio.sleep(0)
    clock.advance(in_ms)
    await settle()
    await closing
    if waiting is not None:
        with suppress(PollEnded):
            await waiting
    assert (clock.next_timer_in_ms(), len(registry._shared.timers)) == (None, 0)
    await registry.close()
    assert reported == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_sources_that_outlive_a_restart_count_no_more_and_are_deleted() -> None:
    """Their merge is in the catalogue, and no deletion worked before the next open (apache/pulsar #26239)."""
    storage, clock, limits = ControlledStorage(), ManualClock(), replace(TINY, max_num_buckets=2)
    registry = make_registry(storage, clock, limits=limits)
    await registry.start()
    storage.before["delete_bucket_snapshot"] = failing(*[down()] * 1_000)
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    await elapse(clock, 5_000)
    assert (host.stats().merge_count, host.stats().pending_count) == (registry.counters.snapshots_merged, 26)
    assert registry.counters.snapshots_merged
    await closed_in_time(registry, clock)
    again = make_registry(storage, clock, limits=limits)
    await again.start()
    catalogued = [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]
    assert len(catalogued) == 2
    assert len(await storage.inner.list_bucket_snapshots(*KEY)) > 2
    del storage.before["delete_bucket_snapshot"]
    host, opened = await open_tracker(again)
    assert opened.recovered_count == 25
    await elapse(clock, 5_000)
    assert [found.bucket_id for found in await storage.inner.list_bucket_snapshots(*KEY)] == sorted(catalogued)
    await elapse(clock, FAR_MS)
    assert sorted(await handed_out(host, opened.epoch)) == list(positions_of(1, 2, 3, 4, 5))
    await again.close()
