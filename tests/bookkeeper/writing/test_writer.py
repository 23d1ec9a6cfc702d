"""Tests of ledgers that are written: their metadata in a real ZooKeeper, their entries at bookies in memory."""

import asyncio
from dataclasses import replace

import pytest

from delayed_tracker.bookkeeper.errors import (
    ClientClosed,
    EntryTooLarge,
    LedgerClosed,
    LedgerFenced,
    NotEnoughBookies,
    TooManyInFlight,
)
from delayed_tracker.bookkeeper.metadata.errors import LedgerNotFound, NodeExists, NodeMissing
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerState
from delayed_tracker.bookkeeper.metadata.zookeeper import Create, Delete
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType, master_key
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.bookkeeper.wire.requests import read_lac_request
from delayed_tracker.core.values.errors import InvalidInput
from tests.bookkeeper.servers.proxy import running_proxy

pytestmark = pytest.mark.slow


async def test_a_ledger_is_created_written_and_closed(setting_of):
    """Its metadata say who wrote it how; at its end they have the last entry and the length."""
    async with setting_of(3) as setting:
        writer = await setting.create(digest=DigestType.HMAC, password=b"secret", custom={"owner": b"test"})
        made = (await setting.store.read(writer.ledger_id)).metadata
        assert (made.state, made.format_version, made.digest_type, made.password) == (
            LedgerState.OPEN,
            3,
            DigestType.HMAC,
            b"secret",
        )
        assert (made.ensemble_size, made.write_quorum, made.ack_quorum) == (3, 2, 2)
        assert made.custom == {"owner": b"test"}
        ((first, ensemble),) = made.segments
        assert (first, sorted(ensemble)) == (0, ["a", "b", "c"])
        assert [await writer.add(payload) for payload in (b"one", b"", b"three")] == [0, 1, 2]
        assert setting.place(writer, 0).asked[0].addRequest.masterKey == master_key(b"secret")
        closed = await writer.close()
        assert (closed.state, closed.last_entry_id, closed.payload_bytes) == (LedgerState.CLOSED, 2, 8)
        assert (await setting.store.read(writer.ledger_id)).metadata == closed
        assert await writer.close() == closed
        with pytest.raises(LedgerClosed, match=f"ledger {writer.ledger_id}: its writer was closed"):
            await writer.add(b"four")


async def test_an_empty_ledger_is_closed(setting_of):
    """A ledger without entries ends at -1."""
    async with setting_of(3) as setting:
        closed = await (await setting.create()).close()
        assert (closed.last_entry_id, closed.payload_bytes) == (-1, 0)


async def test_closing_waits_for_the_adds_before_it(setting_of):
    """Adds that were sent are within the closed ledger; an add after the closing began is refused."""
    async with setting_of(3) as setting:
        writer = await setting.create()
        slow = setting.place(writer, 0)
        slow.passing.clear()
        answers = [writer.add_nowait(b"zero"), writer.add_nowait(b"one")]
        closing = asyncio.ensure_future(writer.close())
        await slow.arrived.wait()
        with pytest.raises(LedgerClosed):
            writer.add_nowait(b"two")
        slow.passing.set()
        assert (await closing).last_entry_id == 1
        assert await asyncio.gather(*answers) == [0, 1]


async def test_operations_go_with_the_creation_and_the_closing(setting_of):
    """They happen together with it, or the ledger is neither created nor closed."""
    async with setting_of(3) as setting:
        place, refused = f"{setting.root}/mine", f"{setting.root}/missing/mine"
        ids = []

        def register(ledger_id):
            ids.append(ledger_id)
            return [Create(refused if len(ids) == 1 else place, b"%d" % ledger_id)]

        with pytest.raises(NodeMissing):
            await setting.create(also=register)
        with pytest.raises(LedgerNotFound):
            await setting.store.read(ids[0])
        writer = await setting.create(also=register)
        assert (await setting.zookeeper.get(place)).value == b"%d" % writer.ledger_id

        with pytest.raises(NodeExists):
            await writer.close([Create(place)])
        assert (await setting.store.read(writer.ledger_id)).metadata.state is LedgerState.OPEN
        await writer.close([Delete(place)])
        assert not await setting.zookeeper.exists(place)
        assert (await setting.store.read(writer.ledger_id)).metadata.closed


async def test_impossible_ledgers_are_refused(setting_of):
    """Quorums that contradict each other are named, and so is a cluster with too few bookies."""
    async with setting_of(2) as setting:
        with pytest.raises(InvalidInput, match="quorums: "):
            await setting.create(2, 3, 2)
        with pytest.raises(NotEnoughBookies, match="has 2 of 3 that are needed"):
            await setting.create(3, 2, 2)


async def test_a_segment_begins_where_the_answers_end(setting_of):
    """Each change publishes a segment from the oldest unanswered entry on; a second one at the same entry replaces it."""
    async with setting_of(6) as setting:
        writer = await setting.create()
        assert [await writer.add(b"x") for _ in range(3)] == [0, 1, 2]
        (_, first) = writer.metadata.segments[-1]
        setting.bookies[first[0]].fail(Status.IO_ERROR)
        assert await writer.add(b"x") == 3
        segments = (await setting.store.read(writer.ledger_id)).metadata.segments
        assert [start for start, _ in segments] == [0, 3]
        assert segments[0][1] == first
        assert segments[1][1][1:] == first[1:]
        assert segments[1][1][0] not in first

        spares = set(setting.bookies) - set(first) - set(segments[1][1])
        for name in (segments[1][1][1], min(spares)):
            setting.bookies[name].fail(Status.IO_ERROR)
        assert await writer.add(b"x") == 4
        starts = [start for start, _ in writer.metadata.segments]
        assert starts == [0, 3, 4]
        assert (await writer.close()).segments == writer.metadata.segments


async def test_what_another_client_rewrote_is_kept(setting_of):
    """A swap that is refused is tried again on the newer metadata, as long as the ledger is open."""
    async with setting_of(4) as setting:
        writer = await setting.create()
        await setting.rewrite(writer, lambda found: replace(found, custom={"note": b"theirs"}))
        setting.place(writer, 0).fail(Status.IO_ERROR)
        assert await writer.add(b"x") == 0
        found = (await setting.store.read(writer.ledger_id)).metadata
        assert found.custom == {"note": b"theirs"}
        assert found.segments == writer.metadata.segments
        await setting.rewrite(writer, lambda found: replace(found, custom={"note": b"again"}))
        assert (await writer.close()).custom == {"note": b"again"}


async def test_a_bookie_that_another_client_replaced_is_not_replaced_again(setting_of):
    """A client that re-replicates entries may put another bookie in the place of the one that failed."""
    async with setting_of(5) as setting:
        writer = await setting.create()
        ((_, ensemble),) = writer.metadata.segments
        theirs = min(set(setting.bookies) - set(ensemble))
        assert await writer.add(b"x") == 0
        changed = (ensemble[0], theirs, ensemble[2])
        await setting.rewrite(writer, lambda found: found.with_segment(0, changed))
        setting.place(writer, 1).fail(Status.IO_ERROR)
        assert await writer.add(b"x") == 1
        assert writer.metadata.segments == ((0, changed),)
        assert 1 in setting.bookies[theirs].entries


@pytest.mark.parametrize("state", [LedgerState.IN_RECOVERY, LedgerState.CLOSED])
async def test_a_ledger_that_another_client_took_gets_no_new_bookie(setting_of, state):
    """The swap is refused for good, no add is answered by the new bookies, and the ledger cannot be closed here."""
    async with setting_of(4) as setting:
        writer = await setting.create()
        await setting.rewrite(writer, lambda found: found.with_state(state))
        setting.place(writer, 0).fail(Status.IO_ERROR)
        with pytest.raises(LedgerFenced, match=state.name):
            await writer.add(b"x")
        with pytest.raises(LedgerFenced):
            await writer.add(b"y")
        with pytest.raises(LedgerFenced):
            await writer.close()
        assert len((await setting.store.read(writer.ledger_id)).metadata.segments) == 1


async def test_a_deleted_ledger_gets_no_new_bookie(setting_of):
    """A ledger whose metadata are gone ends with the first change."""
    async with setting_of(4) as setting:
        writer = await setting.create()
        await setting.store.delete(writer.ledger_id)
        setting.place(writer, 0).fail(Status.IO_ERROR)
        with pytest.raises(LedgerNotFound):
            await writer.add(b"x")


async def test_a_close_whose_answer_was_lost_succeeds(setting_of):
    """A ledger that is found closed at the same entry and length is closed; at another end, another client closed it."""
    async with setting_of(3) as setting:
        for last, length, ours in ((0, 3, True), (0, 4, False), (-1, 0, False)):
            writer = await setting.create()
            await writer.add(b"one")
            close = {"last_entry_id": last, "payload_bytes": length}
            theirs = await setting.rewrite(
                writer,
                lambda found, close=close: found.with_state(LedgerState.CLOSED, **close),
            )
            if ours:
                assert await writer.close([Create(f"{setting.root}/mine")]) == theirs.metadata
                assert await setting.zookeeper.exists(f"{setting.root}/mine")
            else:
                with pytest.raises(LedgerFenced, match="another client made it CLOSED"):
                    await writer.close()


async def test_a_ledger_in_recovery_is_not_closed(setting_of):
    """The client that recovers it decides where it ends."""
    async with setting_of(3) as setting:
        writer = await setting.create()
        await writer.add(b"one")
        await setting.rewrite(writer, lambda found: found.with_state(LedgerState.IN_RECOVERY))
        with pytest.raises(LedgerFenced, match="another client made it IN_RECOVERY"):
            await writer.close()
        assert (await setting.store.read(writer.ledger_id)).metadata.state is LedgerState.IN_RECOVERY


async def test_adds_go_on_while_zookeeper_does_not_answer(setting_of, zookeeper):
    """A change of one ledger's bookies waits for ZooKeeper; other adds do not, and the event loop never does."""
    async with running_proxy(zookeeper.port) as proxy, setting_of(4, proxy.address) as setting:
        failing, writer = await setting.create(3, 2, 2), await setting.create(3, 2, 2)
        proxy.hold_replies()
        failed = setting.place(failing, 0)
        failed.faults.append(lambda asked: Status.IO_ERROR if asked.addRequest.ledgerId == failing.ledger_id else None)
        waiting = failing.add_nowait(b"x")
        sent = proxy.chunks_sent
        assert [await writer.add(b"x") for _ in range(100)] == [*range(100)]
        await proxy.until_sent(sent + 1)
        assert not waiting.done()
        proxy.release()
        assert await waiting == 0
        assert failed.name not in failing.metadata.segments[-1][1]


async def test_a_failed_writer_closes_at_what_was_answered(setting_of):
    """Without other bookies the writer ends; the entries that were answered are kept."""
    async with setting_of(3) as setting:
        writer = await setting.create()
        await writer.add(b"one")
        setting.place(writer, 1).fail(Status.IO_ERROR)
        with pytest.raises(NotEnoughBookies, match="besides a, b, c"):
            await writer.add(b"two")
        closed = await writer.close()
        assert (closed.last_entry_id, closed.payload_bytes) == (0, 3)


async def test_one_new_bookie_in_the_place_of_two_may_be_enough(setting_of):
    """The ledger goes on with an ack quorum, the failed bookie that stays in its ensemble aside."""
    async with setting_of(4) as setting:
        writer = await setting.create(3, 3, 2)
        for index in (0, 1):
            setting.place(writer, index).fail(Status.IO_ERROR)
        assert [await writer.add(b"x") for _ in range(3)] == [0, 1, 2]
        closed = await writer.close()
        ((_, ensemble),) = closed.segments
        stored = [name for name in ensemble if setting.bookies[name].entries.keys() >= {0, 1, 2}]
        assert len(stored) == 2
        assert closed.last_entry_id == 2


async def test_without_others_the_bookies_of_another_client_are_taken(setting_of):
    """An ensemble that is published is in force, even if a failed bookie is still in it."""
    async with setting_of(4) as setting:
        writer = await setting.create(3, 3, 2)
        ((_, ensemble),) = writer.metadata.segments
        changed = (min(set(setting.bookies) - set(ensemble)), *ensemble[1:])
        await setting.rewrite(writer, lambda found: found.with_segment(0, changed))
        for index in (0, 1):
            setting.place(writer, index).fail(Status.IO_ERROR)
        assert await writer.add(b"x") == 0
        ((_, last),) = (await writer.close()).segments
        assert last[0] == changed[0]
        assert 0 in setting.bookies[changed[0]].entries


async def test_a_failed_bookie_is_avoided_for_a_while(setting_of):
    """New ledgers leave out a bookie that failed, unless there are too few others."""
    async with setting_of(4) as setting:
        writer = await setting.create()
        failed = setting.place(writer, 0)
        failed.fail(Status.IO_ERROR)
        await writer.add(b"x")
        for _ in range(8):
            ((_, ensemble),) = (await setting.create()).metadata.segments
            assert failed.name not in ensemble
        ((_, ensemble),) = (await setting.create(4, 2, 2)).metadata.segments
        assert failed.name in ensemble


async def test_a_bookie_that_is_not_needed_is_not_exchanged_for_one_that_failed(setting_of):
    """With enough others the ledger goes on without it: each exchange would be a segment, for a bookie as bad."""
    async with setting_of(4) as setting:
        writer = await setting.create(3, 3, 2)
        failed = setting.place(writer, 2)
        (spare,) = setting.bookies.keys() - {*writer.metadata.segments[-1][1]}
        failed.fail(Status.IO_ERROR)
        setting.bookies[spare].fail(Status.IO_ERROR)
        slow = setting.place(writer, 0)
        for entry_id in range(5):
            slow.passing.clear()
            answer = writer.add_nowait(b"x")
            # The failure is noted before the add is answered by the others.
            await writer._connections.of(writer.metadata.segments[-1][1][2]).call(read_lac_request(writer.ledger_id))
            await writer._adds.until_unchanging()
            slow.passing.set()
            assert await answer == entry_id
        assert len((await writer.close()).segments) == 1


async def test_a_writer_is_bounded_by_entries_and_bytes(setting_of):
    """An entry without room is refused at once, or waits for it, in turn; a large entry passes when the others are answered."""
    bounds = {"frame_bytes_max": 65_536, "pending_bytes_max": 65_536, "pending_entries_max": 3}
    async with setting_of(1, **bounds) as setting:
        writer = await setting.create(1, 1, 1)
        bookie = setting.bookies["a"]
        bookie.passing.clear()
        answers = [writer.add_nowait(b"x") for _ in range(3)]
        with pytest.raises(TooManyInFlight, match="3 entries of 3 bytes are pending, and pending_entries_max=3"):
            writer.add_nowait(b"x")
        waiting = [asyncio.ensure_future(writer.add(bytes(60_000))) for _ in range(2)]
        await bookie.arrived.wait()
        assert writer.last_confirmed == -1
        bookie.passing.set()
        assert await asyncio.gather(*answers, *waiting) == [0, 1, 2, 3, 4]
        with pytest.raises(EntryTooLarge, match="frame_bytes_max=65536"):
            await writer.add(bytes(65_536))
        with pytest.raises(EntryTooLarge, match="frame_bytes_max=65536"):
            await writer.add(bytes(1_000_000))
        answers = [writer.add_nowait(bytes(20_000)) for _ in range(3)]
        assert await asyncio.gather(*answers) == [5, 6, 7]


async def test_adding_in_a_loop_leaves_the_event_loop_to_others(setting_of):
    """Adds that find room at once give others their turn now and then."""
    async with setting_of(1) as setting:
        writer = await setting.create(1, 1, 1)
        turns = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        answers = [await writer.begin_add(b"x") for _ in range(1_000)]
        assert turns == [1]
        assert await asyncio.gather(*answers) == [*range(1_000)]
        adds = [asyncio.ensure_future(writer.add(b"x")) for _ in range(1_000)]
        assert await asyncio.gather(*adds) == [*range(1_000, 2_000)]


async def test_who_waits_for_room_learns_that_the_writer_failed(setting_of):
    """An add that waits fails with the writer's error, and holds no room."""
    async with setting_of(1, pending_entries_max=1) as setting:
        writer = await setting.create(1, 1, 1)
        bookie = setting.bookies["a"]
        bookie.passing.clear()
        bookie.fail(Status.FENCED)
        adds = [asyncio.ensure_future(writer.add(b"x")) for _ in range(3)]
        await bookie.arrived.wait()
        bookie.passing.set()
        for add in adds:
            with pytest.raises(LedgerFenced):
                await add
        assert (writer._room.requests, writer._room.bytes) == (0, 0)


async def test_readers_are_told_the_last_confirmed_entry(setting_of):
    """An explicit last-add-confirmed is stored by the bookies of that entry; without entries there is nothing to tell."""
    async with setting_of(3) as setting:
        writer = await setting.create(3, 2, 2, digest=DigestType.CRC32)
        assert await writer.write_lac() == -1
        await asyncio.gather(writer.add_nowait(b"zero"), writer.add_nowait(b"one"))
        assert await writer.write_lac() == 1
        told = [setting.place(writer, index).explicit_lac for index in range(3)]
        body = Digest(DigestType.CRC32).seal_lac(writer.ledger_id, 1)
        assert told == [None, body, body]

        setting.place(writer, 1).faults.append(
            lambda asked: Status.IO_ERROR if asked.HasField("writeLacRequest") else None
        )
        with pytest.raises(NotEnoughBookies, match="1 of 2 bookies that are needed stored the last confirmed entry 1"):
            await writer.write_lac()
        assert await writer.add(b"two") == 2

        setting.place(writer, 2).faults.append(lambda _: Status.FENCED)
        with pytest.raises(LedgerFenced):
            await writer.write_lac()
        with pytest.raises(LedgerFenced):
            await writer.add(b"three")


async def test_a_client_that_closes_ends_its_writers(setting_of):
    """Adds in flight fail, and the ledger stays open for a recovery; nothing is left running."""
    async with setting_of(4) as setting:
        writer, idle = await setting.create(), await setting.create()
        for bookie in setting.bookies.values():
            bookie.passing.clear()
        answer = writer.add_nowait(b"x")
        await setting.place(writer, 0).arrived.wait()
        await setting.client.__aexit__(None, None, None)
        with pytest.raises(ClientClosed):
            await answer
        for ended in (writer, idle):
            with pytest.raises(ClientClosed):
                await ended.close()
        assert (await setting.store.read(writer.ledger_id)).metadata.state is LedgerState.OPEN
        for bookie in setting.bookies.values():
            bookie.passing.set()
