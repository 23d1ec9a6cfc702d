"""The end of a ledger by the answers of its last ensemble."""

import asyncio
from itertools import product

import pytest

from delayed_tracker.bookkeeper.errors import LedgerUnreadable, Unauthorized
from delayed_tracker.bookkeeper.placement.quorums import Quorums
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.reading.ledger_end import read_last_confirmed, read_last_entries
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType, master_key
from delayed_tracker.bookkeeper.wire.replies import Status
from tests.bookkeeper.model_bookie import LEDGER, SILENT, body_of, filled, serving
from tests.bookkeeper.reading.test_entry_reads import ABC, LONG_MS, metadata_of

PAYLOADS = [b"zero", b"one", b"two", b"three"]
KEY = master_key(b"")


def access_to(connections, write=3, ack=2):
    return LedgerAccess.of(metadata_of(write, ack), b"", connections, ClientSettings())


async def test_the_end_is_the_highest_that_any_bookie_knows():
    bookies = filled(ABC, 2, PAYLOADS)
    # The last add arrived at one bookie, whose writer knew of more than others.
    bookies[2].entries[5] = body_of(5, b"five", last_confirmed=3)
    async with serving(*bookies) as connections:
        end = await read_last_entries(access_to(connections, 2, 2), ABC)

    assert (end.last_confirmed, end.last_stored.entry_id, end.last_stored.payload) == (3, 5, b"five")
    assert not any(bookie.is_fenced for bookie in bookies)


async def test_the_last_confirmed_is_not_that_of_the_last_stored_entry():
    """A recovery adds an entry again with what it knows itself, which may be less."""
    bookies = filled(ABC, 3, PAYLOADS)
    bookies[0].entries[4] = body_of(4, b"four", last_confirmed=1)
    async with serving(*bookies) as connections:
        end = await read_last_entries(access_to(connections, 3, 3), ABC)

    assert (end.last_confirmed, end.last_stored.entry_id) == (2, 4)


async def test_an_empty_ledger_has_no_end():
    for status in (Status.NO_ENTRY, Status.NO_LEDGER):
        bookies = filled(ABC, 3, [])
        for bookie in bookies:
            bookie.fail(status)
        async with serving(*bookies) as connections:
            for end in (
                await read_last_entries(access_to(connections), ABC),
                await read_last_confirmed(access_to(connections), ABC),
            ):
                assert (end.last_confirmed, end.last_stored) == (-1, None)


async def test_fencing_reaches_all_bookies_that_answer():
    bookies = filled(ABC, 3, PAYLOADS)
    async with serving(*bookies) as connections:
        await read_last_entries(access_to(connections, 3, 1), ABC, fence_key=KEY)

    # With an ack quorum of one, a single bookie that is not fenced could acknowledge an add.
    assert all(bookie.is_fenced for bookie in bookies)


async def test_a_wrong_password_is_refused():
    bookies = filled(ABC, 3, PAYLOADS)
    bookies[1].password = b"other"
    async with serving(*bookies) as connections:
        with pytest.raises(Unauthorized, match="password: bookie b refuses that of ledger 77"):
            await read_last_entries(access_to(connections, 3, 1), ABC, fence_key=KEY)


@pytest.mark.parametrize("reads", [read_last_entries, read_last_confirmed])
async def test_enough_bookies_must_answer(reads):
    """Bookies that fail or send a damaged entry have not answered; those that have nothing have."""
    bookies = filled(ABC, 3, PAYLOADS)
    whole, damaged = bookies[0].entries[3], b"x" * 40
    statuses = {"has": None, "empty": Status.NO_ENTRY, "fails": Status.IO_ERROR, "damaged": None}
    async with serving(*bookies) as connections:
        for quorums, states in product([(3, 3), (3, 2), (2, 2), (2, 1)], product(statuses, repeat=3)):
            answered = 0
            for index, (bookie, state) in enumerate(zip(bookies, states, strict=True)):
                bookie.faults = [lambda _, status=statuses[state]: status]
                bookie.entries[3] = damaged if state == "damaged" else whole
                answered |= (state in {"has", "empty"}) << index
            if Quorums(3, *quorums).covers(answered):
                end = await reads(access_to(connections, *quorums), ABC)
                assert end.last_confirmed in {-1, 2}
            else:
                with pytest.raises(LedgerUnreadable, match=r"too few of its bookies answer: .*bookie [abc]"):
                    await reads(access_to(connections, *quorums), ABC)


async def test_a_bookie_that_hangs_is_not_waited_for_when_the_others_cover():
    bookies = filled(ABC, 3, PAYLOADS)
    bookies[1].fail(SILENT)
    async with serving(*bookies, read_timeout_ms=LONG_MS) as connections:
        async with asyncio.timeout(30):
            end = await read_last_entries(access_to(connections), ABC, fence_key=KEY)

    assert end.last_confirmed == 2


async def test_an_explicit_last_add_confirmed_counts():
    """The writer of an idle ledger sends it; entries of the ledger tell of those before them alone."""
    bookies = filled(ABC, 3, PAYLOADS)
    digest = Digest(DigestType.CRC32C)
    bookies[0].explicit_lac = digest.seal_lac(LEDGER, 3)
    bookies[1].explicit_lac = digest.seal_lac(LEDGER, 1)
    async with serving(*bookies) as connections:
        assert (await read_last_confirmed(access_to(connections, 3, 3), ABC)).last_confirmed == 3

    bookies[0].explicit_lac = digest.seal_lac(LEDGER + 1, 3)
    bookies[2].explicit_lac = digest.seal_lac(LEDGER, 3)[:-1] + b"x"
    async with serving(*bookies) as connections:
        with pytest.raises(LedgerUnreadable, match="it is of ledger 78"):
            await read_last_confirmed(access_to(connections, 3, 2), ABC)
