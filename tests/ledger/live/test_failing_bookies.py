"""Tests of reading from bookies that fail: killed ones, ones that lack entries, and ones that refuse requests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore
from delayed_tracker.bookkeeper.metadata.zookeeper import ZooKeeperClient
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import EntriesUnreadable
from delayed_tracker.ledger.live import reading
from delayed_tracker.ledger.live.address import ClusterAddress
from delayed_tracker.ledger.live.client import ClusterClient
from delayed_tracker.ledger.live.ledger import LiveLedger
from delayed_tracker.ledger.live.snapshot import ClusterSnapshot
from tests.bookkeeper.model_bookie import LEDGER, ModelBookie, filled, serving
from tests.bookkeeper.reading.test_entry_reads import ABC, metadata_of
from tests.bookkeeper.servers.cluster import Cluster, ZooKeeperServer
from tests.ledger.harness.cluster_topic import ClusterTopic
from tests.ledger.live.test_live_cluster import messages, payloads_of

pytestmark = pytest.mark.slow
PAYLOADS = [b"%d" % number * 100 for number in range(60)]


@pytest.mark.long
def test_a_killed_bookie_is_read_around(cluster: Cluster):
    """Each entry has another copy. When the last one is away too, entries are listed as bad, and come back with it."""
    bookies = cluster.require(3)[:2]
    others = [bookie for bookie in cluster.bookies if bookie not in bookies]
    with ClusterTopic(cluster.zookeeper) as topic:
        topic.add_ledger(messages(200), ensemble=3, write_quorum=2, ack_quorum=2)
        with topic.open() as source:
            ledger = source.topic_log(topic.name).ledgers[0]
            bookies[0].process.kill()
            assert payloads_of(ledger) == messages(200)
            bookies[1].process.kill()
            assert others
            found = ledger.read(0, 5)
            lost = {entry for bad in found.bad_entries for entry in range(bad.entry_id, bad.entry_id + bad.entry_count)}
            assert len(lost) == 2
            assert {*found.entries.entry_id.tolist()} | lost == {*range(6)}
            cluster.require(3)
            assert payloads_of(ledger) == messages(200)


@asynccontextmanager
async def ledger_of(
    zookeeper: ZooKeeperServer, bookies: Sequence[ModelBookie], *, options: int | None = None
) -> AsyncIterator[LiveLedger]:
    """Serve the bookies, and yield their ledger, which is closed."""
    root = f"/{uuid4()}"
    zookeeper.make_tree(f"{root}/ledgers")
    async with serving(*bookies), ZooKeeperClient(zookeeper.address) as nodes:
        store = await LedgerStore.open(nodes, f"{root}/ledgers")
        closed = metadata_of(len(bookies), 2).with_state(
            LedgerState.CLOSED, last_entry_id=len(PAYLOADS) - 1, payload_bytes=sum(map(len, PAYLOADS))
        )
        closed = closed.with_segment(0, [f"127.0.0.1:{bookie.port}" for bookie in bookies])
        await store.create(closed)
        client = ClusterClient(ClusterAddress("the cluster", zookeeper.address, root, options))
        try:
            stored = await asyncio.to_thread(ClusterSnapshot(client).catalogue.versioned, LEDGER)
            assert stored is not None
            yield LiveLedger(client, stored, len(PAYLOADS) - 1)
        finally:
            await asyncio.to_thread(client.close)


async def read(ledger: LiveLedger) -> LedgerEntries:
    return await asyncio.to_thread(ledger.read, 0, ledger.last_entry_id)


def counted(status: int, times: int) -> Callable[[object], int | None]:
    """Return a fault that answers so many reads with a status."""
    left = [times]

    def fault(_: object) -> int | None:
        left[0] -= 1
        return status if left[0] >= 0 else None

    return fault


async def test_each_entry_is_asked_for_once(zookeeper: ZooKeeperServer):
    """No bookie is fenced by that, nor written to."""
    bookies = filled(ABC, 3, PAYLOADS)
    async with ledger_of(zookeeper, bookies) as ledger:
        found = await read(ledger)
    assert [found.entries.payload(row) for row in range(len(found.entries))] == PAYLOADS
    assert sorted(entry_id for bookie in bookies for entry_id in bookie.reads()) == list(range(len(PAYLOADS)))
    assert not any(bookie.is_fenced for bookie in bookies)
    assert not any(request.HasField("addRequest") for bookie in bookies for request in bookie.asked)


async def test_entries_that_no_bookie_has_are_listed_together(zookeeper: ZooKeeperServer):
    """All others are read."""
    bookies = filled(ABC, 2, PAYLOADS)
    for bookie in bookies:
        for entry_id in (7, 8, 9, 30):
            bookie.entries.pop(entry_id, None)
    async with ledger_of(zookeeper, bookies) as ledger:
        found = await read(ledger)
    assert [(bad.entry_id, bad.entry_count, bad.reason) for bad in found.bad_entries] == [
        (7, 3, "none of its bookies has it"),
        (30, 1, "none of its bookies has it"),
    ]
    assert found.entries.entry_id.tolist() == [*range(7), *range(10, 30), *range(31, 60)]


async def test_a_damaged_entry_is_read_from_its_other_copy(zookeeper: ZooKeeperServer):
    """The digest of every copy is verified."""
    bookies = filled(ABC, 2, PAYLOADS)
    damaged = bookies[1].entries[4]
    bookies[1].entries[4] = damaged[:-1] + bytes([damaged[-1] ^ 1])
    async with ledger_of(zookeeper, bookies) as ledger:
        found = await read(ledger)
    assert found.bad_entries == ()
    assert found.entries.payload(4) == PAYLOADS[4]
    assert 4 in bookies[2].reads()


async def test_entries_that_are_damaged_in_all_copies_are_listed_together(zookeeper: ZooKeeperServer):
    """No time passes with waiting for other copies, and all other entries are read."""
    bookies = filled(ABC, 2, PAYLOADS)
    for bookie in bookies:
        for entry_id in {7, 8, 30}.intersection(bookie.entries):
            bookie.entries[entry_id] = bookie.entries[entry_id][:-1]
    async with ledger_of(zookeeper, bookies) as ledger:
        found = await read(ledger)
        assert ledger.client.pace.pause_s == 0
    reason = "some of its bookies have a damaged copy, and the others none"
    assert [(bad.entry_id, bad.entry_count, bad.reason) for bad in found.bad_entries] == [
        (7, 2, reason),
        (30, 1, reason),
    ]
    assert found.entries.entry_id.tolist() == [*range(7), *range(9, 30), *range(31, 60)]


@pytest.mark.parametrize("is_damaged", [True, False])
async def test_a_last_entry_without_a_right_copy_is_an_unreadable_end(zookeeper: ZooKeeperServer, is_damaged: bool):
    """It is known as an entry that cannot be read, like the end of a ledger whose bookies are away."""
    bookies = filled(ABC, 3, PAYLOADS)
    last = len(PAYLOADS) - 1
    for bookie in bookies:
        body = bookie.entries.pop(last)
        if is_damaged:
            bookie.entries[last] = body[:-1]
    async with ledger_of(zookeeper, bookies) as ledger:
        snapshot = ClusterSnapshot(ledger.client)
        with pytest.raises(EntriesUnreadable, match="restore the ledger from a copy"):
            await asyncio.to_thread(snapshot.logs.last_contiguous_entry, LEDGER, -1)


async def test_a_deleted_ledger_is_listed_as_a_whole(zookeeper: ZooKeeperServer):
    """Its metadata are gone from ZooKeeper, and its entries from the bookies, after it was opened."""
    bookies = filled(ABC, 2, PAYLOADS[:20])
    async with ledger_of(zookeeper, bookies) as ledger:
        async with ZooKeeperClient(zookeeper.address) as nodes:
            store = await LedgerStore.open(nodes, ledger.client.address.ledgers)
            await store.delete(LEDGER)
        found = await read(ledger)
    assert found.entries.entry_id.tolist() == [*range(20)]
    assert [(bad.entry_id, bad.entry_count, bad.reason) for bad in found.bad_entries] == [(20, 40, reading.DELETED)]


async def test_bookies_that_refuse_requests_are_asked_again_later(zookeeper: ZooKeeperServer):
    """All of them have too many requests for a while: reading backs off, and loses nothing."""
    bookies = filled(ABC, 2, PAYLOADS)
    for bookie in bookies:
        bookie.faults.append(counted(Status.TOO_MANY_REQUESTS, 6))
    async with ledger_of(zookeeper, bookies) as ledger:
        begun = asyncio.get_running_loop().time()
        found = await read(ledger)
        waited_s = asyncio.get_running_loop().time() - begun
        pace = ledger.client.pace
    assert found.bad_entries == ()
    assert len(found.entries) == 60
    # Two bookies refuse the first entry six times each, and reading waits for 0.1, 0.2, ... seconds in between.
    assert waited_s >= 0.1 * (2**6 - 1) - 0.1
    # The piece had refusals among its answers, so that the next one waits.
    assert pace.pause_s > 0


async def test_a_scan_ends_where_no_bookie_answers(zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch):
    """Its patience is bounded. After many failures in a row the rest of the range is listed without being asked for."""
    monkeypatch.setattr(reading, "_PATIENCE_S", 0.5)
    bookies = filled(ABC, 2, PAYLOADS)
    for bookie in bookies:
        bookie.faults.append(
            lambda asked: Status.IO_ERROR if asked.HasField("readRequest") and asked.readRequest.entryId >= 10 else None
        )
    async with ledger_of(zookeeper, bookies) as ledger:
        found = await read(ledger)
    assert found.entries.entry_id.tolist() == [*range(10)]
    assert sum(bad.entry_count for bad in found.bad_entries) == 50
    assert "answers IO_ERROR" in found.bad_entries[0].reason
    last = found.bad_entries[-1]
    assert (last.entry_id, last.entry_count) == (41, 19)
    assert "not asked for, since the 31 entries before it failed" in last.reason
    assert not any(entry_id > 10 + 31 + reading.ENTRIES_AHEAD_MAX for bookie in bookies for entry_id in bookie.reads())


async def test_what_is_on_its_way_is_bounded(zookeeper: ZooKeeperServer):
    """Nothing more is asked for while no bookie answers, although the entries before were tiny."""
    bookies = filled(ABC, 2, PAYLOADS)
    for bookie in bookies:
        bookie.holds = lambda asked: asked.HasField("readRequest") and asked.readRequest.entryId == 2
    bookies[2].passing.clear()
    async with ledger_of(zookeeper, bookies) as ledger:
        task = asyncio.create_task(read(ledger))
        await asyncio.wait_for(bookies[2].arrived.wait(), 30)
        asked = sorted(entry_id for bookie in bookies for entry_id in bookie.reads())
        assert max(asked) <= 2 + reading.ENTRIES_AHEAD_MAX
        bookies[2].passing.set()
        assert len((await task).entries) == 60


async def test_a_rate_slows_reading_down(zookeeper: ZooKeeperServer):
    """About 17,000 bytes of entries and their replies at 10,000 a second take more than a second."""
    bookies = filled(ABC, 2, PAYLOADS)
    size = sum(map(len, PAYLOADS)) + 60 * 100
    async with ledger_of(zookeeper, bookies, options=10_000) as ledger:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        found = await read(ledger)
        assert len(found.entries) == 60
        assert loop.time() - begun >= size / 10_000 - 0.02
