"""Every byte of what a shared storage keeps is flipped under a service: it is found, counted, and named in the log.

| flipped | the service | counted as | named |
| --- | --- | --- | --- |
| byte of a snapshot | drops the bucket, and delivers the others | snapshots_corrupt | bucket, object |
| row of the catalogue document | the same | snapshots_corrupt | bucket |
| any other byte of the document | does not open the tracker, and leaves the document as it is | failed calls of list | document |
"""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.service.telemetry.storage_log import SNAPSHOT_LOST
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.objects.keys import ObjectKey
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.shared.document import decode_head, decode_rows
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from tests.service.harness.shell import KEY, TINY, elapse, indexes, make_registry, settle

LIMITS = replace(TINY, min_index_count_per_bucket=2)
FAR_MS = 1_000_000


async def opened(objects: MemoryObjects, clock: ManualClock) -> tuple[TrackerRegistry, MeasuredStorage]:
    """Start the trackers of a service on the objects, as a process that has just begun."""
    storage = MeasuredStorage(ObjectStorage(objects), "s3", clock)
    registry = make_registry(storage, clock, limits=LIMITS)
    await registry.start()
    return registry, storage


async def stored(*, with_summaries: bool = True) -> tuple[MemoryObjects, ManualClock]:
    """Return objects with two buckets of two positions in ledgers 1 and 2; the segments of ledger 1 are due first."""
    objects, clock = MemoryObjects(), ManualClock()
    registry, _ = await opened(objects, clock)
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    host = registry.host(KEY)
    for ledger in (1, 2, 3):
        host.add(epoch, indexes(clock.now_ms(), (ledger, 0, FAR_MS * ledger), (ledger, 1, FAR_MS * ledger + 5_000)))
        await settle()
    await registry.close_tracker(KEY, epoch)
    await registry.close()
    if not with_summaries:
        # As of another writer: then a recovery reads metadata and length of each snapshot, too.
        storage = ObjectStorage(objects)
        await storage.start()
        entries = (await storage.list(*KEY)).entries
        bare = [replace(entry, summary=b"") for entry in entries]
        ids = [entry.bucket_id for entry in entries]
        await storage.replace(*KEY, remove=ids, add=bare, epoch=epoch)
        await storage.close()
    return objects, clock


def key_of(objects: MemoryObjects, ledger: int) -> str:
    """Return the key of the snapshot of a ledger: they were stored in this order."""
    return [key for key in objects.content if key.endswith(".s")][ledger - 1]


def flipped(content: bytes, place: int) -> bytes:
    """Return the bytes with one bit of one byte changed."""
    octets = bytearray(content)
    octets[place] ^= 1 << place % 8
    return bytes(octets)


@pytest.mark.slow
async def test_every_byte_of_a_snapshot():
    """Whichever byte of a snapshot is flipped, the bucket is lost, counted once and named, and the other delivered."""
    objects, clock = await stored(with_summaries=False)
    key, before, begun_ms = key_of(objects, 1), dict(objects.content), clock.now_ms()
    for place in range(len(before[key])):
        objects.content = {**before, key: flipped(before[key], place)}
        clock = ManualClock(begun_ms)
        registry, _ = await opened(objects, clock)
        with capture_logs() as lines:
            epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
            host = registry.host(KEY)
            await elapse(clock, FAR_MS + 10_000)
            assert registry.counters.snapshots_corrupt == 1, place
            (lost,) = (line for line in lines if line["event"] == SNAPSHOT_LOST)
            assert key in lost["error"], place
            assert lost["bucket_id"] == ObjectKey.parse(key).number
            await elapse(clock, FAR_MS)
        delivery = await host.poll(epoch, max_count=10, wait_ms=0, lease_ms=0)
        # A segment that was loaded before the damage was met is delivered.
        delivered = [tuple(position) for position in delivery.indexes.positions]
        assert delivered in ([(2, 0), (2, 1)], [(1, 0), (2, 0), (2, 1)]), place
        await registry.close()


@pytest.mark.slow
async def test_every_byte_of_a_catalogue_document():
    """A flipped row costs its bucket; any other flipped byte is an error of the open, and nothing is written over it."""
    objects, clock = await stored()
    (key,) = (key for key in objects.content if key.startswith("c/"))
    before, whole, begun_ms = dict(objects.content), objects.content[key], clock.now_ms()
    head = decode_head(whole, key)
    rows = decode_rows(head, whole[head.head_bytes :], key)
    rows_at = len(whole) - sum(len(row.octets) for row in rows.values())
    first_row = rows_at + len(next(iter(rows.values())).octets)
    for place in range(len(whole)):
        objects.content = {**before, key: flipped(whole, place)}
        registry, storage = await opened(objects, ManualClock(begun_ms))
        with capture_logs() as lines:
            if place < rows_at:
                with pytest.raises((SnapshotCorrupt, StorageFormatUnsupported), match=key):
                    await registry.open(KEY, owner="tests", mark_delete=None)
                outcomes = storage.operations["list"].outcomes
                assert outcomes["corrupt"] + outcomes["failed"] == 1, place
                assert objects.content[key] == flipped(whole, place)
            else:
                await registry.open(KEY, owner="tests", mark_delete=None)
                assert registry.counters.snapshots_corrupt == 1, place
                (lost,) = (line for line in lines if line["event"] == SNAPSHOT_LOST)
                bucket_id = [*rows][place >= first_row]
                assert lost["bucket_id"] == bucket_id
                ledger = rows[bucket_id].row.first.ledger_id
                tracked = registry.host(KEY).contains(PositionColumns.of([(1, 0), (2, 0)])).tolist()
                assert tracked == [ledger != 1, ledger != 2], place
        await registry.close()
