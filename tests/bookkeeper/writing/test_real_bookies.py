"""Tests of ledgers that real bookies store: BookKeeper's own client reads them, and bookies are killed meanwhile."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import EntryTooLarge, LedgerFenced
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import DIGEST_BYTES, Digest, DigestType, master_key
from delayed_tracker.bookkeeper.wire.requests import AddRequests
from delayed_tracker.bookkeeper.writing.writer import LedgerWriter
from tests.bookkeeper.servers.cluster import MAX_FRAME_BYTES, Bookie, Cluster
from tests.bookkeeper.servers.java_ledgers import JavaFailed, JavaLedgers

pytestmark = pytest.mark.slow
PAYLOADS = [b"zero", b"", b"two" * 50_000, *(b"%d" % number for number in range(3, 40))]
MANY = [pytest.mark.deep, pytest.mark.timeout(3_000)]
ENTRIES = 400


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[BookKeeper]:
    cluster.require(3)
    settings = ClientSettings(frame_bytes_max=MAX_FRAME_BYTES)
    async with BookKeeper(cluster.zookeeper.address, settings=settings) as connected:
        yield connected


def java_name(digest: DigestType) -> str:
    return "MAC" if digest is DigestType.HMAC else digest.name


@pytest.mark.parametrize("digest", DigestType)
async def test_java_reads_a_closed_ledger(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper, digest: DigestType
):
    """Entries are striped over three bookies; Java finds their digest, and refuses another password."""
    name = java_name(digest)
    writer = await client.create(
        ensemble=3, write_quorum=2, ack_quorum=2, digest=digest, password=b"secret", custom={"key": b"\x00"}
    )
    answers = [writer.add_nowait(payload) for payload in PAYLOADS]
    assert await asyncio.gather(*answers) == [*range(len(PAYLOADS))]
    closed = await writer.close()

    opened = java_ledgers.open(cluster.uri, writer.ledger_id, digest=name, password=b"secret")
    assert opened == {"last": len(PAYLOADS) - 1, "length": sum(map(len, PAYLOADS)), "closed": True}
    assert closed.payload_bytes == opened["length"]
    assert java_ledgers.read(cluster.uri, writer.ledger_id, 0, len(PAYLOADS) - 1) == PAYLOADS
    with pytest.raises(JavaFailed, match="BKUnauthorizedAccessException"):
        java_ledgers.open(cluster.uri, writer.ledger_id, digest=name, password=b"other")


@pytest.mark.parametrize("digest", DigestType)
async def test_java_reads_and_recovers_an_open_ledger(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper, digest: DigestType
):
    """Java reads what is confirmed and leaves the writer alone; when it recovers the ledger, the writer is fenced."""
    name = java_name(digest)
    writer = await client.create(ensemble=3, write_quorum=3, ack_quorum=2, digest=digest)
    for payload in PAYLOADS[:3]:
        await writer.add(payload)
    assert java_ledgers.open(cluster.uri, writer.ledger_id, digest=name)["last"] == 1
    assert await writer.write_lac() == 2
    assert java_ledgers.ask(cluster.uri, "lac", ledger=writer.ledger_id)["last"] in {1, 2}
    assert await writer.add(PAYLOADS[3]) == 3

    recovered = java_ledgers.open(cluster.uri, writer.ledger_id, recover=True, digest=name)
    assert (recovered["last"], recovered["closed"]) == (3, True)
    assert java_ledgers.read(cluster.uri, writer.ledger_id, 0, 3) == PAYLOADS[:4]
    with pytest.raises(LedgerFenced):
        await writer.add(b"late")
    with pytest.raises(LedgerFenced):
        await writer.close()
    assert java_ledgers.open(cluster.uri, writer.ledger_id, digest=name)["last"] == 3


async def test_the_largest_entry_passes_and_a_larger_one_is_refused(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper
):
    """An entry that fits the bookies' frame by our count is taken; one byte more never reaches a bookie."""
    writer = await client.create(ensemble=3, write_quorum=2, ack_quorum=2)
    sealed = Digest(DigestType.CRC32C).seal(0, 0, -1, 0, b"")
    assert len(sealed) == 32 + DIGEST_BYTES[DigestType.CRC32C]
    frame = AddRequests(writer.ledger_id, master_key(b"")).of(0, sealed, bytes(5_000_000)).frame_bytes
    largest = bytes(MAX_FRAME_BYTES - frame + 5_000_000)
    with pytest.raises(EntryTooLarge):
        await writer.add(largest + b"x")
    assert await writer.add(largest) == 0
    closed = await writer.close()
    assert len(closed.segments) == 1
    java_ledgers.open(cluster.uri, writer.ledger_id)
    assert java_ledgers.read(cluster.uri, writer.ledger_id, 0, 0) == [largest]


@pytest.mark.long
async def test_a_bookie_that_became_read_only_is_replaced(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper
):
    """It refuses the next add, another one takes its place, and its entries are still read."""
    cluster.require(4)
    writer = await client.create(ensemble=3, write_quorum=3, ack_quorum=2)
    assert await writer.add(b"before") == 0
    bookie = bookie_of(cluster, writer.metadata.segments[0][1][0])
    bookie.process.stop()
    bookie.start(read_only=True)
    try:
        after = await add_until_replaced(writer, bookie)
        closed = await writer.close()
        assert bookie.bookie_id not in closed.segments[-1][1]
        java_ledgers.open(cluster.uri, writer.ledger_id)
        assert java_ledgers.read(cluster.uri, writer.ledger_id, 0, len(after)) == [b"before", *after]
    finally:
        bookie.process.stop()
        cluster.require(4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("write", "ack", "kills"),
    [
        (2, 2, 1),
        pytest.param(3, 2, 1, marks=pytest.mark.long),
        pytest.param(2, 2, 30, marks=MANY, id="2-2-many"),
        pytest.param(3, 2, 30, marks=MANY, id="3-2-many"),
    ],
)
async def test_nothing_is_lost_when_a_bookie_is_killed(
    cluster: Cluster, java_ledgers: JavaLedgers, client: BookKeeper, *, write: int, ack: int, kills: int
):
    """Every add is answered while a bookie of the ensemble is killed with -9; all are read while it is still dead.

    Every other ledger is left open by its writer, and Java recovers it.
    """
    chance = random.Random(write)
    for number in range(kills):
        cluster.require(4)
        writer = await client.create(ensemble=3, write_quorum=write, ack_quorum=ack)
        victim = bookie_of(cluster, chance.choice(writer.metadata.segments[0][1]))
        payloads = [b"%d-%d" % (number, entry) * 50 for entry in range(ENTRIES)]
        added = await add_and_kill(writer, payloads, victim, kill_at=chance.randrange(ENTRIES // 2))
        added += await add_until_replaced(writer, victim)
        if number % 2 == 0:
            await writer.close()
        else:
            await writer.abandon()
        opened = java_ledgers.open(cluster.uri, writer.ledger_id, recover=number % 2 == 1)
        assert (opened["last"], opened["closed"]) == (len(added) - 1, True)
        assert java_ledgers.read(cluster.uri, writer.ledger_id, 0, len(added) - 1) == added
    cluster.require(4)


async def add_and_kill(writer: LedgerWriter, payloads: list[bytes], victim: Bookie, *, kill_at: int) -> list[bytes]:
    """Add all entries, 64 of them in flight, kill a bookie meanwhile, and return the payloads by entry."""
    turns = asyncio.Semaphore(64)

    async def add(payload: bytes) -> int:
        async with turns:
            entry = await writer.add(payload)
        if entry == kill_at:
            victim.process.kill()
        return entry

    entries = await asyncio.gather(*map(add, payloads))
    assert sorted(entries) == [*range(len(payloads))]
    return [payload for _, payload in sorted(zip(entries, payloads, strict=True))]


async def add_until_replaced(writer: LedgerWriter, bookie: Bookie) -> list[bytes]:
    """Add entries until the ensemble has another bookie instead, and return them.

    If fewer acknowledgements than copies are enough, the writer may learn only later that a copy has failed.
    """
    added = []
    while bookie.bookie_id in writer.metadata.segments[-1][1]:
        added.append(b"one more")
        await writer.add(added[-1])
    return added


def bookie_of(cluster: Cluster, bookie_id: str) -> Bookie:
    return next(bookie for bookie in cluster.bookies if bookie.bookie_id == bookie_id)
