"""The in-memory tracker in the service, and switches between it and the bucket tracker on existing data."""

import asyncio
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.verb_results import BucketState
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.v1 import tracker_pb2
from tests.service.harness.shell import (
    KEY,
    OTHER,
    TINY,
    bucketful,
    elapse,
    failing,
    indexes,
    make_registry,
    rows,
    running_service,
    settle,
    until,
)

FAR_MS = 1_000_000
IN_MEMORY = replace(TINY, kind=TrackerKind.IN_MEMORY, fixed_delay_lookahead=20)
MARK_DELETE = Position(1, 4)
PENDING = PositionColumns.of([(ledger, entry) for ledger in range(2, 5) for entry in range(5)])


class DataDirectory:
    """One SQLite file, opened by one service after another."""

    def __init__(self, path):
        self._url = f"sqlite:{path / 'tracker.db'}"
        self.clock = ManualClock()
        self.registry = None

    async def serve(self, limits, key=KEY):
        """Restart the service with other limits and open the tracker, for a dispatcher with a cursor."""
        await self.stop()
        self.registry = make_registry(open_storage(self._url), self.clock, limits=limits)
        await self.registry.start()
        opened = await self.registry.open(key, owner="tests", mark_delete=MARK_DELETE)
        return self.registry.host(key), opened

    async def stop(self):
        if self.registry is not None:
            await self.registry.close()

    async def on_disk(self, key=KEY):
        """Return the numbers of catalogued buckets and of stored snapshots."""
        storage = self.registry.storage
        catalogue, stored = await storage.list(*key), await storage.list_bucket_snapshots(*key)
        return len(catalogue.entries), len(stored)

    async def offer(self, host, opened):
        """Add all positions above mark-delete, as a replay does, and return how many of them were new."""
        added = sum(
            host.add(opened.epoch, bucketful(self.clock.now_ms(), ledger, delay_ms=FAR_MS)).added_count
            for ledger in range(2, 5)
        )
        await until(lambda: all(view.state is not BucketState.SEALING for view in host.buckets()))
        return added

    async def drain(self, host, opened):
        """Advance the clock past the deadlines, and return (ledger, entry) of all deliveries, in order."""
        found = []
        await elapse(self.clock, FAR_MS + 1_000)
        while host.stats().pending_count:
            await elapse(self.clock, 0)
            found += rows(await host.poll(opened.epoch, max_count=100, wait_ms=0, lease_ms=0))
        return found


@pytest.fixture
async def directory(tmp_path):
    directory = DataDirectory(tmp_path)
    yield directory
    await directory.stop()


async def test_from_bucket_to_in_memory_the_snapshots_go_at_open_and_the_replay_rebuilds(directory):
    """No old snapshot remains, only replayed positions are tracked, and each is delivered once."""
    host, opened = await directory.serve(TINY)
    assert await directory.offer(host, opened) == 15
    assert (await directory.on_disk())[0] > 0
    host, opened = await directory.serve(IN_MEMORY)
    assert await directory.on_disk() == (0, 0)
    assert (opened.recovered_count, opened.bucket_count) == (0, 0)
    assert opened.mark_delete == MARK_DELETE, "replay from mark-delete + 1"
    assert not host.contains(PENDING).any()
    assert await directory.offer(host, opened) == 15
    assert host.contains(PENDING).all()
    assert await directory.on_disk() == (0, 0)
    assert sorted(await directory.drain(host, opened)) == list(map(tuple, PENDING))


async def test_from_in_memory_to_bucket_nothing_is_on_disk_and_the_replay_rebuilds(directory):
    """The bucket tracker begins empty and seals the replayed positions."""
    host, opened = await directory.serve(IN_MEMORY)
    epoch = opened.epoch
    assert await directory.offer(host, opened) == 15
    host, opened = await directory.serve(TINY)
    assert opened.epoch > epoch, "epochs go on across the switch"
    assert (opened.recovered_count, opened.bucket_count) == (0, 0)
    assert await directory.offer(host, opened) == 15
    assert (await directory.on_disk())[0] > 0
    assert sorted(await directory.drain(host, opened)) == list(map(tuple, PENDING))


async def test_there_and_back_nothing_that_was_acknowledged_meanwhile_comes_again(directory):
    """Positions acknowledged while the tracker was in memory do not come back from old snapshots."""
    host, opened = await directory.serve(TINY)
    await directory.offer(host, opened)
    host, opened = await directory.serve(IN_MEMORY)
    await directory.offer(host, opened)
    host.advance_mark_delete(opened.epoch, Position(4, 4))
    host, opened = await directory.serve(TINY)
    assert not host.contains(PENDING).any()
    assert host.stats().recovered_count == 0


async def test_only_the_subscription_that_is_opened_loses_its_snapshots(directory):
    """Other subscriptions keep their snapshots until they are opened in memory."""
    for key in (KEY, OTHER):
        host, opened = await directory.serve(TINY, key)
        await directory.offer(host, opened)
    stored = await directory.on_disk(OTHER)
    await directory.serve(IN_MEMORY, KEY)
    assert await directory.on_disk(KEY) == (0, 0)
    assert await directory.on_disk(OTHER) == stored


async def test_an_open_that_cannot_delete_fails_and_the_next_one_finishes(registry, storage, clock):
    """A crash between the catalogue and the objects leaves orphans, which the next open deletes."""
    opened = await registry.open(KEY, owner="tests", mark_delete=None)
    host = registry.host(KEY)
    for ledger in range(1, 4):
        host.add(opened.epoch, bucketful(clock.now_ms(), ledger))
    await settle()
    await registry.close()
    again = make_registry(storage, clock, limits=IN_MEMORY)
    await again.start()
    storage.before["delete_bucket_snapshot"] = failing(*[StorageUnavailable("down")] * 6)
    failed = asyncio.create_task(again.open(KEY, owner="tests", mark_delete=None))
    await elapse(clock, 10_000)
    with pytest.raises(StorageUnavailable):
        failed.result()
    storage.before.clear()
    assert (await storage.inner.list(*KEY)).entries == ()
    await again.open(KEY, owner="tests", mark_delete=None)
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    assert again.counters.orphans_swept == 2
    await again.close()


async def test_the_in_memory_tracker_needs_no_storage_once_it_is_open(storage, clock):
    """An in-memory tracker never seals and has no late bucket, but a clear records its epoch."""
    memory = make_registry(storage, clock, limits=IN_MEMORY)
    await memory.start()
    opened = await memory.open(KEY, owner="tests", mark_delete=None)
    host = memory.host(KEY)
    storage.calls.clear()
    for ledger in (9, 3, 5, 1, 8):
        host.add(opened.epoch, indexes(clock.now_ms(), *((ledger, entry, FAR_MS - entry) for entry in range(100))))
    await elapse(clock, FAR_MS)
    assert len((await host.poll(opened.epoch, max_count=1_000, wait_ms=0, lease_ms=0)).indexes) == 500
    assert (host.stats().late_count, host.stats().bucket_count, storage.calls) == (0, 0, [])
    assert (await host.clear(opened.epoch)).epoch == (await storage.inner.list(*KEY)).epoch
    await memory.close()


async def test_row_76_polls_and_stats_tell_that_reading_may_pause_until_the_first_is_due():
    """The stats and the poll have ``pause_reading`` until the first of the waiting messages is due."""
    async with running_service(limits=IN_MEMORY) as service:
        ref = tracker_pb2.TrackerRef(topic=KEY.topic, subscription=KEY.subscription)
        opened = await service.stub.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=ref, owner="tests"))

        async def add(count, ledger):
            due_ms = service.clock.now_ms() + 1_000
            request = tracker_pb2.AddMessagesRequest(
                tracker=ref,
                epoch=opened.epoch,
                deliver_at_ms=[due_ms + entry for entry in range(count)],
                ledger_ids=[ledger] * count,
                entry_ids=list(range(count)),
            )
            await service.stub.AddMessages(request)

        async def said():
            poll = tracker_pb2.PollScheduledMessagesRequest(tracker=ref, epoch=opened.epoch, max_messages=1)
            stats = await service.stub.GetTrackerStats(tracker_pb2.GetTrackerStatsRequest(tracker=ref))
            return stats.pause_reading, (await service.stub.PollScheduledMessages(poll)).pause_reading

        await add(19, 1)
        assert await said() == (False, False)
        await add(1, 2)
        assert await said() == (False, False), "a deadline far below the highest is no fixed delay"
        await service.stub.ClearMessages(tracker_pb2.ClearMessagesRequest(tracker=ref, epoch=opened.epoch))
        opened = await service.stub.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=ref, owner="tests"))
        await add(21, 1)
        assert await said() == (True, True)
        service.clock.advance(1_000)
        assert await said() == (False, True), "one is due; once it is leased, 20 wait again"
        service.clock.advance(1)
        assert await said() == (False, False)


@pytest.mark.parametrize("limits", [TINY, IN_MEMORY], ids=["bucket", "in-memory"])
async def test_a_lease_of_before_a_restart_is_nobody_elses(tmp_path, limits):
    """An ack from before a restart does not acknowledge what another caller has leased since."""
    data = DataDirectory(tmp_path)
    lease_ids = []
    for _ in range(2):
        host, opened = await data.serve(limits)
        host.add(opened.epoch, indexes(data.clock.now_ms(), (2, 0, 100)))
        await elapse(data.clock, 100)
        delivery = await host.poll(opened.epoch, max_count=1, wait_ms=0, lease_ms=60_000)
        assert rows(delivery) == [(2, 0)]
        lease_ids.append(delivery.lease_id)
    outcome = host.ack(opened.epoch, lease_ids[0], delivery.indexes.positions)
    assert (outcome.changed_count, outcome.stale.tolist()) == (0, [0])
    assert host.stats().leased_count == 1
    await data.stop()
