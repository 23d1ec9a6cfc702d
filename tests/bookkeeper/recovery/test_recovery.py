"""Tests of recoveries: the metadata in a real ZooKeeper, the entries at bookies in memory that fail in every way."""

import asyncio

import pytest

from delayed_tracker.bookkeeper.errors import LedgerUnreadable, NotEnoughBookies, Unauthorized
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from delayed_tracker.bookkeeper.metadata.zookeeper import ZooKeeperClient
from delayed_tracker.bookkeeper.placement.bookies import Bookies
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.recovery.recovering import LedgerRecovery
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType, master_key
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.bookkeeper.wire.requests import LAST_ENTRY, AddRequests
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from tests.bookkeeper.model_bookie import LEDGER, SILENT, ModelBookie, body_of, filled, serving
from tests.bookkeeper.reading.test_entry_reads import ABC, metadata_of
from tests.bookkeeper.reading.test_reader import client_of, root, store
from tests.bookkeeper.servers.cluster import ZooKeeperServer

pytestmark = pytest.mark.slow
__all__ = ["root", "store"]
PAYLOADS = [b"zero", b"one", b"two", b"three"]
LENGTHS = [4, 7, 10, 15]


async def written(store: LedgerStore, *, write: int = 3, ack: int = 2, password: bytes = b"") -> Versioned:
    return await store.create(metadata_of(write, ack, password=password))


def holders(bookies: list[ModelBookie], entry_id: int) -> str:
    """Return the names of the bookies that have an entry, with its length and payload verified."""
    digest = Digest(DigestType.CRC32C)
    for bookie in bookies:
        if entry_id in bookie.entries:
            entry = digest.open(LEDGER, entry_id, bookie.entries[entry_id])
            assert (entry.payload, entry.length) == (PAYLOADS[entry_id], LENGTHS[entry_id])
    return "".join(bookie.name for bookie in bookies if entry_id in bookie.entries)


async def test_an_open_ledger_is_closed_at_its_last_entry(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Entries that were confirmed are left as they are; what is behind is stored again, and so is read by everybody."""
    created = await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    async with client_of(zookeeper, root, bookies) as client:
        reader = await client.recover(LEDGER)
        assert (reader.last_confirmed, reader.metadata.payload_bytes) == (3, 15)
        assert [entry.payload for entry in await reader.read(0, 3)] == PAYLOADS
        assert await client.metadata(LEDGER) == created.metadata.with_state(
            LedgerState.CLOSED, last_entry_id=3, payload_bytes=15
        )
    added = [asked.addRequest.entryId for asked in bookies[0].asked if asked.HasField("addRequest")]
    assert added == [3]
    assert holders(bookies, 3) == "abc"


async def test_a_closed_ledger_is_opened_as_it_is(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """No bookie is asked, and nothing is written."""
    created = await store.create(metadata_of().with_state(LedgerState.CLOSED, last_entry_id=1, payload_bytes=7))
    bookies = filled(ABC, 3, PAYLOADS)
    async with client_of(zookeeper, root, bookies) as client:
        assert (await client.recover(LEDGER)).last_confirmed == 1
    assert await store.read(LEDGER) == created
    assert not any(bookie.asked for bookie in bookies)


async def test_an_empty_ledger_is_closed_empty(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    await written(store)
    async with client_of(zookeeper, root, filled(ABC, 3, [])) as client:
        reader = await client.recover(LEDGER)
        assert (reader.last_confirmed, reader.metadata.payload_bytes, reader.metadata.closed) == (-1, 0, True)


async def test_an_entry_that_one_bookie_has_is_stored_at_all(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """It was not acknowledged. Kept by this recovery, it must be there for every later reader."""
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    del bookies[1].entries[3], bookies[2].entries[3]
    # It alone is found: the others take longer.
    for bookie in bookies[1:]:
        bookie.fail_reads(3, SILENT)
    async with client_of(zookeeper, root, bookies) as client:
        assert (await client.recover(LEDGER)).last_confirmed == 3
    assert holders(bookies, 3) == "abc"


async def test_entries_before_the_last_segment_are_not_added_again(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """The last ensemble has no entry yet, and says that nothing is confirmed. The length is that of an older entry."""
    created = await written(store)
    segmented = await store.replace(created, created.metadata.with_segment(4, ("d", "e", "f")))
    bookies = [*filled(ABC, 3, PAYLOADS), *(ModelBookie(name) for name in "def")]
    async with client_of(zookeeper, root, bookies) as client:
        reader = await client.recover(LEDGER)
        assert reader.metadata == segmented.metadata.with_state(LedgerState.CLOSED, last_entry_id=3, payload_bytes=15)
    assert not any(asked.HasField("addRequest") for bookie in bookies for asked in bookie.asked)
    assert not bookies[0].is_fenced


async def test_a_late_add_cannot_be_acknowledged(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """One bookie missed the fencing, and then says that it does not have an entry. It must not take the entry after that:
    with the copy at another bookie, which hangs, the writer would count it as stored.
    """
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS[:2])
    del bookies[1].entries[1], bookies[2].entries[1]
    bookies[0].fail_reads(1, SILENT)
    bookies[2].fail_reads(LAST_ENTRY, SILENT)
    async with serving(*bookies) as writer, client_of(zookeeper, root, bookies) as client:
        assert (await client.recover(LEDGER)).last_confirmed == 0
        sealed = Digest(DigestType.CRC32C).seal(LEDGER, 1, 0, 7, b"one")
        late = await writer.of("c").call(AddRequests(LEDGER, master_key(b"")).of(1, sealed, b"one"))
        assert late.status == Status.FENCED


async def test_failures_are_never_the_end(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """One bookie does not have the last entry, two fail at it. The ledger stays in recovery until one of them is back."""
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    del bookies[0].entries[3]
    bookies[1].fail_reads(3, Status.IO_ERROR)
    bookies[2].fail_reads(3, Status.IO_ERROR)
    async with client_of(zookeeper, root, bookies) as client:
        with pytest.raises(LedgerUnreadable, match="entry 77:3"):
            await client.recover(LEDGER)
        assert (await client.metadata(LEDGER)).state is LedgerState.IN_RECOVERY
        bookies[2].faults.clear()
        assert (await client.recover(LEDGER)).last_confirmed == 3


@pytest.mark.parametrize("is_damaged", [True, False])
async def test_a_last_entry_without_a_right_copy_leaves_the_ledger_in_recovery(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore, is_damaged: bool
):
    """It is the last one of the segment before, and has the length of the ledger."""
    current = await written(store)
    await store.replace(current, current.metadata.with_segment(4, ("d", "e", "f")))
    bookies = [*filled(ABC, 3, PAYLOADS), *(ModelBookie(name) for name in "def")]
    for bookie in bookies[:3]:
        body = bookie.entries.pop(3)
        if is_damaged:
            bookie.entries[3] = body[:-1]
    async with client_of(zookeeper, root, bookies) as client:
        with pytest.raises(LedgerUnreadable, match="entry 77:3: none of its bookies has it undamaged"):
            await client.recover(LEDGER)
        assert (await client.metadata(LEDGER)).state is LedgerState.IN_RECOVERY


async def test_too_few_bookies_for_the_fence_are_no_end(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    for bookie in bookies[:2]:
        bookie.fail_reads(LAST_ENTRY, Status.IO_ERROR)
    async with client_of(zookeeper, root, bookies) as client:
        with pytest.raises(LedgerUnreadable, match="too few of its bookies answer"):
            await client.recover(LEDGER)
        assert (await client.metadata(LEDGER)).state is LedgerState.IN_RECOVERY


async def test_bookies_that_know_another_password_are_not_fenced(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    for bookie in bookies:
        bookie.password = b"other"
    async with client_of(zookeeper, root, bookies) as client:
        with pytest.raises(Unauthorized, match="refuses that of ledger 77"):
            await client.recover(LEDGER)


async def test_a_bookie_that_fails_is_replaced_and_told_at_the_end_alone(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """Two entries are added again. Until all are, the metadata have no new segment: another recovery might find less."""
    created = await written(store, ack=3)
    bookies = filled(ABC, 3, PAYLOADS)
    for bookie in bookies:
        bookie.entries[3] = body_of(3, b"three", last_confirmed=1, length=15)
    fail_adds(bookies[1])
    spare = ModelBookie("d")
    spare.holds = lambda asked: asked.HasField("addRequest")
    spare.passing.clear()
    zookeeper.make_tree(f"{root}/tree", bookies=["d"])
    async with client_of(zookeeper, root, [*bookies, spare]) as client:
        with zookeeper.connected() as kazoo:
            kazoo.create(f"{root}/available/d", b"")
        recovering = asyncio.create_task(client.recover(LEDGER))
        await spare.arrived.wait()
        meanwhile = await store.read(LEDGER, newest=True)
        assert meanwhile == Versioned(created.metadata.with_state(LedgerState.IN_RECOVERY), 1)
        spare.passing.set()
        reader = await recovering
        assert reader.metadata.segments == ((0, ABC), (2, ("a", "d", "c")))
        assert [entry.payload for entry in await reader.read(0, 3)] == PAYLOADS
    assert (await store.read(LEDGER)).version == 2
    assert sorted(spare.entries) == [2, 3]


async def test_without_bookies_for_its_entries_a_ledger_stays_in_recovery(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    await written(store, ack=3)
    bookies = filled(ABC, 3, PAYLOADS)
    fail_adds(bookies[1])
    async with client_of(zookeeper, root, bookies) as client:
        with pytest.raises(NotEnoughBookies):
            await client.recover(LEDGER)
        assert (await client.metadata(LEDGER)).state is LedgerState.IN_RECOVERY
        bookies[1].faults.clear()
        assert (await client.recover(LEDGER)).last_confirmed == 3


async def test_a_copy_less_than_the_write_quorum_is_no_reason_to_fail(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """Two of three bookies are the ack quorum, and there is no fourth one."""
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    fail_adds(bookies[1])
    for bookie in (bookies[0], bookies[2]):
        bookie.holds = is_last_add
        bookie.passing.clear()
    async with client_of(zookeeper, root, bookies) as client:
        recovering = asyncio.create_task(client.recover(LEDGER))
        await until_last_add(bookies[1])
        # The failure is known long before ZooKeeper answers.
        await client.metadata(LEDGER)
        for bookie in bookies:
            bookie.passing.set()
        assert (await recovering).last_confirmed == 3


async def test_the_first_recovery_that_ends_decides(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """One finds an entry that was never acknowledged, and is slow to store it; the other one does not find it."""
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    del bookies[1].entries[3], bookies[2].entries[3]
    for bookie in bookies[1:]:
        bookie.fail_reads(3, SILENT)
    for bookie in bookies:
        bookie.holds = is_last_add
        bookie.passing.clear()
    async with client_of(zookeeper, root, bookies) as slow, client_of(zookeeper, root, bookies) as fast:
        recovering = asyncio.create_task(slow.recover(LEDGER))
        await until_last_add(bookies[0])
        del bookies[0].entries[3]
        for bookie in bookies:
            bookie.faults.clear()
        assert (await fast.recover(LEDGER)).last_confirmed == 2
        for bookie in bookies:
            bookie.passing.set()
        reader = await recovering
        assert reader.last_confirmed == 2
    assert (await store.read(LEDGER)).metadata.last_entry_id == 2


async def test_a_swap_of_bookies_meanwhile_is_kept(zookeeper: ZooKeeperServer, root: str, store: LedgerStore):
    """Auto-recovery copies a bookie's entries to another one, while the ledger is in recovery."""
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    for bookie in bookies[:2]:
        bookie.holds = is_last_add
        bookie.passing.clear()
    async with client_of(zookeeper, root, bookies) as client:
        recovering = asyncio.create_task(client.recover(LEDGER))
        await until_last_add(bookies[0])
        current = await store.read(LEDGER, newest=True)
        await store.replace(current, current.metadata.with_segment(0, ("a", "b", "z")))
        for bookie in bookies[:2]:
            bookie.passing.set()
        reader = await recovering
        assert (reader.last_confirmed, reader.metadata.segments) == (3, ((0, ("a", "b", "z")),))


async def test_the_ensemble_that_the_writer_changed_last_is_recovered(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """The swap to IN_RECOVERY is refused, since the writer was faster; the entries are at its new ensemble."""
    created = await written(store)
    bookies = [*filled(ABC, 3, PAYLOADS[:2]), *(ModelBookie(name) for name in "def")]
    for bookie in bookies[3:]:
        bookie.entries[2] = body_of(2, b"two", length=10)
    async with serving(*bookies) as connections, ZooKeeperClient(zookeeper.address) as client:
        await store.replace(created, created.metadata.with_segment(2, ("d", "e", "f")))
        settings = ClientSettings()
        access = LedgerAccess.of(created.metadata, b"", connections, settings)
        closed = await LedgerRecovery(store, access, Bookies(client, root, settings), b"").run(created)
    assert (closed.metadata.last_entry_id, closed.metadata.payload_bytes) == (2, 10)
    assert closed.metadata.segments == ((0, ABC), (2, ("d", "e", "f")))


async def test_metadata_that_cannot_be_written_are_refused_before_anything_is_fenced(
    zookeeper: ZooKeeperServer, root: str, store: LedgerStore
):
    """Format 1 is read alone."""
    await written(store)
    bookies = filled(ABC, 3, PAYLOADS)
    old = b"BookieMetadataFormatVersion\t1\n3\n3\n0\n0\ta\tb\tc\n"
    with zookeeper.connected() as kazoo:
        kazoo.set(store.path_of(LEDGER), old)
    async with client_of(zookeeper, root, bookies) as client:
        assert (await client.open(LEDGER)).last_confirmed == 2
        with pytest.raises(LedgerMetadataInvalid, match="format version 1"):
            await client.recover(LEDGER)
    assert not any(bookie.is_fenced for bookie in bookies)


def fail_adds(bookie: ModelBookie) -> None:
    bookie.faults.append(lambda asked: Status.IO_ERROR if asked.HasField("addRequest") else None)


def is_last_add(asked: pb.Request) -> bool:
    return asked.HasField("addRequest") and asked.addRequest.entryId == 3


async def until_last_add(bookie: ModelBookie) -> None:
    while not any(map(is_last_add, bookie.asked)):
        bookie.arrived.clear()
        await bookie.arrived.wait()
