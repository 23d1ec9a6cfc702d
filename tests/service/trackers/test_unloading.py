"""Idle trackers leave memory, and come back for calls and before they fall due, under the same epoch and owner."""

import asyncio
import gc
import weakref
from contextlib import suppress
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.service.errors import Fenced, TrackerKey, TrackerNotOpen
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import clear_tracker, delete_tracker
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.registry_life import FAR_MS, down, fill, open_tracker, positions_of
from tests.service.harness.shell import KEY, OTHER, TINY, Gate, elapse, failing, make_registry, settle
from tests.service.metrics.scraping import assert_balanced, parsed
from tests.simulation.durable_world import SharedByProcesses

IDLE_MS = 10_000


@pytest.fixture
def log():
    return MemoryAddLog()


@pytest.fixture
async def make(storage, clock, log):
    """Return a function that starts a registry, which shares its storage and its log with those before."""
    made = []
    await storage.start()
    await log.start()

    async def start(idle_ms=IDLE_MS, **changes):
        limits = replace(TINY, **changes)
        service_limits = ServiceLimits(tracker_idle_unload_ms=idle_ms)
        shared = SharedByProcesses(storage), clock
        options = {"limits": limits, "service_limits": service_limits, "add_log": SharedByProcesses(log)}
        made.append(make_registry(*shared, seed=len(made), **options))
        await made[-1].start()
        return made[-1]

    yield start
    storage.before.clear()
    for registry in made:
        await registry.close()


async def filled(registry, clock, *, delay_ms=FAR_MS):
    """Open a tracker and fill it, with sealed buckets and rows in memory alone."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, delay_ms=delay_ms)
    await host.until_durable()
    await elapse(clock, 1)
    return host, opened.epoch


async def unloaded(registry, clock, **options):
    host, epoch = await filled(registry, clock, **options)
    await elapse(clock, 2 * IDLE_MS)
    assert host.state is HostState.UNLOADED
    return host, epoch


def crash(registry):
    """End a process without a word: it writes nothing any more."""
    for host in registry._hosts.values():
        host._gate.state = HostState.CLOSED
    registry._shared.timers._wall.armed.clear()


async def test_an_idle_tracker_leaves_memory_and_a_call_brings_it_back(make, clock):
    """Epoch, owner, positions, counters and the next delivery are those of before."""
    registry = await make()
    host, epoch = await filled(registry, clock)
    before, owner = host.stats(), host.owner
    await elapse(clock, IDLE_MS - 2)
    assert host.state is HostState.READY
    await elapse(clock, IDLE_MS)
    assert host.state is HostState.UNLOADED
    assert not host.has_core
    assert (registry.idle.unloaded_count, registry.idle.unload_count) == (1, 1)

    assert await registry.loaded_host(KEY) is host
    assert (registry.idle.unloaded_count, registry.idle.reload_count) == (0, 1)
    after = host.stats()
    assert (host.epoch, host.owner) == (epoch, owner)
    assert host.contains(positions_of(1, 2, 3, 4, 5)).all()
    assert after == replace(before, loaded_count=after.loaded_count, memory_bytes=after.memory_bytes)
    host._gate.core.check()


async def test_a_tracker_whose_catalogue_hangs_keeps_no_other_in_memory(make, storage, clock):
    """Its own checkpoint, which comes first, does not end."""
    registry = await make()
    hung, _ = await filled(registry, clock)
    other, opened = await open_tracker(registry, OTHER)
    await fill(other, opened.epoch, clock)
    await elapse(clock, 1)
    gate = Gate()

    async def hang(topic, cursor, **_options):
        if (topic, cursor) == tuple(KEY):
            await gate()

    storage.before["replace"] = hang
    await elapse(clock, 2 * IDLE_MS)
    assert gate.held_count
    assert (hung.state, other.state) == (HostState.READY, HostState.UNLOADED)
    gate.open()
    await elapse(clock, 2 * IDLE_MS)
    assert hung.state is HostState.UNLOADED


async def test_a_return_that_hangs_is_not_that_of_the_next_open(make, storage, clock):
    """The tracker was closed and opened meanwhile, and comes back for the calls of its new owner."""
    registry = await make()
    _, epoch = await unloaded(registry, clock)
    gate = storage.before["list"] = Gate()
    hung = asyncio.create_task(registry.loaded_host(KEY))
    await elapse(clock, 100)
    del storage.before["list"]
    await registry.close_tracker(KEY, epoch)
    await unloaded(registry, clock)
    again = asyncio.create_task(registry.loaded_host(KEY))
    await elapse(clock, 1_000)
    assert again.result().state is HostState.READY
    gate.open()
    with pytest.raises(Fenced):
        await hung
    assert registry.host(KEY).state is HostState.READY


async def test_stats_of_an_unloaded_tracker_are_answered_without_it(make, clock):
    """Numbers of positions stay; sizes of what is in memory are 0."""
    registry = await make()
    host, epoch = await filled(registry, clock)
    before = host.stats()
    await elapse(clock, 2 * IDLE_MS)
    gone = {"loaded_count": 0, "mutable_count": 0, "late_count": 0, "membership_bytes": 0, "memory_bytes": 0}
    assert host.stats() == replace(before, **gone)
    assert host.state is HostState.UNLOADED
    host.require_owner(epoch)
    with pytest.raises(Fenced):
        host.require_owner(epoch + 1)


async def test_metrics_are_balanced_before_and_after(make, clock):
    registry = await make()
    metrics = ServiceMetrics(registry, version="1")
    _, epoch = await unloaded(registry, clock)

    async def scraped():
        exposition, _ = await metrics.scrape()
        families = parsed(exposition.decode())
        assert_balanced(families)
        return exposition.decode()

    assert "delayed_tracker_unloaded_trackers 1\n" in await scraped()
    host = await registry.loaded_host(KEY)
    host.cancel(epoch, positions_of(1))
    assert "delayed_tracker_tracker_reloads_total 1\n" in await scraped()


async def test_a_tracker_comes_back_before_its_next_delivery(make, clock):
    """It is in memory when the delivery is due, without any call."""
    registry = await make()
    host, epoch = await unloaded(registry, clock, delay_ms=60_000)
    due_ms = host.stats().next_delivery_ms
    await elapse(clock, due_ms - clock.now_ms() - 5_001)
    assert host.state is HostState.UNLOADED
    await elapse(clock, 1)
    assert host.state is HostState.READY
    await elapse(clock, 5_000)
    assert clock.now_ms() == due_ms
    delivery = await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=1_000)
    assert delivery.indexes.deliver_at_ms.tolist() == [due_ms]


async def test_what_is_nearly_due_keeps_a_tracker_in_memory(make, clock):
    """The next delivery must be further away than the window and the idle time."""
    registry = await make()
    host, _ = await filled(registry, clock, delay_ms=IDLE_MS + 15_000)
    await elapse(clock, 2 * IDLE_MS)
    assert host.state is HostState.READY


@pytest.mark.parametrize("what", ["lease", "ended lease", "poll", "setting", "claim of a window"])
async def test_what_is_under_way_keeps_a_tracker_in_memory(make, clock, what):
    registry = await make(idle_ms=0 if what == "setting" else IDLE_MS)
    host, epoch = await filled(registry, clock)
    held = None
    if what in {"lease", "ended lease"}:
        host.add(epoch, IndexColumns.of([(clock.now_ms() + 10, 90, 0)]))
        await elapse(clock, 10)
        lease_ms = 10 * IDLE_MS if what == "lease" else 2_000
        assert len((await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=lease_ms)).indexes) == 1
    if what == "poll":
        held = asyncio.create_task(host.poll(epoch, max_count=1, wait_ms=10 * IDLE_MS, lease_ms=1_000))
    if what == "claim of a window":
        registry.log.unwritten_removed_count += 10**9
        held = asyncio.create_task(host.wait_for_window())
    await elapse(clock, 2 * IDLE_MS)
    assert host.state is HostState.READY
    if held is not None:
        held.cancel()
        with suppress(asyncio.CancelledError):
            await held


async def test_a_tracker_whose_opener_has_gone_is_closed_when_it_is_idle(make, storage, clock):
    """Its recovery is there for the next open for as long; callers with older epochs are told that it is not open."""
    registry = await make()
    host, epoch = await filled(registry, clock)
    await registry.close_tracker(KEY, epoch)
    gate = storage.before["list"] = Gate()
    opening = asyncio.create_task(registry.open(KEY, owner="gone", mark_delete=None))
    await settle()
    opening.cancel()
    await asyncio.wait([opening])
    gate.open()
    await elapse(clock, IDLE_MS - 2)
    host = registry.find_host(KEY)
    assert host.state is HostState.READY
    with pytest.raises(TrackerNotOpen):
        host.add(epoch, IndexColumns.of([(clock.now_ms() + FAR_MS, 90, 0)]))
    tracked_count = host.tracked_count
    with registry._used(KEY):  # by a call that waits
        await elapse(clock, 2 * IDLE_MS)
        assert host.state is HostState.READY
    await elapse(clock, 2 * IDLE_MS)
    assert registry.find_host(KEY) is None
    assert (await open_tracker(registry))[1].recovered_count == tracked_count


async def test_lease_ids_go_on_after_a_return(make, clock):
    """A lease of before the return is unknown, and no later lease has its id."""
    registry = await make()
    host, epoch = await filled(registry, clock)
    host.add(epoch, IndexColumns.of([(clock.now_ms() + 10, 90, 0)]))
    await elapse(clock, 10)
    first = await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=1_000)
    host.ack(epoch, first.lease_id, first.indexes.positions)
    await elapse(clock, 3 * IDLE_MS)
    assert host.state is HostState.UNLOADED
    host = await registry.loaded_host(KEY)
    assert host.ack(epoch, first.lease_id, first.indexes.positions).unknown.tolist() == [0]
    host.add(epoch, IndexColumns.of([(clock.now_ms() + 10, 91, 0)]))
    await elapse(clock, 10)
    assert (await host.poll(epoch, max_count=1, wait_ms=0, lease_ms=1_000)).lease_id > first.lease_id


async def test_callers_share_one_return(storage, make, clock):
    registry = await make()
    await unloaded(registry, clock)
    storage.before["list"] = gate = Gate()
    callers = [asyncio.create_task(registry.loaded_host(KEY)) for _ in range(10)]
    await settle()
    assert gate.held_count == 1
    del storage.before["list"]
    gate.open()
    assert len({id(host) for host in await asyncio.gather(*callers)}) == 1
    assert registry.idle.reload_count == 1


async def test_every_change_of_an_owner_reaches_an_unloaded_tracker(make, clock):
    """Open, clear and delete work as on a tracker in memory."""
    registry = await make()
    _, epoch = await unloaded(registry, clock)
    opened = await registry.open(KEY, owner="next", mark_delete=Position(1, 4))
    assert opened.epoch == epoch + 1
    assert opened.mark_delete == Position(1, 4)
    await elapse(clock, 2 * IDLE_MS)
    assert registry.host(KEY).state is HostState.UNLOADED
    assert registry.host(KEY).mark_delete == Position(1, 4)
    with pytest.raises(Fenced):
        await clear_tracker(registry, KEY, epoch)
    cleared = await clear_tracker(registry, KEY, opened.epoch)
    assert cleared.cleared_count == 21
    await fill(registry.host(KEY), cleared.epoch, clock, 2)
    await elapse(clock, 2 * IDLE_MS)
    assert registry.host(KEY).state is HostState.UNLOADED
    assert (await delete_tracker(registry, KEY, cleared.epoch)).position_count == 6
    assert registry.idle.unloaded_count == registry.tracker_count == 0


async def test_a_close_leaves_all_to_the_next_open(make, clock):
    registry = await make()
    host, epoch = await unloaded(registry, clock)
    log_bytes = registry.log.log_bytes
    await registry.close_tracker(KEY, epoch)
    assert host.state is HostState.CLOSED
    with pytest.raises(TrackerNotOpen):
        await registry.loaded_host(KEY)
    assert registry.log.log_bytes == log_bytes
    _, opened = await open_tracker(registry)
    assert opened.recovered_count == 26


async def test_a_tracker_that_another_process_took_is_fenced(make, clock):
    """The first call finds out, closes the tracker here, and changes nothing there."""
    registry, other = await make(), await make()
    _, epoch = await unloaded(registry, clock)
    theirs, opened = await open_tracker(other, owner="other")
    with pytest.raises(Fenced) as refused:
        await registry.loaded_host(KEY)
    assert str(opened.epoch) in refused.value.message
    await settle()
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    assert opened.epoch == epoch + 1
    assert theirs.contains(positions_of(1, 2, 3, 4, 5)).all()


async def test_a_tracker_that_another_process_took_leaves_memory(make, clock):
    """Its checkpoint is refused, which is where this process learns of it."""
    registry, other = await make(), await make()
    host, epoch = await filled(registry, clock)
    _, theirs = await open_tracker(other, owner="other")
    await elapse(clock, 2 * IDLE_MS)
    assert host.state is HostState.CLOSED
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    assert theirs.epoch == epoch + 1
    assert host.counters.checkpoints_failed == 0


async def test_a_changed_setting_is_looked_at_at_once(make, clock):
    """From never to soon, and from hours to soon."""
    for before_ms in (0, 10_000_000):
        registry = await make(idle_ms=before_ms)
        host, _ = await filled(registry, clock)
        registry.service_limits.adopt(replace(registry.service_limits, tracker_idle_unload_ms=IDLE_MS))
        registry.limits_changed()
        await elapse(clock, 2 * IDLE_MS)
        assert host.state is HostState.UNLOADED
        await registry.close()


async def test_an_open_takes_a_tracker_back_from_another_process(make, clock):
    registry, other = await make(), await make()
    await unloaded(registry, clock)
    _, theirs = await open_tracker(other, owner="other")
    _, ours = await open_tracker(registry)
    assert (ours.epoch, ours.recovered_count) == (theirs.epoch + 1, 26)


async def test_a_failed_checkpoint_keeps_the_tracker_in_memory(storage, make, clock):
    """The next search tries again."""
    registry = await make()
    host, _ = await filled(registry, clock)
    storage.before["replace"] = failing(down())
    await elapse(clock, IDLE_MS)
    assert host.state is HostState.READY
    assert host.counters.checkpoints_failed == 1
    await elapse(clock, IDLE_MS)
    assert host.state is HostState.UNLOADED


async def test_a_call_during_the_checkpoint_keeps_the_tracker_in_memory(storage, make, clock):
    registry = await make()
    host, _ = await filled(registry, clock)
    storage.before["replace"] = gate = Gate()
    await elapse(clock, IDLE_MS + IDLE_MS / 4)
    assert gate.held_count == 1
    assert (await registry.loaded_host(KEY)).contains(positions_of(1)).all()
    gate.open()
    await settle()
    assert host.state is HostState.READY


async def test_a_storage_that_fails_refuses_the_call_and_is_tried_again(storage, make, clock):
    """The tracker stays unloaded: nothing is lost, and the next call may find it."""
    registry = await make()
    host, _ = await unloaded(registry, clock)

    async def always(*_args, **_kwargs):
        raise down()

    storage.before["list"] = always
    call = asyncio.create_task(registry.loaded_host(KEY))
    await elapse(clock, 1_000)
    with pytest.raises(StorageUnavailable):
        await call
    assert host.state is HostState.UNLOADED
    del storage.before["list"]
    assert (await registry.loaded_host(KEY)).contains(positions_of(1, 2, 3, 4, 5)).all()


async def test_a_storage_that_fails_when_the_tracker_falls_due_is_tried_until_it_works(storage, make, clock):
    registry = await make()
    host, epoch = await unloaded(registry, clock, delay_ms=60_000)

    async def always(*_args, **_kwargs):
        raise down()

    storage.before["list"] = always
    due_ms = host.stats().next_delivery_ms
    await elapse(clock, due_ms - clock.now_ms() + 10_000)
    assert host.state is HostState.UNLOADED
    del storage.before["list"]
    await elapse(clock, 2_000)
    assert host.state is HostState.READY
    assert len((await host.poll(epoch, max_count=50, wait_ms=0, lease_ms=1_000)).indexes)


async def test_a_crash_while_unloaded_loses_nothing(make, clock):
    registry = await make()
    host, epoch = await filled(registry, clock)
    host.cancel(epoch, positions_of(2))
    await elapse(clock, 2 * IDLE_MS)
    assert host.state is HostState.UNLOADED
    crash(registry)
    again, opened = await open_tracker(await make())
    assert opened.recovered_count == 21
    assert again.contains(positions_of(1, 3, 4, 5)).all()
    assert not again.contains(positions_of(2)).any()


async def test_lost_snapshots_ask_for_a_replay_after_the_return(storage, make, clock):
    """The counters stay balanced: what was lost was dropped as corrupt."""
    registry = await make()
    await unloaded(registry, clock)
    state = await storage.inner.list(*KEY)
    for entry in state.entries:
        storage.inner._snapshots.pop(entry.bucket_id)
    await storage.inner.replace(
        *KEY,
        remove=(),
        add=[replace(entry, summary=b"") for entry in state.entries],
        epoch=state.epoch,
    )
    host = await registry.loaded_host(KEY)
    stats = host.stats()
    assert host.replay_required
    assert stats.dropped_as_corrupt_count == 26 - stats.pending_count > 0


async def test_the_cores_of_idle_trackers_are_given_back(make, clock):
    """Memory has as many cores as there are trackers in use."""
    registry = await make()
    count = 200
    for number in range(count):
        host, opened = await open_tracker(registry, TrackerKey(f"persistent://t/n/topic-{number}", "s"))
        host.add(opened.epoch, IndexColumns.of([(clock.now_ms() + FAR_MS, 1, entry) for entry in range(3)]))
        await host.until_durable()
    used = TrackerKey("persistent://t/n/topic-7", "s")
    for _ in range(4):
        await elapse(clock, IDLE_MS / 2)
        (await registry.loaded_host(used)).next_delivery_ms()
    assert sum(host.has_core for host in registry._hosts.values()) == 1
    assert registry.idle.unloaded_count == count - 1
    assert registry.unstored.unstored_count == 3
    assert registry.tracker_count == count


async def test_the_log_makes_room_with_unloaded_trackers(make, clock):
    """A tracker that holds most of the log is brought back and sealed, as one that nobody has open is."""
    registry = await make(mutable_indexes_max=10**6, min_index_count_per_bucket=10**6)
    host, opened = await open_tracker(registry)
    host.add(opened.epoch, IndexColumns.of([(clock.now_ms() + FAR_MS, 1, entry) for entry in range(2_000)]))
    await host.until_durable()
    await elapse(clock, 2 * IDLE_MS)
    assert host.state is HostState.UNLOADED
    held = registry.log.log_bytes
    assert registry.log_keeper.unloaded == {KEY: held}
    registry.service_limits.add_log_bytes_max = held
    registry.log_keeper.stored(KEY, held)
    await elapse(clock, 1_000)
    assert registry.log.log_bytes < held
    assert host.stats().pending_count == 2_000


async def test_nothing_keeps_a_dropped_core(make, clock):
    registry = await make()
    host, _ = await filled(registry, clock)
    core = weakref.ref(host._gate.core)
    await elapse(clock, 2 * IDLE_MS)
    assert host.state is HostState.UNLOADED
    gc.collect()
    assert core() is None


async def due_now(registry, epoch):
    """Return the deadlines of all that polls get now."""
    host = await registry.loaded_host(KEY)
    deadlines = []
    while polled := (await host.poll(epoch, max_count=50, wait_ms=0, lease_ms=0)).indexes.deliver_at_ms.tolist():
        deadlines += polled
        await settle()
    return deadlines


async def test_a_clock_that_goes_a_day_forward_brings_a_tracker_back(make, clock):
    """It is in memory without any call, and a new poll gets all that is due now."""
    registry = await make()
    host, epoch = await unloaded(registry, clock)
    clock.step_wall(86_400_000)
    await elapse(clock, 0)
    assert host.state is HostState.READY
    assert len(await due_now(registry, epoch)) == 26


async def test_a_clock_that_goes_an_hour_back_makes_nothing_early(make, clock):
    """Each position comes when the wall clock shows its deadline."""
    registry = await make()
    host, epoch = await unloaded(registry, clock, delay_ms=60_000)
    due_ms = host.stats().next_delivery_ms
    clock.step_wall(-3_600_000)
    await elapse(clock, 60_000)
    assert await due_now(registry, epoch) == []
    await elapse(clock, due_ms - 1 - clock.now_ms())
    assert await due_now(registry, epoch) == []
    await elapse(clock, 1)
    assert await due_now(registry, epoch) == [due_ms] * 6
    await elapse(clock, 40)
    assert len(await due_now(registry, epoch)) == 20
