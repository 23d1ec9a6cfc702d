"""Reads of many entries at once: each is asked for once, of its first bookie, and a failure costs no other entry anything.

Batch reads are off where it matters who is asked for which entry; ``test_batch_reads`` has them.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore
from delayed_tracker.bookkeeper.reading.reader import LedgerReader
from delayed_tracker.bookkeeper.wire.replies import Status
from tests.bookkeeper.model_bookie import LEDGER, SILENT, ModelBookie, body_of, filled
from tests.bookkeeper.reading.test_entry_reads import ABC, LONG_MS, metadata_of
from tests.bookkeeper.reading.test_reader import client_of, root, store
from tests.bookkeeper.servers.cluster import ZooKeeperServer

__all__ = ["root", "store"]
pytestmark = pytest.mark.slow

COUNT = 300
PAYLOADS = [b"%03d" % number for number in range(COUNT)]
PATIENT = {"speculative_read_ms": LONG_MS, "read_timeout_ms": LONG_MS}
"""No second bookie is asked because this machine is slow."""


@contextlib.asynccontextmanager
async def opened(
    zookeeper: ZooKeeperServer,
    root: str,
    store: LedgerStore,
    bookies: Sequence[ModelBookie],
    *,
    write: int = 3,
    moved_at: int | None = None,
    **settings: int,
) -> AsyncIterator[tuple[LedgerReader, BookKeeper]]:
    """Open a closed ledger; of all entries from ``moved_at`` on the bookies are in another order."""
    metadata = metadata_of(write, min(write, 2))
    if moved_at is not None:
        metadata = metadata.with_segment(moved_at, ABC[::-1])
    await store.create(metadata.with_state(LedgerState.CLOSED, last_entry_id=COUNT - 1, payload_bytes=3 * COUNT))
    async with client_of(zookeeper, root, bookies, **{**PATIENT, **settings}) as client:
        yield await client.open(LEDGER, require={}), client


async def payloads_of(reader: LedgerReader) -> list[bytes]:
    return [entry.payload async for entry in reader.entries()]


async def test_each_entry_is_asked_for_once(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    bookies = filled(ABC, 3, PAYLOADS)
    async with opened(zookeeper, root, store, bookies, batch_reads=False) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
    assert [bookie.reads() for bookie in bookies] == [list(range(first, COUNT, 3)) for first in range(3)]


async def test_a_range_ends_where_the_ensemble_changes(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Behind the change the last bookie is the first one."""
    bookies = filled(ABC, 3, PAYLOADS)
    async with opened(zookeeper, root, store, bookies, moved_at=100, batch_reads=False) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
    first = [entry_id for entry_id in range(COUNT) if entry_id % 3 == (0 if entry_id < 100 else 2)]
    assert bookies[0].reads() == first


@pytest.mark.parametrize("status", [Status.NO_ENTRY, Status.IO_ERROR])
async def test_what_one_bookie_refuses_comes_from_another(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore, status: Status
):
    """Entry 30 is refused, and 33 damaged; nobody is asked twice for anything else."""
    bookies = filled(ABC, 3, PAYLOADS)
    bookies[0].fail_reads(30, status)
    bookies[0].entries[33] = body_of(33, b"034")[:-1] + b"!"
    async with opened(zookeeper, root, store, bookies, batch_reads=False) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
    asked = sorted(entry_id for bookie in bookies for entry_id in bookie.reads())
    assert asked == sorted([*range(COUNT), 30, 33])


async def test_a_bookie_that_is_away_is_not_asked_again(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    bookies = filled(ABC, 3, PAYLOADS)
    bookies[0].faults.append(lambda _: SILENT)
    async with opened(zookeeper, root, store, bookies, speculative_read_ms=300, read_timeout_ms=60_000) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
    assert len(bookies[0].reads()) < COUNT / 3 / 2
    assert bookies[0].reads()[-1] < COUNT - 64


async def test_entries_of_one_bookie_have_the_time_of_a_request(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """There is no other to be asked: a pause longer than the time for a second bookie costs nothing else."""
    bookies = filled(ABC, 1, PAYLOADS)
    bookies[0].holds = lambda asked: asked.readRequest.entryId == 90
    bookies[0].passing.clear()
    async with opened(zookeeper, root, store, bookies, write=1, speculative_read_ms=1) as (reader, _):
        found = []
        async for entry in reader.entries():
            found.append(entry.payload)
            if entry.entry_id == 60:
                bookies[0].passing.set()
        assert found == PAYLOADS
    assert sorted(entry_id for bookie in bookies for entry_id in bookie.reads()) == list(range(COUNT))


async def test_entries_wait_for_room_one_by_one(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Without room for a range nothing fails, and no bookie is avoided."""
    bookies = filled(ABC, 3, PAYLOADS)
    bounds = {"in_flight_requests_max": 4, "speculative_read_ms": 60_000}
    async with opened(zookeeper, root, store, bookies, batch_reads=False, **bounds) as (reader, _):
        assert await payloads_of(reader) == PAYLOADS
    assert [len(bookie.reads()) for bookie in bookies] == [100, 100, 100]


async def test_a_reader_that_stops_leaves_nothing_in_flight(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    bookies = filled(ABC, 3, PAYLOADS)
    async with opened(zookeeper, root, store, bookies) as (reader, client):
        async with contextlib.aclosing(reader.entries()) as entries:
            async for entry in entries:
                if entry.entry_id == 100:
                    break
        # Another read goes behind what was asked for.
        assert [entry.payload for entry in await reader.read(COUNT - 3, COUNT - 1)] == PAYLOADS[-3:]
        assert {name: found.requests_in_flight for name, found in client.stats().items()} == dict.fromkeys(ABC, 0)
    assert len([entry_id for bookie in bookies for entry_id in bookie.reads()]) <= COUNT + 3
