"""Tests of adds at bookies in memory: order, bounds, and what happens when bookies fail, are fenced, or are replaced."""

import asyncio

import pytest

from delayed_tracker.bookkeeper.errors import (
    ClientClosed,
    EntryTooLarge,
    LedgerFenced,
    NotEnoughBookies,
    Unauthorized,
)
from delayed_tracker.bookkeeper.wire.digest import BODY_HEADER
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.bookkeeper.wire.requests import read_lac_request
from tests.bookkeeper.model_bookie import LEDGER, SILENT
from tests.bookkeeper.writing.ledger import adds_of, ledger_of


async def test_each_entry_has_its_place_its_confirmed_one_and_the_length_so_far():
    """Bodies have the ids, the last entry that was answered when they were sent, and the length with their own payload."""
    async with ledger_of(3, 2, 2) as ledger:
        assert await ledger.adds.add(b"one") == 0
        assert await asyncio.gather(ledger.adds.add(b""), ledger.adds.add(b"four")) == [1, 2]
        a, b, c, *_ = ledger.bookies
        assert (sorted(a.entries), sorted(b.entries), sorted(c.entries)) == ([0, 2], [0, 1], [1, 2])
        heads = [BODY_HEADER.unpack_from(body) for body in (a.entries[0], b.entries[1], c.entries[2])]
        assert heads == [(LEDGER, 0, -1, 3), (LEDGER, 1, 0, 3), (LEDGER, 2, 0, 7)]
        assert (ledger.adds.last_confirmed, ledger.adds.length) == (2, 7)
        assert ledger.settled == 7


async def test_adds_are_answered_in_the_order_of_their_entries():
    """An add whose bookies have all stored it waits for the one before."""
    async with ledger_of(2, 1, 1) as ledger:
        a, b, *_ = ledger.bookies
        a.passing.clear()
        answers = [ledger.adds.add(b"zero"), ledger.adds.add(b"one")]
        await ledger.until_replied("b")
        assert 1 in b.entries
        assert not answers[1].done()
        assert (ledger.adds.last_confirmed, ledger.adds.length) == (-1, 0)
        a.passing.set()
        assert await asyncio.gather(*answers) == [0, 1]


async def test_memory_is_held_until_the_slowest_bookie_has_replied():
    """An answered add still has bytes to be sent to the bookie beyond the quorum, which bounds the writer."""
    async with ledger_of(3, 3, 2) as ledger:
        slow = ledger.bookies[2]
        slow.passing.clear()
        assert await ledger.adds.add(b"four") == 0
        assert ledger.settled == 0
        slow.passing.set()
        await ledger.until_replied("c")
        assert ledger.settled == 4


async def test_a_failed_bookie_is_replaced_and_gets_what_the_other_had():
    """Adds wait for the change; new ones go to the new ensemble at its end, and all of the replaced bookie's go there."""
    async with ledger_of(3, 2, 2) as ledger:
        a, b, c, d, _ = ledger.bookies
        ledger.spares.passing.clear()
        b.fail(Status.IO_ERROR)
        answers = [ledger.adds.add(b"zero")]
        await ledger.spares.begun.wait()
        answers += [ledger.adds.add(b"one"), ledger.adds.add(b"two")]
        await ledger.until_replied("a", "c")
        assert (adds_of(a), adds_of(b), adds_of(c)) == ([0], [0], [])
        ledger.spares.passing.set()
        assert await asyncio.gather(*answers) == [0, 1, 2]
        assert ledger.spares.changes == [(0, ("a", "b", "c"), {1})]
        assert (sorted(a.entries), sorted(c.entries), sorted(d.entries)) == ([0, 2], [1, 2], [0, 1])
        assert ledger.adds.ensemble == ("a", "d", "c")


async def test_nothing_is_answered_while_a_bookie_is_replaced():
    """The next segment begins at the oldest add that is not answered, so it must stay that one."""
    async with ledger_of(3, 3, 2) as ledger:
        a, b, _, d, _ = ledger.bookies
        ledger.spares.passing.clear()
        a.passing.clear()
        b.fail(Status.IO_ERROR)
        answer = ledger.adds.add(b"zero")
        await ledger.spares.begun.wait()
        a.passing.set()
        await ledger.until_replied("a", "c")
        assert not answer.done()
        ledger.spares.passing.set()
        assert await answer == 0
        await ledger.until_replied("d")
        assert 0 in d.entries


async def test_a_bookie_that_fails_meanwhile_is_replaced_next():
    """A failure during a change is noted, and leads to the next one."""
    async with ledger_of(3, 3, 3) as ledger:
        _, b, c, d, e = ledger.bookies
        ledger.spares.passing.clear()
        c.passing.clear()
        b.fail(Status.IO_ERROR)
        c.fail(Status.IO_ERROR)
        answer = ledger.adds.add(b"zero")
        await ledger.spares.begun.wait()
        c.passing.set()
        await ledger.until_replied("c")
        ledger.spares.passing.set()
        assert await answer == 0
        assert [failed for _, _, failed in ledger.spares.changes] == [{1}, {2}]
        assert (0 in d.entries, 0 in e.entries) == (True, True)


async def test_a_new_bookie_may_fail_too():
    """It is replaced like any other."""
    async with ledger_of(3, 2, 2) as ledger:
        _, b, _, d, e = ledger.bookies
        b.fail(Status.IO_ERROR)
        d.fail(Status.NO_LEDGER)
        assert await ledger.adds.add(b"zero") == 0
        assert [failed for _, _, failed in ledger.spares.changes] == [{1}, {1}]
        assert 0 in e.entries


async def test_failures_of_one_moment_are_one_change():
    """A connection that ends fails many adds; the bookie is replaced once."""
    async with ledger_of(3, 2, 2) as ledger:
        _, b, _, d, _ = ledger.bookies
        answers = [ledger.adds.add(b"x") for _ in range(300)]
        b.arrived.clear()
        b.passing.clear()
        await b.arrived.wait()
        await ledger.connections.of("a").call(read_lac_request(LEDGER))
        ledger.connections.of("b")._channel._transport.abort()
        b.passing.set()
        assert await asyncio.gather(*answers) == [*range(300)]
        assert len(ledger.spares.changes) == 1
        assert set(adds_of(d)) >= {entry for entry in range(300) if entry % 3 != 2} - set(b.entries)


@pytest.mark.parametrize(("status", "error"), [(Status.FENCED, LedgerFenced), (Status.UNAUTHORIZED, Unauthorized)])
async def test_being_refused_ends_the_ledger(status, error):
    """All adds fail, also those that other bookies store, later ones are not sent, and no bookie is replaced."""
    async with ledger_of(3, 2, 2) as ledger:
        a, b, *_ = ledger.bookies
        b.fail(status)
        answers = [ledger.adds.add(b"zero"), ledger.adds.add(b"one"), ledger.adds.add(b"two")]
        for answer in answers:
            with pytest.raises(error, match=f"ledger {LEDGER}: bookie b "):
                await answer
        await ledger.until_replied("a", "c")
        with pytest.raises(error):
            ledger.adds.add(b"three")
        assert ledger.spares.changes == []
        assert adds_of(a) == [0, 2]
        assert ledger.adds.last_confirmed == -1
        assert ledger.settled == len(b"zeroonetwo")


async def test_a_replaced_bookie_has_no_say():
    """Its late replies count for nothing, neither a success nor being fenced."""
    async with ledger_of(2, 2, 2) as ledger:
        a, b, *_ = ledger.bookies

        def first_then_late(_):
            b.passing.clear()
            return Status.IO_ERROR

        b.faults.append(first_then_late)
        answers = [ledger.adds.add(b"zero"), ledger.adds.add(b"one")]
        assert await asyncio.gather(*answers) == [0, 1]
        b.faults[:] = [lambda _: Status.FENCED]
        b.passing.set()
        await ledger.until_replied("b")
        assert await ledger.adds.add(b"two") == 2
        assert ledger.adds.failure is None
        assert sorted(a.entries) == [0, 1, 2]


@pytest.mark.parametrize("change_early", [True, False])
async def test_a_failure_beyond_the_quorum_may_be_borne(change_early):
    """Without changing early, a bookie is replaced only when an add cannot be answered without it."""
    async with ledger_of(3, 3, 2, change_early=change_early) as ledger:
        a, b, c, *_ = ledger.bookies
        c.passing.clear()
        b.fail(Status.IO_ERROR)
        answer = ledger.adds.add(b"zero")
        await ledger.until_replied("a", "b")
        assert [failed for _, _, failed in ledger.spares.changes] == ([{1}] if change_early else [])
        c.passing.set()
        assert await answer == 0
        assert 0 in a.entries


async def test_a_read_only_bookie_is_replaced_at_once():
    """It stores no later entry either, so that waiting for another failure would only cost copies."""
    async with ledger_of(3, 3, 2, change_early=False) as ledger:
        _, b, _, d, _ = ledger.bookies
        b.fail(Status.READ_ONLY)
        assert await ledger.adds.add(b"zero") == 0
        await ledger.adds.until_unchanging()
        assert await ledger.adds.add(b"one") == 1
        assert [failed for _, _, failed in ledger.spares.changes] == [{1}]
        await ledger.until_replied("d")
        assert 1 in d.entries


async def test_a_silent_bookie_is_replaced_after_its_time():
    """A bookie that accepts requests and answers nothing fails after the time of an add."""
    async with ledger_of(3, 2, 2, add_timeout_ms=500) as ledger:
        ledger.bookies[1].fail(SILENT)
        assert await ledger.adds.add(b"zero") == 0
        assert [failed for _, _, failed in ledger.spares.changes] == [{1}]


async def test_without_other_bookies_the_ledger_ends():
    """The error of the change is that of all adds."""
    async with ledger_of(3, 2, 2) as ledger:
        ledger.spares.names.clear()
        ledger.bookies[0].fail(Status.IO_ERROR)
        answers = [ledger.adds.add(b"zero"), ledger.adds.add(b"one")]
        for answer in answers:
            with pytest.raises(NotEnoughBookies):
                await answer
        with pytest.raises(NotEnoughBookies):
            ledger.adds.add(b"two")
        await ledger.until_replied("b", "c")
        assert ledger.settled == len(b"zeroone")


async def test_without_other_bookies_the_ack_quorum_goes_on():
    """A bookie that cannot be replaced is borne, and replaced when there is another one; the ledger ends when one more fails."""
    async with ledger_of(3, 3, 2) as ledger:
        _, b, c, d, _ = ledger.bookies
        ledger.spares.names.clear()
        b.fail(Status.IO_ERROR)

        async def add_after_the_failure():
            c.passing.clear()
            answer = ledger.adds.add(b"x")
            await ledger.until_replied("a", "b")
            await ledger.adds.until_unchanging()
            assert not answer.done()
            c.passing.set()
            return await answer

        assert [await add_after_the_failure() for _ in range(2)] == [0, 1]
        assert ledger.spares.changes == [(0, ("a", "b", "c"), {1}), (1, ("a", "b", "c"), {1})]
        assert ledger.adds.ensemble == ("a", "b", "c")

        ledger.spares.names.append("d")
        d.passing.clear()
        assert await add_after_the_failure() == 2
        assert ledger.adds.ensemble == ("a", "d", "c")
        d.passing.set()
        await ledger.until_replied("d")
        assert 2 in d.entries

        c.fail(Status.IO_ERROR)
        d.fail(Status.IO_ERROR)
        with pytest.raises(NotEnoughBookies):
            await ledger.adds.add(b"x")


async def test_adds_that_waited_for_a_change_in_vain_end_the_ledger():
    """They are sent to the bookies that could not be replaced, and fail at once at those whose connections are down."""
    async with ledger_of(3, 3, 2, add_timeout_ms=600_000, backoff_min_ms=60_000, backoff_max_ms=60_000) as ledger:
        a, b, *_ = ledger.bookies
        ledger.spares.names.clear()
        ledger.spares.passing.clear()
        a.passing.clear()
        b.fail(Status.IO_ERROR)
        answers = [ledger.adds.add(b"zero")]
        await ledger.spares.begun.wait()
        await ledger.until_replied("c")
        for name in ("b", "c"):
            channel = ledger.connections.of(name)._channel
            channel._transport.abort()
            await channel.closed
        answers.append(ledger.adds.add(b"one"))
        ledger.spares.passing.set()
        for answer in answers:
            with pytest.raises(NotEnoughBookies):
                await answer
        a.passing.set()


async def test_an_entry_that_no_bookie_takes_is_refused_before_it_is_sent():
    """A bookie ends the connection at such a frame, as a dead one does; the entry has no id, and the next one gets it."""
    async with ledger_of(3, 2, 2, frame_bytes_max=65_536) as ledger:
        with pytest.raises(EntryTooLarge, match="payload: an entry of 65536 bytes makes a frame of "):
            ledger.adds.add(bytes(65_536))
        assert await ledger.adds.add(bytes(65_000)) == 0
        assert ledger.adds.length == 65_000


async def test_adds_wait_for_room_at_a_bookie():
    """A connection that is full takes the next adds in their order, when there is room."""
    async with ledger_of(1, 1, 1, in_flight_requests_max=2) as ledger:
        a = ledger.bookies[0]
        a.passing.clear()
        answers = [ledger.adds.add(b"x") for _ in range(7)]
        await a.arrived.wait()
        a.passing.set()
        assert await asyncio.gather(*answers) == [*range(7)]
        assert adds_of(a) == [*range(7)]
        assert ledger.settled == 7


async def test_closed_connections_end_the_ledger():
    """An add after the client was closed, and one in flight then, fail with ClientClosed."""
    async with ledger_of(3, 2, 2) as ledger:
        ledger.bookies[0].passing.clear()
        answer = ledger.adds.add(b"zero")
        await ledger.bookies[0].arrived.wait()
        await ledger.connections.close()
        ledger.bookies[0].passing.set()
        with pytest.raises(ClientClosed):
            await answer
        with pytest.raises(ClientClosed):
            ledger.adds.add(b"one")
        assert ledger.spares.changes == []


async def test_an_add_to_closed_connections_ends_the_ledger():
    """No bookie is to blame, so none is replaced."""
    async with ledger_of(3, 2, 2) as ledger:
        await ledger.connections.close()
        with pytest.raises(ClientClosed):
            await ledger.adds.add(b"zero")
        assert ledger.spares.changes == []
        assert ledger.settled == 4


async def test_a_cancelled_add_is_stored_all_the_same():
    """Cancelling the future of an add takes nothing back, and disturbs no other."""
    async with ledger_of(1, 1, 1) as ledger:
        cancelled = ledger.adds.add(b"zero")
        cancelled.cancel()
        assert await ledger.adds.add(b"one") == 1
        assert sorted(ledger.bookies[0].entries) == [0, 1]


async def test_a_large_change_leaves_the_event_loop_to_others():
    """Sending thousands of adds to a new bookie is cut into pieces."""
    async with ledger_of(3, 2, 2) as ledger:
        ledger.spares.passing.clear()
        ledger.bookies[1].fail(Status.IO_ERROR)
        ledger.adds.add(b"zero")
        await ledger.spares.begun.wait()
        answers = [ledger.adds.add(b"x") for _ in range(2_000)]
        ledger.spares.passing.set()
        turns = 0
        while ledger.adds._changing is not None:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 2_000 // 256
        await asyncio.gather(*answers)


async def test_a_ledger_may_end_before_a_change_has_begun():
    """A bookie fails, and another one says in the same turn of the event loop that the ledger is fenced."""
    async with ledger_of(2, 2, 2) as ledger:
        answer = ledger.adds.add(b"zero")
        ledger.pending.failed(0, 1, "b")
        ledger.adds._check_soon()
        asyncio.get_running_loop().call_soon(ledger.adds.end, LedgerFenced("ledger 77 is fenced"))
        async with asyncio.timeout(20):
            await ledger.adds.until_unchanging()
        with pytest.raises(LedgerFenced):
            await answer


@pytest.mark.parametrize("status", [Status.IO_ERROR, Status.TOO_MANY_REQUESTS])
async def test_bookies_that_keep_failing_end_the_ledger(status):
    """They take each other's place with growing pauses, and not for longer than an add may take."""
    async with ledger_of(2, 2, 2, add_timeout_ms=1_000, backoff_min_ms=50) as ledger:
        _, b, c, *_ = ledger.bookies
        ledger.spares.names.clear()
        ledger.spares.names.extend(["c", "b"] * 100)
        b.fail(status)
        c.fail(status)
        answers = [ledger.adds.add(b"x") for _ in range(20)]
        for answer in answers:
            with pytest.raises(
                NotEnoughBookies, match=r"bookies: [bc] keep failing, and entry 0 of ledger 77 was not stored"
            ):
                await answer
        # Pauses of 50, 100, 200, 400 ms and the rest, after two changes without.
        assert 4 <= len(ledger.spares.changes) <= 7


async def test_a_bookie_that_is_well_again_is_taken():
    """A failure is held against a bookie for a while, but adds go on as soon as it stores them."""
    async with ledger_of(2, 2, 2, backoff_min_ms=1) as ledger:
        _, b, c, *_ = ledger.bookies
        ledger.spares.names.clear()
        ledger.spares.names.extend(["c", "b"] * 100)
        c.fail(Status.IO_ERROR)

        def once(asked):
            b.faults.clear()
            return Status.IO_ERROR if asked.HasField("addRequest") else None

        b.faults[:] = [once]
        assert await ledger.adds.add(b"zero") == 0
        assert ledger.adds.ensemble == ("a", "b")
