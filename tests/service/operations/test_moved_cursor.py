"""A cursor that is moved while the index stays: what a crash at any operation of storage and log leaves."""

import asyncio
import copy
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position, PositionColumns
from delayed_tracker.service.errors import Fenced, PollEnded, ShuttingDown, TrackerNotOpen
from delayed_tracker.service.operations.cursor import move_cursor
from delayed_tracker.service.queries.peek import Window, peek
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.maintenance.uncut_records import claim_in_force
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.registry_life import FAR_MS, open_tracker
from tests.service.harness.shell import (
    KEY,
    ControlledStorage,
    Gate,
    as_time_passes,
    bucketful,
    elapse,
    failing,
    make_registry,
    settle,
    until,
)

OLD, NEW = Position(2, 2), Position(1, 1)
"""The mark-delete position before the move, and the lower one."""


class Life:
    """A tracker with stored, sealing, mutable and late positions, of which some were trimmed, some cancelled.

    With ``copies``, each operation of storage and log leaves a copy of both, as they are when it begins and when it ends.
    """

    def __init__(self, clock, *, durable):
        self.clock, self.durable = clock, durable
        self.storage, self.log = ControlledStorage(), MemoryAddLog() if durable else None
        self.copies = None
        self.answered = False
        self.again = {}

    async def begin(self):
        self.registry = make_registry(self.storage, self.clock, add_log=self.log)
        await self.registry.start()
        self.host, opened = await open_tracker(self.registry)
        self.epoch, self.now_ms = opened.epoch, self.clock.now_ms()
        for ledger in (1, 2, 3):
            self.add(bucketful(self.now_ms, ledger))
        self.add(IndexColumns.of([(self.now_ms + FAR_MS, 4, 0)]))
        await settle()
        self.add(IndexColumns.of([(self.now_ms + FAR_MS + 7, 2, 9), (self.now_ms + FAR_MS + 7, 1, 9)]))
        self.host.cancel(self.epoch, PositionColumns.of([(2, 1), (2, 4), (3, 0), (4, 0)]))
        self.host.advance_mark_delete(self.epoch, OLD)
        self.add(IndexColumns.of([(self.now_ms + FAR_MS, 4, 1)]))
        # A bucket whose entry has the old position, which the catalogue then knows.
        with self.host._gate.step(self.epoch) as (core, now):
            core.seal_mutable_bucket(now)  # the late positions stay
        await settle()
        self.add(IndexColumns.of([(self.now_ms + FAR_MS, 6, 0)]))
        await self.host.until_durable()
        assert (await self.storage.inner.list(*KEY)).entries[-1].mark_delete == OLD

    def add(self, indexes):
        return self.host.add(self.epoch, indexes, offered_through=None if self.answered else Position(4, 0))

    @property
    def kept(self):
        """Positions tracked above the old position; in no snapshot, the second."""
        stored = {(2, 3): 30, (3, 1): 10, (3, 2): 20, (3, 3): 30, (3, 4): 40, (4, 1): 0}
        unstored = {(2, 9): 7, (6, 0): 0}
        return [{place: self.now_ms + FAR_MS + more for place, more in each.items()} for each in (stored, unstored)]

    def record(self):
        """Copy storage and log at each operation from now on."""
        self.copies = []

        async def note(*_args, **_kwargs):
            self.copies.append(
                (copy.deepcopy(self.storage.inner), copy.deepcopy(self.log), self.answered, dict(self.again))
            )

        for name in ("list", "replace", "create_bucket_snapshot", "delete_bucket_snapshot"):
            self.storage.before[name] = self.storage.after[name] = note
        if self.log is not None:
            append, cut = self.log.append, self.log.cut

            async def appended(*args, **kwargs):
                await note()
                answer = await append(*args, **kwargs)
                await note()
                return answer

            async def cutting(*args, **kwargs):
                await note()
                await cut(*args, **kwargs)
                await note()

            self.log.append, self.log.cut = appended, cutting

    async def move(self, position=NEW):
        moved = await move_cursor(self.registry, KEY, self.epoch, position)
        self.epoch, self.answered = moved.epoch, True
        return moved

    async def tracked(self):
        return await tracked_by(self.registry)

    async def crashed(self):
        """Yield what each copy is after a crash: the registry that has recovered it, the open's answer, and the copy."""
        assert self.copies
        for storage, log, answered, again in self.copies:
            for stored in (storage, log):
                if stored is not None:
                    stored._started = False
                    vars(stored).pop("append", None)
                    vars(stored).pop("cut", None)
            registry = make_registry(ControlledStorage(storage), self.clock, add_log=log, seed=1)
            await registry.start()
            try:
                yield registry, (await open_tracker(registry))[1], answered, again
            finally:
                await registry.close()


async def tracked_by(registry):
    """Return the deadline of every tracked position."""
    rows = (await peek(await registry.loaded_host(KEY), registry.access, Window(0, None, 1_000))).indexes
    return {(ledger_id, entry_id): deliver_at_ms for deliver_at_ms, ledger_id, entry_id in rows}


@pytest.fixture(params=[True, False], ids=["durable", "pip-195"])
async def life(request, clock):
    living = Life(clock, durable=request.param)
    await living.begin()
    yield living
    living.storage.open_gates()
    closing = asyncio.create_task(living.registry.close())
    await elapse(clock, 2_000)
    await closing


async def test_what_is_above_stays_and_nothing_comes_back(life):
    """Positions keep their deadlines, also those in memory; the claim ends at the position; leases and polls are over."""
    waiting = asyncio.create_task(life.host.poll(life.epoch, max_count=1, wait_ms=60_000, lease_ms=1_000))
    await settle()
    moved = await life.move()
    assert (moved.cleared_count, moved.epoch) == (0, life.host.epoch)
    stored, unstored = life.kept
    assert await life.tracked() == stored | unstored
    assert (life.host.mark_delete, life.host.offered_through) == (NEW, NEW if life.durable else BEFORE_ALL)
    with pytest.raises(PollEnded) as ended:
        await waiting
    assert ended.value.reason == "CLEARED"
    with pytest.raises(Fenced):
        life.host.add(1, bucketful(life.now_ms, 9))


async def test_a_move_forth_trims(life):
    """A higher position drops what is at or below it, as an advance does."""
    stored, unstored = life.kept
    assert (await life.move(Position(3, 2))).cleared_count == 4
    left = {place: at_ms for place, at_ms in (stored | unstored).items() if place > (3, 2)}
    assert await life.tracked() == left
    assert life.host.mark_delete == Position(3, 2)


async def test_a_crash_at_any_operation_leaves_one_of_two_states(life):
    """Before the answer the old or the new position counts, after it the new one; nothing trimmed or cancelled is tracked,
    nothing durable is lost, and what is added again has the deadline of that add.
    """
    stored, unstored = life.kept
    life.record()
    moving = asyncio.create_task(life.move())
    await elapse(life.clock, 1_000)
    await moving
    # Above the new position, and below the old one: their old rows are in snapshots.
    again = {(1, 3): life.now_ms + FAR_MS + 500, (2, 0): life.now_ms + FAR_MS + 501, (2, 4): life.now_ms + FAR_MS + 502}
    life.add(IndexColumns.of([(at_ms, *place) for place, at_ms in again.items()]))
    await life.host.until_durable()
    life.again = again
    assert await life.tracked() == stored | unstored | again
    life.host.seal_open_buckets()
    await elapse(life.clock, 1_000)
    if life.durable:
        assert await life.host.checkpoint()
    await settle()
    recovered_count = 0
    async for registry, opened, answered, added in life.crashed():
        recovered_count += 1
        found = await tracked_by(registry)
        assert opened.mark_delete in ({NEW} if answered else {OLD, NEW})
        assert opened.offered_through <= (NEW if opened.mark_delete == NEW else Position(4, 0))
        if life.durable:
            expected = stored | unstored | added
            assert {place: found[place] for place in expected} == expected
            extra = {place: at_ms for place, at_ms in again.items() if place not in added}
            assert found.items() <= (expected | extra).items()
        else:
            assert stored.items() <= found.items()
            allowed = stored | unstored | again
            if opened.mark_delete == OLD:
                # The cancels of before are not on record, as after any crash.
                allowed |= {(2, 4): life.now_ms + FAR_MS + 40, (3, 0): life.now_ms + FAR_MS}
            assert found.items() <= allowed.items()
        # And once more: a recovery leaves nothing half done.
        host = registry.host(KEY)
        offered = host.add(opened.epoch, IndexColumns.of([(life.now_ms + FAR_MS + 900, 1, 4)]))
        assert offered.added_count == (opened.mark_delete == NEW)
        await host.until_durable()
        host.seal_open_buckets()
        await elapse(life.clock, 1_000)
        if life.durable:
            assert await host.checkpoint()
        before = await tracked_by(registry)
        storage, log = copy.deepcopy(registry.storage.inner), copy.deepcopy(registry.log and registry.log.log)
        storage._started = False
        if log is not None:
            log._started = False
        later = make_registry(ControlledStorage(storage), life.clock, add_log=log, seed=2)
        await later.start()
        assert (await open_tracker(later))[1].mark_delete == opened.mark_delete
        assert await tracked_by(later) == before
        await later.close()
    assert recovered_count > 8


async def test_a_store_in_flight_does_not_bring_back_what_was_trimmed(life):
    """A bucket that was frozen before the trim is stored anew, without what the trim took."""
    life.add(bucketful(life.now_ms, 7))
    gate = life.storage.before["create_bucket_snapshot"] = Gate()
    life.host.seal(life.epoch)
    await settle()
    life.host.advance_mark_delete(life.epoch, Position(7, 2))
    moving = asyncio.create_task(life.move(Position(6, 9)))
    await settle()
    await moving
    gate.open()
    await elapse(life.clock, 5_000)
    life.record()
    await life.storage.list(*KEY)
    async for registry, opened, _, _ in life.crashed():
        found = await tracked_by(registry)
        assert opened.mark_delete == Position(6, 9)
        assert found.keys() == {(7, 3), (7, 4)}


@pytest.mark.parametrize("summary", [b"", b"a newer program's"])
async def test_entries_without_a_summary_are_read_from_their_snapshots(life, summary):
    """Buckets that Pulsar wrote, or whose summary is unreadable, do not bring back what was trimmed either."""
    inner = life.storage.inner
    entries = (await inner.list(*KEY)).entries
    changed = [replace(entry, summary=summary) for entry in entries]
    await inner.replace(
        *KEY,
        remove=[entry.bucket_id for entry in entries],
        add=changed,
        epoch=life.epoch,
        writer=life.registry.access.writer,
    )
    await life.move()
    fallen = (await inner.list(*KEY)).entries
    assert [entry.summary for entry in fallen] == [summary] * len(fallen)
    assert {entry.mark_delete for entry in fallen} == {NEW}
    life.record()
    await life.storage.list(*KEY)
    stored, unstored = life.kept
    async for registry, _, _, _ in life.crashed():
        assert await tracked_by(registry) == (stored | unstored if life.durable else stored)


async def test_a_snapshot_that_is_gone_does_not_hinder_the_move(life):
    """Its entry falls with the others; the next recovery drops it, and the dispatcher replays what it had."""
    inner = life.storage.inner
    entries = (await inner.list(*KEY)).entries
    lost = entries[-1]
    await inner.replace(
        *KEY,
        remove=[lost.bucket_id],
        add=[replace(lost, summary=b"")],
        epoch=life.epoch,
        writer=life.registry.access.writer,
    )
    await inner.delete_bucket_snapshot(lost.bucket_id)
    await life.move()
    assert (await inner.list(*KEY)).mark_delete_in_force == NEW


async def test_a_reader_of_the_log_knows_how_far_the_claim_fell(clock):
    """Tools that change a storage offline find the claim that a recovery would find."""
    life = Life(clock, durable=True)
    await life.begin()
    await life.move()
    extent = await life.log.take_over(*KEY, epoch=life.epoch, writer=life.registry.log.name)
    mark = (await life.storage.inner.list(*KEY)).log_mark

    async def once(operation):
        return await operation()

    assert await claim_in_force(life.log, extent, mark, once) == NEW
    await life.registry.close()


async def test_a_storage_that_fails_is_asked_until_it_answers(life):
    """The call waits, even if its caller goes away; meanwhile nobody opens the tracker, and no other write comes."""
    life.storage.before["replace"] = failing(*[StorageUnavailable("away")] * 20)
    moving = asyncio.create_task(life.move())
    await elapse(life.clock, 1_000)
    assert not moving.done()
    moving.cancel()
    opening = asyncio.create_task(life.registry.open(KEY, owner="next", mark_delete=None))
    await elapse(life.clock, 1_000)
    assert not opening.done()
    del life.storage.before["replace"]
    opened = await as_time_passes(life.clock, opening)
    assert opened.mark_delete == NEW
    assert (await life.storage.inner.list(*KEY)).mark_delete_in_force == NEW


async def test_an_undo_that_is_left_comes_before_the_move(life):
    """Nothing is changed while the catalogue may name what the tracker does not have."""
    life.add(bucketful(life.now_ms, 5))
    life.storage.after["replace"] = failing(*[StorageUnavailable("answer lost")] * 1_000)
    life.host.seal(life.epoch)
    await elapse(life.clock, 400)
    assert life.host._gate.runner.writer.undoing
    epoch = life.epoch
    moving = asyncio.create_task(move_cursor(life.registry, KEY, epoch, NEW))
    with pytest.raises(StorageUnavailable):
        await as_time_passes(life.clock, moving)
    assert (life.host.epoch, life.host.mark_delete) == (epoch, OLD)
    del life.storage.after["replace"]
    await as_time_passes(life.clock, life.move())
    assert not life.host._gate.runner.writer.undoing


@pytest.mark.parametrize("durable", [True, False])
async def test_a_tracker_that_is_not_open_is_moved_too(clock, durable):
    """The last owner moves the cursor of a closed tracker, which is closed afterwards; any other epoch is fenced."""
    life = Life(clock, durable=durable)
    await life.begin()
    await life.registry.close_tracker(KEY, life.epoch)
    with pytest.raises(Fenced):
        await move_cursor(life.registry, KEY, life.epoch + 1, NEW)
    assert (await life.move()).cleared_count == 0
    await settle()
    assert life.registry.find_host(KEY) is None
    _, opened = await open_tracker(life.registry)
    assert (opened.mark_delete, opened.epoch) == (NEW, life.epoch + 1)
    stored, unstored = life.kept
    assert await life.tracked() == (stored | unstored if durable else stored)
    await life.registry.close()


async def test_a_tracker_that_there_never_was_is_not_found(registry):
    """There is nothing to move."""
    with pytest.raises(TrackerNotOpen):
        await move_cursor(registry, KEY, 1, NEW)


@pytest.mark.parametrize(
    ("end", "kind", "reason"),
    [
        (lambda life: life.registry.close_tracker(KEY, life.host.epoch), PollEnded, "CLOSED"),
        (lambda life: life.registry.drain(0), ShuttingDown, "SHUTTING_DOWN"),
    ],
)
async def test_a_close_ends_the_wait(life, end, kind, reason):
    """The caller learns that the outcome is unknown, and the next open finds one of the two positions."""
    life.storage.before["replace"] = failing(*[StorageUnavailable("away")] * 1_000)
    moving = asyncio.create_task(life.move())
    await elapse(life.clock, 300)
    ending = asyncio.create_task(end(life))
    with pytest.raises(kind) as raised:
        await as_time_passes(life.clock, moving)
    assert raised.value.reason == reason
    await as_time_passes(life.clock, ending)


async def test_another_process_that_owns_the_tracker_ends_the_move(life):
    """The tracker is closed here, and the other owner's state is untouched."""
    life.storage.before["replace"] = failing(SnapshotConflict("taken over"))
    with pytest.raises(SnapshotConflict):
        await as_time_passes(life.clock, life.move())
    await settle()
    assert life.registry.find_host(KEY) is None
    del life.storage.before["replace"]
    assert (await life.storage.inner.list(*KEY)).mark_delete_in_force <= OLD


@pytest.mark.parametrize("durable", [True, False])
async def test_who_opens_a_closed_tracker_while_it_is_moved_fences_the_mover(clock, durable):
    """Both are answered an epoch, and these differ."""
    life = Life(clock, durable=durable)
    await life.begin()
    await life.registry.close_tracker(KEY, life.epoch)
    moving = asyncio.create_task(move_cursor(life.registry, KEY, life.epoch, NEW))
    gate = await held(life, "replace")
    opening = asyncio.create_task(life.registry.open(KEY, owner="second", mark_delete=None))
    await settle()
    gate.open()
    moved, opened = await moving, await opening
    assert opened.epoch > moved.epoch
    host = life.registry.host(KEY)
    assert (host.owner, opened.mark_delete) == ("second", NEW)
    with pytest.raises(Fenced):
        host.add(moved.epoch, bucketful(life.now_ms, 9))
    await settle()
    assert life.registry.find_host(KEY) is host
    await life.registry.close()


@pytest.mark.parametrize("operation", ["list", "replace"])
@pytest.mark.parametrize("durable", [True, False])
async def test_a_move_of_a_closed_tracker_goes_on_without_its_caller(clock, durable, operation):
    """The tracker is not closed before the move has ended."""
    life = Life(clock, durable=durable)
    await life.begin()
    await life.registry.close_tracker(KEY, life.epoch)
    moving = asyncio.create_task(move_cursor(life.registry, KEY, life.epoch, NEW))
    gate = await held(life, operation)
    moving.cancel()
    await settle()
    assert life.registry.find_host(KEY) is not None
    gate.open()
    await settle()
    assert life.registry.find_host(KEY) is None
    _, opened = await open_tracker(life.registry)
    assert opened.mark_delete == NEW
    stored, unstored = life.kept
    assert await life.tracked() == (stored | unstored if durable else stored)
    await life.registry.close()


async def held(life, operation):
    """Let an operation of the storage that is a part of a move wait, and return what lets it go on."""
    gate = Gate()

    async def hook(*_args, **_kwargs):
        if KEY in life.registry._removals:
            await gate()

    life.storage.before[operation] = hook
    await until(lambda: gate.held_count == 1)
    return gate
