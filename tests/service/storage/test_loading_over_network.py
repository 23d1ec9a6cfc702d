"""Loads over a network: early enough for their rows to be handed out on time, and bounded per tracker and in all."""

import asyncio

import numpy as np
import pytest

from delayed_tracker.core.engine.load_budget import LoadBudget
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.clock import pause
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.load_lead import LEAD_MS_MAX, LoadLead
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from delayed_tracker.storage.testing.shared_faults import FaultyObjects, SharedFaults
from tests.service.harness.shell import KEY, ControlledStorage, Gate, elapse, make_registry, settle

REQUEST_MS = 50
BUCKETS = 6
BUCKET = 300
SPREAD_MS = 20_000
AHEAD_MS = 30_000
WARM_MS = 2_000
LIMITS = TrackerLimits(
    strict=True,
    min_index_count_per_bucket=BUCKET,
    max_indexes_per_segment=20,
    prefetch_window_ms=0,
    loaded_indexes_max=20_000,
)
"""Only the lead makes a tracker read ahead; without room, 200 of the 1,800 rows may be in memory."""


@pytest.mark.parametrize("has_room", [True, False])
async def test_what_is_read_at_50_ms_a_request_is_handed_out_on_time(clock, has_room):
    """Once some loads were measured no row is late, whether or not the rows of other trackers leave room."""
    storage = FaultyStorage(
        MemoryStorage(), FaultPlan(latency_ms=REQUEST_MS), sleep=lambda seconds: pause(clock, seconds * 1_000)
    )
    registry = make_registry(storage, clock, limits=LIMITS)
    await _timed(clock, registry.start())
    epoch = (await _timed(clock, registry.open(KEY, owner="tests", mark_delete=None))).epoch
    host = registry.host(KEY)
    due_from_ms = clock.now_ms() + AHEAD_MS
    for ledger_id in range(BUCKETS + 1):
        entries = np.arange(BUCKET)
        deadlines = due_from_ms + entries * SPREAD_MS // BUCKET + ledger_id
        host.add(epoch, IndexColumns(deadlines, np.full(BUCKET, ledger_id), entries))
    await elapse(clock, AHEAD_MS // 2)
    assert host.counters.snapshots_stored == BUCKETS
    if not has_room:
        registry.loads.share().hold(LIMITS.loaded_indexes_max)

    taken, most_held = [], 0

    async def poll() -> None:
        nonlocal most_held
        while sum(map(len, taken)) < (BUCKETS + 1) * BUCKET:
            delivery = await host.poll(epoch, max_count=1_000, wait_ms=60_000, lease_ms=0)
            late_ms = clock.now_ms() - delivery.indexes.deliver_at_ms
            taken.append(np.column_stack((delivery.indexes.deliver_at_ms, late_ms)))
            most_held = max(most_held, registry.loads.held_count - (0 if has_room else LIMITS.loaded_indexes_max))

    await _timed(clock, poll())
    deliver_at_ms, late_ms = np.concatenate(taken).T
    assert late_ms.min() >= 0
    assert late_ms.max() >= REQUEST_MS, "the first loads begin when their rows are due"
    assert late_ms[deliver_at_ms >= due_from_ms + WARM_MS].max() <= 2
    assert most_held <= LIMITS.loaded_indexes_max // 100 + BUCKETS * LIMITS.max_indexes_per_segment
    assert registry.loads.lead_ms < 4 * REQUEST_MS
    await _timed(clock, registry.close())


async def _timed(clock, answer):
    """Let time pass until there is an answer."""
    waiting = asyncio.ensure_future(answer)
    while not waiting.done():
        await elapse(clock, 200)
    return waiting.result()


async def _with_buckets(registry, clock, key, count):
    """Open a tracker and store so many buckets, whose rows are due in 10 s."""
    epoch = (await registry.open(key, owner="tests", mark_delete=None)).epoch
    host = registry.host(key)
    for ledger_id in range(count + 1):
        due_ms = np.full(BUCKET, clock.now_ms() + 10_000)
        host.add(epoch, IndexColumns(due_ms, np.full(BUCKET, ledger_id), np.arange(BUCKET)))
    await settle()
    assert host.counters.snapshots_stored == count
    return host, epoch


async def test_loads_are_bounded_per_tracker_and_in_all(clock):
    """Whatever is due, a tracker has four loads in flight, and all together half of the storage's operations."""
    storage = ControlledStorage()
    gate = storage.before["get_bucket_snapshot_segments"] = Gate()
    registry = make_registry(storage, clock, limits=LIMITS, service_limits=ServiceLimits(storage_operations_max=12))
    await registry.start()
    first, first_epoch = await _with_buckets(registry, clock, KEY, 8)
    await elapse(clock, 10_000)
    assert gate.held_count == ServiceLimits().tracker_operations_max
    second, second_epoch = await _with_buckets(registry, clock, KEY._replace(subscription="other"), 8)
    await elapse(clock, 10_000)
    assert gate.held_count == 6
    gate.open()
    for host, epoch in ((first, first_epoch), (second, second_epoch)):
        assert await _taken_count(host, epoch) == 9 * BUCKET
    await registry.close()


async def _taken_count(host, epoch):
    """Take what is due until nothing is, and return how much that was."""
    await settle()
    count = 0
    while len(taken := (await host.poll(epoch, max_count=10_000, wait_ms=0, lease_ms=0)).indexes):
        count += len(taken)
        await settle()
    return count


async def test_effects_that_hang_leave_loads_their_operations(clock):
    """Deletions that hang use none of the operations that are kept for loads."""
    storage = ControlledStorage()
    registry = make_registry(storage, clock, limits=LIMITS, service_limits=ServiceLimits(storage_operations_max=2))
    await registry.start()
    host, epoch = await _with_buckets(registry, clock, KEY, 2)
    other, other_epoch = await _with_buckets(registry, clock, KEY._replace(subscription="other"), 2)
    gate = storage.before["delete_bucket_snapshot"] = Gate()
    clearing = asyncio.ensure_future(other.clear(other_epoch))
    await settle()
    assert gate.held_count == 1
    await elapse(clock, 10_000)
    assert await _taken_count(host, epoch) == 3 * BUCKET
    gate.open()
    await clearing
    await registry.close()


async def test_a_tracker_is_opened_with_one_read_of_its_catalogue(clock):
    """Also with large summaries: what was read before the epoch was recorded is what the new owner goes on with."""
    objects, faults = MemoryObjects(), SharedFaults()
    for open_count in range(3):
        registry = make_registry(ObjectStorage(FaultyObjects(objects, faults)), clock, limits=LIMITS)
        await registry.start()
        faults.counts.clear()
        epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
        assert faults.counts["read"] == (1 if open_count else 3)  # that there is no catalogue yet must be certain
        assert faults.counts["write"] == 1
        host = registry.host(KEY)
        assert host.stats().pending_count == open_count * BUCKET
        due_ms = np.full(BUCKET, clock.now_ms() + AHEAD_MS)
        host.add(epoch, IndexColumns(due_ms, np.full(BUCKET, open_count), 100 * np.arange(BUCKET)))
        host.seal(epoch)
        await settle()
        await registry.close()


def test_the_lead_follows_what_loads_take():
    """It covers a steady storage twice, a slow load counts at once and is forgotten, and there is a maximum."""
    budget = LoadBudget(1)
    lead = LoadLead(budget)
    assert budget.lead_ms == 0
    lead.took(REQUEST_MS)
    assert budget.lead_ms == 4 * REQUEST_MS
    for _ in range(50):
        lead.took(REQUEST_MS)
    assert budget.lead_ms == 2 * REQUEST_MS
    lead.took(1_000)
    assert budget.lead_ms > 1_000
    for _ in range(50):
        lead.took(REQUEST_MS)
    assert budget.lead_ms < 3 * REQUEST_MS
    lead.took(10 * LEAD_MS_MAX)
    assert budget.lead_ms == LEAD_MS_MAX
