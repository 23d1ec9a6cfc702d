"""Reads of single entries from bookies that fail, hang, and have damaged or other entries."""

import asyncio
import gc

import pytest

from delayed_tracker.bookkeeper.errors import ClientClosed, DigestMismatch, LedgerUnreadable
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from delayed_tracker.bookkeeper.placement.connections import BookieConnections
from delayed_tracker.bookkeeper.reading.entry_reads import EntryReads
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import DigestType, Entry, master_key
from delayed_tracker.bookkeeper.wire.replies import Status
from tests.bookkeeper.model_bookie import LEDGER, SILENT, ModelBookie, body_of, filled, serving

ABC = ("a", "b", "c")
LONG_MS = 60_000


def metadata_of(
    write: int = 3, ack: int = 2, *, digest: DigestType | None = DigestType.CRC32C, password: bytes = b""
) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id=LEDGER,
        format_version=3,
        state=LedgerState.OPEN,
        last_entry_id=-1,
        payload_bytes=0,
        ensemble_size=3,
        write_quorum=write,
        ack_quorum=ack,
        digest_type=digest,
        password=password,
        segments=((0, ABC),),
        custom={},
    )


def reads_of(connections: BookieConnections, metadata: LedgerMetadata, *, recovers: bool = False, **settings: int):
    """Return reads that ask no second bookie because this machine is slow, unless the settings say so."""
    password = metadata.password
    chosen = ClientSettings(**{"speculative_read_ms": LONG_MS, **settings})
    access = LedgerAccess.of(metadata, password, connections, chosen)
    return EntryReads(access, fence_key=master_key(password) if recovers else None)


async def test_entries_are_read_from_their_bookies_in_turn():
    """Each bookie is asked for the entries of which it is the first, and for no others."""
    bookies = filled(ABC, 2, [b"zero", b"one", b"two", b"three"])
    async with serving(*bookies) as connections:
        reads = reads_of(connections, metadata_of(2, 2))
        entries = [await reads.begin(entry_id, ABC).outcome() for entry_id in range(4)]

    assert [entry.payload for entry in entries] == [b"zero", b"one", b"two", b"three"]
    assert entries[3] == Entry(3, 2, 15, b"three")
    assert [bookie.reads() for bookie in bookies] == [[0, 3], [1], [2]]


@pytest.mark.parametrize(
    "status",
    [Status.NO_ENTRY, Status.NO_LEDGER, Status.IO_ERROR, Status.TOO_MANY_REQUESTS, Status.UNKNOWN_LEDGER_STATE],
)
async def test_the_next_bookie_is_asked_after_a_refusal(status):
    bookies = filled(ABC, 3, [b"zero"])
    bookies[0].fail(status)
    async with serving(*bookies) as connections:
        entry = await reads_of(connections, metadata_of()).begin(0, ABC).outcome()

    assert entry.payload == b"zero"
    assert [bookie.reads() for bookie in bookies] == [[0], [0], []]


@pytest.mark.parametrize(
    "stored",
    [
        body_of(0, b"zero")[:-1],
        body_of(0, b"zero").replace(b"zero", b"hero"),
        body_of(1, b"zero"),
        body_of(0, b"zero", ledger_id=LEDGER + 1),
        b"",
    ],
    ids=["short", "damaged", "another entry", "another ledger", "empty"],
)
async def test_the_next_bookie_is_asked_after_a_wrong_entry(stored):
    """Each body is compared with its digest, and its ids with those that were asked for."""
    bookies = filled(ABC, 3, [b"zero"])
    bookies[0].entries[0] = stored
    async with serving(*bookies) as connections:
        entry = await reads_of(connections, metadata_of()).begin(0, ABC).outcome()

    assert entry.payload == b"zero"


async def test_a_bookie_that_is_down_costs_no_entry():
    bookies = filled(ABC, 3, [b"zero", b"one", b"two", b"three"])
    async with serving(*bookies[1:]) as connections:
        reads = reads_of(connections, metadata_of())
        names = ("gone", "b", "c")
        for entry_id in (0, 3):
            entry = await reads.begin(entry_id, names).outcome()
            assert entry.entry_id == entry_id

    assert bookies[1].reads() == [0, 3]


async def test_a_second_bookie_is_asked_when_the_first_takes_too_long():
    """The slow one is asked last from then on."""
    bookies = filled(ABC, 3, [b"zero", b"one", b"two", b"three"])
    bookies[0].fail(SILENT)
    async with serving(*bookies, read_timeout_ms=LONG_MS) as connections:
        reads = reads_of(connections, metadata_of(), speculative_read_ms=200)
        assert (await reads.begin(0, ABC).outcome()).payload == b"zero"
        assert (await reads.begin(3, ABC).outcome()).payload == b"three"

    assert bookies[0].reads() == [0]


async def test_a_slow_answer_counts_after_a_second_bookie_was_asked():
    """The first bookie has the entry, the second one nothing, and the third one never answers."""
    bookies = filled(ABC, 3, [b"zero"])
    bookies[0].passing.clear()
    bookies[1].entries.clear()
    bookies[2].fail(SILENT)
    async with serving(*bookies, read_timeout_ms=LONG_MS) as connections:
        reads = reads_of(connections, metadata_of(), speculative_read_ms=1)
        outcome = asyncio.create_task(reads.begin(0, ABC).outcome())
        await bookies[2].arrived.wait()
        bookies[0].passing.set()
        assert (await outcome).payload == b"zero"


async def test_an_entry_that_no_bookie_has_is_missing():
    async with serving(*filled(ABC, 3, [])) as connections:
        assert await reads_of(connections, metadata_of()).begin(0, ABC).outcome() is None


async def test_an_entry_that_nobody_can_give_is_not_missing():
    """The error names what each bookie answered."""
    bookies = filled(ABC, 3, [b"zero"])
    bookies[0].entries.clear()
    bookies[1].fail(Status.IO_ERROR)
    bookies[2].entries[0] = b""
    async with serving(*bookies) as connections:
        with pytest.raises(LedgerUnreadable) as refused:
            await reads_of(connections, metadata_of()).begin(0, ABC).outcome()

    message = refused.value.message
    assert message.startswith(
        "entry 77:0: bookie a does not have it; bookie b answers IO_ERROR; bookie c: entry 77:0: its 0"
    )


@pytest.mark.parametrize("damaged", ["abc", "c"])
async def test_an_entry_without_a_right_copy_is_damaged(damaged):
    """No bookie that comes back has another one: the others say that they have none. The error names what each has."""
    bookies = filled(ABC, 3, [b"zero"])
    for bookie in bookies:
        bookie.entries = {0: body_of(0, b"zero")[:-1]} if bookie.name in damaged else {}
    async with serving(*bookies) as connections:
        with pytest.raises(DigestMismatch, match=r"entry 77:0: .*bookie a.*bookie b.*bookie c: .*; restore the ledger"):
            await reads_of(connections, metadata_of()).begin(0, ABC).outcome()


async def test_a_recovery_finds_no_entry_damaged():
    """It would end the ledger before an entry that may have been acknowledged."""
    bookies = filled(ABC, 3, [b"zero"])
    for bookie in bookies:
        bookie.entries[0] = b""
    async with serving(*bookies) as connections:
        with pytest.raises(LedgerUnreadable):
            await reads_of(connections, metadata_of(), recovers=True).begin(0, ABC).outcome()


async def test_a_recovery_asks_all_bookies_and_fences_them():
    bookies = filled(ABC, 3, [b"zero"])
    async with serving(*bookies) as connections:
        reads = reads_of(connections, metadata_of(3, 2, password=b"secret"), recovers=True)
        for bookie in bookies:
            bookie.password = b"secret"
        assert await reads.begin(7, ABC).outcome() is None

    # Two say that they do not have it, which is enough; the third one is not waited for.
    assert sum(bookie.is_fenced for bookie in bookies) >= 2


async def test_a_recovery_finds_an_entry_that_one_bookie_has():
    """One of three is not acknowledged; but it may be found, and is kept then."""
    bookies = filled(ABC, 3, [b"zero"])
    bookies[0].entries.clear()
    bookies[1].fail(SILENT)
    async with serving(*bookies, read_timeout_ms=LONG_MS) as connections:
        entry = await reads_of(connections, metadata_of(), recovers=True).begin(0, ABC).outcome()

    assert entry.payload == b"zero"


async def test_a_bookie_that_hangs_does_not_delay_the_end_of_a_recovery():
    bookies = filled(ABC, 3, [])
    bookies[0].fail(SILENT)
    async with serving(*bookies, read_timeout_ms=LONG_MS) as connections:
        reads = reads_of(connections, metadata_of(), recovers=True, speculative_read_ms=LONG_MS)
        async with asyncio.timeout(30):
            assert await reads.begin(0, ABC).outcome() is None


@pytest.mark.parametrize("status", [Status.IO_ERROR, Status.UNAUTHORIZED, Status.TOO_MANY_REQUESTS])
async def test_failures_are_no_end_for_a_recovery(status):
    """With one bookie that does not have the entry and two that fail, it may have been acknowledged."""
    bookies = filled(ABC, 3, [])
    for bookie in bookies[1:]:
        bookie.fail(status)
    async with serving(*bookies) as connections:
        with pytest.raises(LedgerUnreadable):
            await reads_of(connections, metadata_of(), recovers=True).begin(0, ABC).outcome()


@pytest.mark.parametrize("digest", [DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC])
async def test_the_digest_type_is_found_if_the_metadata_have_none(digest):
    """A damaged entry decides nothing: the type is that of the first entry that fits."""
    good = body_of(0, b"zero", digest=digest, password=b"secret")
    bookies = [ModelBookie(name, entries={0: body}) for name, body in zip(ABC, (good[:-1], good, good), strict=True)]
    async with serving(*bookies) as connections:
        access = LedgerAccess.of(metadata_of(digest=None), b"secret", connections, ClientSettings())
        entry = await EntryReads(access).begin(0, ABC).outcome()
        assert access.digest.found.type is digest

    assert entry.payload == b"zero"


async def test_closing_the_client_ends_reads():
    bookies = filled(ABC, 3, [b"zero"])
    bookies[0].fail(SILENT)
    async with serving(*bookies, read_timeout_ms=LONG_MS) as connections:
        outcome = asyncio.create_task(reads_of(connections, metadata_of()).begin(0, ABC).outcome())
        await bookies[0].arrived.wait()
        await connections.close()
        with pytest.raises(ClientClosed):
            await outcome


async def test_a_read_that_is_over_leaves_nothing_behind(caplog):
    """Requests whose replies are not needed are withdrawn; their errors are nobody's."""
    bookies = filled(ABC, 3, [b"zero"])
    bookies[0].fail(SILENT)
    async with serving(*bookies, read_timeout_ms=LONG_MS) as connections:
        reads = reads_of(connections, metadata_of(), recovers=True)
        assert (await reads.begin(0, ABC).outcome()).payload == b"zero"
    gc.collect()
    assert caplog.messages == []
