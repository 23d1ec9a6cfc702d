"""Tests of requests that are sent together: each has its outcome once, good replies come together, and no room is lost."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.errors import BookieUnavailable, BookKeeperError, RequestTimedOut
from delayed_tracker.bookkeeper.wire.connection import BookieConnection
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import ReadRequests
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from tests.bookkeeper.wire.scripted_bookie import Peer, add_of, connected, framed, reply_to


class Outcomes:
    """Outcomes of some requests, in the order of their coming."""

    def __init__(self, count: int) -> None:
        self.good: dict[int, bytes] = {}
        self.replies: dict[int, Reply] = {}
        self.errors: dict[int, BookKeeperError] = {}
        self.calls: list[list[int]] = []
        self.is_unwanted = False
        self._count = count
        self._all = asyncio.get_running_loop().create_future()

    def is_withdrawn(self) -> bool:
        return self.is_unwanted

    def succeeded(self, numbers: Sequence[int], bodies: Sequence[bytes]) -> None:
        self.good.update(zip(numbers, bodies, strict=True))
        self._note(numbers)

    def replied(self, number: int, reply: Reply) -> None:
        self.replies[number] = reply
        self._note([number])

    def failed(self, number: int, error: BookKeeperError) -> None:
        self.errors[number] = error
        self._note([number])

    def _note(self, numbers: Sequence[int]) -> None:
        self.calls.append(list(numbers))
        noted = [number for call in self.calls for number in call]
        assert len(set(noted)) == len(noted), "an outcome came twice"
        if len(noted) == self._count:
            self._all.set_result(None)

    async def all(self) -> None:
        await asyncio.wait_for(self._all, 30)


def adds_of(connection: BookieConnection, count: int) -> Outcomes:
    outcomes = Outcomes(count)
    connection.send_all([add_of(entry_id) for entry_id in range(count)], outcomes)
    return outcomes


def reads_of(connection: BookieConnection, count: int) -> Outcomes:
    outcomes, requests = Outcomes(count), ReadRequests(77)
    connection.send_all([requests.of(entry_id) for entry_id in range(count)], outcomes)
    return outcomes


def is_idle(connection: BookieConnection) -> bool:
    return (connection.in_flight.requests, connection.in_flight.bytes) == (0, 0)


async def test_good_replies_come_together():
    """Replies that arrive in one piece are given on in one call, in their order; a refusal between them by itself."""

    async def refusing_one(peer: Peer) -> None:
        asked = [await peer.request() for _ in range(6)]
        statuses = [Status.NO_ENTRY if number == 2 else Status.OK for number in range(6)]
        bodies = [b"%d" % request.readRequest.entryId for request in asked]
        await peer.send(*map(reply_to, asked, statuses, bodies))
        await peer.until_closed()

    async with connected(refusing_one) as (connection, _):
        reads = reads_of(connection, 6)
        await reads.all()

        assert reads.good == {number: b"%d" % number for number in (0, 1, 3, 4, 5)}
        assert reads.calls == [[0, 1], [2], [3, 4, 5]]
        assert reads.replies[2].status == Status.NO_ENTRY
        assert is_idle(connection)
        operations = connection.stats().operations["READ_ENTRY"]
        assert operations.outcomes == {"OK": 5, "NO_ENTRY": 1}
        assert (operations.received_bytes, sum(operations.latencies)) == (6, 6)


async def test_a_good_reply_in_another_encoding_is_a_reply():
    """Protobuf allows any order of fields; such a reply is read by protobuf, and counts."""

    async def reordering(peer: Peer) -> None:
        for _ in range(2):
            response = reply_to(await peer.request())
            parts = [pb.Response(**{name.name: value}) for name, value in response.ListFields()]
            backwards = b"".join(part.SerializePartialToString() for part in reversed(parts))
            peer.writer.write(framed(backwards))
        await peer.until_closed()

    async with connected(reordering) as (connection, _):
        adds = adds_of(connection, 2)
        await adds.all()

        assert [(reply.status, reply.entry_id) for reply in adds.replies.values()] == [(Status.OK, 0), (Status.OK, 1)]
        assert is_idle(connection)


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(12)), cuts=st.lists(st.integers(1, 400), max_size=8))
def test_replies_in_any_order_and_pieces(order, cuts):
    """Every request has its own outcome once, however the bookie orders the replies and the network cuts them."""

    async def replying(peer: Peer) -> None:
        asked = [await peer.request() for _ in order]
        statuses = [Status.IO_ERROR if number % 5 == 4 else Status.OK for number in range(len(asked))]
        replies = [reply_to(asked[number], statuses[number], b"%d" % number) for number in order]
        octets = b"".join(framed(reply.SerializeToString()) for reply in replies)
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(octets)], strict=True):
            peer.writer.write(octets[start:end])
            await peer.writer.drain()
            await asyncio.sleep(0)
        await peer.until_closed()

    async def scenario() -> None:
        async with connected(replying) as (connection, _):
            reads = reads_of(connection, len(order))
            await reads.all()
            refused = {number for number in order if number % 5 == 4}
            assert reads.good == {number: b"%d" % number for number in order if number not in refused}
            assert set(reads.replies) == refused
            assert is_idle(connection)

    asyncio.run(scenario())


async def test_what_is_withdrawn_before_it_is_written_is_not_sent():
    """The room of requests that nobody wants any more comes back, and the bookie does not see them."""
    async with connected(Peer.until_closed, in_flight_requests_max=100) as (connection, _):
        adds = adds_of(connection, 5)
        adds.is_unwanted = True
        late = adds_of(connection, 1)
        assert connection._opening is not None
        assert connection._channel is not None
        await connection._opening

        assert connection.in_flight.requests == 1
        assert [number for _, number in connection._channel._waiting.values()] == [0]
        assert adds.calls == late.calls == []


async def test_what_a_slow_bookie_does_not_read_is_not_written():
    """Large adds that the transport has no room for stay unwritten; all of them fail after their time."""
    payload, is_over = bytes(100_000), asyncio.Event()

    async def not_reading(peer: Peer) -> None:
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await is_over.wait()

    async with connected(not_reading, add_timeout_ms=300, in_flight_bytes_max=2**30) as (connection, _):
        outcomes = Outcomes(200)
        connection.send_all([add_of(entry_id, payload) for entry_id in range(200)], outcomes)
        assert connection._channel is not None
        (batch, _), *_ = connection._channel._waiting.values()
        await outcomes.all()

        assert 0 < batch.written < 200
        assert all(isinstance(error, RequestTimedOut) for error in outcomes.errors.values())
        assert is_idle(connection)
        is_over.set()


async def test_the_rest_of_a_batch_fails_with_its_connection():
    """Outcomes that came stay; every other request fails once."""

    async def dying(peer: Peer) -> None:
        await peer.answer()
        await peer.answer()

    async with connected(dying) as (connection, _):
        adds = adds_of(connection, 5)
        await adds.all()

        assert list(adds.good) == [0, 1]
        assert list(adds.errors) == [2, 3, 4]
        assert all(isinstance(error, BookieUnavailable) for error in adds.errors.values())
        assert is_idle(connection)


@pytest.mark.parametrize("missing", [[0], [1, 3], [4]])
async def test_the_rest_of_a_batch_times_out(missing: list[int]):
    """Requests without a reply fail after their time; those that were answered are done."""

    async def forgetful(peer: Peer) -> None:
        asked = [await peer.request() for _ in range(5)]
        await peer.send(*(reply_to(request) for number, request in enumerate(asked) if number not in missing))
        while True:
            await peer.answer(body=b"here")

    async with connected(forgetful, add_timeout_ms=300, read_timeout_ms=60_000) as (connection, _):
        adds = adds_of(connection, 5)
        while not adds.errors:
            await connection.call(ReadRequests(77).of(1))  # the bookie is alive
        await adds.all()

        assert sorted(adds.good) == [number for number in range(5) if number not in missing]
        assert sorted(adds.errors) == missing
        assert all("may still be done" in str(error) for error in adds.errors.values())
