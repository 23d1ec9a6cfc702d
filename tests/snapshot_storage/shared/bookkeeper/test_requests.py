"""Requests and bytes of what a tracker does over BookKeeper, as the guide states them."""

import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.log.own_log import ROLL_BYTES
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.protocol import LogMark
from delayed_tracker.storage.testing.contract_tools import create, entry_of
from tests.snapshot_storage.shared.bookkeeper.counted_client import Asked, CountedClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SEGMENTS = [bytes(100_000) for _ in range(10)]
TRACKER = ("topic", "cursor")
NEW_LEDGER = {"exists": 1, "create": 1, "delete": 1}
"""Drawing the id of a ledger, with which each creation begins."""


class Counted:
    """A storage or an add log, and what it has asked of its servers since the last look."""

    def __init__(self, url: BookKeeperUrl, *, roll_bytes: int = ROLL_BYTES) -> None:
        self._clients: list[CountedClient] = []
        self.storage = BookKeeperStorage(url, connect=self._connect)
        self.log = BookKeeperAddLog(url, roll_bytes=roll_bytes, connect=self._connect)

    def _connect(self, url: BookKeeperUrl) -> CountedClient:
        self._clients.append(CountedClient(url))
        return self._clients[-1]

    async def asked(self) -> Asked:
        """Return the requests since the last look, with those that a commit has left to a task of its own."""
        if self.storage._catalogue is not None:
            await self.storage._catalogue.finish()
        return self._clients[-1].asked()


@pytest.fixture
def url(cluster) -> BookKeeperUrl:
    """Return a root that no other test has, with one copy of each entry."""
    cluster.require(1)
    return BookKeeperUrl.parse(
        f"zk://{cluster.zookeeper.address}/ledgers?root=/{uuid.uuid4().hex}&ensemble=1&writeQuorum=1&ackQuorum=1"
    )


@pytest.fixture
async def counting(url: BookKeeperUrl) -> AsyncIterator[Callable[..., Counted]]:
    """Return a function that makes storages and logs; they are closed also after a failure, since sessions are threads."""
    made: list[Counted] = []

    def make(**options) -> Counted:
        made.append(Counted(url, **options))
        return made[-1]

    yield make
    for each in made:
        await each.storage.close()
        await each.log.close()


async def sealed(counted: Counted) -> int:
    """Store a bucket and enter it in the catalogue, as a seal does."""
    bucket_id = await create(counted.storage, SEGMENTS)
    await counted.storage.replace(*TRACKER, remove=[], add=[entry_of(bucket_id)], epoch=1)
    return bucket_id


async def test_requests_and_bytes_of_a_trackers_life(counting):
    """Start, seal, load, merge, checkpoint and recovery ask as often as the guide says."""
    counted = counting()
    storage = counted.storage
    await storage.start()
    assert (await counted.asked()).zookeeper == {"get": 1, "create": 2}
    await storage.replace(*TRACKER, remove=[], add=[], epoch=1)
    assert (await counted.asked()).zookeeper == {"sync": 1, "get": 1, "create": 5, "children": 1}
    first = await sealed(counted)
    await counted.asked()

    second = await sealed(counted)
    asked = await counted.asked()
    assert asked.zookeeper == {**NEW_LEDGER, "multi": 2, "set": 1}
    assert asked.entries == {"ADD_ENTRY": 11}
    assert asked.zookeeper_bytes < 1_000
    assert 1_000_000 < asked.bookie_bytes < 1_000_000 + 11 * 120

    await storage.get_bucket_snapshot_segments(first, 1, 4)
    asked = await counted.asked()
    assert (asked.zookeeper, asked.entries) == ({"sync": 1, "get": 1}, {"READ_ENTRY": 4})
    assert 400_000 < asked.bookie_bytes < 400_000 + 4 * 80
    await storage.get_bucket_snapshot_segments(first, 5, 10)
    asked = await counted.asked()
    assert (asked.zookeeper, asked.entries) == ({}, {"READ_ENTRY": 6})

    sources = [first, second]
    for bucket_id in sources:
        await storage.get_bucket_snapshot_segments(bucket_id, 1, 10)
    merged = await create(storage, SEGMENTS)
    await storage.replace(*TRACKER, remove=sources, add=[entry_of(merged)], epoch=1)
    asked = await counted.asked()
    assert asked.zookeeper == {**NEW_LEDGER, "sync": 1, "get": 1, "multi": 2, "set": 1}
    assert asked.entries == {"READ_ENTRY": 20, "ADD_ENTRY": 11}
    for bucket_id in sources:
        await storage.delete_bucket_snapshot(bucket_id)
    asked = await counted.asked()
    assert asked.zookeeper == {"sync": 4, "get": 4, "multi": 2, "delete": 2}
    assert asked.zookeeper_bytes < 2_000

    checkpointed = replace(entry_of(merged), consumed=bytes(100))
    await storage.replace(*TRACKER, remove=[merged], add=[checkpointed], epoch=1, mark=LogMark(5))
    asked = await counted.asked()
    assert (asked.zookeeper, asked.entries) == ({"set": 1}, {})
    assert asked.zookeeper_bytes < 400
    await storage.close()

    other = counting()
    await other.storage.start()
    assert (await other.asked()).zookeeper == {"get": 2, "create": 2, "sync": 1}
    await other.storage.list(*TRACKER)
    state = await other.storage.replace(*TRACKER, remove=[], add=[], epoch=2)
    assert state is not None
    listed = await other.storage.list_bucket_snapshots(*TRACKER)
    assert [stored.bucket_id for stored in listed] == [entry.bucket_id for entry in state.entries] == [merged]
    asked = await other.asked()
    assert (asked.zookeeper, asked.entries) == ({"sync": 1, "get": 1, "set": 1, "children": 2}, {})
    assert asked.zookeeper_bytes < 2 * 400
    await other.storage.close()


async def test_small_segments_are_read_together(counting):
    """The first tells how large they are; those behind it come by 64 in a reply."""
    counted = counting()
    await counted.storage.start()
    await counted.storage.replace(*TRACKER, remove=[], add=[], epoch=1)
    bucket_id = await create(counted.storage, [b"%d" % number * 100 for number in range(130)])
    await counted.asked()
    found = await counted.storage.get_bucket_snapshot_segments(bucket_id, 1, 130)
    assert [bytes(each) for each in found] == [b"%d" % number * 100 for number in range(130)]
    asked = await counted.asked()
    assert asked.entries == {"READ_ENTRY": 2, "READ_BATCH": 2}
    assert asked.bookie_bytes < sum(map(len, found)) + 130 * 80


async def test_large_values_are_one_more_ledger(counting):
    """A summary from 512 bytes on is written with those of the same commit; a recovery opens and reads their ledger."""
    counted = counting()
    storage = counted.storage
    await storage.start()
    await storage.replace(*TRACKER, remove=[], add=[entry_of(1)], epoch=1)
    await storage.replace(*TRACKER, remove=[], add=[replace(entry_of(2), summary=bytes(600))], epoch=1)
    await counted.asked()
    large = replace(entry_of(3), summary=bytes(1_500_000))
    await storage.replace(*TRACKER, remove=[], add=[large], epoch=1)
    asked = await counted.asked()
    assert asked.zookeeper == {**NEW_LEDGER, "multi": 2, "set": 1}
    assert asked.entries == {"ADD_ENTRY": 2}

    await storage.replace(*TRACKER, remove=[3], add=[replace(large, consumed=bytes(100))], epoch=1)
    asked = await counted.asked()
    # The former ledger of the value is read, to see whose it is, and deleted.
    assert asked.zookeeper == {"exists": 1, "create": 1, "multi": 3, "set": 1, "sync": 1, "get": 1, "delete": 2}
    assert asked.entries == {"ADD_ENTRY": 2}
    await storage.list(*TRACKER)
    asked = await counted.asked()
    assert asked.zookeeper == {"sync": 3, "get": 3}
    assert asked.entries == {"READ_ENTRY": 3}
    await storage.list(*TRACKER)
    assert (await counted.asked()).zookeeper == {"sync": 1, "get": 1}
    await storage.close()


async def test_requests_and_bytes_of_the_add_log(counting):
    """A commit is one entry, whatever the number of its trackers; a ledger or a tracker that is new asks ZooKeeper."""
    counted = counting()
    log = counted.log
    await log.start()
    await log.take_over(*TRACKER, epoch=1, writer="first")
    await counted.asked()

    def part(number: int, topic: str = "topic") -> LogAppend:
        return LogAppend(topic, "cursor", 1, number, [bytes(1_000)])

    await log.append([part(1)], writer="first")
    asked = await counted.asked()
    # The bookies are listed once, and the address of one is read, which does not count; the owner looks which trackers are still its own.
    assert asked.zookeeper == {**NEW_LEDGER, "multi": 1, "children": 1 + 1, "sync": 1}
    assert asked.entries == {"ADD_ENTRY": 1}
    await log.append([part(2)], writer="first")
    asked = await counted.asked()
    assert (asked.zookeeper, asked.entries) == ({}, {"ADD_ENTRY": 1})
    assert 1_000 < asked.bookie_bytes < 1_000 + 150
    await log.append([part(3), part(1, "other")], writer="first")
    asked = await counted.asked()
    assert (asked.zookeeper, asked.entries) == ({"sync": 1, "get": 1, "create": 1, "multi": 1}, {"ADD_ENTRY": 1})
    await log.append([part(4), part(2, "other")], writer="first")
    asked = await counted.asked()
    assert (asked.zookeeper, asked.entries) == ({}, {"ADD_ENTRY": 1})
    await log.cut([(*TRACKER, 2)])
    asked = await counted.asked()
    assert (asked.zookeeper, asked.entries) == ({}, {"ADD_ENTRY": 1})

    other = counting()
    await other.log.start()
    assert (await other.asked()).zookeeper == {"get": 1, "create": 2, "multi": 1}
    assert (await other.log.take_over(*TRACKER, epoch=2, writer="second")).last_number == 4
    asked = await other.asked()
    # Both sides of the move, the fence of one ledger, and a ledger of its own; all five entries are read.
    assert asked.zookeeper_count < 25
    assert asked.entries["ADD_ENTRY"] == 3
    assert asked.entries["READ_ENTRY"] < 10
    await other.log.close()
    await log.close()


async def test_requests_of_the_add_logs_next_ledger(counting):
    """The full ledger is closed as by a recovery, the next one created, and an old one that nobody needs deleted."""
    counted = counting(roll_bytes=1_000)
    log = counted.log
    await log.start()
    await log.take_over(*TRACKER, epoch=1, writer="first")
    await log.append([LogAppend(*TRACKER, 1, 1, [bytes(1_000)])], writer="first")
    await counted.asked()
    await log.append([LogAppend(*TRACKER, 1, 2, [bytes(1_000)])], writer="first")
    asked = await counted.asked()
    assert asked.zookeeper == {**NEW_LEDGER, "sync": 2, "get": 1, "multi": 3, "children": 1}
    await log.cut([(*TRACKER, 1)])
    # The cut needs a ledger of its own, too, and nothing needs the first one any more.
    assert (await counted.asked()).zookeeper_count == 10 + 6
    await log.close()
