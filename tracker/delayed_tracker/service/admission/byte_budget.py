"""A bound on the bytes in flight of all calls, with a bounded queue of calls that wait for room.

The size of a message is unknown until it is in memory. So a call first takes a seat, which is room for the largest
message, and then reduces it to the real size. A method never has more than three quarters of the room, and waiting
methods take turns, so that an acknowledgement does not wait behind a hundred large adds.
"""

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from delayed_tracker.service.errors import Overloaded
from delayed_tracker.service.limits import ServiceLimits


class Hold:
    """Bytes that one call holds, until the end of the block or :meth:`release`."""

    __slots__ = ("_budget", "_method", "byte_count")

    def __init__(self, budget: "ByteBudget", method: str) -> None:
        self._budget = budget
        self._method = method
        self.byte_count = 0

    def settle(self, byte_count: int) -> None:
        """Change the held bytes to ``byte_count``, which may exceed the room left."""
        change = byte_count - self.byte_count
        self.byte_count = byte_count
        if change:
            self._budget.change(self._method, change)

    def release(self) -> None:
        """Hold no bytes. May be called again."""
        self.settle(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class ByteBudget:
    """Bytes that all calls hold together.

    Args:
        what: noun for messages, such as "requests".
        bytes_max: bytes held at the same time.
        seat_bytes: size of the largest message; at most ``bytes_max``.
        waiting_max: calls that wait for a seat; one more is refused.
        wait_max_ms: a call that has waited this long is refused.
        retry_after_ms: delay before a retry, sent with a refusal.
    """

    def __init__(
        self, what: str, *, bytes_max: int, seat_bytes: int, waiting_max: int, wait_max_ms: int, retry_after_ms: int
    ) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.waiting_count = 0
        self.refused_count = 0
        self._what = what
        self._seat_bytes = seat_bytes
        self._method_bytes_max = max(bytes_max * 3 // 4, seat_bytes)
        self._waiting_max = waiting_max
        self._wait_max_ms = wait_max_ms
        self._retry_after_ms = retry_after_ms
        self._held_by_method: dict[str, int] = {}
        self._queues: dict[str, deque[asyncio.Future[Hold]]] = {}
        """Non-empty queues of waiting calls, by method. The method at the front has the next turn."""

    @classmethod
    def of_calls(cls, what: str, limits: ServiceLimits, *, bytes_max: int) -> Self:
        """Return a budget for messages up to the largest that the service accepts, with its limits of waiting calls."""
        return cls(
            what,
            bytes_max=bytes_max,
            seat_bytes=limits.message_bytes_max,
            waiting_max=limits.unread_calls_max,
            wait_max_ms=limits.receive_max_ms,
            retry_after_ms=limits.retry_after_ms,
        )

    async def seat(self, method: str) -> Hold:
        """Take room for one message. Wait for it within the limits of number and time.

        Raises:
            Overloaded: too many calls wait, or this one has waited too long.
        """
        if method not in self._queues and self._has_room(method):
            return self._seated(method)
        if self.waiting_count >= self._waiting_max:
            raise self._refusal(f"{self.waiting_count} calls wait for room for their {self._what}, which is the limit")
        self.waiting_count += 1
        try:
            async with asyncio.timeout(self._wait_max_ms / 1_000):
                return await self._turn(method)
        except TimeoutError as error:
            raise self._refusal(
                f"{self.held_bytes} bytes of {self._what} are in flight, and there was no room for {self._wait_max_ms} ms"
            ) from error
        finally:
            self.waiting_count -= 1

    async def seat_in_time(self, method: str) -> Hold:
        """Take room for one message. Wait for it without limits: for callers whose number is bounded."""
        if method not in self._queues and self._has_room(method):
            return self._seated(method)
        return await self._turn(method)

    def require_room(self) -> None:
        """Raise Overloaded if there is no room left."""
        if self.held_bytes >= self.bytes_max:
            raise self._refusal(f"{self.held_bytes} bytes of {self._what} are in flight, which is the limit")

    def hold(self, method: str, byte_count: int) -> Hold:
        """Hold bytes that are in memory already, even if they exceed the room left."""
        hold = Hold(self, method)
        hold.settle(byte_count)
        return hold

    def change(self, method: str, byte_count: int) -> None:
        """Add ``byte_count``, which may be negative, to the bytes of a method.

        Freed room goes to the calls that wait.
        """
        self.held_bytes += byte_count
        of_method = self._held_by_method.get(method, 0) + byte_count
        if of_method:
            self._held_by_method[method] = of_method
        else:
            del self._held_by_method[method]
        if byte_count < 0 and self._queues:
            self._seat_waiting()

    async def _turn(self, method: str) -> Hold:
        turn: asyncio.Future[Hold] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(method, deque()).append(turn)
        self._seat_waiting()  # earlier calls may be of a method that has its share already
        taken = False
        try:
            hold = await turn
            taken = True
            return hold
        finally:
            if not taken:
                self._withdraw(method, turn)

    def _withdraw(self, method: str, turn: asyncio.Future[Hold]) -> None:
        """Leave the queue. A seat that was assigned meanwhile goes to the next call."""
        if turn.done() and not turn.cancelled():
            turn.result().release()
        elif turn in (queue := self._queues.get(method, deque())):
            queue.remove(turn)
            if not queue:
                del self._queues[method]

    def _seat_waiting(self) -> None:
        """Assign seats to waiting calls, one method after the other."""
        while method := next((each for each in self._queues if self._has_room(each)), None):
            queue = self._queues.pop(method)
            turn = queue.popleft()
            if queue:
                self._queues[method] = queue
            if not turn.done():  # else it was cancelled, and its call withdraws
                turn.set_result(self._seated(method))

    def _has_room(self, method: str) -> bool:
        seat_bytes = self._seat_bytes
        return (
            self.held_bytes + seat_bytes <= self.bytes_max
            and self._held_by_method.get(method, 0) + seat_bytes <= self._method_bytes_max
        )

    def _seated(self, method: str) -> Hold:
        return self.hold(method, self._seat_bytes)

    def _refusal(self, reason: str) -> Overloaded:
        self.refused_count += 1
        return Overloaded(reason, retry_after_ms=self._retry_after_ms)
