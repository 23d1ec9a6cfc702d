"""A close leaves nothing behind that the next open would have to delete."""

import asyncio
import dataclasses
import gc

import pytest

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from tests.service.harness.shell import KEY, TINY, Gate, bucketful, elapse, make_registry, settle

FAR_MS = 1_000_000


@pytest.fixture
async def merging_registry(storage, clock):
    """Return a registry that merges above two buckets."""
    registry = make_registry(storage, clock, limits=dataclasses.replace(TINY, max_num_buckets=2))
    await registry.start()
    yield registry
    closing = asyncio.create_task(registry.close())
    await elapse(clock, 0)
    await closing


async def test_a_merge_that_ends_while_its_tracker_closes_leaves_no_orphans(merging_registry, storage, clock):
    """The merged snapshot is in the catalogue, and its sources are gone when the close returns."""
    opened = await merging_registry.open(KEY, owner="tests", mark_delete=None)
    host = merging_registry.host(KEY)
    storage.before["get_bucket_snapshot_segments"] = gate = Gate()
    for ledger in range(1, 5):
        host.add(opened.epoch, bucketful(clock.now_ms(), ledger))
        await settle()
    assert gate.held_count
    closing = asyncio.create_task(merging_registry.close_tracker(KEY, opened.epoch))
    await settle()
    assert not closing.done()
    gate.open()
    await settle()
    assert closing.done()
    assert merging_registry.counters.snapshots_merged == 1
    catalogued = [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]
    stored = [snapshot.bucket_id for snapshot in await storage.inner.list_bucket_snapshots(*KEY)]
    assert sorted(catalogued) == stored
    assert len(stored) == 2


async def test_an_unreadable_summary_costs_a_read_of_its_own_snapshot(registry, storage, clock):
    """Consumption of both buckets is recorded, and the unreadable summary is counted."""
    opened = await registry.open(KEY, owner="tests", mark_delete=None)
    host = registry.host(KEY)
    for ledger in (1, 2, 3):
        host.add(opened.epoch, bucketful(clock.now_ms(), ledger))
    await settle()
    host.cancel(opened.epoch, PositionColumns.of([(1, 0), (2, 0)]))
    first, second = (await storage.inner.list(*KEY)).entries
    damaged = dataclasses.replace(first, summary=b"\x01what")
    await storage.inner.replace(*KEY, remove=(), add=(damaged,), epoch=opened.epoch)
    await registry.close_tracker(KEY, opened.epoch)
    assert registry.counters.summaries_unreadable == 1
    assert registry.counters.checkpoints_failed == 0
    entries = {entry.bucket_id: entry for entry in (await storage.inner.list(*KEY)).entries}
    for ledger, bucket in enumerate((first, second), start=1):
        consumed = PositionBitmap.deserialize(entries[bucket.bucket_id].consumed)
        assert list(consumed.to_columns()) == [(ledger, 0)]
    assert storage.calls.count("get_bucket_snapshot_metadata") == 1


async def test_a_closed_tracker_leaves_its_memory_at_once(registry, clock):
    """Its indexes do not stay until Python's next collection of everything, which may be hours away."""
    opened = await registry.open(KEY, owner="tests", mark_delete=None)
    registry.host(KEY).add(opened.epoch, bucketful(clock.now_ms(), 1))
    await settle()
    gc.collect()  # what other tests have left
    gc.disable()
    try:
        await registry.close_tracker(KEY, opened.epoch)
        await settle()
        # Not isinstance, which asks proxies of other tests for objects that are gone.
        assert not [each for each in gc.get_objects() if type(each) is TrackerCore]
    finally:
        gc.enable()
