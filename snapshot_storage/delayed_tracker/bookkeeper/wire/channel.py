"""One connection to a bookie, from the attempt to its end: requests out, replies in, each within its time.

Requests are written in the order of :meth:`Channel.send`, as many at once as there are in one round of the event loop.
They wait until the connection is open, and while the bookie does not read. A connection ends for good at the first
bytes that answer no request, and when a request times out and the bookie has not sent anything since it was written.

A bookie can make a connection hold the bytes in flight, what the transport writes (``WRITE_BUFFER_BYTES`` and one
frame), and what :class:`FrameReader` and protobuf hold of one reply: at most three times its frame.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from delayed_tracker.bookkeeper.errors import (
    AuthenticationDemanded,
    BookieReplyInvalid,
    BookieUnavailable,
    BookKeeperError,
    RequestTimedOut,
)
from delayed_tracker.bookkeeper.stats import BookieCounters
from delayed_tracker.bookkeeper.wire.frames import FrameInvalid, FrameReader
from delayed_tracker.bookkeeper.wire.in_flight import InFlight
from delayed_tracker.bookkeeper.wire.replies import Reply, Status, parse_reply
from delayed_tracker.bookkeeper.wire.requests import OPERATION_NAMES, Operation, Request, start_tls_request

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Bytes that the transport may hold before requests wait."""
_JOINED_BYTES_MAX: Final = 64 * 1024
"""Payloads and heads are copied into one write up to this size; larger payloads are written by themselves."""
_TIMER_STEP_S: Final = 0.05
"""Time-outs are looked for at most this often, so they are up to 50 ms late."""


class Answer(Protocol):
    """Takes the outcome of one request: a future, or a place among the answers to many requests."""

    def done(self) -> bool:
        """Return True if the outcome is not needed any more."""
        ...

    def cancelled(self) -> bool:
        """Return True if a request that is not written yet need not be."""
        ...

    def set_result(self, result: Reply, /) -> None:
        """Take the reply."""
        ...

    def set_exception(self, exception: BookKeeperError, /) -> None:
        """Take the error that stands in its place."""
        ...


@dataclass(slots=True)
class _Waiting:
    """A request without a reply."""

    request: Request
    reply: Answer
    sent_at: float
    deadline: float
    written_at: float | None = None


class Channel(asyncio.BufferedProtocol):
    """Connection of one socket. It is made before the socket, and takes requests from then on.

    Args:
        bookie: name of the bookie, for errors.
        frame_bytes_max: most bytes of a reply.
        in_flight: room that the sender of each request has taken; it is given back here.
        overdue_max: most requests that may be overdue at a time while others are answered.
        on_end: called once, with the error that ended the connection.
        counters: of the bookie.
    """

    def __init__(
        self,
        bookie: str,
        frame_bytes_max: int,
        in_flight: InFlight,
        overdue_max: int,
        on_end: Callable[[BookKeeperError], None],
        *,
        counters: BookieCounters,
    ) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the socket is closed, or will never be opened."""
        self.error: BookKeeperError | None = None
        """The error that ended the connection; None before."""
        self.has_answered = False
        """True after the first valid reply, that to START_TLS aside."""
        self._bookie = bookie
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(frame_bytes_max)
        self._in_flight = in_flight
        self._overdue_max = overdue_max
        self._on_end = on_end
        self._counters = counters
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._is_paused = False
        # True from the reply to START_TLS to the end of the handshake.
        self._is_clear_over = False
        self._next_txn = 0
        self._waiting: dict[int, _Waiting] = {}
        self._unsent: deque[int] = deque()
        self._overdue: set[int] = set()
        self._flushing: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = self._loop.time()

    def send(self, request: Request, timeout_s: float) -> asyncio.Future[Reply]:
        """Return the future reply to a request, for which the caller has taken room; never waits.

        The future fails with BookieUnavailable, or with RequestTimedOut after ``timeout_s`` seconds.
        """
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self.send_all((request,), (reply,), timeout_s)
        return reply

    def send_all(self, requests: Sequence[Request], answers: Sequence[Answer], timeout_s: float) -> None:
        """Send requests as :meth:`send` does; each has its answer."""
        assert self.error is None
        self._unsent.extend(self._begin(requests, answers, timeout_s))
        if self._flushing is None:
            self._flushing = self._loop.call_soon(self._flush)

    def send_start_tls(self, timeout_s: float) -> asyncio.Future[Reply]:
        """Write the request for TLS before all others; after a good reply only the handshake may follow."""
        assert self._transport is not None
        request = start_tls_request()
        self._in_flight.take_at_once(request.frame_bytes)
        reply: asyncio.Future[Reply] = self._loop.create_future()
        (txn,) = self._begin((request,), (reply,), timeout_s)
        self._waiting[txn].written_at = self._loop.time()
        self._transport.write(request.head(txn))
        return reply

    def hand_over(self) -> None:
        """Leave the transport to the TLS handshake, which closes it if it fails."""
        self._transport = None

    def opened(self, transport: asyncio.Transport) -> None:
        """Write the requests to this transport from now on."""
        if self.error is not None:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._transport = transport
        self._is_open = True
        self._is_clear_over = False
        self._heard_at = self._loop.time()
        self._flush()

    def end(self, error: BookKeeperError) -> None:
        """End the connection: all requests without a reply fail with this error. Does nothing if it has ended."""
        if self.error is not None:
            return
        self.error = error
        for handle in (self._flushing, self._timer):
            if handle is not None:
                handle.cancel()
        if self._transport is None:
            self.closed.set_result(None)
        else:
            self._transport.abort()
        waiting = list(self._waiting.values())
        self._waiting.clear()
        self._unsent.clear()
        self._overdue.clear()
        # First the owner, so that who is woken here and sends again is told of the back-off.
        self._on_end(error)
        for row in waiting:
            self._in_flight.give(row.request.frame_bytes)
            self._fail(row, error)

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of a socket that was just connected."""
        assert isinstance(transport, asyncio.Transport)
        if self.error is not None:
            transport.abort()
        else:
            self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection, which the bookie or the network closed unless :meth:`end` did."""
        what = "the bookie closed the connection" if exc is None else f"the connection was lost: {exc}"
        self.end(BookieUnavailable(self._bookie, f"{what}; what was sent may have been done"))
        if not self.closed.done():
            self.closed.set_result(None)

    def pause_writing(self) -> None:
        """Let requests wait: the bookie reads too slowly."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Write the requests that waited."""
        self._is_paused = False
        self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # the reader knows better
        """Return the memory for what is received next."""
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Complete the requests whose replies are whole now; end the connection at bytes that are no reply."""
        if self.error is not None:
            return
        self._heard_at = self._loop.time()
        try:
            self._take_in(nbytes)
        except FrameInvalid as error:
            self.end(
                BookieReplyInvalid(
                    self._bookie,
                    f"it sent {error}; the connection was ended; see that the address is a bookie's, and its log",
                )
            )

    # requests

    def _begin(self, requests: Sequence[Request], answers: Sequence[Answer], timeout_s: float) -> range:
        """Note requests that wait for replies from now on; return their transaction ids."""
        now, first = self._loop.time(), self._next_txn
        for request, answer in zip(requests, answers, strict=True):
            self._waiting[self._next_txn] = _Waiting(request, answer, now, now + timeout_s)
            self._next_txn += 1
        self._set_timer(now + timeout_s)
        return range(first, self._next_txn)

    def _flush(self) -> None:
        """Write requests until there are none left or the transport has enough."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        transport = self._transport
        if not self._is_open or transport is None:
            return
        now = self._loop.time()
        joined: list[bytes] = []
        joined_bytes = 0
        while self._unsent and not self._is_paused and not transport.is_closing():
            txn = self._unsent.popleft()
            row = self._waiting.get(txn)
            if row is None:
                continue
            if row.reply.cancelled():
                self._release(txn)
                continue
            row.written_at = now
            request = row.request
            head = request.head(txn)
            if joined and joined_bytes + len(head) + len(request.payload) > _JOINED_BYTES_MAX:
                transport.write(b"".join(joined))
                joined, joined_bytes = [], 0
            if len(request.payload) > _JOINED_BYTES_MAX:
                transport.write(head)
                transport.write(request.payload)
                continue
            joined += (head, request.payload)
            joined_bytes += len(head) + len(request.payload)
        if joined and not transport.is_closing():
            transport.write(b"".join(joined))

    def _take_in(self, nbytes: int) -> None:
        for message in self._reader.received(nbytes):
            self._complete(parse_reply(message))
        if self._reader.held_bytes and self._is_clear_over:
            raise FrameInvalid("bytes in the clear behind the reply to START_TLS")

    def _complete(self, reply: Reply) -> None:
        row = self._waiting.get(reply.txn_id)
        if row is None or row.written_at is None:
            if reply.txn_id not in self._overdue:
                raise FrameInvalid(f"a reply to {reply.operation.name} {reply.txn_id}, which was not asked for")
            self._overdue.discard(reply.txn_id)
            return
        request = row.request
        if (
            reply.operation is not request.operation
            or (reply.ledger_id is not None and reply.ledger_id != request.ledger_id)
            or (reply.entry_id is not None and request.entry_id is not None and reply.entry_id != request.entry_id)
        ):
            raise FrameInvalid(f"a reply to {reply.operation.name} of {reply.ledger_id}:{reply.entry_id} for {request}")
        self._release(reply.txn_id)
        received = len(reply.body or b"") + len(reply.lac_body or b"")
        latency_s = self._heard_at - row.sent_at
        self._counters.answered(
            OPERATION_NAMES[request.operation], reply.status_name, request.frame_bytes, received, latency_s
        )
        if reply.operation is Operation.START_TLS:
            self._is_clear_over = reply.status == Status.OK
        else:
            self.has_answered = True
        if reply.status == Status.UNAUTHORIZED and reply.ledger_id is None:
            problem = "it demands authentication (SASL), which this client does not speak; use mutual TLS instead"
            if not row.reply.done():
                row.reply.set_exception(AuthenticationDemanded(self._bookie, problem))
            return
        if not row.reply.done():
            row.reply.set_result(reply)

    def _fail(self, row: _Waiting, error: BookKeeperError) -> None:
        self._counters.failed(OPERATION_NAMES[row.request.operation], error.reason, row.request.frame_bytes)
        if not row.reply.done():
            row.reply.set_exception(error)

    def _release(self, txn: int) -> None:
        self._in_flight.give(self._waiting.pop(txn).request.frame_bytes)

    # time

    def _set_timer(self, when: float) -> None:
        if self._timer is None or self._timer.when() > when:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(when, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = [(txn, row) for txn, row in self._waiting.items() if row.deadline <= now]
        if any(self._is_unheard(row, now) for _, row in late):
            silent_ms = round(1_000 * (now - self._heard_at))
            problem = f"no reply in time, and nothing else for {silent_ms} ms; the connection was ended"
            self.end(RequestTimedOut(self._bookie, problem))
            return
        for txn, row in late:
            self._release(txn)
            if row.written_at is not None:
                self._overdue.add(txn)
            waited_ms = round(1_000 * (now - row.sent_at))
            done = "it may still be done" if row.written_at is not None else "it was not sent"
            self._fail(row, RequestTimedOut(self._bookie, f"no reply to {row.request} within {waited_ms} ms; {done}"))
        if len(self._overdue) > self._overdue_max:
            problem = f"it leaves more than {self._overdue_max} requests without a reply; the connection was ended"
            self.end(RequestTimedOut(self._bookie, problem))
        elif self._waiting:
            self._set_timer(max(now + _TIMER_STEP_S, min(row.deadline for row in self._waiting.values())))

    def _is_unheard(self, row: _Waiting, now: float) -> bool:
        """Return True if the bookie has sent nothing since it could read the request, for half of its time at least."""
        if row.written_at is None or row.written_at < self._heard_at:
            return False
        return now - row.written_at > (row.deadline - row.sent_at) / 2
