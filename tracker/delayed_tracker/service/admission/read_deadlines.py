"""One time limit for all reads, with a single timer, because nearly every read ends within a millisecond.

``asyncio.timeout`` would create and cancel a timer for each read. For a small call, that costs more than all other work
of receiving it.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class ReadDeadlines:
    """Cancels reads that take longer than ``read_max_ms``, at the latest after 1.5 times that."""

    def __init__(self, read_max_ms: int) -> None:
        self._read_max_s = read_max_ms / 1_000
        self._begun_s: dict[asyncio.Task[object], float] = {}
        """Reading tasks and the times at which they began, in that order."""
        self._overdue: set[asyncio.Task[object]] = set()
        self._is_armed = False

    async def within(self, reading: Awaitable[T]) -> T:
        """Await a read in the current task, which has no other read in flight.

        Raises:
            TimeoutError: it took too long and was cancelled.
        """
        task = asyncio.current_task()
        if task is None:
            raise AssertionError("only a task can be cancelled")
        loop = task.get_loop()
        self._begun_s[task] = loop.time()
        if not self._is_armed:
            self._arm(loop)
        try:
            return await reading
        except asyncio.CancelledError as error:
            # If there is another cancellation as well, the task ends as cancelled.
            if task not in self._overdue or task.uncancel() > 0:
                raise
            raise TimeoutError from error
        finally:
            del self._begun_s[task]
            self._overdue.discard(task)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_armed = True
        loop.call_later(self._read_max_s / 2, self._cancel_overdue, loop)

    def _cancel_overdue(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_armed = False
        latest_s = loop.time() - self._read_max_s
        for task, begun_s in self._begun_s.items():
            if begun_s > latest_s:
                break
            if task not in self._overdue:
                self._overdue.add(task)
                task.cancel()
        if self._begun_s:
            self._arm(loop)
