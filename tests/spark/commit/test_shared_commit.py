"""Commits into storages that processes share: the former owner is fenced, and its add log is void."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.spark.commit.commit import StorageCommit
from delayed_tracker.spark.commit.owned_storage import is_shared
from delayed_tracker.spark.commit.shared_commit import SharedCommit, TaskSnapshotWriter
from delayed_tracker.spark.commit.staging import Staging
from delayed_tracker.spark.errors import StagedWorkInvalid
from delayed_tracker.storage.add_log import AddLog, LogAppend
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.protocol import NO_LOG, LogMark, SnapshotStore
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.summary import decode_summary
from delayed_tracker.storage.testing.contract_tools import create
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster
from tests.spark.commit.test_commit import KEY, staged_bucket, tracker_of
from tests.spark.harness.live import stored

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")


@dataclass(frozen=True)
class Place:
    """One shared storage, which any number of processes may open."""

    storage: Callable[[], SnapshotStore]
    target: Callable[[], SharedCommit]
    writer: Callable[[], TaskSnapshotWriter]
    """Returns what a task opens."""

    async def opened(self, work):
        """Return what ``work`` returns for the storage, opened as by another process."""
        storage = self.storage()
        await storage.start()
        try:
            return await work(storage)
        finally:
            await storage.close()

    def look(self, key=KEY):
        """Return the catalogue with its snapshots, the ids of all stored snapshots, and the epoch."""

        async def look(storage):
            ids = {snapshot.bucket_id for snapshot in await storage.list_bucket_snapshots(*key)}
            return await stored(storage, key), ids, (await storage.list(*key)).epoch

        return asyncio.run(self.opened(look))

    def commit(self, tracker):
        with self.target() as target:
            target.begin([KEY])
            return target.commit(tracker)


class ClusterCommit(SharedCommit):
    """A commit whose add log is in a cluster in memory."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__("memory:")
        self._cluster = cluster
        self._storage = cluster_storage(cluster)

    def _open_log(self) -> AddLog:
        return cluster_log(self._cluster)


class ClusterWriter(TaskSnapshotWriter):
    """A task that writes into a cluster in memory."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__("memory:")
        self._storage = cluster_storage(cluster)


def cluster_place(cluster: MemoryCluster) -> Place:
    return Place(lambda: cluster_storage(cluster), lambda: ClusterCommit(cluster), lambda: ClusterWriter(cluster))


def cluster_storage(cluster: MemoryCluster) -> BookKeeperStorage:
    return BookKeeperStorage(URL, connect=lambda _: MemoryBookKeeper(cluster, random.Random(1)))


def cluster_log(cluster: MemoryCluster) -> BookKeeperAddLog:
    return BookKeeperAddLog(URL, connect=lambda _: MemoryBookKeeper(cluster, random.Random(2)))


async def mark_of(storage: SnapshotStore) -> LogMark:
    return (await storage.list(*KEY)).log_mark


@pytest.fixture
def cluster():
    return MemoryCluster()


@pytest.fixture(params=["file", "s3", "bookkeeper"])
def shared(request, tmp_path) -> Place:
    """Return a storage of each kind."""
    if request.param == "bookkeeper":
        return cluster_place(request.getfixturevalue("cluster"))
    url = f"file://{tmp_path / 'storage'}"
    if request.param == "s3":
        url = f"s3:{request.getfixturevalue('s3').rest(request.getfixturevalue('place'))}"
    return Place(lambda: open_storage(url), lambda: SharedCommit(url), lambda: TaskSnapshotWriter(url))


@pytest.fixture
def staging(tmp_path):
    return Staging(str(tmp_path / "staging"))


def test_what_was_staged_is_what_another_process_reads(staging, shared):
    """Metadata, segments, range and summary are the staged ones, under a new epoch; the same again changes nothing."""
    bucket = staged_bucket(staging, 7)
    committed = shared.commit(tracker_of(bucket, mark_delete=Position(3, 4)))
    live, ids, epoch = shared.look()
    (entry,) = live.entries
    content = bucket.open()
    assert live.snapshots == ((content.metadata, *content.segments()),)
    assert (entry.first, entry.last, entry.mark_delete) == (Position(7, 0), Position(7, 9), Position(3, 4))
    assert decode_summary(entry.summary).bits == bucket.bits
    assert (committed.epoch, epoch, ids) == (1, 1, {entry.bucket_id})
    assert shared.commit(tracker_of(bucket, mark_delete=Position(3, 4))).unchanged
    assert shared.look() == (live, ids, epoch)


def test_what_was_there_is_replaced_and_its_owner_fenced(staging, shared):
    """Old snapshots and those that no catalogue names are deleted; a write of the former owner is refused."""
    shared.commit(tracker_of(staged_bucket(staging, 1)))

    async def own(storage):
        await storage.replace(*KEY, remove=(), add=(), epoch=2, writer="service")
        await create(storage, [], topic=KEY.topic, cursor=KEY.subscription, epoch=2)

    asyncio.run(shared.opened(own))
    assert shared.commit(tracker_of(staged_bucket(staging, 2), staged_bucket(staging, 3))).epoch == 3
    live, ids, epoch = shared.look()
    assert [entry.first.ledger_id for entry in live.entries] == [2, 3]
    assert (ids, epoch) == ({entry.bucket_id for entry in live.entries}, 3)

    async def write_late(storage):
        await storage.replace(*KEY, remove=sorted(ids), add=(), epoch=2, writer="service")

    with pytest.raises(SnapshotConflict):
        asyncio.run(shared.opened(write_late))
    assert shared.look() == (live, ids, epoch)


def test_an_owner_who_opens_the_tracker_meanwhile_wins(staging, shared):
    """A tracker that a service opens between begin and commit is left to it."""
    with shared.target() as target:
        target.begin([KEY])

        async def own(storage):
            await storage.replace(*KEY, remove=(), add=(), epoch=1, writer="service")

        target._run(shared.opened(own))
        with pytest.raises(SnapshotConflict, match="another owner has opened the tracker"):
            target.commit(tracker_of(staged_bucket(staging, 1)))
    live, ids, epoch = shared.look()
    assert (live.entries, ids, epoch) == ((), set(), 1)


def test_a_commit_that_fails_leaves_the_old_buckets(staging, shared):
    """If a staged part is gone, the catalogue names what it named before, under the epoch that was claimed."""
    shared.commit(tracker_of(staged_bucket(staging, 1)))
    before, ids, _ = shared.look()
    lost = staged_bucket(staging, 3)
    staging.remove([lost.parts[0].key])
    with pytest.raises(StagedWorkInvalid):
        shared.commit(tracker_of(staged_bucket(staging, 2), lost))
    assert shared.look() == (before, ids, 2)


def test_records_of_a_live_owner_are_void_and_deleted(staging, cluster):
    """The former owner appends nothing more, and the next one finds no record above the mark."""
    shared = cluster_place(cluster)

    async def overtaken(opened: StorageCommit) -> list[tuple[str, str]]:
        log = cluster_log(cluster)
        await log.start()
        part = LogAppend(*KEY, 1, 1, [b"one", b"two", b"three"])
        assert await log.append([part], writer="service") == []
        committed = replace(tracker_of(staged_bucket(staging, 1)), offered_through=Position(1, 9))
        await opened._storage.replace(*KEY, remove=(), add=(), epoch=1, writer="service")
        opened._epochs[KEY.topic, KEY.subscription] = 1
        await opened._commit(committed)
        refused = await log.append([LogAppend(*KEY, 1, 4, [b"four"])], writer="service")
        await log.close()
        return refused

    with shared.target() as target:
        refused = target._run(overtaken(target))
    assert refused == [tuple(KEY)]

    async def take_over():
        log = cluster_log(cluster)
        await log.start()
        extent = await log.take_over(*KEY, epoch=3, writer="next")
        page = await log.read(*KEY, after=0, bytes_max=1_000)
        await log.close()
        return extent.last_number, extent.record_bytes, page.records

    assert asyncio.run(take_over()) == (3, 0, ())
    claim = Position(1, 9)
    assert asyncio.run(shared.opened(mark_of)) == LogMark(3, claim, stored_through=claim)


def test_no_log_of_before_counts_where_the_storage_has_none(staging, tmp_path):
    """A service's log on its own disk is void, and the rebuilt snapshots alone cover the rebuild's claim."""
    url = f"file://{tmp_path / 'storage'}"
    place = Place(lambda: open_storage(url), lambda: SharedCommit(url), lambda: TaskSnapshotWriter(url))

    async def served(storage):
        mark = LogMark(7, Position(9, 9), "log", Position(8, 0))
        await storage.replace(*KEY, remove=(), add=(), epoch=1, writer="service", mark=mark)

    asyncio.run(place.opened(served))
    claim = Position(1, 9)
    place.commit(replace(tracker_of(staged_bucket(staging, 1)), offered_through=claim))
    assert asyncio.run(place.opened(mark_of)) == LogMark(0, claim, NO_LOG, claim)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:data/tracker.db", False),
        ("faulty:exit=replace.after;sqlite:data/tracker.db", False),
        ("memory:", False),
        ("file:///data", True),
        ("faulty:seed=1;s3://bucket/prefix", True),
        ("", False),
    ],
)
def test_only_processes_that_may_open_a_storage_together_share_it(url, expected):
    """Faults change nothing about it."""
    assert is_shared(url) is expected
