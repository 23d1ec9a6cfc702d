"""Commits into a storage show all buckets of a tracker or none, through conflicts and kills of the driver."""

import asyncio
import multiprocessing
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from delayed_tracker.core.rules.segment_cutter import SegmentCutter, WholeSegments
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.spark.commit.commit import RebuiltTracker, StorageCommit
from delayed_tracker.spark.commit.rebuilt_bucket import RebuiltBucket
from delayed_tracker.spark.commit.staging import KEPT, PartMade, Staging, usable_parts
from delayed_tracker.spark.errors import StagedWorkInvalid, StagingUnavailable
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.errors import SnapshotConflict, StorageInUse
from delayed_tracker.storage.protocol import LogMark
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.summary import decode_summary
from delayed_tracker.storage.testing.contract_tools import create
from tests.spark.commit.test_staged_part import COUNT_MAX, STEP_MS, sealed_of
from tests.spark.harness.live import Live, stored

KEY = TrackerKey("persistent://lab/main/orders", "billing")
OTHER = TrackerKey("persistent://lab/main/orders", "shipping")
DAY = timedelta(days=1)
SEALED = sealed_of([(10, 1, 1)])


def staged_bucket(
    staging: Staging, ledger: int, *, count: int = 10, parts: int = 2, run: str = "0" * 32
) -> RebuiltBucket:
    """Return a staged bucket of one ledger, in parts of equal size, each a multiple of a segment."""
    sealed = sealed_of([(10 * entry, ledger, entry) for entry in range(count)])
    starts = sealed.bounds.starts
    edges = [int(starts[len(sealed.bounds) * part // parts]) for part in range(parts + 1)]
    made = []
    for number in range(parts):
        rows = sealed.indexes.take(slice(edges[number], edges[number + 1]))
        with staging.writer(f"{ledger:063x}{number}", run) as (key, writer):
            cutter = SegmentCutter(step_ms=STEP_MS, count_max=COUNT_MAX)
            cutter.feed([rows])
            while (whole := cutter.take(at_end=True)) is not None:
                writer.add(whole)
            writer.end()
        made.append(PartMade(key, writer.index_count, writer.segment_bytes, writer.metadata_bytes))
    bits = PositionBitmap.of(sealed.indexes.positions)
    return RebuiltBucket(sealed.first, sealed.last, count, bits, staging, made)


def tracker_of(*buckets: RebuiltBucket, key: TrackerKey = KEY, mark_delete: Position = BEFORE_ALL) -> RebuiltTracker:
    return RebuiltTracker(key.topic, key.subscription, mark_delete, buckets)


def commit(path: Path, tracker: RebuiltTracker):
    with StorageCommit(f"sqlite:{path}") as target:
        target.begin([(tracker.topic, tracker.subscription)])
        return target.commit(tracker)


def looked_at(path: Path, key: TrackerKey = KEY) -> tuple[Live, set[int], int]:
    """Return the catalogue, the ids of the stored snapshots, and the epoch."""

    async def look():
        storage = open_storage(f"sqlite:{path}")
        await storage.start()
        try:
            ids = {snapshot.bucket_id for snapshot in await storage.list_bucket_snapshots(*key)}
            return await stored(storage, key), ids, (await storage.list(*key)).epoch
        finally:
            await storage.close()

    return asyncio.run(look())


@pytest.fixture
def staging(tmp_path):
    return Staging(str(tmp_path / "staging"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tracker.db"


def test_what_was_staged_is_stored(staging, path):
    """The stored snapshot has the staged metadata, segments, ranges, summary and mark-delete position."""
    bucket = staged_bucket(staging, 7)
    committed = commit(path, tracker_of(bucket, mark_delete=Position(3, 4)))
    live, _, epoch = looked_at(path)
    (entry,) = live.entries
    content = bucket.open()
    assert live.snapshots == ((content.metadata, *content.segments()),)
    assert (entry.first, entry.last, entry.mark_delete) == (Position(7, 0), Position(7, 9), Position(3, 4))
    summary = decode_summary(entry.summary)
    assert (summary.bits, summary.snapshot_bytes) == (bucket.bits, bucket.snapshot_bytes)
    assert (committed.epoch, committed.replaced_count, committed.unchanged) == (epoch, 0, False) == (1, 0, False)


def test_parts_that_differ_from_the_counts_are_not_used_again(staging, path):
    """A part that a task staged while a bookie was away is removed, so that the next run makes it anew."""
    short = replace(staged_bucket(staging, 7), index_count=11)
    with pytest.raises(StagedWorkInvalid, match="counted with 11 indexes and staged with 10; run the job again"):
        commit(path, tracker_of(short))
    assert usable_parts(staging, {staged.part for staged in staging.objects()}) == {}


def test_what_was_there_is_replaced_and_deleted(staging, path):
    """A commit replaces old buckets under a new epoch with higher seal numbers, and leaves no snapshot uncatalogued."""
    commit(path, tracker_of(staged_bucket(staging, 1), staged_bucket(staging, 2)))
    assert [entry.seal_number for entry in looked_at(path)[0].entries] == [1, 2]
    committed = commit(path, tracker_of(staged_bucket(staging, 2), staged_bucket(staging, 3)))
    live, ids, epoch = looked_at(path)
    assert [entry.first.ledger_id for entry in live.entries] == [2, 3]
    assert [entry.seal_number for entry in live.entries] == [3, 4]
    assert {entry.bucket_id for entry in live.entries} == ids
    assert (committed.replaced_count, committed.epoch, epoch) == (2, 2, 2)


def test_the_log_of_before_is_void_and_the_claim_is_recorded(staging, path):
    """Records that a service left in the add log are not applied on top of what was rebuilt."""
    logged = [LogAppend(KEY.topic, KEY.subscription, 1, 1, [b"one", b"two", b"three"])]
    url = f"sqlite:{path}"

    async def leave_records():
        log = open_add_log(url)
        await log.start()
        await log.append(logged, writer="service")
        await log.close()

    asyncio.run(leave_records())
    commit(path, replace(tracker_of(staged_bucket(staging, 1)), offered_through=Position(1, 9)))
    assert _mark(path) == LogMark(3, Position(1, 9), stored_through=Position(1, 9))
    # A job that was killed after it took over the log, and another that takes the same epoch.
    with StorageCommit(url) as killed:
        killed._run(killed._void_log(tracker_of(), 2))
    commit(path, tracker_of(staged_bucket(staging, 2)))
    assert _mark(path) == LogMark(3, None)


def _mark(path: Path) -> LogMark:
    async def look():
        storage = open_storage(f"sqlite:{path}")
        await storage.start()
        try:
            return (await storage.list(*KEY)).log_mark
        finally:
            await storage.close()

    return asyncio.run(look())


def test_the_same_again_changes_nothing(staging, path):
    """The same buckets keep the epoch; a missing bucket or another mark-delete position is a change."""
    buckets = [staged_bucket(staging, 1), staged_bucket(staging, 2)]
    commit(path, tracker_of(*buckets))
    before = looked_at(path)
    assert commit(path, tracker_of(*buckets)).unchanged
    assert looked_at(path) == before
    assert not commit(path, tracker_of(*buckets, mark_delete=Position(1, 0))).unchanged
    assert not commit(path, tracker_of(buckets[0])).unchanged
    assert not commit(path, tracker_of(staged_bucket(staging, 1, count=9))).unchanged


def test_a_storage_in_use_is_refused_at_once(staging, path):
    """A storage that a service or another job has open is refused before anything is read."""
    with StorageCommit(f"sqlite:{path}"), pytest.raises(StorageInUse), StorageCommit(f"sqlite:{path}"):
        pass
    commit(path, tracker_of(staged_bucket(staging, 1)))


def test_of_two_jobs_one_wins(staging):
    """If two jobs began before either committed, the second to commit fails and changes nothing."""
    storage = open_storage("memory:")
    first, second = StorageCommit("memory:"), StorageCommit("memory:")
    first._storage = second._storage = storage
    with first:
        first.begin([KEY, OTHER])
        second.begin([KEY, OTHER])
        first.commit(tracker_of(staged_bucket(staging, 1)))
        before = first._runner.run(stored(storage, KEY))
        with pytest.raises(SnapshotConflict, match="another job has committed"):
            second.commit(tracker_of(staged_bucket(staging, 2)))
        assert first._runner.run(stored(storage, KEY)) == before
        # Trackers that the first job did not touch can be committed.
        assert second.commit(tracker_of(staged_bucket(staging, 2), key=OTHER)).epoch == 1
    second._runner.close()


def test_a_part_that_is_damaged_or_gone_stops_the_commit(staging, path):
    """Nothing of the bucket becomes visible, and the old buckets stay."""
    commit(path, tracker_of(staged_bucket(staging, 1)))
    before = looked_at(path)
    bucket = staged_bucket(staging, 2)
    file = Path(staging.url.removeprefix("file://"), bucket.parts[0].key)
    octets = bytearray(file.read_bytes())
    octets[3] ^= 1
    file.write_bytes(octets)
    with pytest.raises(StagedWorkInvalid, match="checksum"):
        commit(path, tracker_of(staged_bucket(staging, 3), bucket))
    assert looked_at(path)[:2] == before[:2]
    file.unlink()
    with pytest.raises(StagedWorkInvalid, match="gone"):
        commit(path, tracker_of(bucket))
    assert looked_at(path)[:2] == before[:2]


def test_the_epoch_is_claimed_before_anything_is_created_or_deleted(staging, path):
    """A commit that fails while it creates has fenced the former owner, and has deleted what no owner can name."""
    commit(path, tracker_of(staged_bucket(staging, 1)))
    bucket = staged_bucket(staging, 2)
    Path(staging.url.removeprefix("file://"), bucket.parts[0].key).unlink()

    async def leave_orphan(epoch: int) -> int:
        storage = open_storage(f"sqlite:{path}")
        await storage.start()
        try:
            return await create(storage, [], topic=KEY.topic, cursor=KEY.subscription, epoch=epoch)
        finally:
            await storage.close()

    older, newer = asyncio.run(leave_orphan(1)), asyncio.run(leave_orphan(3))
    with pytest.raises(StagedWorkInvalid):
        commit(path, tracker_of(staged_bucket(staging, 3), bucket))
    _, ids, epoch = looked_at(path)
    assert epoch == 2
    assert older not in ids
    assert newer in ids


def _killed_at(point: str, path: Path, staging: Staging) -> None:
    """Run a commit whose process exits at a point of the storage."""
    with StorageCommit(f"sqlite:{path}") as target:
        target._storage.at_point = lambda reached: os._exit(9) if reached == point else None
        target.begin([KEY])
        target.commit(tracker_of(staged_bucket(staging, 2), staged_bucket(staging, 3)))


@pytest.mark.long
@pytest.mark.parametrize("point", ["create.commit", "replace.commit", "delete.commit"])
def test_a_killed_driver_leaves_all_or_nothing(staging, path, point):
    """A driver killed before, during or after the switch leaves whole buckets only, and a rerun completes the job."""
    commit(path, tracker_of(staged_bucket(staging, 1)))
    before = looked_at(path)[0]
    killed = multiprocessing.get_context("spawn").Process(target=_killed_at, args=(point, path, staging))
    killed.start()
    killed.join()
    assert killed.exitcode == 9
    after, _, claimed = looked_at(path)
    switched = point == "delete.commit"
    assert [entry.first.ledger_id for entry in after.entries] == ([2, 3] if switched else [1])
    assert switched or after == before
    again = commit(path, tracker_of(staged_bucket(staging, 2), staged_bucket(staging, 3)))
    assert (again.unchanged, again.epoch) == (switched, claimed if switched else claimed + 1)
    live, ids, _ = looked_at(path)
    assert [entry.first.ledger_id for entry in live.entries] == [2, 3]
    # A commit that changes nothing claims no epoch, and leaves the replaced snapshot to the next owner's sweep.
    assert len(ids) == (3 if switched else 2)


def test_staged_parts_are_used_again_if_they_verify(staging):
    """Any undamaged object of a part is used; damaged objects and those of other parts are not."""
    bucket = staged_bucket(staging, 5)
    wanted = [key.partition(".")[0] for key in (part.key for part in bucket.parts)]
    assert usable_parts(staging, wanted) == dict(zip(wanted, bucket.parts, strict=True))
    file = Path(staging.url.removeprefix("file://"), bucket.parts[0].key)
    file.write_bytes(file.read_bytes()[:-1])
    assert set(usable_parts(staging, wanted)) == {wanted[1]}
    staged_bucket(staging, 5, run="1" * 32)
    found = usable_parts(staging, wanted)
    assert found[wanted[0]].key.split(".")[1] == "1" * 32
    assert usable_parts(staging, ["f" * 64]) == {}


def test_the_sweeper_deletes_what_is_old(staging, tmp_path):
    """The sweeper deletes old staged parts only, not younger ones or other files."""
    bucket = staged_bucket(staging, 5)
    stranger = tmp_path / "staging" / "notes.txt"
    stranger.write_text("mine")
    assert staging.sweep(older_than=DAY) == []
    swept = staging.sweep(older_than=DAY, now=datetime.now(UTC) + 2 * DAY)
    assert sorted(swept) == sorted(part.key for part in bucket.parts)
    assert staging.objects() == []
    assert stranger.exists()


def test_the_time_of_a_job_is_kept_until_it_commits(staging, tmp_path):
    """A job finds the time at which it began, unless it has committed, is abandoned, or the time is damaged."""
    job, other, now_ms = "c" * 64, "d" * 64, 1_700_000_000_000
    file = tmp_path / "staging" / f"{job}.time"
    assert staging.begun_ms(job, now_ms) is None
    staging.begin(job, now_ms)
    days_ms = KEPT // timedelta(milliseconds=1)
    assert [staging.begun_ms(job, now_ms + later_ms) for later_ms in (-1, 0, days_ms - 1, days_ms)] == [
        None,
        now_ms,
        now_ms,
        None,
    ]
    assert staging.begun_ms(other, now_ms) is None
    assert staging.objects() == []
    for damaged in (b"", b"x" * 13, b"9" * 5_000):
        file.write_bytes(damaged)
        assert staging.begun_ms(job, now_ms) is None
    staging.end(job)
    staging.end(job)
    assert not file.exists()
    staging.begin(job, now_ms)
    assert staging.sweep(older_than=DAY, now=datetime.now(UTC) + 2 * DAY) == [file.name]


def _cut_off(staging: Staging) -> None:
    with staging.writer("a" * 64, "b" * 32) as (_, writer):
        writer.add(WholeSegments(SEALED.indexes, SEALED.bounds))
        raise InterruptedError


def test_a_writer_that_fails_leaves_nothing(staging):
    """An object appears only when it is whole."""
    with pytest.raises(StagingUnavailable):
        _cut_off(staging)
    assert staging.objects() == []
