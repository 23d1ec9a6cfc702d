"""Clearing and deleting trackers, and the content of storage and log afterwards."""

import asyncio

import pytest

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.service.errors import Fenced, TrackerNotOpen
from delayed_tracker.service.operations.clearing import clear_tracker, delete_tracker
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.registry_life import after_a_kill, closed_in_time, down, fill, open_tracker, restarted
from tests.service.harness.shell import KEY, ControlledStorage, Gate, bucketful, elapse, failing, make_registry, settle
from tests.simulation.durable_world import SharedByProcesses


async def test_clear_is_durable_and_raises_the_epoch(registry, storage, clock):
    """No position comes back after a restart; the old epoch is fenced, and the new one is valid."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    cleared = await clear_tracker(registry, KEY, opened.epoch)
    assert (cleared.cleared_count, cleared.epoch) == (26, opened.epoch + 1)
    with pytest.raises(Fenced):
        host.require_owner(opened.epoch)
    host.require_owner(cleared.epoch)
    await settle()
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    again = await restarted(registry, storage, clock)
    _, opened = await open_tracker(again)
    assert opened.recovered_count == 0
    assert opened.epoch > cleared.epoch
    await again.close()


async def test_clear_is_legal_for_a_tracker_that_is_not_loaded(registry, storage, clock):
    """With the last epoch a clear deletes all positions, and an older epoch is fenced (rows 36 and 69)."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    with pytest.raises(Fenced):
        await clear_tracker(registry, KEY, opened.epoch + 1)
    cleared = await clear_tracker(registry, KEY, opened.epoch)
    assert (cleared.cleared_count, cleared.epoch) == (25, opened.epoch + 1)
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    _, again = await open_tracker(registry)
    assert (again.recovered_count, again.epoch) == (0, opened.epoch + 2)


async def test_clear_of_a_tracker_that_nobody_ever_opened_is_not_open(registry):
    """A tracker that was never opened has no epoch, and the remedy is to open it."""
    with pytest.raises(TrackerNotOpen):
        await clear_tracker(registry, KEY, 1)


async def _reopened(registry, storage, clock):
    """Return a tracker with 25 positions in storage, whose next recovery waits at the gate, and its last epoch."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    storage.before["list_bucket_snapshots"] = gate = Gate()
    opening = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
    await settle()
    assert registry.recovering_count == 1
    return opened.epoch, gate, opening


@pytest.mark.parametrize("reset_to", [None, Position(3, 0)], ids=["clear", "reset"])
async def test_a_clear_waits_for_a_recovery_and_gets_a_definite_answer(registry, storage, clock, reset_to):
    """After the recovery the new owner's epoch clears the tracker, and the old owner's is fenced."""
    epoch, gate, opening = await _reopened(registry, storage, clock)
    fenced = asyncio.create_task(clear_tracker(registry, KEY, epoch, reset_to=reset_to))
    applied = asyncio.create_task(clear_tracker(registry, KEY, epoch + 1, reset_to=reset_to))
    await settle()
    assert not fenced.done()
    assert not applied.done()
    gate.open()
    await settle()
    with pytest.raises(Fenced):
        await fenced
    assert (await applied).cleared_count == 25
    assert (await opening).recovered_count == 25
    assert registry.host(KEY).stats().pending_count == 0


async def test_a_clear_that_gives_up_waiting_ends_nothing(registry, storage, clock):
    """A cancelled clear does not end the recovery for the callers that opened the tracker."""
    epoch, gate, opening = await _reopened(registry, storage, clock)
    clearing = asyncio.create_task(clear_tracker(registry, KEY, epoch + 1))
    await settle()
    clearing.cancel()
    gate.open()
    assert (await opening).recovered_count == 25


async def test_a_deletion_goes_on_when_the_recovery_it_waits_for_fails(registry, storage, clock):
    """A tracker whose recovery fails is deleted all the same."""
    _, gate, opening = await _reopened(registry, storage, clock)
    deleting = asyncio.create_task(delete_tracker(registry, KEY, None))
    await settle()
    storage.before["list_bucket_snapshots"] = failing(*[down()] * 2)
    storage.after["list_bucket_snapshots"] = failing(down())
    gate.open()
    await elapse(clock, 10_000)
    with pytest.raises(StorageUnavailable):
        await opening
    assert (await deleting).position_count == 25
    assert await storage.inner.list_bucket_snapshots(*KEY) == []


@pytest.mark.parametrize(
    ("remove", "is_loaded"),
    [(delete_tracker, True), (delete_tracker, False), (clear_tracker, False)],
    ids=["delete loaded", "delete closed", "clear closed"],
)
async def test_the_log_has_nothing_more_although_the_caller_goes_away(clock, remove, is_loaded):
    """A deletion, and a clear of a tracker that is not loaded, go on without their caller, the log's sizes with them."""
    storage = ControlledStorage()
    registry = make_registry(storage, clock, add_log=MemoryAddLog())
    await registry.start()
    host, opened = await open_tracker(registry)
    host.add(opened.epoch, bucketful(clock.now_ms(), 1))
    await host.until_durable()
    if not is_loaded:
        await registry.close_tracker(KEY, opened.epoch)
    assert registry.log.log_bytes > 0
    storage.before["replace"] = gate = Gate()
    removing = asyncio.create_task(remove(registry, KEY, opened.epoch))
    await settle()
    removing.cancel()
    await settle()
    assert removing.cancelled()
    gate.open()
    await elapse(clock, 1_000)
    assert (registry.log_keeper.unloaded, registry.log.log_bytes) == ({}, 0)
    await registry.close()


@pytest.mark.parametrize("has_failed", [False, True], ids=["deletions are slow", "catalogue failed"])
async def test_an_owner_who_comes_before_a_reset_is_recorded_loses_nothing(storage, clock, has_failed):
    """He is told its position, and his adds are durable: a crash undoes neither of them."""
    log = MemoryAddLog()
    registry = make_registry(storage, clock, add_log=log)
    await registry.start()
    host, opened = await open_tracker(registry, mark_delete=Position(5, 0))
    for ledger in (10, 11, 12, 13, 6):
        host.add(opened.epoch, bucketful(clock.now_ms(), ledger), offered_through=Position(20, 0))
        host.seal(opened.epoch)
        await host.until_durable()
        await elapse(clock, 300)
    if has_failed:
        storage.before["replace"] = failing(*[down()] * 3)
    else:
        storage.before["delete_bucket_snapshot"] = Gate()
        for ledger in (10, 11, 12, 13):
            host.cancel(opened.epoch, bucketful(0, ledger).positions)
            await host.until_durable()
            await elapse(clock, 10)
    resetting = asyncio.create_task(clear_tracker(registry, KEY, opened.epoch, reset_to=Position(1, 0)))
    await elapse(clock, 300)
    assert not resetting.done()
    host, opened = await open_tracker(registry, owner="another")
    assert (opened.mark_delete, opened.offered_through, host.tracked_count) == (Position(1, 0), BEFORE_ALL, 0)
    assert (await resetting).epoch == opened.epoch - 1
    added = bucketful(clock.now_ms(), 2)
    host.add(opened.epoch, added, offered_through=Position(2, 4))
    await host.until_durable()

    again = await after_a_kill(storage, clock, log)
    host, opened = await open_tracker(again)
    assert (opened.mark_delete, opened.offered_through) == (Position(1, 0), Position(2, 4))
    assert opened.recovered_count == 5
    assert host.contains(added.positions).all()
    await again.close()
    storage.open_gates()
    await closed_in_time(registry, clock)


@pytest.mark.parametrize(
    ("remove", "names_epoch"), [(delete_tracker, True), (delete_tracker, False), (clear_tracker, True)]
)
async def test_another_process_ends_what_died_between_log_and_catalogue(storage, clock, remove, names_epoch):
    """The epoch that the dead process has left in the log alone is passed over."""
    log = MemoryAddLog()
    registry = make_registry(storage, clock, add_log=log)
    await registry.start()
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    storage.before["replace"] = failing(*[down()] * 1_000)
    dying = asyncio.create_task(remove(registry, KEY, opened.epoch))
    await elapse(clock, 60_000)
    assert isinstance(dying.exception(), StorageUnavailable)
    storage.before.clear()
    again = await restarted(registry, storage, clock, add_log=log, seed=1)
    await remove(again, KEY, opened.epoch if names_epoch else None)
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    assert again.begun_deletions == {}
    _, later = await open_tracker(again)
    assert later.recovered_count == 0
    await again.close()


async def test_a_clear_does_not_take_a_tracker_from_who_opens_it_meanwhile(storage, clock):
    """The log has the epoch of an owner whom the catalogue knows: the clear is refused."""
    log = ControlledStorage(MemoryAddLog())
    registry = make_registry(storage, clock, add_log=log)
    await registry.start()
    _, opened = await open_tracker(registry)
    await registry.close_tracker(KEY, opened.epoch)
    other = make_registry(SharedByProcesses(storage.inner), clock, add_log=SharedByProcesses(log.inner), seed=1)
    await other.start()
    log.before["take_over"] = gate = Gate()
    clearing = asyncio.create_task(clear_tracker(registry, KEY, opened.epoch))
    await settle()
    assert gate.held_count == 1
    host, owned = await open_tracker(other)
    gate.open()
    with pytest.raises(Fenced):
        await clearing
    host.add(owned.epoch, bucketful(clock.now_ms(), 1))
    await host.until_durable()
    for each in (other, registry):
        await each.close()


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("operation", ["replace", "forget", "delete_bucket_snapshot"])
async def test_a_deletion_that_failed_half_way_may_be_repeated(storage, clock, operation, is_loaded):
    """The caller's epoch is that of before; an owner who opened the tracker meanwhile is not harmed."""
    log = MemoryAddLog()
    registry = make_registry(storage, clock, add_log=log)
    await registry.start()
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock)
    await host.until_durable()
    await elapse(clock, 1_000)
    if not is_loaded:
        await registry.close_tracker(KEY, opened.epoch)
    storage.before[operation] = failing(*[down()] * 1_000)
    deleting = asyncio.create_task(delete_tracker(registry, KEY, opened.epoch))
    await elapse(clock, 60_000)
    assert isinstance(deleting.exception(), StorageUnavailable)
    storage.before.clear()
    deleted = await delete_tracker(registry, KEY, opened.epoch)
    assert deleted.existed
    assert KEY not in await storage.inner.trackers()
    assert registry.begun_deletions == {}
    _, again = await open_tracker(registry)
    assert again.recovered_count == 0
    with pytest.raises(Fenced):
        await delete_tracker(registry, KEY, opened.epoch)
    await registry.close()
