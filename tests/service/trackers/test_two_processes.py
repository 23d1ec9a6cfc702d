"""Two processes over one storage, as a storage on the network allows: each epoch has exactly one owner."""

import asyncio
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import IndexColumns, PositionColumns
from delayed_tracker.service.errors import TrackerNotOpen
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker
from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.shell import (
    KEY,
    OTHER,
    TINY,
    ControlledStorage,
    Gate,
    bucketful,
    elapse,
    indexes,
    make_registry,
    settle,
)

FAR_MS = 1_000_000


class _SharedStorage(ControlledStorage):
    """The same storage or add log for another process, which neither opens nor closes it."""

    async def start(self):
        pass

    async def close(self):
        pass


@pytest.fixture
async def other(storage, registry, clock):
    """Return the registry of the other process."""
    elsewhere = make_registry(_SharedStorage(storage.inner), clock, seed=1)
    await elsewhere.start()
    yield elsewhere
    await elsewhere.close()


async def test_two_opens_at_the_same_time_have_different_epochs(registry, storage, other):
    """Both read the same epoch and choose the same next one; the storage gives it to one of them."""
    storage.after["list"] = gate = Gate()
    here = asyncio.create_task(registry.open(KEY, owner="here", mark_delete=None))
    await settle()
    assert gate.held_count == 1
    there_opened = await other.open(KEY, owner="there", mark_delete=None)
    gate.open()
    here_opened = await here
    assert there_opened.epoch != here_opened.epoch
    assert (await storage.inner.list(*KEY)).epoch == max(there_opened.epoch, here_opened.epoch)


async def test_two_owners_cannot_raise_to_the_same_epoch(registry, storage, other, clock):
    """If an open here and one there choose the same epoch, the later one is fenced and writes nothing."""
    await registry.open(KEY, owner="here", mark_delete=None)
    storage.before["replace"] = gate = Gate()
    again = asyncio.create_task(registry.open(KEY, owner="here again", mark_delete=None))
    await settle()
    assert gate.held_count == 1
    opened = await other.open(KEY, owner="there", mark_delete=None)
    gate.open()
    with pytest.raises(SnapshotConflict, match="another writer"):
        await again
    await settle()
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    assert (await storage.inner.list(*KEY)).epoch == opened.epoch


async def test_a_clear_cannot_use_an_epoch_that_another_process_has(registry, storage, other, clock):
    """A bucket that the other process sealed meanwhile stays."""
    opened = await registry.open(KEY, owner="here", mark_delete=None)
    registry.host(KEY).add(opened.epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).add(opened.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    storage.before["replace"] = gate = Gate()
    clearing = asyncio.create_task(clear_tracker(registry, KEY, opened.epoch))
    await settle()
    there_opened = await other.open(KEY, owner="there", mark_delete=None)
    assert (there_opened.epoch, there_opened.recovered_count) == (opened.epoch + 1, 5)
    gate.open()
    await settle()
    assert clearing.exception() is not None
    assert len((await storage.inner.list(*KEY)).entries) == 1
    assert len(await storage.inner.list_bucket_snapshots(*KEY)) == 1


async def test_a_fence_that_fails_late_leaves_the_tracker_of_the_next_open_alone(registry, storage, other):
    """The late fence of an older open does not affect a tracker that was closed and opened again."""
    epoch = (await registry.open(KEY, owner="here", mark_delete=None)).epoch
    storage.before["replace"] = gate = Gate()
    stale = asyncio.create_task(registry.host(KEY).ownership.claim("late", None))
    await settle()
    assert gate.held_count == 1
    del storage.before["replace"]
    await registry.close_tracker(KEY, epoch)
    for _ in range(2):
        await registry.open(KEY, owner="again", mark_delete=None)
    again = registry.host(KEY)
    gate.open()
    await settle()
    assert isinstance(stale.exception(), SnapshotConflict)
    assert registry.host(KEY) is again


@pytest.mark.parametrize(
    "call",
    [
        lambda host, epoch, here: host.add(epoch, here),
        lambda host, epoch, here: host.cancel(epoch, PositionColumns.of([(9, 9)])),
        lambda host, epoch, here: host.reschedule(epoch, IndexColumns.of([(FAR_MS, 9, 9)])),
    ],
    ids=["duplicate", "cancel of what is unknown", "reschedule of what is unknown"],
)
async def test_an_answer_that_changes_nothing_is_given_by_the_owner_alone(clock, call):
    """A process that has lost the tracker without knowing would answer from what it had, which may be gone or changed."""
    storage, log = ControlledStorage(), MemoryAddLog()
    await log.start()
    first = make_registry(storage, clock, add_log=_SharedStorage(log))
    second = make_registry(_SharedStorage(storage.inner), clock, seed=1, add_log=_SharedStorage(log))
    await first.start()
    await second.start()
    epoch = (await first.open(KEY, owner="first", mark_delete=None)).epoch
    host, here = first.host(KEY), indexes(clock.now_ms(), (1, 0, FAR_MS))
    host.add(epoch, here)
    await host.until_durable()
    call(host, epoch, here)
    await host.until_durable()

    await second.open(KEY, owner="second", mark_delete=None)
    call(host, epoch, here)
    with pytest.raises(SnapshotConflict):
        await host.until_durable()
    await first.close()
    await second.close()


class _OneInstancesLog(_SharedStorage):
    """A log of several instances, as one of them sees it: the extent of a tracker that another one has is not its own."""

    elsewhere = frozenset()

    async def extents(self):
        return [extent for extent in await self.inner.extents() if (extent.topic, extent.cursor) not in self.elsewhere]


async def test_a_full_log_takes_no_tracker_from_another_process(storage, clock):
    """Bytes that a process counts for a tracker that it has lost are forgotten when it makes room; the new owner goes on."""
    log = MemoryAddLog()
    await log.start()
    here_log = _OneInstancesLog(log)
    limits = replace(TINY, min_index_count_per_bucket=10**6, mutable_indexes_max=10**6, late_indexes_max=10**6)
    room = ServiceLimits(add_log_bytes_max=4_000)
    here = make_registry(storage, clock, limits=limits, service_limits=room, add_log=here_log)
    there = make_registry(_SharedStorage(storage.inner), clock, limits=limits, add_log=_SharedStorage(log), seed=1)
    for registry in (here, there):
        await registry.start()

    async def add(registry, key, epoch, ledger, count):
        host = registry.host(key)
        added = [(clock.now_ms() + FAR_MS + entry * 7_919 % 100_000, ledger, entry) for entry in range(count)]
        host.add(epoch, IndexColumns.of(added))
        await host.until_durable()

    epoch = (await here.open(KEY, owner="here", mark_delete=None)).epoch
    await add(here, KEY, epoch, 1, 350)
    taken = (await there.open(KEY, owner="there", mark_delete=None)).epoch
    here_log.elsewhere = frozenset({KEY})
    with pytest.raises(SnapshotConflict):
        await add(here, KEY, epoch, 2, 5)
    await elapse(clock, 1_000)
    lost_bytes = here.log_keeper.unloaded[KEY]
    assert here.log.log_bytes == lost_bytes > 0
    epoch = (await here.open(OTHER, owner="here", mark_delete=None)).epoch
    await add(here, OTHER, epoch, 1, 150)
    await elapse(clock, 3_000)
    assert KEY not in here.log_keeper.unloaded
    assert (await storage.inner.list(*KEY)).epoch == taken
    await add(there, KEY, taken, 3, 5)
    for registry in (here, there):
        await registry.close()
    await log.close()
