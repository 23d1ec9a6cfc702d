"""Recovery of snapshots that are missing, corrupt, overlapping, half-written or Pulsar's own.

| snapshot | outcome | counted as |
| --- | --- | --- |
| missing | its pointer is dropped, the rest is recovered, replay required | snapshots_missing |
| corrupt | pointer and object are dropped, the rest is recovered, replay required | snapshots_corrupt |
| overlapping | each position belongs to one bucket, the enclosing first | recovered_count |
| half-written | no catalogue names it: swept at the next recovery | orphans_swept |
| Pulsar's own, without a summary | recovered from its metadata, delivered from its segments | recovered_count |
"""

from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage
from tests.golden.test_bucket_snapshots import BUCKETS
from tests.service.harness.shell import KEY, TINY, ControlledStorage, bucketful, elapse, indexes, make_registry, settle


async def _opened(storage, clock, **settings):
    registry = make_registry(storage, clock, **settings)
    await registry.start()
    return registry, await registry.open(KEY, owner="tests", mark_delete=None)


async def _three_buckets(storage, clock):
    """Store ledgers 1 to 3 as a bucket each; return their ids."""
    registry, opened = await _opened(storage, clock)
    for ledger_id in (1, 2, 3, 4):
        registry.host(KEY).add(opened.epoch, bucketful(clock.now_ms(), ledger_id))
        await settle()
    await registry.close_tracker(KEY, opened.epoch)
    ids = [entry.bucket_id for entry in (await storage.list(*KEY)).entries]
    assert len(ids) == 3
    await registry.close()
    return ids


async def _each(segments):
    for segment in segments:
        yield segment


async def _content(storage):
    """Return the bucket ids in the catalogue, and those of all objects."""
    named = [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]
    stored = [snapshot.bucket_id for snapshot in await storage.inner.list_bucket_snapshots(*KEY)]
    return named, stored


async def test_a_missing_snapshot_costs_its_pointer():
    """A missing snapshot is found when its segments are loaded: recovery reads no snapshot with a complete summary."""
    storage, clock = ControlledStorage(), ManualClock()
    first, second, third = await _three_buckets(storage, clock)
    await storage.inner.start()
    await storage.inner.delete_bucket_snapshot(second)
    await storage.inner.close()
    registry, opened = await _opened(storage, clock)
    host = registry.host(KEY)
    assert opened.recovered_count == 15
    await elapse(clock, 1_000_000)
    assert registry.counters.snapshots_missing == 1
    assert host.replay_required
    tracked = host.contains(PositionColumns.of([(1, 4), (2, 4), (3, 4)])).tolist()
    assert tracked == [True, False, True]
    stats = host.stats()
    assert (stats.pending_count, stats.dropped_as_corrupt_count) == (10, 5)
    assert await _content(storage) == ([first, third], [first, third])
    await registry.close()


async def test_a_corrupt_snapshot_is_dropped_and_the_rest_recovered():
    """A corrupt snapshot is dropped, and the rest is recovered."""
    storage, clock = ControlledStorage(), ManualClock()
    first, second, third = await _three_buckets(storage, clock)

    async def damaged(bucket_id, *_range):
        if bucket_id == second:
            raise SnapshotCorrupt("a checksum is wrong")

    storage.before["get_bucket_snapshot_segments"] = damaged
    registry, _ = await _opened(storage, clock)
    host = registry.host(KEY)
    await elapse(clock, 1_000_000)
    assert registry.counters.snapshots_corrupt == 1
    assert host.replay_required
    assert host.stats().dropped_as_corrupt_count == 5
    assert host.stats().pending_count == 10
    assert await _content(storage) == ([first, third], [first, third])
    await registry.close()


async def test_overlapping_snapshots_share_no_position():
    """One of two snapshots with the same content, as a writer that lost its answer leaves them, is dropped."""
    storage, clock = ControlledStorage(), ManualClock()
    first, second, third = await _three_buckets(storage, clock)
    await storage.inner.start()
    state = await storage.inner.list(*KEY)
    metadata = await storage.inner.get_bucket_snapshot_metadata(second)
    count = len(decode_metadata(metadata).bounds)
    segments = await storage.inner.get_bucket_snapshot_segments(second, 1, count)
    twin = await storage.inner.create_bucket_snapshot(
        metadata, _each(segments), bucket_key="k", topic=KEY[0], cursor=KEY[1], epoch=state.epoch
    )
    # Its range encloses the first two and it has no summary of ours, so the others win.
    entry = CatalogueEntry(twin, Position(1, 0), Position(3, 0))
    await storage.inner.replace(*KEY, remove=(), add=(entry,), epoch=state.epoch)
    await storage.inner.close()
    registry, opened = await _opened(storage, clock)
    await settle()
    assert (opened.recovered_count, opened.bucket_count) == (15, 3)
    registry.host(KEY)._gate.core.check()
    assert await _content(storage) == ([first, second, third], [first, second, third])
    await elapse(clock, 1_100_000)
    delivery = await registry.host(KEY).poll(opened.epoch, max_count=100, wait_ms=0, lease_ms=0)
    positions = list(delivery.indexes.positions)
    assert len(positions) == len(set(positions)) > 5
    await registry.close()


async def test_half_written_snapshots_are_swept():
    """A torn write leaves an uncatalogued snapshot: the positions stay in memory, and the next open sweeps it."""
    clock = ManualClock()
    storage = FaultyStorage(MemoryStorage(), FaultPlan(torn=1.0, seed=3))
    limits = ServiceLimits(storage_attempts_max=1)
    registry, opened = await _opened(storage, clock, service_limits=limits)
    host = registry.host(KEY)
    host.add(opened.epoch, bucketful(clock.now_ms(), 1))
    host.add(opened.epoch, indexes(clock.now_ms(), (2, 0, 2_000_000)))
    await settle()
    (part,) = await storage.inner.list_bucket_snapshots(*KEY)
    assert registry.counters.snapshots_failed == 1
    assert host.stats().pending_count == 6
    await registry.close_tracker(KEY, opened.epoch)
    await registry.close()
    storage.plan = FaultPlan()
    registry, opened = await _opened(storage, clock)
    assert registry.counters.orphans_swept == 1
    assert opened.recovered_count == 0
    assert part not in await storage.inner.list_bucket_snapshots(*KEY)
    await registry.close()


@pytest.mark.parametrize("max_num_buckets", [-1, 1], ids=["apart", "merged"])
async def test_pulsars_own_snapshots_are_recovered_and_delivered(max_num_buckets):
    """Pulsar's own snapshots are recovered from ids and ranges of ledgers alone, as cursor properties have them."""
    pulsar = BUCKETS[:6]
    earliest = min(segment["min"] for bucket in pulsar for segment in bucket.segments)
    latest = max(segment["max"] for bucket in pulsar for segment in bucket.segments)
    clock = ManualClock(earliest - 60_000)
    storage = ControlledStorage()
    await storage.inner.start()
    expected = PositionBitmap()
    for bucket in pulsar:
        bucket_id = await storage.inner.create_bucket_snapshot(
            bucket.entries[0], _each(bucket.entries[1:]), bucket_key="k", topic=KEY[0], cursor=KEY[1], epoch=0
        )
        sealed = bucket.sealed
        ranged = CatalogueEntry(bucket_id, Position(sealed.first.ledger_id, 0), Position(sealed.last.ledger_id, 0))
        await storage.inner.replace(*KEY, remove=(), add=(ranged,), epoch=0)
        expected.add(decode_segments(bucket.entries[1:]).positions)
    await storage.inner.close()
    registry, opened = await _opened(storage, clock, limits=replace(TINY, max_num_buckets=max_num_buckets))
    host = registry.host(KEY)
    assert opened.recovered_count == len(expected)
    delivered = PositionBitmap()
    for _ in range(400):
        await elapse(clock, max(1, (latest - earliest + 120_000) // 400))
        while len((delivery := await host.poll(opened.epoch, max_count=1_000, wait_ms=0, lease_ms=0)).indexes):
            assert delivered.add(delivery.indexes.positions) == len(delivery.indexes)
            await settle()
    assert delivered == expected
    counters = registry.counters
    assert (counters.snapshots_missing, counters.snapshots_corrupt, counters.summaries_unreadable) == (0, 0, 0)
    assert bool(counters.snapshots_merged) == (max_num_buckets == 1)
    assert host.stats().pending_count == 0
    await elapse(clock, 5_000)
    assert await _content(storage) == ([], [])
    await registry.close()
