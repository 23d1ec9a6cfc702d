"""Coalesces the calls made in one iteration of the event loop.

A call starts one iteration after its first caller, so it takes all callers of that iteration. A limited number of calls
is in flight; later callers wait until one of them ends. If the program cancels the task of a call, its callers and
those that wait are told so; later callers begin anew.
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

    def take_all(self) -> list[WaitingT]:
        """Remove and return all callers."""
        ...


class CallCoalescer(Generic[WaitingT]):
    """Coalescer of the calls of one kind that one session makes."""

    def __init__(
        self,
        queue: Waiting[WaitingT],
        call: Callable[[list[WaitingT]], Coroutine[None, None, None]],
        *,
        interrupt: Callable[[list[WaitingT]], None],
        calls_max: int,
        name: str,
    ) -> None:
        """Create a coalescer without calls.

        Args:
            queue: callers that wait.
            call: makes one call for at least one caller, and gives each its result or its error of the call.
            interrupt: gives callers the error that the session ended, unless they have a result or stopped waiting.
            calls_max: calls in flight at most.
            name: name of the tasks.
        """
        self._queue = queue
        self._call = call
        self._interrupt = interrupt
        self._calls_max = calls_max
        self._name = name
        self._in_flight: set[asyncio.Task[None]] = set()
        self._is_leaving = False
        self._leaving: asyncio.Task[None] | None = None
        """Task of the last scheduled call."""

    def begin(self) -> None:
        """Schedule a call if a caller waits, fewer than ``calls_max`` are in flight, and none is scheduled yet."""
        if self._queue and not self._is_leaving and len(self._in_flight) < self._calls_max:
            self._is_leaving = True
            turn = asyncio.get_running_loop().create_task(self._leave(), name=self._name)
            self._leaving = turn
            self._in_flight.add(turn)
            turn.add_done_callback(self._ended)

    def _ended(self, turn: "asyncio.Task[None]") -> None:
        self._in_flight.discard(turn)
        if self._is_leaving and turn is self._leaving:
            # Cancelled before its first step: nothing in `_leave` has run.
            self._is_leaving = False
            self._interrupt(self._queue.take_all())
        self.begin()

    async def _leave(self) -> None:
        self._is_leaving = False
        if waiting := self._queue.take():
            self.begin()
            try:
                await self._call(waiting)
            except BaseException:
                self._interrupt(waiting + self._queue.take_all())
                raise
