"""A log stays within a few times what is needed in it: old ledgers go although some of their records are never cut."""

import random
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.bookkeeper.errors import BookieUnavailable
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.log.own_log import SPARE_LEDGERS
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import StorageUnavailable
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
SLOW, BUSY, LEAVING = ("topic", "slow"), ("topic", "busy"), ("topic", "leaving" + 300 * "g")
ROLL_BYTES = 1_000
LEDGERS_MAX = SPARE_LEDGERS + 4
"""With what is needed, the current one, and one that is longer because a commit is not cut in two."""


@asynccontextmanager
async def log_of(cluster, seed):
    """Yield the add log of another process, and its client."""
    async with MemoryBookKeeper(cluster, random.Random(seed)) as client:
        log = BookKeeperAddLog(URL, roll_bytes=ROLL_BYTES, chance=random.Random(seed), connect=lambda _url: client)
        await log.start()
        yield log, client
        await log.close()


async def add(log, name, number, records):
    assert await log.append([LogAppend(*name, 1, number, records)], writer="w") == []


async def pass_through(log, first, last):
    """Add records of a busy tracker that are cut at once."""
    for number in range(first, last + 1):
        await add(log, BUSY, number, [bytes(ROLL_BYTES // 2)])
        await log.cut([(*BUSY, number)])


async def numbers(log, name):
    page = await log.read(*name, after=0, bytes_max=1 << 20)
    assert [record.record for record in page.records] == [b"%d" % record.number for record in page.records]
    return [record.number for record in page.records], page.corrupt


async def test_records_that_nobody_cuts_keep_no_ledgers():
    """The log stays short, and its next owner finds each of these records, in order."""
    cluster = MemoryCluster()
    async with log_of(cluster, 1) as (log, _):
        await add(log, SLOW, 1, [b"1"])
        for number in range(2, 12):
            await pass_through(log, 20 * number, 20 * number + 19)
            await add(log, SLOW, number, [b"%d" % number])
            assert len(cluster.ledgers) <= LEDGERS_MAX
        assert await numbers(log, SLOW) == (list(range(1, 12)), ())
        await log.cut([(*SLOW, 4)])
    async with log_of(cluster, 2) as (other, _):
        extent = await other.take_over(*SLOW, epoch=2, writer="other")
        assert extent.last_number == 11
        assert await numbers(other, SLOW) == (list(range(5, 12)), ())


async def test_a_record_in_pieces_is_rewritten():
    """It moves as a whole."""
    cluster = MemoryCluster()
    async with log_of(cluster, 1) as (log, client):
        client.payload_bytes_max = 800
        large = bytes(range(256)) * 5
        await add(log, SLOW, 1, [large])
        await pass_through(log, 1, 40)
        assert min(cluster.ledgers) > 5
    async with log_of(cluster, 2) as (other, _):
        await other.take_over(*SLOW, epoch=2, writer="other")
        page = await other.read(*SLOW, after=0, bytes_max=1 << 20)
        assert [record.record for record in page.records] == [large]


async def test_a_failed_rewriting_loses_nothing():
    """Bookies fail at any moment of it; the old ledgers stay until their records are elsewhere."""
    for seed in range(10):
        cluster = MemoryCluster()
        async with log_of(cluster, seed) as (log, client):
            await add(log, SLOW, 1, [b"1"])
            await pass_through(log, 1, 9)
            client.failing = 0.05
            cut = 9
            for _ in range(60):
                try:
                    await log.append([LogAppend(*BUSY, 1, cut + 1, [bytes(ROLL_BYTES // 2)])], writer="w")
                    cut += 1
                    await log.cut([(*BUSY, cut)])
                except StorageUnavailable:
                    continue
            client.failing = 0.0
            assert await numbers(log, SLOW) == ([1], ())
        async with log_of(cluster, seed + 100) as (other, _):
            await other.take_over(*SLOW, epoch=2, writer="other")
            assert await numbers(other, SLOW) == ([1], ())


async def test_a_record_that_cannot_be_read_keeps_no_ledger():
    """It is still said to be missing, to the next owner, too."""
    cluster = MemoryCluster()
    async with log_of(cluster, 1) as (log, _):
        await add(log, SLOW, 1, [b"1"])
        (ledger_id,) = cluster.ledgers
        await add(log, SLOW, 2, [b"2"])
        cluster.lose_entries(ledger_id, [0])
        log._opened._ledgers._cached.clear()
        await pass_through(log, 1, 40)
        assert ledger_id not in cluster.ledgers
        assert await numbers(log, SLOW) == ([2], ((1, 1),))
    async with log_of(cluster, 2) as (other, _):
        await other.take_over(*SLOW, epoch=2, writer="other")
        assert await numbers(other, SLOW) == ([2], ((1, 1),))


async def test_a_tracker_whose_new_owner_died_keeps_no_ledgers(monkeypatch):
    """It is taken back with its records, whatever the length of its name; one that is being taken over is left alone."""
    cluster = MemoryCluster()
    async with log_of(cluster, 1) as (log, _):
        await add(log, LEAVING, 1, [b"1"])
        async with log_of(cluster, 2) as (other, _):

            async def unreachable(_instance):
                raise BookieUnavailable("bookie", "a planned fault")

            with monkeypatch.context() as patched:
                patched.setattr(other._opened.sources, "fenced", unreachable)
                with pytest.raises(StorageUnavailable):
                    await other.take_over(*LEAVING, epoch=2, writer="other")
            await pass_through(log, 1, 20)
            assert min(cluster.ledgers) == 1
        await pass_through(log, 21, 40)
        assert len(cluster.ledgers) <= LEDGERS_MAX
    async with log_of(cluster, 3) as (last, _):
        await last.take_over(*LEAVING, epoch=3, writer="last")
        assert await numbers(last, LEAVING) == ([1], ())
