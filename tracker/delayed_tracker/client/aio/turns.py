"""Calls that several share: each leaves a turn of the event loop after the first of its callers came.

So it takes all that come in that turn. Only so many calls are under way at once; those that come meanwhile wait until
one of them ends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, Protocol, TypeVar

WaitingT = TypeVar("WaitingT")


class Waiting(Protocol[WaitingT]):
    """What waits to leave."""

    def __len__(self) -> int: ...

    def take(self) -> list[WaitingT]:
        """What shares the next call; may be empty even if something waited."""
        ...


class Turns(Generic[WaitingT]):
    """The calls of one kind that one session makes."""

    def __init__(
        self,
        queue: Waiting[WaitingT],
        call: Callable[[list[WaitingT]], Coroutine[None, None, None]],
        *,
        calls_max: int,
        name: str,
    ) -> None:
        """``call`` makes one call, for at least one that waits, and tells them what became of it."""
        self._queue = queue
        self._call = call
        self._calls_max = calls_max
        self._name = name
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_leaving = False

    def begin(self) -> None:
        """Begin a call if something waits, there is room for it, and none is about to leave."""
        if self._queue and not self._is_leaving and len(self._under_way) < self._calls_max:
            self._is_leaving = True
            turn = asyncio.get_running_loop().create_task(self._leave(), name=self._name)
            self._under_way.add(turn)
            turn.add_done_callback(self._ended)

    def _ended(self, turn: "asyncio.Task[None]") -> None:
        self._under_way.discard(turn)
        self.begin()

    async def _leave(self) -> None:
        self._is_leaving = False
        if waiting := self._queue.take():
            self.begin()
            await self._call(waiting)
