"""Copies of whole storages: what arrives, what is refused, and what an interrupted copy leaves and goes on with."""

import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.errors import (
    AddLogMissing,
    SnapshotConflict,
    SnapshotCorrupt,
    StorageFormatUnsupported,
    StorageUnavailable,
)
from delayed_tracker.storage.maintenance.checking import check_storage
from delayed_tracker.storage.maintenance.claiming import claim_tracker
from delayed_tracker.storage.maintenance.copy_marker import MARKER, begin_copy, require_no_unfinished_copy
from delayed_tracker.storage.maintenance.copying import copy_storage
from delayed_tracker.storage.maintenance.opening import WholeStorage, opened_storage
from delayed_tracker.storage.maintenance.tracker_copy import CopyCounts
from delayed_tracker.storage.maintenance.working import Retries
from delayed_tracker.storage.protocol import CatalogueState, LogMark
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog
from tests.snapshot_storage.shared.maintenance.stores import (
    KEY,
    OWNER,
    add_bucket,
    at_once,
    content,
    ignore,
    in_memory,
    log_records,
    marked,
    uncut,
)

OTHER = ("persistent://t/ns/orders", "audit")
POINTS = [
    "copy.begun", "snapshot.created", "snapshot.published", "tracker.snapshots", "log.page", "tracker.log",
    "tracker.committed", "copy.verified",
]  # fmt: skip


class Killed(Exception):
    """The end of a copy at a named point."""


def killed_at(point: str, time: int = 1) -> Callable[[str], None]:
    """Return a function that ends a copy when it reaches a point for the nth time."""
    reached = 0

    def at_point(name: str) -> None:
        nonlocal reached
        if name == point:
            reached += 1
            if reached == time:
                raise Killed(point)

    return at_point


async def copied(
    source: WholeStorage, target: WholeStorage, at_point: Callable[[str], None] = lambda _: None
) -> CopyCounts:
    return await copy_storage(source, target, progress=ignore, attempt=at_once, at_point=at_point)


@asynccontextmanager
async def filled() -> AsyncIterator[WholeStorage]:
    """Yield a storage with two trackers: one with three buckets and records in the log, and a small one."""
    async with in_memory() as source:
        for ledger in (1, 2, 3):
            await add_bucket(source.snapshots, ledger, seal=ledger)
        assert source.log is not None
        await source.log.append([LogAppend(*KEY, 1, 1, [b"void"] * 4)], writer=OWNER)
        await marked(source.snapshots, LogMark(4, Position(3, 8)))
        await log_records(source.log, first=5)
        await add_bucket(source.snapshots, 7, key=OTHER)
        yield dataclasses.replace(source, name="memory:source")


async def test_everything_arrives():
    """Snapshots, entries, mark-delete, claim, seal numbers and uncut records are those of the source, under its epoch."""
    async with filled() as source, in_memory() as target:
        before = [await content(source.snapshots, key) for key in (KEY, OTHER)]
        records = await uncut(source)
        counts = await copied(source, target)
        assert counts == CopyCounts(2, 0, 4, 0, counts.byte_count, 3)
        assert [await content(target.snapshots, key) for key in (KEY, OTHER)] == before
        assert await uncut(target) == records
        assert counts.byte_count == sum(
            [
                await target.snapshots.get_bucket_snapshot_length(entry.bucket_id)
                for key in (KEY, OTHER)
                for entry in (await target.snapshots.list(*key)).entries
            ]
        )
        assert await target.snapshots.trackers() == [OTHER, KEY]
        assert (await target.snapshots.list(*KEY)).epoch == (await source.snapshots.list(*KEY)).epoch > 1
        assert (await check_storage(target.snapshots, progress=ignore)).is_sound


async def test_the_owner_at_the_source_is_fenced():
    """An owner that had a tracker open there can write no more, in the catalogue and in the log."""
    async with filled() as source, in_memory() as target:
        await copied(source, target)
        with pytest.raises(SnapshotConflict):
            await source.snapshots.replace(*KEY, remove=(), add=(), epoch=1, writer=OWNER)
        assert source.log is not None
        assert await source.log.append([LogAppend(*KEY, 1, 8, [b"late"])], writer=OWNER) == [KEY]


@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.parametrize("point", POINTS)
async def test_an_interrupted_copy_goes_on(point, time):
    """A copy that ends at any point is completed by the next run, which copies no published snapshot twice."""
    async with filled() as source, in_memory() as target:
        before = [await content(source.snapshots, key) for key in (KEY, OTHER)]
        records = await uncut(source)
        ended = False
        try:
            await copied(source, target, killed_at(point, time))
        except Killed:
            ended = True
            with pytest.raises(StorageFormatUnsupported, match="unfinished copy of memory:source"):
                await require_no_unfinished_copy(target.snapshots)
            there = sum([len((await target.snapshots.list(*key)).entries) for key in (KEY, OTHER)])
            counts = await copied(source, target)
            assert counts.kept_snapshot_count == there
            assert counts.snapshot_count == 4 - there
        assert ended or time == 2
        assert [await content(target.snapshots, key) for key in (KEY, OTHER)] == before
        assert await uncut(target) == records
        await require_no_unfinished_copy(target.snapshots)
        for key in (KEY, OTHER):
            stored = {each.bucket_id for each in await target.snapshots.list_bucket_snapshots(*key)}
            assert stored == {entry.bucket_id for entry in (await target.snapshots.list(*key)).entries}


async def test_what_the_source_did_between_two_runs_counts():
    """Buckets that were merged away are dropped, new ones arrive, and so do records and consumed positions of now."""
    async with filled() as source, in_memory() as target:
        with pytest.raises(Killed):
            await copied(source, target, killed_at("tracker.committed", 2))
        state = await source.snapshots.list(*KEY)
        gone, kept, _ = state.entries
        epoch = state.epoch + 1
        changed = dataclasses.replace(kept, consumed=b"")
        await source.snapshots.replace(
            *KEY, remove=[gone.bucket_id], add=[changed], epoch=epoch, writer=OWNER, mark=LogMark(6, Position(3, 0))
        )
        await add_bucket(source.snapshots, 4, epoch=epoch, seal=4)
        before, records = await content(source.snapshots), await uncut(source)
        assert len(records) == 1
        counts = await copied(source, target)
        assert counts.snapshot_count == 1
        assert await content(target.snapshots) == before
        assert await uncut(target) == records


async def test_an_owner_that_opens_a_tracker_during_the_copy_is_noticed():
    """The copy fails with a remedy; the next run has what the owner has written."""
    async with filled() as source, in_memory() as target:

        async def reopened() -> None:
            epoch = (await source.snapshots.list(*OTHER)).epoch + 1
            await add_bucket(source.snapshots, 8, key=OTHER, epoch=epoch, seal=2)

        tasks = []

        def at_point(name: str) -> None:
            if name == "tracker.committed" and not tasks:
                # Memory never waits, so the coroutine is driven to its end here.
                tasks.append(reopened())
                with pytest.raises(StopIteration):
                    tasks[0].send(None)

        with pytest.raises(SnapshotConflict, match=r"'audit' of .* at the source during the copy"):
            await copied(source, target, at_point)
        await copied(source, target)
        assert await content(target.snapshots, OTHER) == await content(source.snapshots, OTHER)


async def test_a_target_must_be_empty_or_the_same_copy():
    """Another source, a storage in use, and a finished copy are refused, and nothing changes."""
    async with filled() as source, in_memory() as target:
        with pytest.raises(Killed):
            await copied(source, target, killed_at("copy.begun"))
        other = dataclasses.replace(source, name="memory:other")
        with pytest.raises(InvalidInput, match="an unfinished copy of memory:source; go on with that one"):
            await copied(other, target)
        await copied(source, target)
        epochs = [(await target.snapshots.list(*key)).epoch for key in (KEY, OTHER, MARKER)]
        with pytest.raises(InvalidInput, match="it has trackers; give an empty storage"):
            await copied(source, target)
        assert [(await target.snapshots.list(*key)).epoch for key in (KEY, OTHER, MARKER)] == epochs
        async with in_memory() as empty:
            with pytest.raises(InvalidInput, match="it has no trackers"):
                await copied(empty, target)


async def test_of_two_runs_the_later_one_copies():
    """A run that was overtaken ends with an error, and the copy is whole."""
    async with filled() as source, in_memory() as target:
        begun: list[str] = []

        async def overtaken(operation):
            if begun == ["copy.begun"]:
                begun.append("overtaken")
                with pytest.raises(Killed):
                    await copied(source, target, killed_at("copy.begun"))
            return await operation()

        with pytest.raises(SnapshotConflict, match="another process goes on with this copy"):
            await copy_storage(source, target, progress=ignore, attempt=overtaken, at_point=begun.append)
        await copied(source, target)
        assert await content(target.snapshots) == await content(source.snapshots)


async def test_a_target_without_a_log_gets_no_records():
    """Uncut records are refused before anything is written; without them the claim of the snapshots arrives."""
    async with filled() as source, in_memory(log=False) as target:
        with pytest.raises(AddLogMissing, match=r"has 3 records that no snapshot contains.*delayed-tracker seal"):
            await copied(source, target)
        assert await target.snapshots.trackers() == []
        assert (await source.snapshots.list(*KEY)).epoch == 1
        await marked(source.snapshots, LogMark(7, Position(9, 9)))
        await copied(source, target)
        assert (await target.snapshots.list(*KEY)).log_mark == LogMark(0, Position(9, 9))


async def test_a_source_without_a_log_goes_into_a_storage_with_one():
    """The mark counts from the target's log, so that a recovery there misses no records."""
    async with in_memory(log=False) as source, in_memory() as target:
        await add_bucket(source.snapshots, 1)
        await marked(source.snapshots, LogMark(40, Position(1, 8)))
        await copied(source, target)
        assert (await target.snapshots.list(*KEY)).log_mark == LogMark(0, Position(1, 8))
        assert await uncut(target) == []


async def test_a_tracker_that_was_deleted_at_the_target_is_copied():
    """Its epoch there is passed, and its log's numbers go on."""
    async with filled() as source, in_memory() as target:
        await target.snapshots.replace(*KEY, remove=(), add=(), epoch=20, writer="former")
        await target.snapshots.forget(*KEY, epoch=20, writer="former")
        assert target.log is not None
        await target.log.append([LogAppend(*KEY, 20, 1, [b"void"] * 2)], writer="former")
        records = await uncut(source)
        await copied(source, target)
        assert (await target.snapshots.list(*KEY)).epoch == (await source.snapshots.list(*KEY)).epoch == 22
        assert await uncut(target) == records
        assert await content(target.snapshots) == await content(source.snapshots)


async def test_claims_that_a_restored_backup_made_void_do_not_arrive(tmp_path):
    """The records around a void claim do."""
    async with filled() as source, in_memory() as target:
        assert source.log is not None
        records = await uncut(source)
        take_over = source.log.take_over

        async def void_claims(*key: str, epoch: int, writer: str):
            return dataclasses.replace(await take_over(*key, epoch=epoch, writer=writer), claims_void_through=6)

        source.log.take_over = void_claims  # a log in memory cannot be restored
        await copied(source, target)
        assert await uncut(target) == [records[0], records[2]]


async def test_damage_at_the_source_ends_the_copy():
    """The message names bucket and tracker, and the command that repairs the source."""
    async with filled() as source, in_memory() as target:
        entry = (await source.snapshots.list(*KEY)).entries[1]
        await source.snapshots.delete_bucket_snapshot(entry.bucket_id)
        with pytest.raises(SnapshotCorrupt, match=rf"bucket {entry.bucket_id} of 'billing'.*storage check --repair"):
            await copied(source, target)


async def test_a_target_that_reads_back_something_else_is_not_trusted():
    """The snapshot is not published, and is deleted."""
    async with filled() as source, in_memory() as target:
        read = target.snapshots.get_bucket_snapshot_segments

        async def flipped(bucket_id: int, first: int, last: int) -> list[bytes]:
            *others, final = await read(bucket_id, first, last)
            return [*others, bytes([final[0] ^ 1, *final[1:]])]

        target.snapshots.get_bucket_snapshot_segments = flipped  # damage that the target's checksums do not find
        with pytest.raises(SnapshotCorrupt, match="reads back from the target differently"):
            await copied(source, target)
        for key in (KEY, OTHER):
            assert await target.snapshots.list_bucket_snapshots(*key) == []
            assert (await target.snapshots.list(*key)).entries == ()


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_tracker_whose_commit_was_not_verified_is_not_complete(is_killed):
    """A row of the catalogue is damaged as it is written. The next run copies its bucket again, though the epochs are equal."""
    async with filled() as source, in_memory() as target:
        before = [await content(source.snapshots, key) for key in (KEY, OTHER)]
        replace, listed = target.snapshots.replace, target.snapshots.list
        damaged: list[int] = []

        async def damaging(*key: str, mark: LogMark | None = None, **write: object) -> None:
            await replace(*key, mark=mark, **write)
            if key == KEY and mark is not None and not damaged:  # the commit
                damaged.append((await listed(*KEY)).entries[0].bucket_id)
                if is_killed:
                    raise Killed

        async def with_damage(*key: str) -> CatalogueState:
            state = await listed(*key)
            sound = tuple(entry for entry in state.entries if entry.bucket_id not in damaged)
            corrupt = tuple(entry.bucket_id for entry in state.entries if entry.bucket_id in damaged)
            return dataclasses.replace(state, entries=sound, corrupt=corrupt)

        target.snapshots.replace, target.snapshots.list = damaging, with_damage  # damage as a disk does it
        failure = pytest.raises(Killed) if is_killed else pytest.raises(SnapshotCorrupt, match=r"'billing'.*reads back")
        with failure:
            await copied(source, target)
        assert (await target.snapshots.list(*KEY)).epoch == (await source.snapshots.list(*KEY)).epoch
        with pytest.raises(StorageFormatUnsupported, match="unfinished copy"):
            await require_no_unfinished_copy(target.snapshots)
        counts = await copied(source, target)
        assert counts.snapshot_count + counts.kept_snapshot_count == 4
        assert [await content(target.snapshots, key) for key in (KEY, OTHER)] == before
        assert await target.snapshots.trackers() == [OTHER, KEY]
        assert damaged[0] not in {stored.bucket_id for stored in await target.snapshots.list_bucket_snapshots(*KEY)}


@pytest.mark.parametrize("seed", range(8))
async def test_a_copy_between_storages_that_fail_is_whole(seed):
    """Requests that fail, and replies that are lost, end a run at most; the runs together copy everything, once."""
    async with filled() as source, in_memory() as target:
        before = [await content(source.snapshots, key) for key in (KEY, OTHER)]
        records = await uncut(source)
        shaky = []
        for number, side in enumerate((source, target)):
            plan = FaultPlan(error_before=0.15, error_after=0.15, seed=10 * seed + number)
            assert side.log is not None
            log = FaultyAddLog(side.log, plan, sleep=no_wait)
            shaky.append(
                dataclasses.replace(side, snapshots=FaultyStorage(side.snapshots, plan, sleep=no_wait), log=log)
            )
        retries = Retries(sleep=no_wait, chance=random.Random(seed))
        for _ in range(50):
            with contextlib.suppress(StorageUnavailable):
                await copy_storage(*shaky, progress=ignore, attempt=retries)
            if await target.snapshots.trackers() and not (await target.snapshots.list(*MARKER)).entries:
                break
        assert [await content(target.snapshots, key) for key in (KEY, OTHER)] == before
        assert await uncut(target) == records
        assert await target.snapshots.trackers() == [OTHER, KEY]


async def no_wait(_seconds: float) -> None:
    """Take a pause."""


async def test_a_storage_survives_a_journey(tmp_path):
    """From SQLite to files and back, content and checks stay the same; a storage that is not there is not made."""
    first, between, last = f"sqlite:{tmp_path / 'a.db'}", f"file://{tmp_path / 'b'}", f"sqlite:{tmp_path / 'c.db'}"
    async with opened_storage("--to", first, creates=True) as made:
        for ledger in (1, 2):
            await add_bucket(made.snapshots, ledger, 1_000, seal=ledger)
        before = await content(made.snapshots)
    for source, target in ((first, between), (between, last)):
        async with opened_storage("--from", source) as one, opened_storage("--to", target, creates=True) as other:
            await copied(one, other)
    async with opened_storage("--from", last) as found:
        assert await content(found.snapshots) == before
        assert (await check_storage(found.snapshots, progress=ignore)).is_sound
    for url in (f"sqlite:{tmp_path / 'none'}", f"file://{tmp_path / 'none'}"):
        with pytest.raises(InvalidInput, match="there is no storage"):
            async with opened_storage("--from", url):
                pass
    assert not (tmp_path / "none").exists()


async def test_a_copy_that_ended_before_its_mark_is_written_can_be_begun_again():
    """The claim of the mark is all that the target has: it is empty."""
    async with in_memory() as target:
        await claim_tracker(target.snapshots, None, MARKER, writer="killed", attempt=at_once)
        copy = await begin_copy(target.snapshots, "memory", "sqlite:/source", at_once)
        assert not copy.is_resumed
        await add_bucket(target.snapshots, 1)
        assert (await begin_copy(target.snapshots, "memory", "sqlite:/source", at_once)).is_resumed
