"""Effects with a storage that is slow, fails, reports failures wrongly, or belongs to another process."""

import asyncio
from concurrent.futures import Future

import pytest

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.verb_results import BucketState
from delayed_tracker.service.errors import PollEnded, TrackerNotOpen
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker
from delayed_tracker.storage.errors import (
    LogBroken,
    SnapshotConflict,
    SnapshotCorrupt,
    SnapshotNotFound,
    StorageUnavailable,
)
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.shell import (
    KEY,
    OTHER,
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


@pytest.fixture
async def opened(registry):
    opened = await registry.open(KEY, owner="tests", mark_delete=None)
    return registry.host(KEY), opened.epoch


def _down():
    return StorageUnavailable("down")


async def _unavailable(*_args, **_kwargs):
    raise _down()


def _seal_one(host, epoch, clock):
    """Seal ledger 1 by adding to ledger 2."""
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=FAR_MS))
    host.add(epoch, indexes(clock.now_ms(), (2, 0, 2 * FAR_MS)))


def _states(host):
    return [view.state for view in host.buckets()]


async def _stored_ids(storage):
    return [snapshot.bucket_id for snapshot in await storage.inner.list_bucket_snapshots(*KEY)]


async def _catalogued_ids(storage):
    return [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]


async def test_a_sealed_bucket_is_stored_and_catalogued(opened, clock, storage):
    """The object is stored before its catalogue entry, whose summary spares recovery a read of the snapshot."""
    host, epoch = opened
    _seal_one(host, epoch, clock)
    await settle()
    assert _states(host) == [BucketState.SEALED, BucketState.MUTABLE]
    assert storage.calls[-2:] == ["create_bucket_snapshot", "replace"]
    (entry,) = (await storage.inner.list(*KEY)).entries
    assert entry.summary
    assert (entry.first, entry.last) == ((1, 0), (1, 4))
    assert host.counters.snapshots_stored == 1


async def test_hiccups_of_the_storage_are_retried(opened, clock, storage):
    """Two failures in a row cause two pauses, but no failed snapshot."""
    host, epoch = opened
    storage.before["create_bucket_snapshot"] = failing(_down(), _down())
    storage.before["replace"] = failing(_down(), _down())
    _seal_one(host, epoch, clock)
    await elapse(clock, 400)
    assert _states(host) == [BucketState.SEALED, BucketState.MUTABLE]
    assert host.counters.storage_retries == 4
    assert host.counters.snapshots_failed == 0
    assert len(await _stored_ids(storage)) == 1


async def test_a_bucket_that_cannot_be_stored_stays_in_memory_and_is_tried_again(opened, clock, storage):
    """A failed create loses nothing: positions are delivered from memory, and the store is repeated (row 20)."""
    host, epoch = opened
    storage.before["create_bucket_snapshot"] = _unavailable
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=5_000))
    host.add(epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await elapse(clock, 5_040)
    assert host.counters.snapshots_failed > 1
    assert _states(host)[0] is BucketState.SEALING
    assert len(rows(await host.poll(epoch, max_count=3, wait_ms=0, lease_ms=0))) == 3
    del storage.before["create_bucket_snapshot"]
    await elapse(clock, 5_000)
    assert _states(host)[0] is BucketState.SEALED
    assert len(rows(await host.poll(epoch, max_count=9, wait_ms=0, lease_ms=0))) == 2


async def test_row_34_a_pointer_written_though_reported_failed_is_removed_again(opened, clock, storage):
    """If a catalogue write is applied but reported as failed, entry and object are removed, and positions stay."""
    host, epoch = opened
    storage.after["replace"] = failing(_down(), _down(), _down())
    _seal_one(host, epoch, clock)
    await elapse(clock, 400)
    assert await _catalogued_ids(storage) == []
    assert await _stored_ids(storage) == []
    assert _states(host)[0] is BucketState.SEALING
    assert host.stats().pending_count == 6
    await elapse(clock, 1_000)
    assert _states(host)[0] is BucketState.SEALED
    assert await _catalogued_ids(storage) == await _stored_ids(storage)


async def test_a_pointer_that_could_not_be_removed_goes_with_the_next_catalogue_write(opened, clock, storage):
    """The next catalogue write removes what a failed storage has left in the catalogue."""
    host, epoch = opened
    storage.after["replace"] = failing(_down(), _down(), _down())
    storage.before["replace"] = failing(None, None, None, *[_down()] * 3)
    _seal_one(host, epoch, clock)
    await elapse(clock, 450)
    debris = await _catalogued_ids(storage)
    assert len(debris) == 1
    await elapse(clock, 2_000)
    assert _states(host)[0] is BucketState.SEALED
    catalogued = await _catalogued_ids(storage)
    assert len(catalogued) == 1
    assert not set(debris) & set(catalogued)


async def test_a_snapshot_of_before_a_clear_is_removed_again(opened, clock, storage, registry):
    """A clear answers while a create hangs, and the late create leaves nothing behind (row 8)."""
    host, epoch = opened
    storage.before["create_bucket_snapshot"] = gate = Gate()
    _seal_one(host, epoch, clock)
    await settle()
    assert gate.held_count == 1
    cleared = await asyncio.wait_for(clear_tracker(registry, KEY, epoch), 1)
    assert cleared.cleared_count == 6
    assert cleared.epoch == epoch + 1
    gate.open()
    await settle()
    assert await _catalogued_ids(storage) == []
    assert await _stored_ids(storage) == []
    assert host.stats().pending_count == 0
    assert host.counters.results_forgotten == 1


async def test_a_snapshot_catalogued_while_the_clear_waits_is_removed_in_its_turn(opened, clock, storage, registry):
    """The clear's write waits for a catalogue write in flight, and then both snapshots are gone."""
    host, epoch = opened
    gate = Gate()

    async def hold_the_pointer(*_args, add, **_kwargs):
        if add:
            await gate()

    storage.after["replace"] = hold_the_pointer
    _seal_one(host, epoch, clock)
    await settle()
    assert len(await _catalogued_ids(storage)) == 1
    clearing = asyncio.create_task(clear_tracker(registry, KEY, epoch))
    await settle()
    assert not clearing.done()
    gate.open()
    await settle()
    assert clearing.done()
    assert await _catalogued_ids(storage) == []
    assert await _stored_ids(storage) == []
    assert (await storage.inner.list(*KEY)).epoch == epoch + 1


async def test_clear_answers_only_when_it_is_durable(opened, clock, storage, registry):
    """While the storage is unavailable a clear waits and tries again."""
    host, epoch = opened
    _seal_one(host, epoch, clock)
    await settle()
    storage.before["replace"] = _unavailable
    clearing = asyncio.create_task(clear_tracker(registry, KEY, epoch))
    await elapse(clock, 5_000)
    assert not clearing.done()
    assert await _catalogued_ids(storage) != []
    del storage.before["replace"]
    await elapse(clock, 1_000)
    assert clearing.result().cleared_count == 6
    assert await _catalogued_ids(storage) == []
    assert host.counters.deletes_failed > 0


async def test_a_waiting_clear_is_told_when_the_tracker_closes(opened, clock, storage, registry):
    """A clear that waits ends with an error when the tracker closes."""
    _, epoch = opened
    storage.before["replace"] = _unavailable
    clearing = asyncio.create_task(clear_tracker(registry, KEY, epoch))
    await settle()
    closing = asyncio.create_task(registry.close_tracker(KEY, epoch + 1))
    await elapse(clock, 1_000)
    assert closing.done()
    with pytest.raises(PollEnded):
        clearing.result()


async def test_a_drained_bucket_leaves_catalogue_and_storage(opened, clock, storage):
    """After the last position first the entry and then the object are deleted; a failure is tried again."""
    host, epoch = opened
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=5_000))
    host.add(epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await elapse(clock, 5_040)
    storage.before["delete_bucket_snapshot"] = failing(*[_down()] * 4)
    assert len(rows(await host.poll(epoch, max_count=9, wait_ms=0, lease_ms=0))) == 5
    await settle()
    assert await _catalogued_ids(storage) == []
    assert len(await _stored_ids(storage)) == 1
    await elapse(clock, 2_000)
    assert await _stored_ids(storage) == []
    assert (host.counters.deletes_failed, host.counters.snapshots_deleted) == (1, 1)


async def test_a_load_that_fails_is_tried_again_and_delivers_once(opened, clock, storage):
    """A segment that cannot be read is read once later, and delivered once (row 20)."""
    host, epoch = opened
    _seal_one(host, epoch, clock)
    await settle()
    storage.before["get_bucket_snapshot_segments"] = failing(*[_down()] * 5)
    await elapse(clock, FAR_MS + 40)
    delivered = rows(await host.poll(epoch, max_count=99, wait_ms=0, lease_ms=0))
    assert delivered == [(1, entry) for entry in range(5)]
    assert host.counters.segment_loads_failed >= 1
    assert host.counters.segment_loads >= 1
    assert rows(await host.poll(epoch, max_count=99, wait_ms=0, lease_ms=0)) == []


@pytest.mark.parametrize(
    ("error", "counter"),
    [(SnapshotNotFound("gone"), "snapshots_missing"), (SnapshotCorrupt("bad CRC"), "snapshots_corrupt")],
)
async def test_a_lost_snapshot_is_counted_and_asks_for_a_replay(opened, clock, storage, error, counter):
    """A lost snapshot is counted, the tracker requires a replay, and positions added again are tracked."""
    host, epoch = opened
    _seal_one(host, epoch, clock)
    await settle()
    storage.before["get_bucket_snapshot_segments"] = failing(*[error] * 9)
    await elapse(clock, FAR_MS - 1_000)
    assert getattr(host.counters, counter) == 1
    assert host.replay_required
    assert host.stats().dropped_as_corrupt_count == 5
    assert host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=5_000)).added_count == 5


async def test_undecodable_segments_are_a_lost_snapshot(opened, clock, storage):
    """Segments that do not decode are corrupt, even with a correct checksum."""
    host, epoch = opened
    _seal_one(host, epoch, clock)
    await settle()
    inner = storage.inner.get_bucket_snapshot_segments

    async def garbled(*args):
        return [b"\xff" * len(entry) for entry in await inner(*args)]

    storage.inner.get_bucket_snapshot_segments = garbled
    await elapse(clock, FAR_MS - 1_000)
    assert host.counters.snapshots_corrupt == 1
    assert host.replay_required


async def test_a_catalogue_owned_by_somebody_else_fences_this_tracker(opened, clock, storage, registry):
    """With a newer epoch in the catalogue no entry of this tracker remains, polls end, and it is closed here."""
    host, epoch = opened
    poll = asyncio.create_task(host.poll(epoch, max_count=1, wait_ms=60_000, lease_ms=1_000))
    await storage.inner.replace(*KEY, remove=(), add=(), epoch=epoch + 5)
    _seal_one(host, epoch, clock)
    await settle()
    with pytest.raises(PollEnded) as raised:
        poll.result()
    assert raised.value.reason == "FENCED"
    assert await _stored_ids(storage) == []
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    assert (await registry.open(KEY, owner="again", mark_delete=None)).epoch == epoch + 6


async def test_an_epoch_of_our_own_does_not_close_the_tracker(opened, clock, storage, registry):
    """A store that a new open overtakes fails and is repeated under the new epoch, without loss or duplicates."""
    host, epoch = opened
    storage.before["create_bucket_snapshot"] = gate = Gate()
    _seal_one(host, epoch, clock)
    await settle()
    again = await registry.open(KEY, owner="tests", mark_delete=None)
    assert again.epoch == epoch + 1
    gate.open()
    await elapse(clock, 1_000)
    assert registry.host(KEY) is host
    assert _states(host)[0] is BucketState.SEALED
    assert await _catalogued_ids(storage) == await _stored_ids(storage)
    assert len(await _stored_ids(storage)) == 1


async def test_a_bug_in_an_effect_is_reported_and_made_known(opened, clock, storage):
    """An unexpected exception is a failed effect for the core, and goes to the event loop's exception handler."""
    host, epoch = opened
    seen = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
    storage.before["create_bucket_snapshot"] = failing(ZeroDivisionError())
    _seal_one(host, epoch, clock)
    await settle()
    assert [type(error) for error in seen] == [ZeroDivisionError]
    assert host.counters.snapshots_failed == 1
    await elapse(clock, 1_000)
    assert _states(host)[0] is BucketState.SEALED


async def test_row_27_a_storage_with_30_s_latency_for_one_tracker_does_not_delay_another(
    opened, clock, storage, registry
):
    """While one tracker's effects take 30 s, another tracker adds, seals, loads, polls and opens without delay."""
    slow, slow_epoch = opened

    async def slow_for_one(*args, **kwargs):
        if kwargs.get("cursor", args[1] if args else None) == KEY.subscription:
            await _after_30_s(clock)

    for operation in ("create_bucket_snapshot", "replace", "list"):
        storage.before[operation] = slow_for_one
    for ledger in range(1, 30):
        slow.add(slow_epoch, bucketful(clock.now_ms(), ledger, delay_ms=FAR_MS))
    await settle()

    other = await asyncio.wait_for(registry.open(OTHER, owner="tests", mark_delete=None), 1)
    host = registry.host(OTHER)
    host.add(other.epoch, bucketful(clock.now_ms(), 1, delay_ms=5_000))
    host.add(other.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    assert _states(host)[0] is BucketState.SEALED
    await elapse(clock, 5_040)
    assert len(rows(await host.poll(other.epoch, max_count=9, wait_ms=0, lease_ms=0))) == 5
    assert slow.counters.snapshots_stored == 0
    # The slow tracker answers as well, since calls do not wait for effects.
    assert slow.add(slow_epoch, indexes(clock.now_ms(), (99, 0, FAR_MS))).added_count == 1
    await elapse(clock, 2_000_000)
    assert slow.counters.snapshots_stored == 29


async def _after_30_s(clock):
    over = asyncio.get_running_loop().create_future()
    clock.call_later(30_000, lambda: over.done() or over.set_result(None))
    await over


async def test_stores_that_hang_do_not_keep_due_segments_from_being_loaded(opened, clock, storage):
    """Stores in flight do not use the slots of loads."""
    host, epoch = opened
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=10_000))
    host.add(epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    storage.before["create_bucket_snapshot"] = gate = Gate()
    for ledger in range(3, 30):
        host.add(epoch, bucketful(clock.now_ms(), ledger, delay_ms=FAR_MS))
    await elapse(clock, 10_040)
    assert gate.held_count == ServiceLimits().tracker_operations_max
    assert len(rows(await host.poll(epoch, max_count=9, wait_ms=0, lease_ms=0))) == 5
    gate.open()


async def test_rows_22_and_47_sealing_holds_up_neither_verbs_nor_stats(storage, clock):
    """While a bucket is being built in a thread, every position is visible and every query answers."""
    workers = _HeldExecutor()
    registry = make_registry(storage, clock, workers=workers)
    await registry.start()
    opened = await workers.working(registry.open(KEY, owner="tests", mark_delete=None))
    host, epoch = registry.host(KEY), opened.epoch
    _seal_one(host, epoch, clock)
    await settle()
    assert workers.held_count == 1
    assert host.contains(PositionColumns.of([(1, entry) for entry in range(5)])).all()
    assert host.stats().pending_count == 6
    assert host.next_delivery_ms() == clock.now_ms() + FAR_MS
    assert _states(host) == [BucketState.SEALING, BucketState.MUTABLE]
    workers.run_all()
    await settle()
    assert _states(host) == [BucketState.SEALED, BucketState.MUTABLE]
    await workers.working(registry.close())


class _HeldExecutor:
    """Executor that runs functions when the test says so."""

    def __init__(self):
        self._waiting = []

    @property
    def held_count(self):
        return len(self._waiting)

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        self._waiting.append((future, function, args, kwargs))
        return future

    def run_all(self):
        waiting, self._waiting = self._waiting, []
        for future, function, args, kwargs in waiting:
            future.set_result(function(*args, **kwargs))

    async def working(self, awaitable):
        """Return the result of an awaitable, and run all functions that it submits."""
        task = asyncio.ensure_future(awaitable)
        while not task.done():
            await settle()
            self.run_all()
        return task.result()

    def shutdown(self, *, wait, cancel_futures):
        assert not self._waiting


class _FailingLog(MemoryAddLog):
    """An add log whose commits fail while it has an error."""

    error = None

    async def append(self, parts, *, writer):
        if self.error is not None:
            raise self.error
        return await super().append(parts, writer=writer)


@pytest.mark.parametrize("error", [LogBroken("fsync failed"), _down()], ids=["broken", "away"])
@pytest.mark.parametrize("fails", ["before", "meanwhile"])
async def test_no_snapshot_is_left_while_the_add_log_fails(clock, storage, error, fails):
    """The catalogue may not name it: it is not stored, or deleted at once if the log has failed since it was."""
    log = _FailingLog()
    registry = make_registry(storage, clock, add_log=log)
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    host = registry.host(KEY)

    async def fail(*_args, **_kwargs):
        if log.error is None:
            log.error = error
            host.add(epoch, indexes(clock.now_ms(), (1, 9, FAR_MS)))  # else nothing waits for the log

    storage.after["create_bucket_snapshot"] = fail
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=FAR_MS))
    if fails == "before":
        await fail()
        with pytest.raises(StorageUnavailable):
            await host.until_durable()
    host.seal_open_buckets()
    await elapse(clock, 120_000)
    assert host.counters.snapshots_failed > 3
    assert storage.calls.count("create_bucket_snapshot") == (fails == "meanwhile")
    assert await _stored_ids(storage) == await _catalogued_ids(storage) == []
    log.error = None
    del storage.after["create_bucket_snapshot"]
    await elapse(clock, 60_000)
    is_stored = isinstance(error, StorageUnavailable)
    assert len(await _catalogued_ids(storage)) == len(await _stored_ids(storage)) == is_stored
    closing = asyncio.create_task(registry.close())
    await elapse(clock, 60_000)
    await closing


async def test_a_conflict_deletes_the_object_at_once(opened, clock, storage):
    """A store that the catalogue refuses leaves no orphan."""
    host, epoch = opened
    storage.before["replace"] = failing(SnapshotConflict("newer epoch"))
    _seal_one(host, epoch, clock)
    await settle()
    assert await _stored_ids(storage) == []
