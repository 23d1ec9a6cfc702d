"""Tests that bytes which are no reply end the connection, with an error that says what was wrong."""

import asyncio
import struct

import pytest

from delayed_tracker.bookkeeper.errors import BookieReplyInvalid
from delayed_tracker.bookkeeper.wire.requests import ReadRequests
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from tests.bookkeeper.wire.scripted_bookie import Peer, Script, add_of, connected, framed, reply_to


def changed(request: pb.Request, **fields: int) -> bytes:
    """Return a good reply to an add but for these fields of header and result."""
    response = reply_to(request)
    for name, value in fields.items():
        holder = response.header if name in {"txnId", "version", "operation"} else response.addResponse
        setattr(holder, name, value)
    return framed(response.SerializeToString())


def twice(request: pb.Request) -> bytes:
    reply = framed(reply_to(request).SerializeToString())
    return reply + reply


ANSWERS = {
    "HTTP": (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of 1213486160 bytes"),
    "a negative length": (lambda _: struct.pack(">i", -5), "a frame of -5 bytes"),
    "no length": (lambda _: bytes(4), "a frame of 0 bytes"),
    "a longer frame": (
        lambda _: struct.pack(">i", 65_533),
        "a frame of 65533 bytes, where reply_bytes_max allows 1 to 65532",
    ),
    "no message": (lambda _: framed(b"\xff" * 40), r"40 bytes that are no reply \(ff"),
    "another version": (lambda request: changed(request, version=2), "a reply of version 2"),
    "another operation": (lambda request: changed(request, operation=pb.WRITE_LAC), "WRITE_LAC without a result"),
    "another ledger": (
        lambda request: changed(request, ledgerId=78),
        "a reply to ADD_ENTRY of 78:0 for ADD_ENTRY of 77:0",
    ),
    "another entry": (
        lambda request: changed(request, entryId=1),
        "a reply to ADD_ENTRY of 77:1 for ADD_ENTRY of 77:0",
    ),
    "an unknown transaction": (lambda request: changed(request, txnId=99), "ADD_ENTRY 99, which was not asked for"),
    "a second reply": (twice, "ADD_ENTRY 0, which was not asked for"),
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_what_is_no_reply_ends_the_connection(answer):
    """The error names bookie, bytes and remedy, all requests that wait fail with it, and their room is free."""
    make, message = ANSWERS[answer]

    async def hostile(peer: Peer) -> None:
        request = await peer.request()
        await peer.request()
        peer.writer.write(make(request))
        await peer.until_closed()

    async with connected(hostile, reply_bytes_max=65_536) as (connection, _):
        sent = [connection.send(add_of()), connection.send(ReadRequests(77).of(5))]
        failures = await asyncio.gather(*sent, return_exceptions=True)

        failed = failures[1]
        assert isinstance(failed, BookieReplyInvalid)
        with pytest.raises(
            BookieReplyInvalid, match=f"bookie b1: it sent .*{message}.*; the connection was ended; see"
        ):
            raise failed
        assert failures[0] is failed or answer == "a second reply"
        assert (connection.in_flight.requests, connection.in_flight.bytes) == (0, 0)


async def test_a_reply_before_its_request_is_refused():
    """A bookie cannot answer a request that waits because the bookie does not read."""
    is_waiting = asyncio.Event()

    async def guessing(peer: Peer) -> None:
        peer.writer.transport.pause_reading()
        await is_waiting.wait()
        peer.writer.transport.resume_reading()
        peer.writer.write(changed(last_of_all, txnId=14))
        await peer.until_closed()

    last_of_all = pb.Request(header=pb.BKPacketHeader(version=3, operation=pb.ADD_ENTRY, txnId=14))
    last_of_all.addRequest.MergeFrom(pb.AddRequest(ledgerId=77, entryId=14, masterKey=b"", body=b""))
    settings = {"in_flight_bytes_max": 64 * 1024 * 1024, "add_timeout_ms": 60_000}
    async with connected(guessing, **settings) as (connection, _):
        sent = [connection.send(add_of(entry, bytes(4_000_000))) for entry in range(15)]
        while not connection._channel._is_paused:  # noqa: ASYNC110  # the connection is made by this event loop
            await asyncio.sleep(0)
        # Nothing is read before this ends: the reply comes first.
        is_waiting.set()
        with pytest.raises(BookieReplyInvalid, match="ADD_ENTRY 14, which was not asked for"):
            await sent[-1]
        assert all(isinstance(row, BookieReplyInvalid) for row in await asyncio.gather(*sent, return_exceptions=True))


def script_of(octets: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(octets)
        await peer.until_closed()

    return script


async def test_a_flood_is_cut_at_its_first_frame():
    """A bookie that sends frames without end is cut off, however many it has sent."""
    async with connected(script_of(framed(b"\x08\x01") * 1_000_000)) as (connection, _):
        with pytest.raises(BookieReplyInvalid):
            await connection.call(add_of())
