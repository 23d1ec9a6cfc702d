"""Small entries come several in one reply where a bookie has them all; whatever is wrong with that, single reads make good."""

import asyncio
from collections.abc import Callable, Sequence
from operator import itemgetter

import pytest

from delayed_tracker.bookkeeper.errors import ClientClosed
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore
from delayed_tracker.bookkeeper.reading.range_read import BATCH_BYTES_MAX
from delayed_tracker.bookkeeper.wire.replies import Status
from tests.bookkeeper.model_bookie import BATCH_REPLY, LEDGER, SILENT, ModelBookie, body_of, filled
from tests.bookkeeper.reading.test_entry_reads import ABC, metadata_of
from tests.bookkeeper.reading.test_range_read import COUNT, PATIENT, PAYLOADS, opened, payloads_of
from tests.bookkeeper.reading.test_reader import client_of, root, store
from tests.bookkeeper.servers.cluster import ZooKeeperServer

__all__ = ["root", "store"]
pytestmark = pytest.mark.slow
RANGE = 64


def batches_of(bookies: Sequence[ModelBookie]) -> list[tuple[int, int]]:
    """Return the batch reads of all bookies, in the order of their first entries."""
    return sorted(batch for bookie in bookies for batch in bookie.batches)


async def test_small_entries_come_in_batches(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Only the first entry comes by itself, because nobody knows its size. The replicas share the batches."""
    bookies = filled(ABC, 3, PAYLOADS)
    async with opened(zookeeper, root, store, bookies) as (reader, client):
        assert await payloads_of(reader) == PAYLOADS
        stats = client.stats()
    starts = range(1, COUNT, RANGE)
    assert batches_of(bookies) == [(first, min(RANGE, COUNT - first)) for first in starts]
    assert sorted(entry_id for bookie in bookies for entry_id in bookie.reads()) == list(range(COUNT))
    assert [len(bookie.batches) for bookie in bookies] == [1, 2, 2]
    assert sum(each.operations["READ_BATCH"].outcomes["OK"] for each in stats.values()) == len(starts)
    assert all(each.requests_in_flight == each.bytes_in_flight == 0 for each in stats.values())


@pytest.mark.parametrize(("write", "settings"), [(2, {}), (3, {"batch_reads": False})])
async def test_some_ledgers_are_read_entry_by_entry(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore, write: int, settings: dict[str, int]
):
    """No bookie has all entries of a striped ledger; and batches may be off."""
    bookies = filled(ABC, write, PAYLOADS)
    async with opened(zookeeper, root, store, bookies, write=write, **settings) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
    assert batches_of(bookies) == []


async def test_large_entries_come_by_themselves(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    payloads = [bytes((number,)) * 9_000 for number in range(100)]
    bookies = filled(ABC, 3, payloads)
    closed = metadata_of(3, 2).with_state(LedgerState.CLOSED, last_entry_id=99, payload_bytes=900_000)
    await store.create(closed)
    async with client_of(zookeeper, root, bookies, **PATIENT) as client:
        assert await payloads_of(await client.open(LEDGER, require={})) == payloads
    assert batches_of(bookies) == []


async def test_a_reply_that_is_full_is_asked_on(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Entries that turn out to be large come in replies of the bound, and one larger than that by itself."""
    payloads = [b"small", *(bytes((number,)) * 300_000 for number in range(20)), bytes(BATCH_BYTES_MAX + 1), b"last"]
    bookies = filled(ABC, 3, payloads)
    closed = metadata_of(3, 2).with_state(
        LedgerState.CLOSED, last_entry_id=len(payloads) - 1, payload_bytes=sum(map(len, payloads))
    )
    await store.create(closed)
    async with client_of(zookeeper, root, bookies, **PATIENT) as client:
        assert await payloads_of(await client.open(LEDGER, require={})) == payloads
    # Three of 300,000 bytes fit; the last entry is no batch.
    assert [first for first, _ in batches_of(bookies)] == [1, 4, 7, 10, 13, 16, 19, 21]


async def test_bookies_that_take_no_batches_are_told_by_their_closing(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """Each is tried once; what was asked for by then comes from the same bookie, and nothing is asked for twice."""
    bookies = filled(ABC, 3, PAYLOADS)
    for bookie in bookies:
        bookie.takes_batches = False
    async with opened(zookeeper, root, store, bookies) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
        assert await payloads_of(reader) == PAYLOADS
    assert [bookie.refusals for bookie in bookies] == [1, 1, 1]
    assert sorted(entry_id for bookie in bookies for entry_id in bookie.reads()) == sorted([*range(COUNT)] * 2)


@pytest.mark.parametrize("status", [Status.NO_ENTRY, Status.NO_LEDGER, Status.IO_ERROR, Status.TOO_MANY_REQUESTS])
async def test_what_a_bookie_refuses_in_a_batch_comes_from_another(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore, status: Status
):
    """The batch ends before entry 30; those behind it are read by themselves, as is 10, which is damaged."""
    bookies = filled(ABC, 3, PAYLOADS)
    bookies[1].fail_reads(30, status)
    bookies[1].entries[10] = body_of(10, b"011")[:-1] + b"!"
    async with opened(zookeeper, root, store, bookies) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
    assert batches_of(bookies)[:2] == [(1, 64), (30, 35)]


def of_ledger(ledger_id: int) -> Callable[[bytes], bytes]:
    def spoil(reply: bytes) -> bytes:
        version, opcode, flags, code, _, first, request_id = BATCH_REPLY.unpack_from(reply)
        return BATCH_REPLY.pack(version, opcode, flags, code, ledger_id, first, request_id) + reply[BATCH_REPLY.size :]

    return spoil


@pytest.mark.parametrize(
    "spoils",
    [
        pytest.param(lambda reply: reply[:-1], id="the last entry is cut"),
        pytest.param(lambda reply: reply[: BATCH_REPLY.size + 2], id="no entry is whole"),
        pytest.param(itemgetter(slice(BATCH_REPLY.size)), id="no entries"),
        pytest.param(lambda reply: reply[:20], id="no header"),
        pytest.param(lambda reply: reply[: BATCH_REPLY.size] + b"\xff" * 4, id="a negative size"),
        pytest.param(lambda reply: reply + reply[BATCH_REPLY.size :], id="more than was asked for"),
        pytest.param(of_ledger(78), id="another ledger"),
        pytest.param(lambda reply: b"\x03" + reply[1:], id="another version"),
        pytest.param(lambda reply: reply[:2] + b"\x00\x01" + reply[4:], id="unknown flags"),
    ],
)
async def test_a_wrong_reply_costs_no_entry(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore, spoils: Callable[[bytes], bytes]
):
    bookies = filled(ABC, 3, PAYLOADS)
    for bookie in bookies[:2]:
        bookie.spoils = spoils
    async with opened(zookeeper, root, store, bookies) as (reader, client):
        assert await payloads_of(reader) == PAYLOADS
        assert all(each.requests_in_flight == 0 for each in client.stats().values())


async def test_a_bookie_that_is_silent_to_batches_is_avoided(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    bookies = filled(ABC, 3, PAYLOADS)
    bookies[1].faults.append(lambda _: SILENT)
    async with opened(zookeeper, root, store, bookies, speculative_read_ms=100, read_timeout_ms=60_000) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
    assert len(bookies[1].batches) <= 2


async def test_without_room_for_a_batch_entries_wait_one_by_one(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    bookies = filled(ABC, 3, PAYLOADS)
    async with opened(zookeeper, root, store, bookies, in_flight_requests_max=1, speculative_read_ms=60_000) as (
        reader,
        _,
    ):
        assert await payloads_of(reader) == PAYLOADS
    assert len(batches_of(bookies)) >= 3


@pytest.mark.parametrize("takes_batches", [True, False])
async def test_a_client_that_is_closed_ends_reads_in_batches(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore, takes_batches: bool
):
    """Callers that wait for entries are told, whether bookies take batches or were just asked for the first one."""
    bookies = filled(ABC, 3, PAYLOADS)
    async with opened(zookeeper, root, store, bookies) as (reader, _):
        if takes_batches:
            assert len(await reader.read(0, 200)) == 201
        for bookie in bookies:
            bookie.batches.clear()
            bookie.arrived.clear()
            bookie.faults.append(lambda asked: SILENT if asked.readRequest.entryId > 0 else None)
        reading = asyncio.create_task(reader.read(0, COUNT - 1))
        while not batches_of(bookies):
            await bookies[1].arrived.wait()
            bookies[1].arrived.clear()
    with pytest.raises(ClientClosed):
        await reading
