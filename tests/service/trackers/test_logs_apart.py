"""Instances that share a storage and have an add log each: the catalogue says whose records count.

A process that has another log than the catalogue's applies none of its own, and goes on from what the snapshots cover.
"""

from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker, delete_tracker
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.protocol import NO_LOG, LogMark
from tests.service.harness.registry_life import closed_in_time, open_tracker
from tests.service.harness.shell import KEY, OTHER, TINY, bucketful, elapse, indexes, make_registry
from tests.simulation.durable_world import SharedByProcesses

FAR_MS = 1_000_000


class Instances:
    """Processes over one storage. One that crashes is left as it is, as if the others could not reach it."""

    def __init__(self, storage, clock):
        self.storage, self.clock = storage, clock
        self.registries = []

    async def start(self, log, *, limits=TINY, **terms):
        """Start a process with a log of its own, which may be that of an earlier one; with None, it has none."""
        registry = make_registry(
            SharedByProcesses(self.storage),
            self.clock,
            limits=limits,
            add_log=None if log is None else SharedByProcesses(log),
            log_is_apart=True,
            **terms,
        )
        await registry.start()
        self.registries.append(registry)
        return registry

    async def mark(self):
        return (await self.storage.inner.list(*KEY)).log_mark


@pytest.fixture
async def instances(storage, clock):
    await storage.inner.start()
    made = Instances(storage, clock)
    yield made
    for registry in made.registries:
        await closed_in_time(registry, clock)


async def log_of_a_disk():
    log = MemoryAddLog()
    await log.start()
    return log


async def add(host, epoch, clock, *rows, through=None):
    host.add(epoch, indexes(clock.now_ms(), *rows), offered_through=None if through is None else Position(*through))
    await host.until_durable()


async def filled(instances, log):
    """Let a process store ledgers 1 and 2, and hold (3, 4) and (3, 5) in memory and log; its claim is (3, 5)."""
    registry = await instances.start(log)
    host, opened = await open_tracker(registry)
    for ledger in (1, 2):
        host.add(opened.epoch, bucketful(instances.clock.now_ms(), ledger))
    host.seal(opened.epoch)
    await elapse(instances.clock, 100)
    await add(host, opened.epoch, instances.clock, (3, 4, FAR_MS), (3, 5, FAR_MS), through=(3, 5))
    assert await host.checkpoint()
    return host, opened


def tracked(host, *ledgers):
    return host.contains(PositionColumns.of([(ledger, entry) for ledger in ledgers for entry in range(6)])).sum()


async def test_a_process_with_the_log_needs_no_replay(instances):
    """The owner's log has what no snapshot has, and its claim holds."""
    log = await log_of_a_disk()
    await filled(instances, log)
    host, opened = await open_tracker(await instances.start(log))
    assert (tracked(host, 1, 2), tracked(host, 3)) == (10, 2)
    assert (opened.offered_through, opened.add_log_missing) == (Position(3, 5), False)
    assert host.counters.add_logs_missing == 0


async def test_a_process_without_the_log_asks_for_what_no_snapshot_has(instances, written_log):
    """It recovers the snapshots, answers the claim that they cover, says so, and owns the tracker from then on."""
    await filled(instances, await log_of_a_disk())
    lines = written_log("json", "warning")
    log = await log_of_a_disk()
    host, opened = await open_tracker(await instances.start(log))
    assert (tracked(host, 1, 2), tracked(host, 3)) == (10, 0)
    assert (opened.offered_through, opened.add_log_missing) == (Position(3, 3), True)
    assert host.counters.add_logs_missing == 1
    assert '"replay_after": "3:3"' in lines.getvalue()
    assert (await instances.mark()).log == await log.log_id()
    await add(host, opened.epoch, instances.clock, (3, 4, FAR_MS), (3, 5, FAR_MS), through=(3, 5))
    # Its own log counts when it is started again, and nothing is missing any more.
    host, opened = await open_tracker(await instances.start(log))
    assert (tracked(host, 1, 2), tracked(host, 3)) == (10, 2)
    assert (opened.offered_through, opened.add_log_missing) == (Position(3, 5), False)


async def test_a_tracker_belongs_to_its_log_before_its_first_checkpoint(instances):
    """The first add after the first open is in the log that the catalogue names."""
    log = await log_of_a_disk()
    host, opened = await open_tracker(await instances.start(log))
    assert not opened.add_log_missing
    await add(host, opened.epoch, instances.clock, (1, 0, FAR_MS), through=(1, 0))
    host, opened = await open_tracker(await instances.start(log))
    assert (tracked(host, 1), opened.offered_through) == (1, Position(1, 0))


async def test_the_former_owner_applies_nothing_of_its_old_log(instances):
    """Its records since the takeover, and before, are void: the new owner has gone on without them."""
    old, new = await log_of_a_disk(), await log_of_a_disk()
    former, its = await filled(instances, old)
    host, opened = await open_tracker(await instances.start(new))
    await add(host, opened.epoch, instances.clock, (3, 4, FAR_MS), through=(3, 5))
    host.cancel(opened.epoch, PositionColumns.of([(1, 0)]))
    await host.until_durable()
    assert await host.checkpoint()
    # It does not know that it was fenced: the logs are not shared.
    await add(former, its.epoch, instances.clock, (4, 0, FAR_MS))
    host, opened = await open_tracker(await instances.start(old))
    assert (tracked(host, 1), tracked(host, 2), tracked(host, 3, 4)) == (4, 5, 0)
    assert (opened.offered_through, opened.add_log_missing) == (Position(3, 3), True)
    await add(host, opened.epoch, instances.clock, (5, 0, FAR_MS))
    # The process that had the tracker first learns it from the catalogue.
    former.seal(its.epoch)
    await elapse(instances.clock, 100)
    assert former.state is HostState.CLOSED
    host, opened = await open_tracker(await instances.start(old))
    assert (tracked(host, 3, 4), tracked(host, 5), opened.add_log_missing) == (0, 1, False)


async def test_a_bucket_that_moves_to_memory_takes_the_claim_back(instances):
    """The write that drops a snapshot says that the snapshots lack what was in it and has a new deadline."""
    host, opened = await filled(instances, await log_of_a_disk())
    later = bucketful(instances.clock.now_ms() + 7, 2)
    host.reschedule(opened.epoch, later)
    await elapse(instances.clock, 100)
    assert len((await instances.storage.inner.list(*KEY)).entries) == 1
    host, opened = await open_tracker(await instances.start(await log_of_a_disk()))
    assert (tracked(host, 1), tracked(host, 2)) == (5, 0)
    assert opened.offered_through == Position(2, -1)


async def test_a_merge_takes_the_claim_back(instances):
    """A merged snapshot lacks what has moved to memory: the write that names it says so."""
    log = await log_of_a_disk()
    registry = await instances.start(log, limits=replace(TINY, max_num_buckets=2))
    host, opened = await open_tracker(registry)
    now_ms = instances.clock.now_ms()
    for ledger in (1, 2):
        host.add(opened.epoch, bucketful(now_ms, ledger))
        host.seal(opened.epoch)
        await elapse(instances.clock, 100)
    await add(host, opened.epoch, instances.clock, through=(9, 9))
    assert await host.checkpoint()
    assert (await instances.mark()).stored_through == Position(9, 9)
    host.reschedule(opened.epoch, IndexColumns.of([(now_ms + FAR_MS + 1, 1, 3)]))
    host.add(opened.epoch, bucketful(now_ms, 5))
    host.seal(opened.epoch)
    await elapse(instances.clock, 5_000)
    assert host.counters.snapshots_merged
    fresh, opened = await open_tracker(await instances.start(await log_of_a_disk()))
    has_it = bool(fresh.contains(PositionColumns.of([(1, 3)]))[0])
    assert has_it or opened.offered_through < Position(1, 3)


async def test_a_stored_bucket_raises_the_claim_at_once(instances):
    """The write that names a snapshot says that it covers the claim: no checkpoint has to come first."""
    host, opened = await filled(instances, await log_of_a_disk())
    assert (await instances.mark()).stored_through == Position(3, 3)
    host.seal(opened.epoch)
    await elapse(instances.clock, 100)
    assert (await instances.mark()).stored_through == Position(3, 5)


async def test_a_clear_leaves_no_claim_of_its_own_log_or_another(instances):
    """Nothing that was recorded of a tracker counts after a clear, by any process, loaded or not."""
    host, opened = await filled(instances, await log_of_a_disk())
    log = await log_of_a_disk()
    registry = await instances.start(log)
    await clear_tracker(registry, KEY, opened.epoch)
    assert await instances.mark() == LogMark(0, log=await log.log_id())
    host, opened = await open_tracker(await instances.start(await log_of_a_disk()))
    assert (tracked(host, 1, 2, 3), opened.offered_through) == (0, BEFORE_ALL)


@pytest.mark.parametrize("kind", [TrackerKind.BUCKET, TrackerKind.IN_MEMORY])
async def test_a_process_without_any_log_ends_claims_and_logs(instances, kind):
    """Nothing would keep them: afterwards the old log is void, and everything is offered again."""
    old = await log_of_a_disk()
    await filled(instances, old)
    limits = replace(TINY, kind=kind)
    host, opened = await open_tracker(await instances.start(None, limits=limits))
    assert (opened.offered_through, opened.add_log_missing) == (BEFORE_ALL, False)
    assert await instances.mark() == LogMark(log=NO_LOG)
    host, opened = await open_tracker(await instances.start(old))
    assert (tracked(host, 3), opened.offered_through, opened.add_log_missing) == (0, BEFORE_ALL, False)


async def test_a_process_without_any_log_deletes_what_another_log_has(instances):
    """A tracker that is made again has nothing of the one that was deleted."""
    old = await log_of_a_disk()
    await filled(instances, old)
    assert (await delete_tracker(await instances.start(None), KEY, None)).existed
    host, opened = await open_tracker(await instances.start(old))
    assert (tracked(host, 1, 2, 3), opened.offered_through) == (0, BEFORE_ALL)


async def test_a_log_that_is_only_emptied_leaves_nothing_behind(instances):
    """With durable adds switched off, the records are applied once, and no log has the tracker any more."""
    log = await log_of_a_disk()
    await filled(instances, log)
    host, opened = await open_tracker(await instances.start(log, logs_changes=False))
    assert (tracked(host, 3), opened.offered_through) == (2, BEFORE_ALL)
    mark = await instances.mark()
    assert (mark.log, mark.offered_through, mark.stored_through) == (await log.log_id(), None, None)
    assert await log.extents() == []


async def test_records_of_a_tracker_that_moved_away_are_cut(instances):
    """They go when the log needs room, and the tracker is not taken back for that."""
    old = await log_of_a_disk()
    former, its = await filled(instances, old)
    for entry in range(20):
        await add(former, its.epoch, instances.clock, (4, entry, FAR_MS))
    taken, opened = await open_tracker(await instances.start(await log_of_a_disk()))
    (extent,) = await old.extents()
    registry = await instances.start(old, service_limits=ServiceLimits(add_log_bytes_max=2 * extent.record_bytes))
    other, its = await open_tracker(registry, OTHER)
    await add(other, its.epoch, instances.clock, (7, 0, FAR_MS))
    await elapse(instances.clock, 1_000)
    assert {extent.cursor for extent in await old.extents()} <= {OTHER.subscription}
    assert registry.log.log_bytes < extent.record_bytes
    await add(taken, opened.epoch, instances.clock, (8, 0, FAR_MS))
    taken.seal(opened.epoch)
    await elapse(instances.clock, 100)
    assert taken.state is HostState.READY
