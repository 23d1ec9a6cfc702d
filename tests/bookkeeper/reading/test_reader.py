"""Tests of opened ledgers: their metadata in a real ZooKeeper, their entries at bookies in memory."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import uuid4

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import (
    ClientClosed,
    DigestMismatch,
    EntryMissing,
    LedgerUnreadable,
    NotOurs,
    Unauthorized,
)
from delayed_tracker.bookkeeper.metadata.errors import LedgerNotFound, NodeMissing
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from delayed_tracker.bookkeeper.metadata.zookeeper import Delete, ZooKeeperClient
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.core.values.errors import InvalidInput
from tests.bookkeeper.model_bookie import LEDGER, SILENT, ModelBookie, filled, serving
from tests.bookkeeper.reading.test_entry_reads import ABC, metadata_of
from tests.bookkeeper.servers.cluster import ZooKeeperServer

pytestmark = pytest.mark.slow
OURS = {"owner": b"this test"}
PAYLOADS = [b"zero", b"one", b"two", b"three"]


@pytest.fixture
def root(zookeeper: ZooKeeperServer) -> str:
    """Return the root of an empty cluster of the test's own."""
    made = f"/{uuid4()}"
    zookeeper.make_tree(made)
    return made


@pytest.fixture
async def store(zookeeper: ZooKeeperServer, root: str) -> AsyncIterator[LedgerStore]:
    """Return the ledgers as another client sees them."""
    async with ZooKeeperClient(zookeeper.address) as client:
        yield await LedgerStore.open(client, root)


@asynccontextmanager
async def client_of(
    zookeeper: ZooKeeperServer, root: str, bookies: Sequence[ModelBookie], **settings: int
) -> AsyncIterator[BookKeeper]:
    """Serve the bookies, and yield a client."""
    async with serving(*bookies):
        ports = {bookie.name: ("127.0.0.1", bookie.port) for bookie in bookies}
        async with BookKeeper(
            zookeeper.address, ledgers=root, settings=ClientSettings(**settings), address_of=ports.get
        ) as client:
            yield client


async def stored(store: LedgerStore, *, closed_at: int | None = None, password: bytes = b"") -> Versioned:
    """Create the ledger of the model bookies."""
    metadata = replace(metadata_of(3, 2, password=password), custom=OURS)
    if closed_at is not None:
        metadata = metadata.with_state(LedgerState.CLOSED, last_entry_id=closed_at, payload_bytes=15)
    return await store.create(metadata)


async def test_a_closed_ledger_is_read_to_its_end(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """The end is that of the metadata; no bookie is asked for it, and entries behind it do not exist."""
    await stored(store, closed_at=2)
    bookies = filled(ABC, 3, PAYLOADS)
    async with client_of(zookeeper, root, bookies) as client:
        reader = await client.open(LEDGER, require=OURS)
        assert (reader.ledger_id, reader.last_confirmed, reader.metadata.custom) == (LEDGER, 2, OURS)
        assert bookies[0].asked == []
        assert [entry.payload for entry in await reader.read(0, 2)] == PAYLOADS[:3]
        assert [entry.payload async for entry in reader.entries(1)] == PAYLOADS[1:3]
        assert await reader.read(3, 2) == []
        assert await reader.read_lac() == 2
        last = await reader.read_last_stored()
        assert last is not None
        assert (last.entry_id, last.payload) == (2, b"two")
        for first, end in ((-1, 2), (0, 3), (2, 0), (4, 3)):
            with pytest.raises(InvalidInput, match="give entries of ledger 77, 0 to 2"):
                await reader.read(first, end)


async def test_an_open_ledger_is_read_as_far_as_it_is_confirmed(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """Four entries are stored, and the fourth says that three are confirmed."""
    await stored(store)
    bookies = filled(ABC, 3, PAYLOADS)
    async with client_of(zookeeper, root, bookies) as client:
        reader = await client.open(LEDGER)
        assert reader.last_confirmed == 2
        with pytest.raises(InvalidInput, match="0 to 2"):
            await reader.read(3, 3)
        last = await reader.read_last_stored()
        assert last is not None
        assert last.payload == b"three"

        bookies[0].explicit_lac = bookies[1].explicit_lac = Digest(DigestType.CRC32C).seal_lac(LEDGER, 3)
        assert await reader.read_lac() == 3
        assert [entry.payload for entry in await reader.read(3, 3)] == [b"three"]
        assert not any(bookie.is_fenced for bookie in bookies)


async def test_a_ledger_without_entries_is_read(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    await stored(store)
    async with client_of(zookeeper, root, filled(ABC, 3, [])) as client:
        reader = await client.open(LEDGER)
        assert reader.last_confirmed == -1
        assert [entry async for entry in reader.entries()] == []
        assert await reader.read_last_stored() is None


async def test_entries_before_the_last_segment_are_confirmed(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """The bookies of a new segment have nothing yet. Later the writer changes the ensemble, which the reader follows."""
    await stored(store)
    bookies = [*filled(ABC, 3, PAYLOADS), *(ModelBookie(name) for name in "def")]
    async with client_of(zookeeper, root, bookies) as client:
        reader = await client.open(LEDGER)
        assert reader.last_confirmed == 2
        current = await store.read(LEDGER)
        await store.replace(current, current.metadata.with_segment(4, ("d", "e", "f")))
        assert await reader.read_lac() == 3
        last = await reader.read_last_stored()
        assert last is not None
        assert last.payload == b"three"
        assert [entry.payload for entry in await reader.read(0, 3)] == PAYLOADS


async def test_entries_that_were_moved_are_found(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Auto-recovery has copied the entries to other bookies while the ledger was open here."""
    current = await stored(store, closed_at=3)
    bookies = filled(ABC, 3, PAYLOADS)
    moved = [ModelBookie(name, entries=dict(bookies[0].entries)) for name in "def"]
    async with client_of(zookeeper, root, [*bookies, *moved]) as client:
        reader = await client.open(LEDGER)
        for bookie in bookies:
            bookie.entries.clear()
        with pytest.raises(EntryMissing, match="entry 77:0: none of its bookies has it"):
            await reader.read(0, 3)
        await store.replace(current, current.metadata.with_segment(0, ("d", "e", "f")))
        assert [entry.payload for entry in await reader.read(0, 3)] == PAYLOADS


async def test_entries_whose_damaged_copies_were_replaced_are_found(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """Damage in all copies is an error only if the metadata still say that these are all."""
    current = await stored(store, closed_at=3)
    bookies = filled(ABC, 3, PAYLOADS)
    moved = [ModelBookie(name, entries=dict(bookies[0].entries)) for name in "def"]
    async with client_of(zookeeper, root, [*bookies, *moved]) as client:
        reader = await client.open(LEDGER)
        for bookie in bookies:
            bookie.entries = {entry_id: body[:-1] for entry_id, body in bookie.entries.items()}
        for read in (reader.read(0, 3), reader.read(0, 0), reader.read_last_stored()):
            with pytest.raises(DigestMismatch, match="restore the ledger from a copy"):
                await read
        await store.replace(current, current.metadata.with_segment(0, ("d", "e", "f")))
        assert [entry.payload for entry in await reader.read(0, 3)] == PAYLOADS


async def test_reading_ahead_is_bounded(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """A consumer that does not go on holds back the requests, but for those that fit into the bound."""
    await stored(store, closed_at=99)
    bookies = filled(ABC, 3, [b"x" * 1_000] * 100)
    async with client_of(zookeeper, root, bookies, speculative_read_ms=60_000, read_timeout_ms=60_000) as client:
        reader = await client.open(LEDGER)
        entries = reader.entries(bytes_ahead=10_000)
        assert (await anext(entries)).entry_id == 0
        assert (await anext(entries)).entry_id == 1
        # The request for the last stored entry goes behind the others.
        assert await reader.read_last_stored() is not None
        asked = [entry_id for bookie in bookies for entry_id in bookie.reads() if entry_id != 99]
        assert sorted(asked) == list(range(11))
        assert [entry.entry_id async for entry in entries] == list(range(2, 100))


async def test_a_failure_ends_the_entries_and_nothing_stays_in_flight(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    await stored(store, closed_at=99)
    bookies = filled(ABC, 3, [b"x" * 1_000] * 100)
    for bookie in bookies:
        bookie.fail_reads(50, Status.IO_ERROR)
    async with client_of(zookeeper, root, bookies) as client:
        reader = await client.open(LEDGER)
        entries = reader.entries()
        assert [(await anext(entries)).entry_id for _ in range(50)] == list(range(50))
        with pytest.raises(LedgerUnreadable, match=r"entry 77:50: .*bookie c answers IO_ERROR"):
            await anext(entries)
        # Withdrawn requests are answered all the same.
        assert (await reader.read(99, 99))[0].entry_id == 99


async def test_a_consumer_may_stop_early(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore, caplog: pytest.LogCaptureFixture
):
    """Reads ahead of it are withdrawn: their errors are nobody's."""
    await stored(store, closed_at=99)
    bookies = filled(ABC, 3, [b"x" * 1_000] * 100)
    for bookie in bookies:
        bookie.faults.append(lambda asked: SILENT if asked.readRequest.entryId > 1 else None)
    async with client_of(zookeeper, root, bookies) as client:
        entries = (await client.open(LEDGER)).entries()
        assert [(await anext(entries)).entry_id for _ in range(2)] == [0, 1]
        await entries.aclose()
    gc.collect()
    assert caplog.messages == []


async def test_a_ledger_of_somebody_else_is_left_alone(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """It is neither read, nor recovered, nor deleted; the error has the key and both values."""
    before = await stored(store)
    bookies = filled(ABC, 3, PAYLOADS)
    async with client_of(zookeeper, root, bookies) as client:
        for call in (client.open, client.recover, client.delete):
            with pytest.raises(NotOurs, match=r"'owner' is b'this test', not b'me'"):
                await call(LEDGER, require={"owner": b"me"})
            with pytest.raises(NotOurs, match=r"'other' is none, not b''"):
                await call(LEDGER, require={**OURS, "other": b""})
    assert await store.read(LEDGER) == before
    assert not any(bookie.asked for bookie in bookies)


async def test_a_wrong_password_opens_nothing(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    await stored(store, password=b"secret")
    async with client_of(zookeeper, root, filled(ABC, 3, PAYLOADS)) as client:
        for call in (client.open, client.recover):
            with pytest.raises(Unauthorized, match="password: it is not that of ledger 77"):
                await call(LEDGER, password=b"other")


async def test_a_ledger_is_deleted_once(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Operations beside the deletion happen with it; without them all, nothing happens."""
    await stored(store)
    async with client_of(zookeeper, root, []) as client:
        with pytest.raises(NodeMissing):
            await client.delete(LEDGER, require=OURS, also=[Delete(f"{root}/nothing")])
        assert (await client.metadata(LEDGER)).custom == OURS
        assert await client.delete(LEDGER, require=OURS, also=[Delete(f"{root}/available/readonly")])
        for call in (client.open, client.recover, client.metadata):
            with pytest.raises(LedgerNotFound):
                await call(LEDGER)
        assert not await client.delete(LEDGER, require=OURS, also=[Delete(f"{root}/available")])
        assert await client.zookeeper.exists(f"{root}/available")


async def test_a_client_works_between_its_start_and_its_end(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Reads that are under way at its end fail, and so does every later call."""
    await stored(store, closed_at=3)
    bookies = filled(ABC, 3, PAYLOADS)
    client = BookKeeper(zookeeper.address, ledgers=root)
    with pytest.raises(ClientClosed, match="async with"):
        await client.metadata(LEDGER)
    bookies[0].passing.clear()
    async with client_of(zookeeper, root, bookies) as client:
        reader = await client.open(LEDGER)
        reading = asyncio.create_task(reader.read(0, 0))
        await bookies[0].arrived.wait()
        assert client.stats()["a"].requests_in_flight == 1
    with pytest.raises(ClientClosed):
        await reading
    with pytest.raises(ClientClosed):
        await client.open(LEDGER)
