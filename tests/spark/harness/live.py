"""Reference for a rebuild: the buckets that a live service stores when it is offered a topic's indexes in order."""

import asyncio
from dataclasses import dataclass

from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.protocol import CatalogueEntry
from tests.service.harness.shell import KEY, make_registry


@dataclass(frozen=True)
class Live:
    """A catalogue with the bytes of its snapshots, and the merges that were too large."""

    entries: tuple[CatalogueEntry, ...]
    snapshots: tuple[tuple[bytes, ...], ...]
    """Metadata and segments of each entry."""
    too_large: frozenset[tuple[Position, Position]]
    """(first, last) of merged buckets that were not made because of their metadata."""


async def live_catalogue(
    storage: MemoryStorage,
    indexes: IndexColumns,
    limits: TrackerLimits,
    now_ms: int,
    *,
    key: TrackerKey = KEY,
    mark_delete: Position = BEFORE_ALL,
    batch: int = 1,
    metadata_bytes_max: int = 4 * 2**20,
) -> Live:
    """Offer indexes, ascending by position, at one time; every seal is stored and merged before the next add."""
    clock = ManualClock(now_ms)
    registry = make_registry(
        storage, clock, limits=limits, service_limits=ServiceLimits(snapshot_metadata_bytes_max=metadata_bytes_max)
    )
    await registry.start()
    opened = await registry.open(key, owner="dispatcher", mark_delete=mark_delete)
    host = registry.host(key)
    # A batch holds less than a bucket, so at most one bucket is sealed in it.
    batch = max(1, min(batch, limits.min_index_count_per_bucket - 1, limits.mutable_indexes_max - 1))
    ranges: dict[int, tuple[Position, Position]] = {}
    groups: set[tuple[int, ...]] = set()
    for start in range(0, len(indexes), batch):
        host.add(opened.epoch, indexes.take(slice(start, start + batch)))
        while host._gate.runner.in_flight_count:
            await asyncio.sleep(0)
            groups |= host._gate.core._merger._too_large  # the merger forgets them with their buckets
            ranges |= {entry.bucket_id: (entry.first, entry.last) for entry in (await storage.list(*key)).entries}
    too_large = {(ranges[group[0]][0], ranges[group[-1]][1]) for group in groups}
    await registry.close()
    await storage.start()
    live = await stored(storage, key)
    await storage.close()
    return Live(live.entries, live.snapshots, frozenset(too_large))


async def stored(storage, key: TrackerKey = KEY) -> Live:
    """Return what a started storage has of a tracker."""
    entries = (await storage.list(*key)).entries
    snapshots = []
    for entry in entries:
        metadata = await storage.get_bucket_snapshot_metadata(entry.bucket_id)
        segment_count = len(decode_metadata(metadata).bounds)
        segments = await storage.get_bucket_snapshot_segments(entry.bucket_id, 1, segment_count)
        snapshots.append((metadata, *segments))
    return Live(entries, tuple(snapshots), frozenset())
