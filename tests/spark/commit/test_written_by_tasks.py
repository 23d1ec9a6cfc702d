"""Commits of snapshots that tasks wrote: named once or deleted, whatever happens to a task or to the job."""

import asyncio
from collections.abc import Sequence

import pytest

from delayed_tracker.spark.commit.shared_commit import SnapshotToWrite, WriteSnapshots, WrittenSnapshot
from delayed_tracker.spark.errors import StagedWorkInvalid
from delayed_tracker.storage.errors import SnapshotConflict
from tests.spark.commit.test_commit import KEY, OTHER, staged_bucket, tracker_of
from tests.spark.commit.test_shared_commit import Place, cluster, shared, staging

__all__ = ["cluster", "shared", "staging"]


def by_tasks(place: Place, written: list[list[SnapshotToWrite]], *, twice: bool = False) -> WriteSnapshots:
    """Return what writes snapshots as tasks do, each in a process of its own; ``twice`` is speculation.

    Args:
        place: the storage.
        written: gets the snapshots of each call.
        twice: write each snapshot a second time, and forget it.
    """

    def write(snapshots: Sequence[SnapshotToWrite]) -> list[WrittenSnapshot]:
        written.append(list(snapshots))
        found = []
        for snapshot in snapshots:
            for _ in range(1 + twice):
                with place.writer() as storage:
                    made = storage.write(snapshot)
            found.append(made)
        return found

    return write


def commit_all(place: Place, write: WriteSnapshots, *trackers, buckets_at_once: int = 100):
    with place.target() as target:
        target.begin([KEY, OTHER])
        return target.commit_all(trackers, write, buckets_at_once=buckets_at_once)


@pytest.mark.parametrize("twice", [False, True])
def test_what_tasks_wrote_is_what_another_process_reads(staging, shared, twice):
    """Snapshots, order and epoch are right, a second attempt of a task leaves nothing, and the same again writes nothing."""
    buckets = [staged_bucket(staging, 7), staged_bucket(staging, 8, parts=1)]
    trackers = [tracker_of(*buckets), tracker_of(buckets[0], key=OTHER)]
    written: list[list[SnapshotToWrite]] = []
    committed = commit_all(shared, by_tasks(shared, written, twice=twice), *trackers)
    assert [(one.epoch, one.replaced_count, one.unchanged) for one in committed] == [(1, 0, False)] * 2
    for key, expected in ((KEY, buckets), (OTHER, buckets[:1])):
        live, ids, epoch = shared.look(key)
        contents = [bucket.open() for bucket in expected]
        assert live.snapshots == tuple((content.metadata, *content.segments()) for content in contents)
        assert [(entry.seal_number, entry.summary) for entry in live.entries] == [
            (number, content.summary) for number, content in enumerate(contents, 1)
        ]
        assert (ids, epoch) == ({entry.bucket_id for entry in live.entries}, 1)
    again = commit_all(shared, by_tasks(shared, written), *trackers)
    assert [one.unchanged for one in again] == [True, True]
    assert list(map(len, written)) == [3, 0]


def test_a_few_trackers_are_fenced_at_a_time(staging, shared):
    """The epoch of a tracker is claimed when the tasks write its buckets, and not before."""
    written: list[list[SnapshotToWrite]] = []
    epochs: list[int] = []
    write = by_tasks(shared, written)

    def looking(snapshots):
        # The driver has the storage open, and another process looks at it.
        epochs.append(shared.look(OTHER)[2])
        return write(snapshots)

    some = [staged_bucket(staging, ledger) for ledger in (1, 2, 3)]
    commit_all(shared, looking, tracker_of(*some), tracker_of(some[0], key=OTHER), buckets_at_once=2)
    assert [[one.subscription for one in of_group] for of_group in written] == [
        [KEY.subscription] * 3,
        [OTHER.subscription],
    ]
    assert epochs == [0, 1]


def test_a_job_whose_tasks_fail_leaves_what_was_there(staging, shared):
    """Whatever was written before the failure is deleted, and the catalogue names what it named."""
    write = by_tasks(shared, [])
    commit_all(shared, write, tracker_of(staged_bucket(staging, 1)))
    before, ids, _ = shared.look()

    def failing(snapshots):
        write(snapshots[:1])
        raise StagedWorkInvalid("a part is gone")

    with pytest.raises(StagedWorkInvalid):
        commit_all(shared, failing, tracker_of(staged_bucket(staging, 2), staged_bucket(staging, 3)))
    assert shared.look() == (before, ids, 2)


def test_a_task_that_ends_after_the_job_is_swept_by_the_next_epoch(staging, shared):
    """The snapshot of a late attempt is never named, and the next job deletes it."""
    written: list[list[SnapshotToWrite]] = []
    commit_all(shared, by_tasks(shared, written), tracker_of(staged_bucket(staging, 1)))
    live, ids, _ = shared.look()
    with shared.writer() as storage:
        late = storage.write(written[0][0])
    assert shared.look() == (live, {*ids, late.bucket_id}, 1)
    commit_all(shared, by_tasks(shared, []), tracker_of(staged_bucket(staging, 2)))
    live, ids, epoch = shared.look()
    assert ([entry.first.ledger_id for entry in live.entries], len(ids), epoch) == ([2], 1, 2)


def test_an_owner_who_opens_a_tracker_while_tasks_write_wins(staging, shared):
    """That tracker and those after it stay as they were, without new snapshots; those before it are committed."""
    write = by_tasks(shared, [])

    def overtaken(snapshots):
        found = write(snapshots)

        async def own(storage):
            await storage.replace(*OTHER, remove=(), add=(), epoch=2, writer="service")

        asyncio.run(shared.opened(own))
        return found

    bucket = staged_bucket(staging, 1)
    with pytest.raises(SnapshotConflict):
        commit_all(shared, overtaken, tracker_of(bucket), tracker_of(bucket, key=OTHER))
    live, ids, epoch = shared.look()
    assert (len(live.entries), len(ids), epoch) == (1, 1, 1)
    live, ids, epoch = shared.look(OTHER)
    assert (live.entries, ids, epoch) == ((), set(), 2)
