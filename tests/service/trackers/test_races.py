"""Concurrent calls of two dispatchers during slow storage operations."""

import asyncio
import dataclasses

import pytest

from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.service.operations.clearing import clear_tracker
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.errors import StorageUnavailable
from tests.service.harness.shell import (
    KEY,
    TINY,
    Gate,
    bucketful,
    elapse,
    failing,
    indexes,
    make_registry,
    rows,
    settle,
)

FAR_MS = 1_000_000


async def _opened(registry: TrackerRegistry):
    opened = await registry.open(KEY, owner="first", mark_delete=None)
    return registry.host(KEY), opened.epoch


async def _sealed(host, epoch, clock, ledger=1):
    """Return a tracker with a bucket in the catalogue, and one position in memory."""
    host.add(epoch, bucketful(clock.now_ms(), ledger))
    host.add(epoch, indexes(clock.now_ms(), (ledger + 1, 0, FAR_MS)))
    await settle()


async def _catalogued(storage):
    return [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]


async def test_a_clear_that_crosses_an_open_takes_an_epoch_before_it(registry, storage, clock):
    """Both calls succeed: the open has the newer, recorded epoch, and no cleared position comes back."""
    host, epoch = await _opened(registry)
    await _sealed(host, epoch, clock)
    storage.before["replace"] = gate = Gate()
    opening = asyncio.create_task(registry.open(KEY, owner="second", mark_delete=None))
    await settle()
    clearing = asyncio.create_task(clear_tracker(registry, KEY, epoch))
    await settle()
    gate.open()
    del storage.before["replace"]
    await elapse(clock, 10_000)
    assert (clearing.result().epoch, opening.result().epoch) == (epoch + 1, epoch + 2)
    assert (host.epoch, host.owner) == (epoch + 2, "second")
    assert (await storage.inner.list(*KEY)).epoch == epoch + 2
    assert await _catalogued(storage) == []
    assert await storage.inner.list_bucket_snapshots(*KEY) == []


async def test_a_clear_waits_for_its_own_buckets(registry, storage, clock):
    """A clear is durable only after its own deletions, and not after another deletion under the same epoch."""
    host, epoch = await _opened(registry)
    await _sealed(host, epoch, clock)
    old = set(await _catalogued(storage))
    down = True

    async def refuse(*_tracker, remove, **_more):
        if down and old.intersection(remove):
            raise StorageUnavailable("down for these")

    storage.before["replace"] = refuse
    clearing = asyncio.create_task(clear_tracker(registry, KEY, epoch))
    await elapse(clock, 200)
    await _sealed(host, epoch + 1, clock)
    assert len(await _catalogued(storage)) == 2
    host.advance_mark_delete(epoch + 1, Position(9, 0))
    await elapse(clock, 200)
    assert await _catalogued(storage) == list(old)
    assert not clearing.done(), "a crash now would bring the cleared positions back"
    down = False
    await elapse(clock, 10_000)
    assert clearing.result().epoch == epoch + 1
    assert await _catalogued(storage) == []


async def test_a_clear_does_not_wait_for_an_object_that_cannot_be_deleted(registry, storage, clock):
    """A clear ends when the catalogue is written; a deletion that fails is tried again alone."""
    host, epoch = await _opened(registry)
    for ledger in (1, 2, 3):
        await _sealed(host, epoch, clock, ledger)
    stuck, *others = await _catalogued(storage)
    down = True

    async def refuse(bucket_id):
        if down and bucket_id == stuck:
            raise StorageUnavailable("down for this one")

    storage.before["delete_bucket_snapshot"] = refuse
    clearing = asyncio.create_task(clear_tracker(registry, KEY, epoch))
    await elapse(clock, 5_000)
    assert clearing.result().epoch == epoch + 1
    assert [one.bucket_id for one in await storage.inner.list_bucket_snapshots(*KEY)] == [stuck]
    down = False
    await elapse(clock, 5_000)
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    tried = storage.calls.count("delete_bucket_snapshot")
    assert tried > 1 + len(others)
    await elapse(clock, 10_000)
    assert storage.calls.count("delete_bucket_snapshot") == tried


async def test_a_clear_does_not_wait_for_objects_to_be_deleted(registry, storage, clock):
    """They go one after the other, and there may be thousands; nothing in the catalogue names them any more."""
    host, epoch = await _opened(registry)
    for ledger in (1, 2, 3):
        await _sealed(host, epoch, clock, ledger)
    storage.before["delete_bucket_snapshot"] = gate = Gate()
    cleared = await clear_tracker(registry, KEY, epoch)
    assert (cleared.epoch, await _catalogued(storage)) == (epoch + 1, [])
    assert len(await storage.inner.list_bucket_snapshots(*KEY)) == 3
    gate.open()
    await elapse(clock, 1_000)
    assert await storage.inner.list_bucket_snapshots(*KEY) == []


async def test_a_close_that_crosses_an_open_does_not_fail_it(registry, storage, clock):
    """The tracker is recovered again for the open."""
    host, epoch = await _opened(registry)
    await _sealed(host, epoch, clock)
    storage.before["replace"] = gate = Gate()
    opening = asyncio.create_task(registry.open(KEY, owner="second", mark_delete=None))
    await settle()
    closing = asyncio.create_task(registry.close_tracker(KEY, epoch))
    await settle()
    gate.open()
    await elapse(clock, 10_000)
    closing.result()
    opened = opening.result()
    assert (opened.recovered_count, opened.bucket_count) == (5, 1)
    registry.host(KEY).require_owner(opened.epoch)


@pytest.mark.parametrize("operation", ["replace", "delete_bucket_snapshot"])
async def test_a_drained_bucket_whose_deletion_failed_does_not_outlive_a_close(registry, storage, clock, operation):
    """No position of the drained bucket is tracked after a restart."""
    host, epoch = await _opened(registry)
    await _sealed(host, epoch, clock)
    storage.before[operation] = failing(*[StorageUnavailable("down")] * 3)
    host.advance_mark_delete(epoch, Position(1, 9))
    await elapse(clock, 400)
    closing = asyncio.create_task(registry.close_tracker(KEY, epoch))
    await elapse(clock, 10)
    closing.result()
    assert await _catalogued(storage) == []
    again = make_registry(storage, clock)
    await registry.close()
    await again.start()
    opened = await again.open(KEY, owner="first", mark_delete=None)
    assert opened.recovered_count == 0
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    assert not again.host(KEY).contains(PositionColumns.of([(1, 0)]))[0]
    await again.close()


async def test_an_orphan_that_cannot_be_deleted_does_not_keep_a_tracker_closed(registry, storage, clock):
    """The open succeeds, and the next recovery tries the deletion again."""
    await storage.inner.replace(*KEY, remove=(), add=(), epoch=1, writer="former")
    orphan = await storage.inner.create_bucket_snapshot(
        b"", _nothing(), bucket_key="orphan", topic=KEY.topic, cursor=KEY.subscription, epoch=1
    )
    storage.before["delete_bucket_snapshot"] = failing(*[StorageUnavailable("down")] * 3)
    opening = asyncio.create_task(registry.open(KEY, owner="first", mark_delete=None))
    await elapse(clock, 1_000)
    epoch = opening.result().epoch
    assert (registry.counters.orphans_left, registry.counters.orphans_swept) == (1, 0)
    assert [stored.bucket_id for stored in await storage.inner.list_bucket_snapshots(*KEY)] == [orphan]
    await registry.close_tracker(KEY, epoch)
    await registry.open(KEY, owner="first", mark_delete=None)
    assert registry.counters.orphans_swept == 1
    assert await storage.inner.list_bucket_snapshots(*KEY) == []


async def _nothing():
    return
    yield


async def test_a_deadline_replaced_during_a_merge_stays_replaced_after_a_crash(storage, clock):
    """The bucket with the new deadline is older than the merged one, and the crash comes before any checkpoint."""
    limits = dataclasses.replace(TINY, max_num_buckets=1, late_indexes_max=2)
    registry = make_registry(storage, clock, limits=limits)
    await registry.start()
    host, epoch = await _opened(registry)
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 100), (1, 1, 100), (1, 2, 900)))
    host.seal(epoch)
    await settle()
    storage.before["get_bucket_snapshot_segments"] = reading = Gate()
    host.add(epoch, bucketful(clock.now_ms(), 2))
    host.seal(epoch)
    await elapse(clock, 100)
    assert reading.held_count == 1, "the merge is under way"
    delivery = await host.poll(epoch, max_count=9, wait_ms=0, lease_ms=1_000)
    assert rows(delivery) == [(1, 0), (1, 1)]
    later_ms = clock.now_ms() + 500
    host.nack(epoch, delivery.lease_id, delivery.indexes.positions, deliver_at_ms=later_ms)
    await settle()
    before = await _catalogued(storage)
    storage.after["replace"] = Gate()
    reading.open()
    await settle()
    merged = await _catalogued(storage)
    assert (sorted(before), sorted(merged)) == ([1, 2, 3], [3, 4])

    await storage.inner.close()  # the process has crashed
    registry = make_registry(storage.inner, clock, limits=limits)
    await registry.start()
    host, epoch = await _opened(registry)
    assert rows(await host.poll(epoch, max_count=9, wait_ms=0, lease_ms=1_000)) == []
    assert host.next_delivery_ms() == later_ms
    await elapse(clock, 500)
    assert rows(await host.poll(epoch, max_count=9, wait_ms=0, lease_ms=1_000)) == [(1, 0), (1, 1)]
    await registry.close()
