"""The catalogue's mark says up to which record it contains the add log: it never says less than what was cut."""

import asyncio

import pytest

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.registry_life import after_a_kill, closed_in_time, open_tracker, restarted
from tests.service.harness.shell import KEY, bucketful, elapse, failing, indexes, make_registry, rows

DOWN = [StorageUnavailable("down")] * 1_000


@pytest.fixture
def log():
    return MemoryAddLog()


@pytest.fixture
async def registry(storage, clock, log):
    made = make_registry(storage, clock, service_limits=ServiceLimits(add_log_bytes_max=2**30), add_log=log)
    await made.start()
    yield made
    storage.open_gates()
    await closed_in_time(made, clock)


async def sealed(host, epoch, clock, ledger):
    """Add a bucket, and seal it; its snapshot is stored when time passes."""
    host.add(epoch, bucketful(clock.now_ms(), ledger))
    await host.until_durable()
    host.seal(epoch)


async def mark_of(storage):
    return (await storage.inner.list(*KEY)).log_mark.number


async def test_a_late_deletion_leaves_the_mark_of_a_checkpoint(registry, storage, clock, log):
    """A clear makes the records of before void. When its deletion is repeated, the catalogue contains later ones."""
    host, opened = await open_tracker(registry)
    await sealed(host, opened.epoch, clock, 1)
    await elapse(clock, 100)
    storage.before["delete_bucket_snapshot"] = failing(*DOWN)
    clearing = asyncio.create_task(clear_tracker(registry, KEY, opened.epoch))
    await elapse(clock, 5_000)
    cleared = await clearing
    await sealed(host, cleared.epoch, clock, 2)
    await elapse(clock, 100)
    assert await host.checkpoint()
    marked = await mark_of(storage)
    assert marked == (await log.take_over(*KEY, epoch=cleared.epoch, writer=registry.log.name)).last_number
    del storage.before["delete_bucket_snapshot"]
    await elapse(clock, 60_000)
    assert host.counters.deletes_failed
    assert host.counters.snapshots_deleted
    assert await mark_of(storage) == marked


async def test_a_checkpoint_completes_an_undo_first(registry, storage, clock):
    """The catalogue that has the mark names the buckets of the tracker, and none whose store counts as failed."""
    host, opened = await open_tracker(registry)
    await sealed(host, opened.epoch, clock, 1)
    storage.before["replace"], storage.after["replace"] = failing(None, *DOWN), failing(*DOWN)
    await elapse(clock, 60_000)
    assert host.counters.snapshots_failed
    assert (await storage.inner.list(*KEY)).entries
    del storage.before["replace"], storage.after["replace"]
    assert await host.checkpoint()
    assert not (await storage.inner.list(*KEY)).entries


@pytest.mark.parametrize("has_failed", [False, True], ids=["not begun", "failed"])
async def test_a_checkpoint_contains_the_deletion_of_a_drained_bucket(registry, storage, clock, log, has_failed):
    """The deletion of a drained bucket comes later. The records that a checkpoint cuts would be all that tells of it."""
    host, opened = await open_tracker(registry)
    for ledger in (1, 2):
        await sealed(host, opened.epoch, clock, ledger)
        await elapse(clock, 100)
    await elapse(clock, 1_000_000)
    first = bucketful(0, 1).positions
    if has_failed:
        storage.before["replace"] = failing(*DOWN[:3])
        assert host.cancel(opened.epoch, first).cancelled_count == 5
        await elapse(clock, 300)
        assert host.counters.deletes_failed
    else:
        delivery = await host.poll(opened.epoch, max_count=5, wait_ms=0, lease_ms=0)
        assert set(rows(delivery)) == {(1, entry) for entry in range(5)}
    await host.until_durable()
    assert await host.checkpoint()
    again = await after_a_kill(storage, clock, log)
    host, opened = await open_tracker(again)
    assert opened.recovered_count == 5
    assert not host.contains(first).any()
    await again.close()


async def test_records_that_were_cut_too_far_are_reported(registry, storage, clock, log):
    """The storage is an older copy: the dispatcher offers everything again, and the loss is counted."""
    host, opened = await open_tracker(registry)
    for entry in range(2):
        host.add(opened.epoch, indexes(clock.now_ms(), (1, entry, 1_000_000)), offered_through=Position(1, entry))
        await host.until_durable()
    await log.cut([(*KEY, 1)])
    again = await restarted(registry, storage, clock, add_log=log)
    host, opened = await open_tracker(again)
    assert host.counters.log_records_corrupt == 1
    assert opened.offered_through == BEFORE_ALL
    await again.close()
