"""Opening, recovering, fencing, closing and the orderly end, over one storage that outlives the registries."""

import asyncio
from dataclasses import replace

import pytest

from snapshot_storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageUnavailable
from tests.service.shell import (
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
from tracker.core.columns import BEFORE_ALL, Position, PositionColumns
from tracker.core.errors import InvalidInput
from tracker.service.errors import Fenced, Overloaded, PollEnded, Recovering, ShuttingDown, TrackerNotOpen
from tracker.service.limits import ServiceLimits

FAR_MS = 1_000_000


def _down():
    return StorageUnavailable("down")


async def _open(registry, key=KEY, *, owner="tests", mark_delete=None):
    opened = await registry.open(key, owner=owner, mark_delete=mark_delete)
    return registry.host(key), opened


async def _restarted(registry, storage, clock, **kwargs):
    """The same storage under a new registry."""
    await registry.close()
    again = make_registry(storage, clock, **kwargs)
    await again.start()
    return again


async def _fill(host, epoch, clock, buckets=5, *, delay_ms=FAR_MS):
    for ledger in range(1, buckets + 1):
        host.add(epoch, bucketful(clock.now_ms(), ledger, delay_ms=delay_ms))
    host.add(epoch, indexes(clock.now_ms(), (buckets + 1, 0, delay_ms)))
    await settle()


def _positions(*ledgers):
    return PositionColumns.of([(ledger, entry) for ledger in ledgers for entry in range(5)])


# -- opening ---------------------------------------------------------------------------------------------------------


async def test_a_new_tracker_is_empty_at_epoch_1(registry, storage):
    """The epoch is on record before it is answered."""
    _, opened = await _open(registry)
    assert (opened.epoch, opened.mark_delete, opened.recovered_count) == (1, BEFORE_ALL, 0)
    assert (await storage.inner.list(*KEY)).epoch == 1


async def test_every_open_has_an_epoch_of_its_own_across_restarts(registry, storage, clock):
    """Opening again fences, by the same owner too; a restart never gives an epoch twice."""
    epochs = [(await _open(registry))[1].epoch for _ in range(3)]
    again = await _restarted(registry, storage, clock)
    epochs += [(await _open(again))[1].epoch for _ in range(2)]
    assert epochs == sorted(set(epochs))
    await again.close()


async def test_a_new_owner_gets_the_leases_back_and_the_old_one_is_fenced(registry, clock):
    """All leases return at once; the old epoch is refused by every verb that needs one."""
    host, old = await _open(registry, owner="first")
    host.add(old.epoch, indexes(clock.now_ms(), (1, 0, 5)))
    await elapse(clock, 5)
    taken = await host.poll(old.epoch, max_count=1, wait_ms=0, lease_ms=60_000)
    _, new = await _open(registry, owner="second")
    assert rows(await host.poll(new.epoch, max_count=1, wait_ms=0, lease_ms=60_000)) == [(1, 0)]
    with pytest.raises(Fenced, match="'second'") as raised:
        host.ack(old.epoch, taken.lease_id, PositionColumns.of([(1, 0)]))
    assert raised.value.metadata == {"given_epoch": "1", "epoch": "2", "owner": "second"}
    with pytest.raises(Fenced):
        host.add(old.epoch, indexes(clock.now_ms(), (1, 1, 5)))
    with pytest.raises(Fenced):
        await registry.close_tracker(KEY, old.epoch)
    with pytest.raises(Fenced):
        await registry.clear(KEY, old.epoch)


async def test_concurrent_opens_share_one_recovery(registry, storage):
    """One read of the catalogue serves them all, and each gets an epoch of its own; the last one owns."""
    storage.before["list"] = gate = Gate()
    opens = [asyncio.create_task(registry.open(KEY, owner=f"owner {n}", mark_delete=None)) for n in range(3)]
    await settle()
    assert gate.held_count == 1
    assert registry.recovering_count == 1
    with pytest.raises(Recovering):
        registry.host(KEY).contains(_positions(1))
    gate.open()
    await settle()
    assert [opened.result().epoch for opened in opens] == [1, 2, 3]
    assert registry.host(KEY).owner == "owner 2"


async def test_an_open_that_ran_into_its_deadline_may_be_repeated(registry, storage):
    """The recovery goes on without the caller, and the next try joins it."""
    storage.before["list"] = gate = Gate()
    first = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
    await settle()
    first.cancel()
    await settle()
    again = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
    await settle()
    assert gate.held_count == 1
    gate.open()
    await settle()
    assert again.result().epoch == 1


async def test_an_open_cancelled_while_it_fences_leaves_a_usable_tracker(registry, storage, clock):
    """It is not known whether the epoch was recorded: the old owner is fenced, and effects do not conflict."""
    host, old = await _open(registry)
    storage.before["replace"] = gate = Gate()
    reopening = asyncio.create_task(registry.open(KEY, owner="other", mark_delete=None))
    await settle()
    reopening.cancel()
    await settle()
    gate.open()
    with pytest.raises(Fenced):
        host.require_owner(old.epoch)
    _, new = await _open(registry)
    await _fill(host, new.epoch, clock)
    assert host.counters.snapshots_stored == 5


async def test_an_open_whose_fence_fails_says_unavailable_and_can_be_repeated(registry, storage, clock):
    """Also if the storage had applied it."""
    host, old = await _open(registry)
    storage.after["replace"] = failing(_down(), _down(), _down())
    failed = asyncio.create_task(registry.open(KEY, owner="other", mark_delete=None))
    await elapse(clock, 1_000)
    with pytest.raises(StorageUnavailable):
        failed.result()
    with pytest.raises(Fenced):
        host.require_owner(old.epoch)
    _, new = await _open(registry)
    assert new.epoch == 3
    await _fill(host, new.epoch, clock)
    assert host.counters.snapshots_stored == 5


async def test_mark_delete_given_at_open_trims(registry, clock):
    """Loaded or not, what the cursor has acknowledged is dropped; a lower position changes nothing."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock, 2)
    _, again = await _open(registry, mark_delete=Position(1, 4))
    assert again.mark_delete == Position(1, 4)
    assert host.stats().trimmed_count == 5
    _, lower = await _open(registry, mark_delete=Position(1, 0))
    assert lower.mark_delete == Position(1, 4)
    _, unknown = await _open(registry, mark_delete=BEFORE_ALL)
    assert unknown.mark_delete == Position(1, 4)


async def test_trackers_beyond_the_limit_are_refused(storage, clock):
    """Closing one makes room."""
    registry = make_registry(storage, clock, service_limits=ServiceLimits(trackers_max=1))
    await registry.start()
    _, opened = await _open(registry)
    with pytest.raises(Overloaded):
        await _open(registry, OTHER)
    await registry.close_tracker(KEY, opened.epoch)
    await _open(registry, OTHER)
    await registry.close()


# -- recovery --------------------------------------------------------------------------------------------------------


async def test_recovery_reads_no_snapshot_that_its_summary_describes(registry, storage, clock):
    """Buckets come back with all their positions from the catalogue alone; what was not sealed is the replay's."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock)
    again = await _restarted(registry, storage, clock)
    storage.calls.clear()
    host, opened = await _open(again)
    assert (opened.recovered_count, opened.bucket_count) == (25, 5)
    assert host.contains(_positions(1, 2, 3, 4, 5)).all()
    assert not host.contains(PositionColumns.of([(6, 0)])).any()
    assert not [call for call in storage.calls if call.startswith("get_bucket_snapshot")]
    await elapse(clock, FAR_MS + 40)
    delivered = []
    while batch := rows(await host.poll(opened.epoch, max_count=99, wait_ms=0, lease_ms=0)):
        delivered += batch
        await settle()
    assert sorted(delivered) == [tuple(position) for position in _positions(1, 2, 3, 4, 5)]
    assert len(delivered) == 25
    await again.close()


async def test_a_partly_due_bucket_is_recovered_from_its_metadata(registry, storage, clock):
    """Leading segments that are due are the replay's; the rest comes back."""
    host, opened = await _open(registry)
    host.add(opened.epoch, indexes(clock.now_ms(), *((1, entry, 10_000 + 5_000 * entry) for entry in range(5))))
    host.add(opened.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    again = await _restarted(registry, storage, clock)
    clock.advance(16_000)
    storage.calls.clear()
    host, opened = await _open(again)
    assert opened.recovered_count == 3
    assert host.contains(_positions(1)).tolist() == [False, False, True, True, True]
    assert storage.calls.count("get_bucket_snapshot_metadata") == 1
    await again.close()


@pytest.mark.parametrize("operation", ["list", "replace", "list_bucket_snapshots", "get_bucket_snapshot_metadata"])
async def test_row_26_a_failed_recovery_frees_everything_and_can_be_repeated(registry, storage, clock, operation):
    """The storage is away: UNAVAILABLE to everyone who waits, nothing stays, and the next open succeeds."""
    host, opened = await _open(registry)
    host.add(opened.epoch, indexes(clock.now_ms(), *((1, entry, 10_000 + 5_000 * entry) for entry in range(5))))
    host.add(opened.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    again = await _restarted(registry, storage, clock)
    clock.advance(16_000)
    storage.before[operation] = failing(_down(), _down(), _down())
    opens = [asyncio.create_task(_open(again)) for _ in range(2)]
    await elapse(clock, 1_000)
    for open_ in opens:
        with pytest.raises(StorageUnavailable):
            open_.result()
    assert (again.tracker_count, again.recovering_count) == (0, 0)
    assert clock.next_timer_in_ms() is None
    assert again.counters.storage_retries >= 2
    with pytest.raises(TrackerNotOpen):
        again.host(KEY)
    _, opened = await _open(again)
    assert opened.recovered_count == 3
    await again.close()


async def test_a_bug_in_recovery_reaches_the_caller_and_the_loop(registry, storage):
    """Nothing is swallowed, and nothing of the attempt stays."""
    seen = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
    storage.before["list"] = failing(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        await _open(registry)
    assert len(seen) == 1
    assert registry.tracker_count == 0
    await _open(registry)


@pytest.mark.parametrize(
    ("error", "counter"),
    [(SnapshotNotFound("gone"), "snapshots_missing"), (SnapshotCorrupt("bad CRC"), "snapshots_corrupt")],
)
async def test_row_l1_one_lost_snapshot_does_not_cost_the_others(registry, storage, clock, error, counter):
    """One of five cannot be read: four come back, its pointer goes, and it is counted."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock)
    again = await _restarted(registry, storage, clock)
    # Without summaries every bucket is read, as in a catalogue that somebody else wrote.
    entries = (await storage.inner.list(*KEY)).entries
    foreign = [replace(entry, summary=b"") for entry in entries]
    await storage.inner.replace(*KEY, remove=[entry.bucket_id for entry in entries], add=foreign, epoch=opened.epoch)
    storage.before["get_bucket_snapshot_metadata"] = failing(None, error)
    host, opened = await _open(again)
    await settle()
    assert (opened.recovered_count, opened.bucket_count) == (20, 4)
    assert getattr(host.counters, counter) == 1
    catalogued = [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]
    assert len(catalogued) == 4
    assert [one.bucket_id for one in await storage.inner.list_bucket_snapshots(*KEY)] == catalogued
    await again.close()


async def test_row_33_a_pointer_to_a_snapshot_that_is_gone_is_found_and_dropped(registry, storage, clock):
    """A crash between deleting object and pointer: the pointer goes when the snapshot is wanted, the rest lives."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock, 2)
    again = await _restarted(registry, storage, clock)
    first = (await storage.inner.list(*KEY)).entries[0].bucket_id
    await storage.inner.delete_bucket_snapshot(first)
    host, opened = await _open(again)
    await elapse(clock, FAR_MS + 40)
    assert host.counters.snapshots_missing == 1
    assert host.replay_required
    assert first not in [entry.bucket_id for entry in (await storage.inner.list(*KEY)).entries]
    assert [ledger for ledger, _ in rows(await host.poll(opened.epoch, max_count=99, wait_ms=0, lease_ms=0))] == [2] * 5
    await again.close()


async def test_unreadable_summaries_and_checkpoints_cost_a_read_or_a_duplicate(registry, storage, clock):
    """Neither is the snapshot: it is read instead, and nothing is lost."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock, 2)
    again = await _restarted(registry, storage, clock)
    entries = (await storage.inner.list(*KEY)).entries
    garbled = [
        replace(entry, summary=stored, consumed=b"junk")
        for entry, stored in zip(entries, (b"\x01", b"\x09"), strict=True)
    ]
    await storage.inner.replace(*KEY, remove=[entry.bucket_id for entry in entries], add=garbled, epoch=opened.epoch)
    host, opened = await _open(again)
    assert opened.recovered_count == 10
    assert host.counters.summaries_unreadable == 2
    await again.close()


async def test_orphans_are_swept_and_counted(registry, storage, clock):
    """What a crash left between create and commit is deleted at the next open; others' snapshots are not."""
    await storage.inner.create_bucket_snapshot(b"", _nothing(), bucket_key="", topic=KEY[0], cursor=KEY[1], epoch=1)
    await storage.inner.create_bucket_snapshot(b"", _nothing(), bucket_key="", topic=KEY[0], cursor=OTHER[1], epoch=1)
    host, _ = await _open(registry)
    assert host.counters.orphans_swept == registry.counters.orphans_swept == 1
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    assert len(await storage.inner.list_bucket_snapshots(*OTHER)) == 1


async def _nothing():
    return
    yield b""


# -- closing ---------------------------------------------------------------------------------------------------------


async def test_a_closed_tracker_answers_not_open_and_keeps_its_snapshots(registry, storage, clock):
    """Close voids leases and forgets the mutable bucket; opening again finds what was sealed."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    with pytest.raises(TrackerNotOpen):
        host.add(opened.epoch, bucketful(clock.now_ms(), 9))
    _, again = await _open(registry)
    assert again.recovered_count == 25
    assert registry.counters.snapshots_stored == 5


async def test_rows_17_and_42_close_waits_for_a_pending_create_and_blocks_nobody(registry, storage, clock):
    """The verbs end at once, the answer comes when the create has ended, and an open meanwhile waits its turn."""
    host, opened = await _open(registry)
    storage.before["create_bucket_snapshot"] = gate = Gate()
    await _fill(host, opened.epoch, clock, 1)
    closing = asyncio.create_task(registry.close_tracker(KEY, opened.epoch))
    await settle()
    assert not closing.done()
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    reopening = asyncio.create_task(_open(registry))
    await asyncio.wait_for(_open(registry, OTHER), 1)
    assert not reopening.done()
    gate.open()
    await settle()
    assert closing.done()
    _, again = reopening.result()
    assert again.recovered_count == 5


async def test_closing_goes_on_when_the_caller_goes_away(registry, storage, clock):
    """A cancelled close still closes."""
    host, opened = await _open(registry)
    storage.before["create_bucket_snapshot"] = gate = Gate()
    await _fill(host, opened.epoch, clock, 1)
    closing = asyncio.create_task(registry.close_tracker(KEY, opened.epoch))
    await settle()
    closing.cancel()
    gate.open()
    await settle()
    assert registry.tracker_count == 0


async def test_what_was_consumed_does_not_come_back_after_a_close(registry, storage, clock):
    """A close records consumption: after a restart only what is left is tracked, leased positions included."""
    host, opened = await _open(registry)
    host.add(opened.epoch, bucketful(clock.now_ms(), 1, delay_ms=100_000, step_ms=1))
    host.add(opened.epoch, indexes(clock.now_ms(), (1, 9, FAR_MS), (2, 0, FAR_MS)))
    await settle()
    await elapse(clock, 100_010)
    delivery = await host.poll(opened.epoch, max_count=4, wait_ms=0, lease_ms=60_000)
    host.ack(opened.epoch, delivery.lease_id, PositionColumns.of([(1, 0), (1, 1)]))
    again = await _restarted(registry, storage, clock)
    clock.step_wall(-60_000)  # so that the segments are not skipped as due
    host, opened = await _open(again)
    assert host.contains(PositionColumns.of([(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 9)])).tolist() == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    await again.close()


async def test_a_checkpoint_that_fails_costs_duplicates_only(registry, storage, clock):
    """The close succeeds, and the failure is counted."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock)
    storage.before["list"] = failing(_down())
    await registry.close_tracker(KEY, opened.epoch)
    assert registry.counters.checkpoints_failed == 1


# -- clearing --------------------------------------------------------------------------------------------------------


async def test_clear_is_durable_and_raises_the_epoch(registry, storage, clock):
    """Nothing comes back after a restart; the old epoch is fenced, the answered one is good."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock)
    cleared = await registry.clear(KEY, opened.epoch)
    assert (cleared.cleared_count, cleared.epoch) == (26, opened.epoch + 1)
    with pytest.raises(Fenced):
        host.require_owner(opened.epoch)
    host.require_owner(cleared.epoch)
    await settle()
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    again = await _restarted(registry, storage, clock)
    _, opened = await _open(again)
    assert opened.recovered_count == 0
    assert opened.epoch > cleared.epoch
    await again.close()


async def test_clear_is_legal_for_a_tracker_that_is_not_loaded(registry, storage, clock):
    """Rows 36 and 69: with the last epoch, everything of the tracker goes; an older epoch is fenced."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    with pytest.raises(Fenced):
        await registry.clear(KEY, opened.epoch + 1)
    cleared = await registry.clear(KEY, opened.epoch)
    assert (cleared.cleared_count, cleared.epoch) == (25, opened.epoch + 1)
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    _, again = await _open(registry)
    assert (again.recovered_count, again.epoch) == (0, opened.epoch + 2)


async def test_clear_of_a_tracker_that_nobody_ever_opened_is_not_open(registry):
    """There is no epoch to be fenced by; the remedy is to open it."""
    with pytest.raises(TrackerNotOpen):
        await registry.clear(KEY, 1)


async def _reopened(registry, storage, clock):
    """A tracker with 25 positions in storage, whose next recovery waits at the gate; the epoch of its last owner."""
    host, opened = await _open(registry)
    await _fill(host, opened.epoch, clock)
    await registry.close_tracker(KEY, opened.epoch)
    storage.before["list_bucket_snapshots"] = gate = Gate()
    opening = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
    await settle()
    assert registry.recovering_count == 1
    return opened.epoch, gate, opening


@pytest.mark.parametrize("reset_to", [None, Position(3, 0)], ids=["clear", "reset"])
async def test_a_clear_waits_for_a_recovery_and_gets_a_definite_answer(registry, storage, clock, reset_to):
    """Legal in any state: the new owner's epoch clears what was recovered, the old owner's is fenced."""
    epoch, gate, opening = await _reopened(registry, storage, clock)
    fenced = asyncio.create_task(registry.clear(KEY, epoch, reset_to=reset_to))
    applied = asyncio.create_task(registry.clear(KEY, epoch + 1, reset_to=reset_to))
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
    """A caller whose deadline passes leaves the recovery to those who opened the tracker."""
    epoch, gate, opening = await _reopened(registry, storage, clock)
    clearing = asyncio.create_task(registry.clear(KEY, epoch + 1))
    await settle()
    clearing.cancel()
    gate.open()
    assert (await opening).recovered_count == 25


async def test_a_deletion_goes_on_when_the_recovery_it_waits_for_fails(registry, storage, clock):
    """What failed to be read can be deleted all the same."""
    _, gate, opening = await _reopened(registry, storage, clock)
    deleting = asyncio.create_task(registry.delete(KEY, None))
    await settle()
    storage.before["list_bucket_snapshots"] = failing(*[_down()] * 2)
    storage.after["list_bucket_snapshots"] = failing(_down())
    gate.open()
    await elapse(clock, 10_000)
    with pytest.raises(StorageUnavailable):
        await opening
    assert await deleting == 25
    assert await storage.inner.list_bucket_snapshots(*KEY) == []


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_drain_refuses_calls_and_finishes_effects(registry, storage, clock):
    """New calls get SHUTTING_DOWN, effects end within the grace period, and everything is closed."""
    host, opened = await _open(registry)
    storage.before["create_bucket_snapshot"] = gate = Gate()
    await _fill(host, opened.epoch, clock, 1)
    draining = asyncio.create_task(registry.drain(10_000))
    await settle()
    assert not registry.serving
    for call in (
        registry.open(KEY, owner="x", mark_delete=None),
        registry.clear(KEY, 1),
        registry.close_tracker(KEY, 1),
    ):
        with pytest.raises(ShuttingDown):
            await call
    with pytest.raises(ShuttingDown):
        registry.host(KEY)
    assert not draining.done()
    gate.open()
    await settle()
    assert draining.done()
    assert registry.counters.snapshots_stored == 1
    assert registry.tracker_count == 0
    assert clock.next_timer_in_ms() is None


async def test_drain_ends_with_the_grace_period(registry, storage, clock):
    """What hangs is cut off; the storage holds nothing of it."""
    host, opened = await _open(registry)
    storage.before["create_bucket_snapshot"] = Gate()
    await _fill(host, opened.epoch, clock, 3)
    draining = asyncio.create_task(registry.drain(10_000))
    await elapse(clock, 9_999)
    assert not draining.done()
    await elapse(clock, 1)
    assert draining.done()
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    await registry.close()
    await registry.close()


async def test_drain_ends_recoveries_and_whoever_waits_for_them(registry, storage):
    """An open under way is told that the service stops."""
    storage.before["list"] = Gate()
    opening = asyncio.create_task(_open(registry))
    await settle()
    await registry.drain(1_000)
    with pytest.raises(ShuttingDown):
        await opening
    assert registry.tracker_count == 0


async def test_drain_ends_polls(registry, clock):
    """A waiting poll is not what keeps a service from stopping."""
    host, opened = await _open(registry)
    poll = asyncio.create_task(host.poll(opened.epoch, max_count=1, wait_ms=60_000, lease_ms=1_000))
    await settle()
    await registry.drain(1_000)
    with pytest.raises(ShuttingDown):
        await poll
    assert not issubclass(ShuttingDown, PollEnded)


async def test_idle_trackers_cost_no_timers(registry, clock):
    """A thousand trackers with nothing to do arm nothing at all."""
    for number in range(1_000):
        await _open(registry, KEY._replace(subscription=f"idle {number}"))
    assert clock.next_timer_in_ms() is None
    assert registry.tracker_count == 1_000


def test_limits_that_no_service_can_work_with_are_refused():
    """Each bound is at least 1, and the default lease is allowed."""
    with pytest.raises(InvalidInput, match="batch_max"):
        ServiceLimits(batch_max=0)
    with pytest.raises(InvalidInput, match="lease_default_ms"):
        ServiceLimits(lease_default_ms=10, lease_max_ms=9)
