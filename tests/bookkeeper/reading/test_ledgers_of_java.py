"""Tests of ledgers that BookKeeper's own client wrote to real bookies: closed, open, recovered, of every digest."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import Unauthorized
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.batch_reads import BATCH_REPLIES, BatchReadRequest, split_bodies
from delayed_tracker.bookkeeper.wire.replies import Status
from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.java_ledgers import JavaLedgers
from tests.bookkeeper.wire.scripted_bookie import connection_to

pytestmark = pytest.mark.slow
DIGESTS = ["CRC32", "CRC32C", "MAC", "DUMMY"]
PAYLOADS = [b"zero", b"", b"two" * 50_000, *(b"%d" % number for number in range(3, 40))]


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[BookKeeper]:
    cluster.require(3)
    async with BookKeeper(cluster.zookeeper.address, settings=ClientSettings()) as connected:
        yield connected


@pytest.mark.parametrize("digest", DIGESTS)
async def test_a_closed_ledger_of_java_is_read(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper, digest: str
):
    """Entries are striped over three bookies. The digest is that of the metadata; the password must be given."""
    ledger_id = java_ledgers.create(
        cluster.uri,
        ensemble=3,
        write_quorum=2,
        ack_quorum=2,
        digest=digest,
        password=b"secret",
        custom={"key": b"\x00"},
    )
    java_ledgers.add(cluster.uri, ledger_id, PAYLOADS)
    length = java_ledgers.close(cluster.uri, ledger_id)["length"]

    reader = await client.open(ledger_id, password=b"secret", require={"key": b"\x00"})
    assert (reader.last_confirmed, reader.metadata.payload_bytes) == (len(PAYLOADS) - 1, length)
    entries = [entry async for entry in reader.entries(bytes_ahead=200_000)]
    assert [entry.payload for entry in entries] == PAYLOADS
    assert entries[-1].length == length
    with pytest.raises(Unauthorized, match="password"):
        await client.open(ledger_id)


@pytest.mark.parametrize("digest", DIGESTS)
async def test_an_open_ledger_of_java_is_read(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper, digest: str
):
    """Its last entry is not confirmed yet, but it is stored; its writer is not fenced."""
    ledger_id = java_ledgers.create(cluster.uri, ensemble=3, write_quorum=3, ack_quorum=2, digest=digest)
    reader = await client.open(ledger_id)
    assert (reader.last_confirmed, await reader.read_last_stored()) == (-1, None)

    for payload in PAYLOADS[:5]:
        java_ledgers.add(cluster.uri, ledger_id, [payload])
    assert await reader.read_lac() == 3
    assert [entry.payload for entry in await reader.read(0, 3)] == PAYLOADS[:4]
    last = await reader.read_last_stored()
    assert last is not None
    assert (last.entry_id, last.last_confirmed, last.payload) == (4, 3, PAYLOADS[4])

    java_ledgers.add(cluster.uri, ledger_id, [b"not fenced"])
    java_ledgers.close(cluster.uri, ledger_id)
    assert await reader.read_lac() == 5
    assert [entry.payload for entry in await reader.read(5, 5)] == [b"not fenced"]


async def test_a_ledger_that_java_recovered_is_read(cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper):
    ledger_id = java_ledgers.create(cluster.uri, ensemble=3, write_quorum=2, ack_quorum=2)
    java_ledgers.add(cluster.uri, ledger_id, PAYLOADS)
    reader = await client.open(ledger_id)
    assert java_ledgers.open(cluster.uri, ledger_id, recover=True)["closed"]

    assert await reader.read_lac() == len(PAYLOADS) - 1
    assert reader.metadata.closed
    assert [entry.payload async for entry in reader.entries()] == PAYLOADS


async def test_a_killed_bookie_costs_no_entry(cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper):
    """Each entry is on two of three bookies. The one that was killed is back at the end."""
    ledger_id = java_ledgers.create(cluster.uri, ensemble=3, write_quorum=2, ack_quorum=2)
    java_ledgers.add(cluster.uri, ledger_id, PAYLOADS)
    java_ledgers.close(cluster.uri, ledger_id)
    reader = await client.open(ledger_id)
    entries = reader.entries(bytes_ahead=1)
    assert (await anext(entries)).payload == PAYLOADS[0]
    cluster.bookies[1].process.kill()
    try:
        assert [entry.payload async for entry in entries] == PAYLOADS[1:]
    finally:
        cluster.require(3)
    assert [entry.payload for entry in await reader.read(0, len(PAYLOADS) - 1)] == PAYLOADS


async def test_small_entries_of_java_come_in_batches(cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper):
    """A real bookie knows the request, stops at its bound, and says what it does not have."""
    payloads = [b"%d" % number * 1_500 for number in range(1_000)]
    ledger_id = java_ledgers.create(cluster.uri, ensemble=3, write_quorum=3, ack_quorum=2)
    java_ledgers.add(cluster.uri, ledger_id, payloads)
    java_ledgers.close(cluster.uri, ledger_id)
    reader = await client.open(ledger_id)
    assert [entry.payload for entry in await reader.read(0, len(payloads) - 1)] == payloads
    reads = [read for each in client.stats().values() if (read := each.operations.get("READ_BATCH")) is not None]
    assert sum(read.outcomes["OK"] for read in reads) >= len(payloads) // 64
    assert {outcome for read in reads for outcome in read.outcomes} == {"OK"}

    host, port = reader.metadata.bookies_of(0)[0].split(":")
    connection = connection_to(host, int(port), ClientSettings(), replies=BATCH_REPLIES)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(connection.close)
        full = await connection.call(BatchReadRequest(ledger_id, 990, 100, 10_000))
        assert full.body is not None
        assert len(split_bodies(full.body, 100)) == 2
        first_large = await connection.call(BatchReadRequest(ledger_id, 999, 100, 1))
        assert first_large.body is not None
        assert len(split_bodies(first_large.body, 100)) == 1
        assert (await connection.call(BatchReadRequest(ledger_id, 1_000, 10, 10_000))).status == Status.NO_ENTRY
        assert (await connection.call(BatchReadRequest(2**40, 0, 10, 10_000))).status == Status.NO_LEDGER
