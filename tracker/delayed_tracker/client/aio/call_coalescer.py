"""Coalesces the calls made in one iteration of the event loop.

A call starts one iteration after its first caller, so it takes all callers of that iteration. A limited number of calls
is in flight; later callers wait until one of them ends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, Protocol, TypeVar

WaitingT = TypeVar("WaitingT")


class Waiting(Protocol[WaitingT]):
    """Queue of callers that wait for a call."""

    def __len__(self) -> int: ...

    def take(self) -> list[WaitingT]:
        """Remove and return the callers of the next call; may be empty although callers waited."""
        ...


class CallCoalescer(Generic[WaitingT]):
    """Coalescer of the calls of one kind that one session makes."""

    def __init__(
        self,
        queue: Waiting[WaitingT],
        call: Callable[[list[WaitingT]], Coroutine[None, None, None]],
        *,
        calls_max: int,
        name: str,
    ) -> None:
        """Create a coalescer without calls.

        Args:
            queue: callers that wait.
            call: makes one call for at least one caller, and gives each its result.
            calls_max: calls in flight at most.
            name: name of the tasks.
        """
        self._queue = queue
        self._call = call
        self._calls_max = calls_max
        self._name = name
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_leaving = False

    def begin(self) -> None:
        """Schedule a call if a caller waits, fewer than ``calls_max`` are in flight, and none is scheduled yet."""
        if self._queue and not self._is_leaving and len(self._in_flight) < self._calls_max:
            self._is_leaving = True
            turn = asyncio.get_running_loop().create_task(self._leave(), name=self._name)
            self._in_flight.add(turn)
            turn.add_done_callback(self._ended)

    def _ended(self, turn: "asyncio.Task[None]") -> None:
        self._in_flight.discard(turn)
        self.begin()

    async def _leave(self) -> None:
        self._is_leaving = False
        if waiting := self._queue.take():
            self.begin()
            await self._call(waiting)
