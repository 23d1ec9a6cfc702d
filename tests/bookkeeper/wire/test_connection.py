"""Tests of requests and replies over a real socket: order, bounds, times, and the writing to a slow bookie."""

import asyncio
import gc

import pytest

from delayed_tracker.bookkeeper.errors import (
    AuthenticationDemanded,
    BookieUnavailable,
    ClientClosed,
    EntryTooLarge,
    RequestTimedOut,
    TooManyInFlight,
)
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.connection import BookieConnection, Endpoint
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.bookkeeper.wire.requests import LAST_ENTRY, ReadRequests, read_lac_request
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from tests.bookkeeper.wire.scripted_bookie import Peer, add_of, connected, connection_to, echo, reply_to


async def test_each_reply_goes_to_its_request():
    """Replies in another order than the requests complete those with their transaction ids."""

    async def backwards(peer: Peer) -> None:
        asked = [await peer.request() for _ in range(3)]
        await peer.send(*(reply_to(request, body=b"%d" % request.readRequest.entryId) for request in reversed(asked)))
        await peer.until_closed()

    async with connected(backwards) as (connection, bookie):
        replies = await asyncio.gather(*(connection.call(ReadRequests(77).of(entry)) for entry in (4, 5, 6)))

        assert [reply.body for reply in replies] == [b"4", b"5", b"6"]
        assert bookie.connections == 1
        assert (connection.in_flight.requests, connection.in_flight.bytes) == (0, 0)


@pytest.mark.parametrize("size", [0, 1_024, 64 * 1024, 1_000_000, 5_000_000])
async def test_payloads_arrive_as_they_are(size):
    """Payloads below and above what is joined into one write arrive whole, between others, in the order of sending."""
    payload = bytes(range(256)) * (size // 256)
    received = []

    async def keep(peer: Peer) -> None:
        received.extend([(await peer.answer()).addRequest.body[36:] for _ in range(5)])
        await peer.until_closed()

    async with connected(keep) as (connection, _):
        sent = [connection.send(add_of(number, payload if number % 2 else b"small")) for number in range(5)]
        assert [reply.status for reply in await asyncio.gather(*sent)] == [Status.OK] * 5

    assert received == [b"small", payload, b"small", payload, b"small"]


async def test_a_refusal_is_a_reply():
    """A status that is not success is returned: the caller knows what it means for its ledger."""

    async def fenced(peer: Peer) -> None:
        await peer.answer(Status.FENCED)
        await peer.until_closed()

    async with connected(fenced) as (connection, _):
        reply = await connection.call(add_of())

    assert (reply.status, reply.ledger_id, reply.entry_id) == (Status.FENCED, 77, 0)


async def test_a_bookie_that_demands_authentication_is_named():
    """Bookies with SASL refuse every request without a look at it; the error says so."""

    async def demanding(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(pb.Response(header=request.header, status=Status.UNAUTHORIZED))
        await peer.until_closed()

    async with connected(demanding) as (connection, _):
        with pytest.raises(AuthenticationDemanded, match="bookie b1: it demands authentication"):
            await connection.call(add_of())


async def test_a_frame_above_the_bound_is_not_sent():
    """A bookie would end the connection at it. The error names the entry and the bound; the connection serves others."""
    async with connected(echo, frame_bytes_max=65_536) as (connection, bookie):
        fitting = 65_536 - add_of(3, b"").frame_bytes - 4
        assert (await connection.call(add_of(3, bytes(fitting)))).status == Status.OK
        with pytest.raises(
            EntryTooLarge, match=r"ADD_ENTRY of 77:3: a frame of \d+ bytes is longer than frame_bytes_max=65536"
        ):
            connection.send(add_of(3, bytes(fitting + 1)))
        with pytest.raises(EntryTooLarge):
            await connection.call(add_of(3, bytes(fitting + 1)))
        assert bookie.connections == 1


async def test_sending_at_the_bound_is_refused_and_calling_waits():
    """At the bound of requests a send is refused and a call waits until a reply makes room."""
    answers = asyncio.Event()

    async def later(peer: Peer) -> None:
        await answers.wait()
        await echo(peer)

    async with connected(later, in_flight_requests_max=2) as (connection, _):
        sent = [connection.send(add_of(entry)) for entry in range(2)]
        with pytest.raises(TooManyInFlight, match=r"bookie b1: 2 requests of .* in_flight_requests_max=2 "):
            connection.send(add_of(2))
        waiting = asyncio.create_task(connection.call(add_of(3)))
        await asyncio.sleep(0)
        answers.set()

        assert (await waiting).entry_id == 3
        assert [reply.entry_id for reply in await asyncio.gather(*sent)] == [0, 1]


async def test_who_waited_for_room_hears_of_the_end():
    """A call that gets room because the connection ended fails, and leaves no room taken."""

    async def dying(peer: Peer) -> None:
        await peer.request()

    async with connected(dying, in_flight_requests_max=1) as (connection, _):
        sent = connection.send(add_of(0))
        with pytest.raises(BookieUnavailable, match="not tried again for"):
            await connection.call(add_of(1))
        with pytest.raises(BookieUnavailable, match="closed the connection"):
            await sent
        assert (connection.in_flight.requests, connection.in_flight.bytes) == (0, 0)


async def test_bytes_in_flight_are_bounded():
    """Requests in flight have at most so many bytes, whether they are written or not; a call waits only its time."""
    settings = {
        "frame_bytes_max": 65_536,
        "in_flight_bytes_max": 100_000,
        "add_timeout_ms": 100,
        "read_timeout_ms": 60_000,
    }

    async with connected(Peer.until_closed, **settings) as (connection, _):
        held = connection.send(ReadRequests(77).of(0))
        large = connection.send(add_of(0, bytes(60_000)))
        with pytest.raises(TooManyInFlight, match="in_flight_bytes_max=100000"):
            connection.send(add_of(1, bytes(60_000)))
        # The room of the large add is back when its time is over, which is when the call's own time is.
        refused = await asyncio.gather(large, connection.call(add_of(1, bytes(60_000))), return_exceptions=True)
        assert isinstance(refused[0], RequestTimedOut)
        assert isinstance(refused[1], TooManyInFlight | BookieUnavailable)
        assert isinstance(await asyncio.wait_for(asyncio.gather(held, return_exceptions=True), 5), list)


async def test_a_bookie_that_does_not_read_makes_requests_wait():
    """Requests that the bookie does not read wait. One whose sender leaves is withdrawn; the others are written later."""
    reads = asyncio.Event()
    asked = []

    async def slow(peer: Peer) -> None:
        peer.writer.transport.pause_reading()
        await peer.send()
        await reads.wait()
        peer.writer.transport.resume_reading()
        while True:
            asked.append((await peer.answer()).addRequest.entryId)

    settings = {"in_flight_bytes_max": 64 * 1024 * 1024, "add_timeout_ms": 60_000}
    async with connected(slow, **settings) as (connection, _):
        sent = [connection.send(add_of(entry, bytes(4_000_000))) for entry in range(15)]
        channel = connection._channel
        while not channel._is_paused:  # noqa: ASYNC110  # the connection is made by this event loop
            await asyncio.sleep(0)
        assert channel._unsent
        assert channel._transport.get_write_buffer_size() < 4_000_000 + 256 * 1024
        sent[-1].cancel()
        reads.set()

        assert [reply.entry_id for reply in await asyncio.gather(*sent[:-1])] == list(range(14))
        assert (await connection.call(add_of(15))).entry_id == 15
        assert asked == [*range(14), 15]
        assert connection.in_flight.requests == 0


async def test_a_late_reply_is_no_reply():
    """A request fails after its time while others are answered; its late reply is ignored, and the connection stays."""
    first_failed = asyncio.Event()

    async def late(peer: Peer) -> None:
        overdue = await peer.request()
        await peer.answer()
        await first_failed.wait()
        await peer.send(reply_to(overdue, body=b"late"))
        await echo(peer)

    async with connected(late, read_timeout_ms=500, add_timeout_ms=60_000) as (connection, bookie):
        read, add = connection.send(ReadRequests(77).of(3)), connection.send(add_of(4))
        assert (await add).entry_id == 4
        with pytest.raises(
            RequestTimedOut, match=r"bookie b1: no reply to READ_ENTRY of 77:3 within .* may still be done"
        ):
            await read
        first_failed.set()

        assert (await connection.call(add_of(5))).entry_id == 5
        assert bookie.connections == 1
        assert connection.in_flight.requests == 0


async def test_each_request_has_its_own_time():
    """The later one of two reads without replies fails later, though nothing else is sent or received by then."""

    async def only_adds(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.HasField("addRequest"):
                await peer.send(reply_to(request))

    async with connected(only_adds, read_timeout_ms=100) as (connection, _):
        loop = asyncio.get_running_loop()
        first, began = connection.send(ReadRequests(77).of(1)), loop.time()
        while loop.time() < began + 0.02:
            await connection.call(add_of())
        second = connection.send(ReadRequests(77).of(2))
        await connection.call(add_of())

        for read in (first, second):
            with pytest.raises(RequestTimedOut):
                await asyncio.wait_for(read, 10)
        assert loop.time() >= began + 0.12


async def test_a_silent_bookie_is_left():
    """A bookie that says nothing for the time of a request loses the connection; the next request gets a new one."""
    async with connected(Peer.until_closed, echo, read_timeout_ms=500, add_timeout_ms=60_000, backoff_min_ms=1) as (
        connection,
        bookie,
    ):
        add, read = connection.send(add_of()), connection.send(ReadRequests(77).of(3))
        with pytest.raises(
            RequestTimedOut, match=r"bookie b1: no reply in time, and nothing else for .* ms; the connection was"
        ):
            await read
        with pytest.raises(RequestTimedOut):
            await add

        assert (await eventually(connection)).entry_id == 9
        assert bookie.connections == 2


@pytest.mark.slow
async def test_requests_without_replies_are_bounded():
    """A bookie that answers some requests and leaves out more than the bound of the others loses the connection."""

    async def forgetful(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.HasField("addRequest"):
                await peer.send(reply_to(request))

    async with connected(forgetful, in_flight_requests_max=4, read_timeout_ms=1_000) as (connection, _):
        failures = []
        # A read that times out before the connection is there was not sent, and does not count.
        await connection.call(add_of())
        while connection._channel.error is None:
            reads = [connection.send(ReadRequests(77).of(entry)) for entry in range(3)]
            await connection.call(add_of())
            failures += await asyncio.gather(*reads, return_exceptions=True)

        assert 4 < len(failures) <= 12
        assert all(isinstance(failure, RequestTimedOut) for failure in failures)
        assert "leaves more than 4 requests without a reply" in connection._channel.error.message


async def eventually(connection: BookieConnection):
    """Return the reply to an add as soon as the bookie is tried again."""
    while True:
        try:
            return await connection.call(add_of(9))
        except BookieUnavailable as unavailable:
            if "not tried again for" not in unavailable.problem:
                raise
            await asyncio.sleep(0)


async def test_a_lost_connection_fails_its_requests_and_is_made_again():
    """All requests without a reply fail at once, with room for others; the next request connects anew."""

    async def dying(peer: Peer) -> None:
        await peer.answer()
        await peer.request()

    async with connected(dying, echo, backoff_min_ms=1) as (connection, bookie):
        assert (await connection.call(add_of(0))).entry_id == 0
        lost = await asyncio.gather(connection.call(add_of(1)), connection.call(add_of(2)), return_exceptions=True)
        assert [type(error) for error in lost] == [BookieUnavailable, BookieUnavailable]
        assert "may have been done" in lost[0].message
        assert (connection.in_flight.requests, connection.in_flight.bytes) == (0, 0)
        assert (await eventually(connection)).entry_id == 9
        assert bookie.connections == 2


async def test_the_pause_grows_until_the_bookie_answers():
    """A bookie that accepts and closes is tried less and less often; a request in the pause fails and says how long."""

    async def closing(peer: Peer) -> None:
        pass

    async with connected(closing, backoff_min_ms=1_000, backoff_max_ms=3_000) as (connection, bookie):
        pauses = []
        for _ in range(4):
            with pytest.raises(BookieUnavailable):
                await connection.call(add_of())
            pauses.append(connection._retry_at - asyncio.get_running_loop().time())
            with pytest.raises(BookieUnavailable, match=r"not tried again for \d+ ms, after: bookie b1: "):
                connection.send(add_of())
            connection._retry_at = 0.0
        assert [round(pause) for pause in pauses] == [1, 2, 3, 3]
        assert bookie.connections == 4


async def test_the_pause_is_short_after_an_answer():
    """A bookie that answered before its connection was lost is tried again soon, however often that happens."""
    async with connected(Peer.answer, backoff_min_ms=1_000, backoff_max_ms=3_000) as (connection, bookie):
        for _ in range(3):
            await connection.call(add_of())
            await connection._channel.closed
            assert connection._retry_at - asyncio.get_running_loop().time() <= 1
            connection._retry_at = 0.0
        assert bookie.connections == 3


async def test_nobody_listens():
    """A refused connection is told with its address, and so is a host that does not exist."""
    async with connected(echo) as (_, bookie):
        port = bookie.port
    for host in ("127.0.0.1", "no\0host", "x" * 64):
        connection = connection_to(host, port, ClientSettings())
        with pytest.raises(BookieUnavailable, match="bookie b1: no connection to "):
            await connection.call(add_of())
        await connection.close()


@pytest.mark.parametrize("port", [0, -1, 65_536])
async def test_a_port_out_of_range_is_refused(port):
    """A bookie's address comes from outside; a port that none can have is named."""
    with pytest.raises(InvalidInput, match=f"port: {port} is not valid; give the port of a bookie"):
        Endpoint("127.0.0.1", port)


async def test_closing_fails_what_waits_and_leaves_nothing_open():
    """Requests in flight fail with ClientClosed, so do later ones; sockets are closed, and closing again is harmless."""
    asked = asyncio.Event()

    async def silent(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.until_closed()

    async with connected(silent) as (connection, _):
        sent = connection.send(add_of())
        await asked.wait()
        await connection.close()
        with pytest.raises(ClientClosed):
            await sent
        with pytest.raises(ClientClosed, match="bookie b1: the client was closed"):
            connection.send(add_of())
        await connection.close()
        # An open socket would warn here, and warnings are errors.
        gc.collect()
        unused = connection_to("127.0.0.1", 1, ClientSettings())
        await unused.close()


async def test_closing_while_connecting():
    """A connection that is closed before it is open fails what waits for it."""
    async with connected(echo) as (connection, _):
        sent = connection.send(add_of())
        await connection.close()
        with pytest.raises(ClientClosed):
            await sent


async def test_reads_of_the_last_entry_may_name_any():
    """The reply to a read of the last entry names that entry, or repeats -1; READ_LAC has no entry."""

    async def last(peer: Peer) -> None:
        request = await peer.request()
        reply = reply_to(request, body=b"x")
        reply.readResponse.entryId = 41
        await peer.send(reply)
        await echo(peer)

    async with connected(last) as (connection, _):
        assert (await connection.call(ReadRequests(77).of(LAST_ENTRY))).entry_id == 41
        assert (await connection.call(ReadRequests(77).of(LAST_ENTRY))).entry_id == LAST_ENTRY
        assert (await connection.call(read_lac_request(77))).status == Status.OK
