"""Recovering trackers from a storage that outlives the registries, and that fails or has lost snapshots."""

import asyncio
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.service.errors import TrackerNotOpen
from delayed_tracker.service.operations.clearing import delete_tracker
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageUnavailable
from tests.service.harness.registry_life import FAR_MS, down, fill, open_tracker, positions_of, restarted
from tests.service.harness.shell import (
    KEY,
    OTHER,
    elapse,
    failing,
    indexes,
    rows,
    settle,
)


async def test_recovery_reads_no_snapshot_that_its_summary_describes(registry, storage, clock):
    """Sealed buckets are recovered from the catalogue alone; other positions are left to the replay."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    again = await restarted(registry, storage, clock)
    storage.calls.clear()
    host, opened = await open_tracker(again)
    assert (opened.recovered_count, opened.bucket_count) == (25, 5)
    assert host.contains(positions_of(1, 2, 3, 4, 5)).all()
    assert not host.contains(PositionColumns.of([(6, 0)])).any()
    assert not [call for call in storage.calls if call.startswith("get_bucket_snapshot")]
    await elapse(clock, FAR_MS + 40)
    delivered = []
    while batch := rows(await host.poll(opened.epoch, max_count=99, wait_ms=0, lease_ms=0)):
        delivered += batch
        await settle()
    assert sorted(delivered) == [tuple(position) for position in positions_of(1, 2, 3, 4, 5)]
    assert len(delivered) == 25
    await again.close()


async def test_snapshots_are_listed_only_if_somebody_had_the_tracker_before(registry, storage, clock):
    """Nothing can be left in a new tracker, and the listing is a quarter of its opening."""
    await open_tracker(registry)
    assert "list_bucket_snapshots" not in storage.calls
    again = await restarted(registry, storage, clock)
    await open_tracker(again)
    assert storage.calls.count("list_bucket_snapshots") == 1
    await again.close()


async def test_a_partly_due_bucket_is_recovered_from_its_metadata(registry, storage, clock):
    """Leading segments that are due are left to the replay, and the rest is tracked."""
    host, opened = await open_tracker(registry)
    host.add(opened.epoch, indexes(clock.now_ms(), *((1, entry, 10_000 + 5_000 * entry) for entry in range(5))))
    host.add(opened.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    again = await restarted(registry, storage, clock)
    clock.advance(16_000)
    storage.calls.clear()
    host, opened = await open_tracker(again)
    assert opened.recovered_count == 3
    assert host.contains(positions_of(1)).tolist() == [False, False, True, True, True]
    assert storage.calls.count("get_bucket_snapshot_metadata") == 1
    await again.close()


@pytest.mark.parametrize("operation", ["list", "replace", "list_bucket_snapshots", "get_bucket_snapshot_metadata"])
async def test_row_26_a_failed_recovery_frees_everything_and_can_be_repeated(registry, storage, clock, operation):
    """While the storage is unavailable every waiting open fails, nothing remains, and a later one succeeds (row 26)."""
    host, opened = await open_tracker(registry)
    host.add(opened.epoch, indexes(clock.now_ms(), *((1, entry, 10_000 + 5_000 * entry) for entry in range(5))))
    host.add(opened.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    again = await restarted(registry, storage, clock)
    clock.advance(16_000)
    storage.before[operation] = failing(down(), down(), down())
    opens = [asyncio.create_task(open_tracker(again)) for _ in range(2)]
    await elapse(clock, 1_000)
    for open_ in opens:
        with pytest.raises(StorageUnavailable):
            open_.result()
    assert (again.tracker_count, again.recovering_count) == (0, 0)
    assert clock.next_timer_in_ms() is None
    assert again.counters.storage_retries >= 2
    with pytest.raises(TrackerNotOpen):
        again.host(KEY)
    _, opened = await open_tracker(again)
    assert opened.recovered_count == 3
    await again.close()


async def test_a_bug_in_recovery_reaches_the_caller_and_the_loop(registry, storage):
    """The error is raised to the caller and given to the loop's handler, and nothing of the attempt remains."""
    seen = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
    storage.before["list"] = failing(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await open_tracker(registry)
    assert len(seen) == 1
    assert registry.tracker_count == 0
    await open_tracker(registry)


@pytest.mark.parametrize(
    ("error", "counter"),
    [(SnapshotNotFound("gone"), "snapshots_missing"), (SnapshotCorrupt("bad CRC"), "snapshots_corrupt")],
)
async def test_row_l1_one_lost_snapshot_does_not_cost_the_others(registry, storage, clock, error, counter):
    """If one of five snapshots is unreadable, four are recovered, and its entry is removed and counted (row L1)."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    again = await restarted(registry, storage, clock)
    # Without summaries every snapshot is read, as with a catalogue of another writer.
    entries = (await storage.inner.list(*KEY)).entries
    foreign = [replace(entry, summary=b"") for entry in entries]
    await storage.inner.replace(*KEY, remove=[entry.bucket_id for entry in entries], add=foreign, epoch=opened.epoch)
    storage.before["get_bucket_snapshot_metadata"] = failing(None, error)
    host, opened = await open_tracker(again)
    await settle()
    assert (opened.recovered_count, opened.bucket_count) == (20, 4)
    assert getattr(host.counters, counter) == 1
    catalogued = [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]
    assert len(catalogued) == 4
    assert [one.bucket_id for one in await storage.inner.list_bucket_snapshots(*KEY)] == catalogued
    await again.close()


async def test_row_33_a_pointer_to_a_snapshot_that_is_gone_is_found_and_dropped(registry, storage, clock):
    """The entry is removed when the snapshot is read, and the other buckets stay (row 33)."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, 2)
    again = await restarted(registry, storage, clock)
    first = (await storage.inner.list(*KEY)).entries[0].bucket_id
    await storage.inner.delete_bucket_snapshot(first)
    host, opened = await open_tracker(again)
    await elapse(clock, FAR_MS + 40)
    assert host.counters.snapshots_missing == 1
    assert host.replay_required
    assert first not in [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]
    assert [ledger for ledger, _ in rows(await host.poll(opened.epoch, max_count=99, wait_ms=0, lease_ms=0))] == [2] * 5
    await again.close()


async def test_unreadable_summaries_and_checkpoints_cost_a_read_or_a_duplicate(registry, storage, clock):
    """An unreadable summary costs a read of the snapshot, and an unreadable checkpoint duplicates, but no loss."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, 2)
    again = await restarted(registry, storage, clock)
    entries = (await storage.inner.list(*KEY)).entries
    garbled = [
        replace(entry, summary=stored, consumed=b"junk")
        for entry, stored in zip(entries, (b"\x01", b"\x09"), strict=True)
    ]
    await storage.inner.replace(*KEY, remove=[entry.bucket_id for entry in entries], add=garbled, epoch=opened.epoch)
    host, opened = await open_tracker(again)
    assert opened.recovered_count == 10
    assert host.counters.summaries_unreadable == 2
    await again.close()


async def test_orphans_are_swept_and_counted(registry, storage, clock):
    """Snapshots that a crash left without an entry are deleted at the next open; those of other trackers are not."""
    for key in (KEY, OTHER):
        await _former_owner(storage, key)
        await _orphan(storage, key, epoch=1)
    host, _ = await open_tracker(registry)
    assert host.counters.orphans_swept == registry.counters.orphans_swept == 1
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    assert len(await storage.inner.list_bucket_snapshots(*OTHER)) == 1


async def test_a_sweep_leaves_what_has_its_own_epoch_or_a_newer_one(registry, storage, clock):
    """An owner that took the tracker over during a sweep or a deletion keeps what it has created by then."""
    await _former_owner(storage, KEY)
    own, newer = await _orphan(storage, KEY, epoch=2), await _orphan(storage, KEY, epoch=9)
    host, opened = await open_tracker(registry)
    assert (opened.epoch, host.counters.orphans_swept) == (2, 0)
    assert [stored.bucket_id for stored in await storage.inner.list_bucket_snapshots(*KEY)] == [own, newer]
    await delete_tracker(registry, KEY, epoch=None)
    assert [stored.bucket_id for stored in await storage.inner.list_bucket_snapshots(*KEY)] == [newer]


async def _former_owner(storage, key):
    await storage.inner.replace(*key, remove=(), add=(), epoch=1, writer="former")


async def _orphan(storage, key, *, epoch):
    return await storage.inner.create_bucket_snapshot(
        b"", _nothing(), bucket_key="", topic=key[0], cursor=key[1], epoch=epoch
    )


async def _nothing():
    return
    yield b""
