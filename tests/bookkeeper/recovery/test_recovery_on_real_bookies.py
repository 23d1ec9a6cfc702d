"""Tests of recoveries of ledgers that BookKeeper's own client writes, on real bookies; it reads what was recovered."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import Unauthorized
from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.java_ledgers import JavaFailed, JavaLedgers

pytestmark = pytest.mark.slow
DIGESTS = ["CRC32", "CRC32C", "MAC", "DUMMY"]
PAYLOADS = [b"zero", b"", b"two" * 50_000, *(b"%d" % number for number in range(3, 30))]
LENGTH = sum(map(len, PAYLOADS))


# Java's client may meet a bookie that another test has restarted first, and then looks for one to replace it.
REFUSED = "BKLedger(Fenced|Closed)Exception|BKNotEnoughBookiesException"


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[BookKeeper]:
    cluster.require(3)
    async with BookKeeper(cluster.zookeeper.address) as connected:
        yield connected


@pytest.mark.parametrize("digest", DIGESTS)
async def test_java_reads_what_was_recovered_here(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper, digest: str
):
    """The writer is fenced: it adds nothing more, and cannot close the ledger elsewhere."""
    ledger_id = java_ledgers.create(
        cluster.uri, ensemble=3, write_quorum=3, ack_quorum=2, digest=digest, password=b"secret"
    )
    java_ledgers.add(cluster.uri, ledger_id, PAYLOADS)
    with pytest.raises(Unauthorized):
        await client.recover(ledger_id, password=b"other")

    reader = await client.recover(ledger_id, password=b"secret")
    assert (reader.last_confirmed, reader.metadata.payload_bytes) == (len(PAYLOADS) - 1, LENGTH)
    assert [entry.payload async for entry in reader.entries()] == PAYLOADS
    with pytest.raises(JavaFailed, match=REFUSED):
        java_ledgers.add(cluster.uri, ledger_id, [b"late"])
    state = java_ledgers.open(cluster.uri, ledger_id, digest=digest, password=b"secret")
    assert state == {"last": len(PAYLOADS) - 1, "length": LENGTH, "closed": True}
    assert java_ledgers.read(cluster.uri, ledger_id, 0, len(PAYLOADS) - 1) == PAYLOADS


async def test_an_empty_ledger_of_java_is_closed_empty(cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper):
    """Bookies that do not know the ledger are fenced all the same."""
    ledger_id = java_ledgers.create(cluster.uri, ensemble=3, write_quorum=2, ack_quorum=2)
    assert (await client.recover(ledger_id)).last_confirmed == -1
    with pytest.raises(JavaFailed, match=REFUSED):
        java_ledgers.add(cluster.uri, ledger_id, [b"late"])
    assert java_ledgers.open(cluster.uri, ledger_id) == {"last": -1, "length": 0, "closed": True}


async def test_a_ledger_is_recovered_while_a_bookie_is_dead(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper
):
    """The last entry is confirmed by nothing, and one of its two bookies was killed: another one takes its place."""
    ledger_id = java_ledgers.create(cluster.uri, ensemble=2, write_quorum=2, ack_quorum=2)
    java_ledgers.add(cluster.uri, ledger_id, PAYLOADS[:-1])
    java_ledgers.add(cluster.uri, ledger_id, PAYLOADS[-1:])
    first, second = (await client.metadata(ledger_id)).segments[0][1]
    bookies = {bookie.bookie_id: bookie for bookie in cluster.bookies}
    others = set(bookies) - {first, second}
    bookies[first].process.kill()
    try:
        reader = await client.recover(ledger_id)
        assert reader.last_confirmed == len(PAYLOADS) - 1
        before, (begin, (spare, kept)) = reader.metadata.segments
        assert (before, begin, kept) == ((0, (first, second)), len(PAYLOADS) - 1, second)
        assert spare in others
        assert [entry.payload async for entry in reader.entries()] == PAYLOADS
    finally:
        cluster.require(len(bookies))


async def test_java_and_this_client_recover_at_the_same_time(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper
):
    """Both read the same end, that of the first that closes the ledger."""
    for count in range(5):
        ledger_id = java_ledgers.create(cluster.uri, ensemble=3, write_quorum=3, ack_quorum=2)
        java_ledgers.add(cluster.uri, ledger_id, PAYLOADS[: count + 1])
        ours = asyncio.create_task(client.recover(ledger_id))
        theirs = await asyncio.to_thread(java_ledgers.open, cluster.uri, ledger_id, recover=True)
        reader = await ours
        assert (theirs["last"], theirs["closed"], reader.last_confirmed) == (count, True, count)


async def race(cluster: Cluster, java_ledgers: JavaLedgers, count: int) -> None:
    """Let two clients recover ledgers at the same time; both must find the same end, and Java, too."""
    cluster.require(3)
    address = cluster.zookeeper.address
    async with BookKeeper(address) as first, BookKeeper(address) as second:
        for number in range(count):
            last = number % 5 - 1
            ledger_id = java_ledgers.create(cluster.uri, ensemble=3, write_quorum=3, ack_quorum=2)
            if last >= 0:
                java_ledgers.add(cluster.uri, ledger_id, PAYLOADS[: last + 1])
            readers = await asyncio.gather(first.recover(ledger_id), second.recover(ledger_id))
            assert readers[0].metadata == readers[1].metadata
            assert (readers[0].last_confirmed, java_ledgers.open(cluster.uri, ledger_id)["last"]) == (last, last)


async def test_two_clients_find_one_end(cluster: Cluster, java_ledgers: JavaLedgers):
    await race(cluster, java_ledgers, 10)


@pytest.mark.deep
async def test_two_clients_find_one_end_100_times(cluster: Cluster, java_ledgers: JavaLedgers):
    await race(cluster, java_ledgers, 100)
