"""Work on single trackers: a few at a time, and any number of those whose storage hangs, which delay no other for long."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, Final

from delayed_tracker.service.clock import Clock, Timer
from delayed_tracker.service.errors import TrackerKey

LONG_MS: Final = 1_000
"""Work that takes longer takes up no room any more: most likely its storage hangs."""


class TrackerWork:
    """The same work on one tracker after the other, at most one task for each.

    What waits is no task, unlike with ``storage/turns``: all trackers of a service may wait at once.

    Args:
        what: names the work in the report of an error that it does not handle.
        perform: works on one tracker.
        at_once: tasks at a time, without those that take longer than ``LONG_MS``.
        clock: for the time that they take.
    """

    def __init__(
        self, what: str, perform: Callable[[TrackerKey], Coroutine[Any, Any, None]], *, at_once: int, clock: Clock
    ) -> None:
        self._what = what
        self._perform = perform
        self._at_once = at_once
        self._clock = clock
        self._wanted: dict[TrackerKey, None] = {}
        self._under_way: dict[TrackerKey, asyncio.Task[None]] = {}
        self._young: dict[TrackerKey, Timer] = {}
        """Tasks that take up room, and what ends that."""
        self._again: set[TrackerKey] = set()
        self._closing = False

    def ask(self, key: TrackerKey) -> None:
        """Work on a tracker soon; once more after the work on it that is under way."""
        if key in self._under_way:
            self._again.add(key)
        else:
            self._wanted[key] = None
            self._begin()

    def withdraw(self, key: TrackerKey) -> None:
        """Forget what was asked for and is not under way."""
        self._wanted.pop(key, None)
        self._again.discard(key)

    def is_under_way(self, key: TrackerKey) -> bool:
        """Return True while a task works on a tracker."""
        return key in self._under_way

    def _begin(self) -> None:
        while self._wanted and len(self._young) < self._at_once and not self._closing:
            key = next(iter(self._wanted))
            del self._wanted[key]
            # An empty context: the work does not belong to the call that was the occasion.
            task = asyncio.get_running_loop().create_task(self._perform(key), context=Context())
            self._under_way[key] = task
            self._young[key] = self._clock.call_later(LONG_MS, partial(self._makes_room, key))
            task.add_done_callback(partial(self._ended, key))

    def _makes_room(self, key: TrackerKey) -> None:
        del self._young[key]
        self._begin()

    def _ended(self, key: TrackerKey, task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        if (timer := self._young.pop(key, None)) is not None:
            timer.cancel()
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": f"{self._what} failed", "exception": error})
        if key in self._again:
            self._again.remove(key)
            self._wanted[key] = None
        self._begin()

    async def close(self) -> None:
        """Begin nothing more, and return when nothing is under way. If this is cancelled, so is that."""
        self._closing = True
        try:
            if self._under_way:
                await asyncio.wait(self._under_way.values())
        finally:
            for task in self._under_way.values():
                task.cancel()
