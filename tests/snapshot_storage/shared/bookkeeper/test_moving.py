"""Copies into BookKeeper and out of it, over a cluster in memory: snapshots, catalogues, and the records of the add log."""

import random
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.maintenance.checking import check_storage
from delayed_tracker.storage.maintenance.copying import copy_storage
from delayed_tracker.storage.protocol import LogMark
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster
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
    stored_bucket,
    uncut,
    whole,
)

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
LONG_NAME = ("persistent://t/ns/" + "x" * 300, "billing")


@asynccontextmanager
async def opened(cluster: MemoryCluster, chance: random.Random):
    """Yield storage and log as another process opens them."""

    def connect(_url: BookKeeperUrl) -> MemoryBookKeeper:
        return MemoryBookKeeper(cluster, random.Random(chance.random()))

    storage = BookKeeperStorage(URL, chance=random.Random(chance.random()), connect=connect)
    log = BookKeeperAddLog(URL, chance=random.Random(chance.random()), connect=connect)
    async with whole("bookkeeper:memory", storage, log) as made:
        yield made


@pytest.mark.long
async def test_a_storage_moves_into_bookkeeper_and_out_of_it():
    """The next process there finds everything, records too; a live owner there is fenced when it moves out again."""
    chance, cluster = random.Random(5), MemoryCluster()
    async with in_memory() as source:
        for ledger in range(1, 40):
            await add_bucket(source.snapshots, ledger, 200, seal=ledger)
        await add_bucket(source.snapshots, 1, key=LONG_NAME)
        await log_records(source.log)
        await marked(source.snapshots, LogMark(0, Position(3, 8)))
        before, records = [await content(source.snapshots, key) for key in (KEY, LONG_NAME)], await uncut(source)
        async with opened(cluster, chance) as target:
            counts = await copy_storage(source, target, progress=ignore, attempt=at_once)
            assert (counts.tracker_count, counts.snapshot_count, counts.record_count) == (2, 40, 3)
    async with opened(cluster, chance) as owner, in_memory() as last:
        epoch = (await owner.snapshots.list(*KEY)).epoch + 1
        await owner.snapshots.replace(*KEY, remove=(), add=(), epoch=epoch, writer=OWNER)
        await owner.log.take_over(*KEY, epoch=epoch, writer=OWNER)
        assert await uncut(owner) == records
        assert (await check_storage(owner.snapshots, progress=ignore, attempt=at_once)).is_sound
        async with opened(cluster, chance) as source:
            await copy_storage(source, last, progress=ignore, attempt=at_once)
        assert [await content(last.snapshots, key) for key in (KEY, LONG_NAME)] == before
        assert await uncut(last) == records
        with pytest.raises(SnapshotConflict):
            await owner.snapshots.replace(*KEY, remove=(), add=(), epoch=epoch, writer=OWNER)
        assert await owner.log.append([LogAppend(*KEY, epoch, 4, [b"late"])], writer=OWNER) == [KEY]


async def test_snapshots_of_unknown_trackers_are_found():
    """By their registrations; a name that ends in a hash is told by its place."""
    async with opened(MemoryCluster(), random.Random(6)) as storage:
        await add_bucket(storage.snapshots, 1)
        await add_bucket(storage.snapshots, 1, key=LONG_NAME)
        assert (await check_storage(storage.snapshots, progress=ignore, attempt=at_once)).is_sound
        await stored_bucket(storage.snapshots, 1, key=("t", "unknown"))
        await stored_bucket(storage.snapshots, 1, key=(LONG_NAME[0], "unknown"))
        found = await check_storage(storage.snapshots, progress=ignore, attempt=at_once)
        assert [tracker.key for tracker in found.trackers if tracker.problem] == [("t", "unknown")]
        (place,) = found.nameless
        assert "=h" in place
