"""Logs of instances that are dead go when nothing in them is needed, whether or not their trackers are opened again."""

import random
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.bookkeeper.log import moving
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotConflict
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
KEPT = ("topic", "kept")
RECORD = [b"record"]


@asynccontextmanager
async def log_of(cluster, seed):
    """Yield the add log of another process, and its client."""
    async with MemoryBookKeeper(cluster, random.Random(seed)) as client:
        log = BookKeeperAddLog(URL, chance=random.Random(seed), connect=lambda _url: client)
        await log.start()
        yield log, client
        await log.close()


def instances(cluster):
    """Return the instances of the log, dead or alive."""
    return {path.rpartition("/")[2] for path in cluster.nodes if path.rpartition("/")[0].endswith("/log/i")}


async def deleted(log, name, *, is_written=True):
    """Leave of a tracker what the deletion of its subscription leaves."""
    await log.take_over(*name, epoch=1, writer="w")
    if is_written:
        assert await log.append([LogAppend(*name, 1, 1, RECORD)], writer="w") == []
    extent = await log.take_over(*name, epoch=2, writer="w")
    await log.cut([(*name, extent.last_number)])


@pytest.mark.parametrize("is_written", [True, False], ids=["with records", "without records"])
async def test_restarts_leave_no_logs(is_written):
    """A tracker that is deleted in each run, and never opened again, keeps the log of no run."""
    cluster = MemoryCluster()
    for run in range(1, 6):
        async with log_of(cluster, run) as (log, _):
            await log.extents()
            extent = await log.take_over(*KEPT, epoch=run, writer="w")
            assert extent.last_number == run - 1
            assert await log.append([LogAppend(*KEPT, run, run, RECORD)], writer="w") == []
            await deleted(log, ("topic", f"deleted in {run}"), is_written=is_written)
            await log.extents()
            assert len(instances(cluster)) == len(cluster.ledgers) == 1
    async with log_of(cluster, 6) as (log, _):
        for run in range(1, 6):
            name = ("topic", f"deleted in {run}")
            with pytest.raises(SnapshotConflict):
                await log.take_over(*name, epoch=1, writer="late")
            assert (await log.take_over(*name, epoch=3, writer="w")).last_number == int(is_written)


async def test_a_log_with_records_stays_whole():
    """Nothing is taken out of a dead log that is needed for another tracker."""
    cluster = MemoryCluster()
    async with log_of(cluster, 1) as (log, _):
        await log.append([LogAppend(*KEPT, 1, 1, RECORD)], writer="w")
        await deleted(log, ("topic", "deleted"))
    before = dict(cluster.nodes)
    async with log_of(cluster, 2) as (log, _):
        assert [(extent.topic, extent.cursor) for extent in await log.extents()] == [KEPT]
        assert before.items() <= cluster.nodes.items()


async def test_many_trackers_are_taken_over_in_several_calls(monkeypatch):
    """One call takes a part of them, those of a small log first."""
    monkeypatch.setattr(moving, "EMPTIED_MAX", 3)
    cluster = MemoryCluster()
    for run, count in ((1, 5), (2, 2)):
        async with log_of(cluster, run) as (log, _):
            for number in range(count):
                await deleted(log, ("topic", f"{run} {number}"))
    async with log_of(cluster, 3) as (log, _):
        left = []
        for _ in range(4):
            left.append(len(instances(cluster)) - 1)
            await log.extents()
        assert left == [2, 1, 1, 0]


async def test_who_only_looked_dead_goes_on():
    """Its trackers without records went to another process under the same owner, and come back with its next append."""
    cluster = MemoryCluster()
    async with log_of(cluster, 1) as (away, client), log_of(cluster, 2) as (other, _):
        await away.append([LogAppend(*KEPT, 1, 1, RECORD)], writer="w")
        await away.cut([(*KEPT, 1)])
        (instance,) = instances(cluster) - {other._opened.owners.instance}
        cluster.end_session(client.session)
        await other.extents()
        assert instance not in instances(cluster)
        client.expire()
        while len(instances(cluster)) < 2:
            await away.log_id()
        assert await away.append([LogAppend(*KEPT, 1, 2, RECORD)], writer="w") == []
        page = await away.read(*KEPT, after=1, bytes_max=1 << 20)
        assert [record.number for record in page.records] == [2]


async def test_who_looked_dead_for_a_moment_goes_on(monkeypatch):
    """It stays the same instance if not all of its trackers went, and its next append gets them back."""
    monkeypatch.setattr(moving, "EMPTIED_MAX", 1)
    cluster = MemoryCluster()
    names = [KEPT, ("topic", "other")]
    async with log_of(cluster, 1) as (away, client), log_of(cluster, 2) as (other, _):
        await away.append([LogAppend(*name, 1, 1, RECORD) for name in names], writer="w")
        await away.cut([(*name, 1) for name in names])
        before = instances(cluster)
        cluster.end_session(client.session)
        await other.extents()
        assert other._opened.own.owned.keys() & set(names)
        client.expire()
        assert await away.append([LogAppend(*name, 1, 2, RECORD) for name in names], writer="w") == []
        for name in names:
            page = await away.read(*name, after=1, bytes_max=1 << 20)
            assert [record.number for record in page.records] == [2]
        assert instances(cluster) == before


async def test_a_tracker_that_came_back_without_its_numbers_holds_up_no_other():
    """Its records are refused, until it is taken over again; those of the others in the same commit are durable."""
    cluster = MemoryCluster()
    new = ("topic", "new")
    async with log_of(cluster, 1) as (away, client), log_of(cluster, 2) as (other, _):
        await away.append([LogAppend(*KEPT, 1, 1, RECORD * 5)], writer="w")
        await away.cut([(*KEPT, 5)])
        for ledger_id in cluster.ledgers:
            cluster.lose_entries(ledger_id)
        cluster.end_session(client.session)
        await other.extents()
        client.expire()
        while len(instances(cluster)) < 2:
            await away.log_id()
        parts = [LogAppend(*KEPT, 1, 6, RECORD), LogAppend(*new, 1, 1, RECORD)]
        assert await away.append(parts, writer="w") == [KEPT]
        assert len((await away.read(*new, after=0, bytes_max=1 << 20)).records) == 1
        extent = await away.take_over(*KEPT, epoch=2, writer="w")
        assert await away.append([LogAppend(*KEPT, 2, extent.last_number + 1, RECORD)], writer="w") == []
