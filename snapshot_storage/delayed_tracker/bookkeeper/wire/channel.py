"""One connection to a bookie, from the attempt to its end: requests out, replies in, each within its time.

Requests are written in the order of :meth:`Channel.send`, as many at once as there are in one round of the event loop.
They wait until the connection is open, and while the bookie does not read. A connection ends for good at the first
bytes that answer no request, and when a request times out and the bookie has not sent anything since it was written.

A bookie can make a connection hold the bytes in flight, what the transport writes (``WRITE_BUFFER_BYTES`` and one
frame), and what :class:`FrameReader` and protobuf hold of one reply: at most three times its frame.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Final

from delayed_tracker.bookkeeper.errors import (
    AuthenticationDemanded,
    BookieReplyInvalid,
    BookieUnavailable,
    BookKeeperError,
    RequestTimedOut,
)
from delayed_tracker.bookkeeper.stats import BookieCounters
from delayed_tracker.bookkeeper.wire.batch import Answers, Batch, FutureReply
from delayed_tracker.bookkeeper.wire.frames import FrameInvalid, FrameReader
from delayed_tracker.bookkeeper.wire.in_flight import InFlight
from delayed_tracker.bookkeeper.wire.replies import REPLIES_OF_VERSION_3, Reply, ReplyFormat, Status
from delayed_tracker.bookkeeper.wire.requests import (
    OPERATION_NAMES,
    Operation,
    Request,
    start_tls_request,
)

WRITE_BUFFER_BYTES: Final = 256 * 1024
"""Bytes that the transport may hold before requests wait."""
_JOINED_BYTES_MAX: Final = 64 * 1024
"""Payloads and heads are copied into one write up to this size; larger payloads are written by themselves."""
_UNKNOWN: Final = (None, 0)
_TIMER_STEP_S: Final = 0.05
"""Time-outs are looked for at most this often, so they are up to 50 ms late."""


class Channel(asyncio.BufferedProtocol):
    """Connection of one socket. It is made before the socket, and takes requests from then on.

    Args:
        bookie: name of the bookie, for errors.
        reply_bytes_max: most bytes of a reply.
        in_flight: room that the sender of each request has taken; it is given back here.
        overdue_max: most requests that may be overdue at a time while others are answered.
        on_end: called once, with the error that ended the connection.
        counters: of the bookie.
        replies: format of what the bookie answers; all requests are of its version.
    """

    def __init__(
        self,
        bookie: str,
        reply_bytes_max: int,
        in_flight: InFlight,
        overdue_max: int,
        on_end: Callable[[BookKeeperError], None],
        *,
        counters: BookieCounters,
        replies: ReplyFormat = REPLIES_OF_VERSION_3,
    ) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the socket is closed, or will never be opened."""
        self.error: BookKeeperError | None = None
        """The error that ended the connection; None before."""
        self.has_answered = False
        """True after the first valid reply, that to START_TLS aside."""
        self._bookie = bookie
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(reply_bytes_max)
        self._in_flight = in_flight
        self._overdue_max = overdue_max
        self._on_end = on_end
        self._counters = counters
        self._replies = replies
        self.was_open = False
        """True once requests could be written."""
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        # True from the reply to START_TLS to the end of the handshake.
        self._is_clear_over = False
        self._next_txn = 0
        # By the header of the reply: the batch of the request, and its number there.
        self._waiting: dict[bytes, tuple[Batch, int]] = {}
        self._unsent: deque[Batch] = deque()
        self._overdue: set[bytes] = set()
        self._flushing: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = self._loop.time()

    def send(self, request: Request, timeout_s: float) -> asyncio.Future[Reply]:
        """Return the future reply to a request, for which the caller has taken room; never waits.

        The future fails with BookieUnavailable, or with RequestTimedOut after ``timeout_s`` seconds.
        """
        reply = FutureReply(request, self._next_txn)
        self.send_all((request,), reply, timeout_s)
        return reply.future

    def send_all(self, requests: Sequence[Request], answers: Answers, timeout_s: float) -> None:
        """Send requests of one kind as :meth:`send` does."""
        assert self.error is None
        self._unsent.append(self._begin(requests, answers, timeout_s))
        if self._flushing is None:
            self._flushing = self._loop.call_soon(self._flush)

    def send_start_tls(self, timeout_s: float) -> asyncio.Future[Reply]:
        """Write the request for TLS before all others; after a good reply only the handshake may follow."""
        assert self._transport is not None
        request = start_tls_request()
        self._in_flight.take_at_once(request.frame_bytes)
        reply = FutureReply(request, self._next_txn)
        batch = self._begin((request,), reply, timeout_s)
        batch.written, batch.written_at = 1, self._loop.time()
        self._transport.write(b"".join(request.head(batch.headers[0])))
        return reply.future

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
        self.was_open = True
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
        for batch, number in waiting:
            self._in_flight.give(batch.requests[number].frame_bytes)
            self._fail(batch, number, error)

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

    def _begin(self, requests: Sequence[Request], answers: Answers, timeout_s: float) -> Batch:
        """Note requests that wait for replies from now on."""
        now = self._loop.time()
        ids = range(self._next_txn, self._next_txn + len(requests))
        headers = self._replies.headers(requests[0].operation, ids)
        batch = Batch(requests, answers, headers, now=now, timeout_s=timeout_s)
        self._next_txn = ids.stop
        self._waiting.update(zip(batch.headers, zip(repeat(batch), range(len(requests))), strict=False))
        self._set_timer(now + timeout_s)
        return batch

    def _flush(self) -> None:
        """Write requests until there are none left or the transport has enough."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        transport = self._transport
        if not self.was_open or transport is None:
            return
        joined: list[bytes] = []
        joined_bytes = 0
        for request, header in self._unwritten():
            joined += request.head(header)
            joined_bytes += request.frame_bytes
            is_large = len(request.payload) > _JOINED_BYTES_MAX
            if not is_large:
                joined.append(request.payload)
            if joined_bytes >= _JOINED_BYTES_MAX:
                transport.write(b"".join(joined))
                joined, joined_bytes = [], 0
            if is_large:
                transport.write(request.payload)
        if joined:
            transport.write(b"".join(joined))

    def _unwritten(self) -> Iterator[tuple[Request, bytes]]:
        """Yield requests and headers that count as written from then on, until the transport has enough."""
        now = self._loop.time()
        while self._unsent and self._may_write():
            batch = self._unsent[0]
            if batch.is_written or not self._is_needed(batch):
                self._unsent.popleft()
                continue
            if batch.written_at is None:
                batch.written_at = now
            requests, headers = batch.requests, batch.headers
            for number in range(batch.written, len(requests)):
                batch.written = number + 1
                yield requests[number], headers[number]
                if not self._may_write():
                    break

    def _may_write(self) -> bool:
        return not self._is_paused and self._transport is not None and not self._transport.is_closing()

    def _is_needed(self, batch: Batch) -> bool:
        """Return False if the requests that are not written yet have timed out, or are withdrawn now."""
        if batch.headers[batch.written] not in self._waiting:
            return False
        if not batch.answers.is_withdrawn():
            return True
        for header in batch.headers[batch.written :]:
            self._release(header)
        return False

    def _take_in(self, nbytes: int) -> None:
        """Complete requests; good replies to requests of one batch that follow each other are given on together."""
        run: Batch | None = None
        numbers: list[int] = []
        bodies: list[bytes] = []
        header_bounds, good_body = self._replies.header_bounds, self._replies.good_body
        for octets, start, end in self._reader.received(nbytes):
            header_at, behind = header_bounds(octets, start, end)
            header = bytes(octets[header_at:behind])
            batch, number = self._waiting.get(header, _UNKNOWN)
            if batch is not None and number < batch.written:
                body = good_body(octets, behind, end, batch.requests[number])
                if body is not None:
                    if run is not None and run is not batch:
                        self._succeed(run, numbers, bodies)
                        numbers, bodies = [], []
                    run = batch
                    numbers.append(number)
                    bodies.append(body)
                    del self._waiting[header]
                    continue
            if run is not None:
                self._succeed(run, numbers, bodies)
                run, numbers, bodies = None, [], []
            self._complete(self._replies.parse(octets[start:end]))
        if run is not None:
            self._succeed(run, numbers, bodies)
        if self._reader.held_bytes and self._is_clear_over:
            raise FrameInvalid("bytes in the clear behind the reply to START_TLS")

    def _succeed(self, batch: Batch, numbers: Sequence[int], bodies: Sequence[bytes]) -> None:
        """Give on good replies whose requests do not wait any more."""
        self.has_answered = True
        requests = batch.requests
        sent_bytes = sum([requests[number].frame_bytes for number in numbers])
        self._in_flight.give(sent_bytes, len(numbers))
        latency_s = self._heard_at - batch.sent_at
        operation = OPERATION_NAMES[requests[0].operation]
        self._counters.answered(
            operation, Status.OK.name, sent_bytes, sum(map(len, bodies)), latency_s, count=len(numbers)
        )
        batch.answers.succeeded(numbers, bodies)

    def _complete(self, reply: Reply) -> None:
        (header,) = self._replies.headers(reply.operation, (reply.txn_id,))
        batch, number = self._waiting.get(header, _UNKNOWN)
        if batch is None or number >= batch.written:
            if header not in self._overdue:
                raise FrameInvalid(f"a reply to {reply.operation.name} {reply.txn_id}, which was not asked for")
            self._overdue.discard(header)
            return
        request = batch.requests[number]
        if (reply.ledger_id is not None and reply.ledger_id != request.ledger_id) or (
            reply.entry_id is not None and request.entry_id is not None and reply.entry_id != request.entry_id
        ):
            raise FrameInvalid(f"a reply to {reply.operation.name} of {reply.ledger_id}:{reply.entry_id} for {request}")
        self._release(header)
        received = len(reply.body or b"") + len(reply.lac_body or b"")
        latency_s = self._heard_at - batch.sent_at
        self._counters.answered(
            OPERATION_NAMES[request.operation], reply.status_name, request.frame_bytes, received, latency_s
        )
        if reply.operation is Operation.START_TLS:
            self._is_clear_over = reply.status == Status.OK
        else:
            self.has_answered = True
        if reply.status == Status.UNAUTHORIZED and reply.ledger_id is None:
            problem = "it demands authentication (SASL), which this client does not speak; use mutual TLS instead"
            batch.answers.failed(number, AuthenticationDemanded(self._bookie, problem))
            return
        batch.answers.replied(number, reply)

    def _fail(self, batch: Batch, number: int, error: BookKeeperError) -> None:
        request = batch.requests[number]
        self._counters.failed(OPERATION_NAMES[request.operation], error.reason, request.frame_bytes)
        batch.answers.failed(number, error)

    def _release(self, header: bytes) -> None:
        batch, number = self._waiting.pop(header)
        self._in_flight.give(batch.requests[number].frame_bytes)

    # time

    def _set_timer(self, when: float) -> None:
        if self._timer is None or self._timer.when() > when:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(when, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = [(header, *row) for header, row in self._waiting.items() if row[0].deadline <= now]
        if any(number < batch.written and self._is_unheard(batch, now) for _, batch, number in late):
            silent_ms = round(1_000 * (now - self._heard_at))
            problem = f"no reply in time, and nothing else for {silent_ms} ms; the connection was ended"
            self.end(RequestTimedOut(self._bookie, problem))
            return
        for header, batch, number in late:
            self._release(header)
            is_written = number < batch.written
            if is_written:
                self._overdue.add(header)
            waited_ms = round(1_000 * (now - batch.sent_at))
            what = f"no reply to {batch.requests[number]} within {waited_ms} ms"
            done = "it may still be done" if is_written else "it was not sent"
            self._fail(batch, number, RequestTimedOut(self._bookie, f"{what}; {done}"))
        if len(self._overdue) > self._overdue_max:
            problem = f"it leaves more than {self._overdue_max} requests without a reply; the connection was ended"
            self.end(RequestTimedOut(self._bookie, problem))
        elif self._waiting:
            deadline = min(batch.deadline for batch, _ in self._waiting.values())
            self._set_timer(max(now + _TIMER_STEP_S, deadline))

    def _is_unheard(self, batch: Batch, now: float) -> bool:
        """Return True if the bookie has sent nothing since it could read a batch, for half of its time at least."""
        if batch.written_at is None or batch.written_at < self._heard_at:
            return False
        return now - batch.written_at > (batch.deadline - batch.sent_at) / 2
