"""Reads requests when there is room for them.

Until then, gRPC's flow control keeps all but 64 KiB of each at the sender. gRPC does not give the size of a message
before it is in memory. So every method is served to gRPC as a stream, the service reads the messages one by one, and a
call takes a seat before it reads.

A call keeps its seat only for the time that a message needs to arrive, and then waits without a seat: otherwise a few
callers that send headers alone would stop all others. What arrives later is counted when it is in memory, so it exceeds
the room. Calls with one request exceed it at most by as much again: only as many wait without a seat as there are
seats, and one more is refused. A stream may send nothing for hours. After a small message, it waits until there is room,
but keeps no seat. So idle and steady streams take no room. A large message of a stream that was idle or sent small
messages is bounded by the number of streams.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

import grpc

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.admission.byte_budget import ByteBudget, Hold
from delayed_tracker.service.errors import Overloaded
from delayed_tracker.service.limits import ServiceLimits

T = TypeVar("T")
RequestT = TypeVar("RequestT")
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
SMALL_MESSAGE_BYTES: Final = 256 * 2**10
_SEAT_SECONDS_MAX: Final = 3.0
"""Time for the messages of all seats together to arrive over a network of 1 Gbit/s, also on a busy machine."""
_SEAT_SECONDS_MIN: Final = 0.02
_SHORTENED: Final = 0.9
"""Each call that leaves its seat in vain shortens the time of the next ones by this factor.

Otherwise, thousands of streams that were opened in advance would delay those that have something to send.
"""


async def _at_once() -> None:
    """Let every request be read."""


class SeatTime:
    """Time for which calls keep their seats while their messages have not arrived."""

    def __init__(self, seconds_max: float = _SEAT_SECONDS_MAX) -> None:
        self.seconds = self._seconds_max = seconds_max

    def left_in_vain(self) -> None:
        """Shorten the time: a call has left its seat without a message."""
        self.seconds = max(self.seconds * _SHORTENED, _SEAT_SECONDS_MIN)

    def message_came(self) -> None:
        """Reset the time: a message has arrived that needs it."""
        self.seconds = self._seconds_max


class ReadDeadlines:
    """Bounds the time for which calls keep their seats and wait for their requests, each at the latest after 1.5 times that.

    All reads share a single timer, because nearly every one ends within a millisecond. ``asyncio.timeout`` would create and
    cancel a timer for each, which costs more for a small call than all other work of receiving it.

    Args:
        read_max_ms: a read that takes longer is cancelled.
        seats: a read that takes longer than this goes on without its seat.
        seatless_max: reads without a seat at the same time; one more is cancelled.
    """

    def __init__(self, read_max_ms: int, seats: SeatTime, *, seatless_max: int) -> None:
        self._read_max_s = read_max_ms / 1_000
        self._seats = seats
        self._seatless_max = seatless_max
        self._reads: dict[asyncio.Task[object], tuple[float, Hold]] = {}
        """Reading tasks, with the times at which they began and their seats, in that order."""
        self._late: dict[asyncio.Task[object], str] = {}
        """Those that have left their seats, with the reason if they were cancelled for it."""
        self._is_armed = False

    async def within(self, reading: Awaitable[T], hold: Hold) -> T:
        """Await a read in the current task, which has no other read in flight.

        Raises:
            TimeoutError: it took too long and was cancelled; the text says why.
        """
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("only a task can be cancelled")
        loop = task.get_loop()
        self._reads[task] = loop.time(), hold
        if not self._is_armed:
            self._arm(loop)
        try:
            return await reading
        except asyncio.CancelledError as error:
            # If there is another cancellation as well, the task ends as cancelled.
            if not (reason := self._late.get(task)) or task.uncancel() > 0:
                raise
            raise TimeoutError(reason) from error
        finally:
            del self._reads[task]
            self._late.pop(task, None)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_armed = True
        loop.call_later(min(self._seats.seconds, self._read_max_s) / 2, self._end_waits, loop)

    def _end_waits(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_armed = False
        now_s = loop.time()
        for task, (begun_s, hold) in self._reads.items():
            waited_s = now_s - begun_s
            if waited_s >= self._read_max_s:
                self._cancel(task, f"the request did not arrive within {self._read_max_s * 1_000:.0f} ms")
            elif waited_s < self._seats.seconds:
                break
            elif task not in self._late:
                self._seats.left_in_vain()
                if sum(not reason for reason in self._late.values()) < self._seatless_max:
                    self._late[task] = ""
                    hold.release()
                else:
                    others = f"and {self._seatless_max} requests that are late already are the limit"
                    self._cancel(task, f"the request did not arrive within {waited_s * 1_000:.0f} ms, {others}")
        if self._reads:
            self._arm(loop)

    def _cancel(self, task: asyncio.Task[object], reason: str) -> None:
        if not self._late.get(task):
            self._late[task] = reason
            task.cancel()


class RequestAdmission:
    """Reads the requests of all calls of one service."""

    def __init__(self, limits: ServiceLimits, *, seat_seconds_max: float = _SEAT_SECONDS_MAX) -> None:
        bytes_max = limits.request_bytes_in_flight_max
        self.budget = ByteBudget.of_calls("requests", limits, bytes_max=bytes_max)
        self.stream_seats = SeatTime(seat_seconds_max)
        """Time for which a stream that may send a large message keeps its seat."""
        self.seats = SeatTime(seat_seconds_max)
        """Time for which a call with one request keeps its seat."""
        self._deadlines = ReadDeadlines(
            limits.receive_max_ms, self.seats, seatless_max=bytes_max // limits.message_bytes_max
        )
        self.stream_count = 0
        self._limits = limits

    async def request(self, hold: Hold, context: Context) -> bytes:
        """Read the one request of a call that has taken a seat, and reduce the seat to its size.

        Raises:
            Overloaded: it did not arrive in time.
            InvalidInput: the call ended without a request.
        """
        try:
            encoded = await self._deadlines.within(context.read(), hold)
        except TimeoutError as error:
            raise Overloaded(str(error), retry_after_ms=self._limits.retry_after_ms) from error
        if not isinstance(encoded, bytes):
            raise InvalidInput("request", None, "send one message")
        if len(encoded) > SMALL_MESSAGE_BYTES or not hold.byte_count:
            self.seats.message_came()
        hold.settle(len(encoded))
        return encoded

    def stream(
        self,
        method: str,
        context: Context,
        parse: Callable[[bytes], RequestT],
        may_begin: Callable[[], Awaitable[None]] = _at_once,
    ) -> "RequestStream[RequestT]":
        """Return the requests of a stream, to be used as a context manager and iterated inside.

        Args:
            method: its name.
            context: of the call.
            parse: parses each request.
            may_begin: returns when the next request may be read.
        """
        return RequestStream(self, method, context, parse, may_begin)

    async def large_message(self, hold: Hold, context: Context) -> object:
        """Read a message of a stream that has taken a seat. Release the seat if the message does not arrive soon."""

        def leave() -> None:
            hold.release()
            self.stream_seats.left_in_vain()

        leaving = asyncio.get_running_loop().call_later(self.stream_seats.seconds, leave)
        try:
            return await context.read()
        finally:
            leaving.cancel()

    def enter_stream(self) -> None:
        """Count one more stream.

        Raises:
            Overloaded: the limit of open streams is reached.
        """
        if self.stream_count >= self._limits.streams_max:
            raise Overloaded(
                f"{self.stream_count} streams are open, which is the limit", retry_after_ms=self._limits.retry_after_ms
            )
        self.stream_count += 1

    def leave_stream(self) -> None:
        """Count one stream less."""
        self.stream_count -= 1


class RequestStream(Generic[RequestT]):
    """Requests of one stream. Each is held from its arrival until the next one is read or the block ends."""

    def __init__(
        self,
        receiving: RequestAdmission,
        method: str,
        context: Context,
        parse: Callable[[bytes], RequestT],
        may_begin: Callable[[], Awaitable[None]],
    ) -> None:
        self._receiving = receiving
        self._method = method
        self._context = context
        self._parse = parse
        self._may_begin = may_begin
        self._hold = Hold(receiving.budget, method)
        self._last_bytes = SMALL_MESSAGE_BYTES + 1  # the first message may be large

    def __enter__(self) -> Self:
        self._receiving.enter_stream()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hold.release()
        self._receiving.leave_stream()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RequestT:
        receiving = self._receiving
        self._hold.release()
        await self._may_begin()
        self._hold = hold = await receiving.budget.seat_in_time(self._method)
        if self._last_bytes > SMALL_MESSAGE_BYTES:
            encoded = await receiving.large_message(hold, self._context)
        else:
            hold.release()
            encoded = await self._context.read()
        if not isinstance(encoded, bytes):
            hold.release()
            raise StopAsyncIteration
        self._last_bytes = len(encoded)
        if self._last_bytes > SMALL_MESSAGE_BYTES:
            receiving.stream_seats.message_came()
        hold.settle(self._last_bytes)
        return self._parse(encoded)
