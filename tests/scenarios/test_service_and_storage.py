"""Rows of Pulsar's defects that need a storage, a service or the codec. Other such rows are in tests/service."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

from delayed_tracker.core.engine.effects import StoreSnapshot
from delayed_tracker.core.rules.seal import seal
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.registry import open_storage
from tests.scenarios.desk import CREATE, Desk
from tests.service.harness.shell import KEY, ControlledStorage, bucketful, elapse, failing, make_registry, rows

FAR = 3_600_000


async def test_row_06_a_registry_starts_its_storage(tmp_path) -> None:
    """A registry starts its storage: a seal into a real store gives a bucket id."""
    clock = ManualClock()
    registry = make_registry(open_storage(f"sqlite:{tmp_path}/tracker.db"), clock)
    await registry.start()
    opened = await registry.open(KEY, owner="test", mark_delete=None)
    host = registry.host(KEY)
    host.add(opened.epoch, bucketful(clock.now_ms(), 1))
    host.add(opened.epoch, bucketful(clock.now_ms(), 2, count=1))
    await registry.close_tracker(KEY, opened.epoch)  # ends when the seal has been stored
    (snapshot,) = await registry.storage.list_bucket_snapshots(*KEY)
    assert snapshot.bucket_id > 0
    await registry.close()


async def test_a_damaged_catalogue_entry_costs_its_bucket_only(tmp_path) -> None:
    """A catalogue entry that fails its checksum is counted and dropped, and the others are recovered."""
    path, clock = tmp_path / "tracker.db", ManualClock()
    registry = make_registry(open_storage(f"sqlite:{path}"), clock)
    await registry.start()
    opened = await registry.open(KEY, owner="test", mark_delete=None)
    for ledger_id in range(1, 5):
        registry.host(KEY).add(opened.epoch, bucketful(clock.now_ms(), ledger_id))
    await registry.close_tracker(KEY, opened.epoch)
    await registry.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE catalogue SET last_entry_id = last_entry_id + 1 WHERE first_ledger_id = 2")

    registry = make_registry(open_storage(f"sqlite:{path}"), clock)
    await registry.start()
    opened = await registry.open(KEY, owner="test", mark_delete=None)
    assert (opened.recovered_count, opened.bucket_count) == (10, 2)
    assert registry.counters.snapshots_corrupt == 1
    await registry.close_tracker(KEY, opened.epoch)
    state = await registry.storage.list(*KEY)
    assert (len(state.entries), state.corrupt) == (2, ())
    assert len(await registry.storage.list_bucket_snapshots(*KEY)) == 2
    await registry.close()


async def test_row_26_a_failed_recovery_keeps_nothing_and_can_be_repeated() -> None:
    """An open that fails raises an error and leaves nothing behind; the next one recovers everything."""
    storage, clock = ControlledStorage(), ManualClock()
    registry = make_registry(storage, clock)
    await registry.start()
    opened = await registry.open(KEY, owner="test", mark_delete=None)
    registry.host(KEY).add(opened.epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).add(opened.epoch, bucketful(clock.now_ms(), 2, count=1))
    await registry.close_tracker(KEY, opened.epoch)

    storage.before["list"] = failing(*[StorageUnavailable("the metadata store is away")] * 3)
    opening = registry.open(KEY, owner="test", mark_delete=None)
    with pytest.raises(StorageUnavailable, match="the metadata store is away"):
        await _while_time_passes(clock, opening)
    assert registry.tracker_count == registry.recovering_count == 0

    again = await registry.open(KEY, owner="test", mark_delete=None)
    assert again.recovered_count == 5
    await registry.close()


async def _while_time_passes(clock: ManualClock, call):
    task = asyncio.ensure_future(call)
    await elapse(clock, 60_000)
    return await task


def test_row_28_decoded_metadata_owns_its_bytes() -> None:
    """Bitmaps stay right when the buffer that they were decoded from is overwritten."""
    desk = Desk(seal_at=3)
    desk.held.add(CREATE)
    desk.add([(1, entry_id, FAR) for entry_id in (1, 5, 70_000)])
    desk.A(2, 0, FAR)
    (effect,) = desk.waiting
    assert isinstance(effect, StoreSnapshot)
    buffer = bytearray(encode_snapshot(seal(effect.frozen)).metadata)
    metadata = decode_metadata(buffer)
    for offset in range(len(buffer)):
        buffer[offset] = 0xFF
    assert metadata.segment_bits == [PositionBitmap.of(effect.frozen.chunks[0].positions)]


async def test_row_70_the_sum_over_partitions_is_the_sum_of_their_counts() -> None:
    """Three partitions with five positions each report fifteen."""
    storage, clock = ControlledStorage(), ManualClock()
    registry = make_registry(storage, clock)
    await registry.start()
    for partition in range(3):
        key = type(KEY)(f"{KEY.topic}-partition-{partition}", KEY.subscription)
        opened = await registry.open(key, owner="test", mark_delete=None)
        registry.host(key).add(opened.epoch, bucketful(clock.now_ms(), 1))
    assert sum(host.stats().pending_count for host in registry.hosts()) == 15
    await registry.close()


async def test_row_63_polling_an_empty_or_absent_tracker_is_no_failure() -> None:
    """An empty tracker answers with no messages; one that is not open raises a specific error."""
    storage, clock = ControlledStorage(), ManualClock()
    registry = make_registry(storage, clock)
    await registry.start()
    opened = await registry.open(KEY, owner="test", mark_delete=None)
    delivery = await registry.host(KEY).poll(opened.epoch, max_count=10, wait_ms=0, lease_ms=1_000)
    assert rows(delivery) == []
    await registry.close()
