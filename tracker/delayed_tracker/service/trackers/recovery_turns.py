"""Turns of recoveries: a few trackers at a time are recovered or brought back into memory, the most urgent first.

A tracker that a call asks something of comes first, then one whose open waits for it, then one that nobody waits for any
more; among equals the one that falls due first, if that is known, then the one that came first.

With all of them at once each step of each waits behind the same step of all others, and they end together: of 1,000
trackers opened at once the first was answered after 3 to 6 s, with 4 at a time after 1 to 2 s, on two busy cores. All
took as long. A storage that answers late, or hangs for some trackers, is no reason to wait: while none ends, more begin.
"""

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeAlias

from delayed_tracker.service.clock import Clock, Timer
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.limits import ServiceLimits

AT_ONCE: Final = 4
"""Recoveries under way at a time, as long as they end. 8 and 16 took the first answer twice as long; 2 gained nothing."""
LOOK_MS: Final = 50
"""If no recovery has ended for so long, half as many more may be under way."""

_ASKED, _AWAITED, _LEFT = range(3)
_Entry: TypeAlias = tuple[int, float, int, TrackerKey]
"""Rank, deadline, number and key: the least comes first."""


class RecoveryTurns:
    """The recoveries that wait for their turn, in order, and the number of those under way.

    Args:
        limits: has the most that are ever under way, ``storage_operations_max``.
        clock: for the time in which none ends.
    """

    def __init__(self, limits: ServiceLimits, clock: Clock) -> None:
        self.running_count = 0
        """Recoveries under way."""
        self._limits = limits
        self._clock = clock
        self._numbers = itertools.count()
        self._order: list[_Entry] = []
        self._waiting: dict[TrackerKey, tuple[_Entry, asyncio.Future[None]]] = {}
        self._asked: set[TrackerKey] = set()
        self._callers: Counter[TrackerKey] = Counter()
        self._running_max = AT_ONCE
        self._has_ended = False
        self._timer: Timer | None = None

    @asynccontextmanager
    async def turn(self, key: TrackerKey, *, due_ms: int | None = None) -> AsyncIterator[None]:
        """Wait for the turn of a tracker, which lasts until the end of the block.

        Args:
            key: of the tracker; it has no other turn.
            due_ms: its earliest deadline, in milliseconds since 1970, UTC; None if it is not known.
        """
        due = float("inf") if due_ms is None else due_ms
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._enter((self._rank(key), due, next(self._numbers), key), admitted)
        self._admit()
        try:
            await admitted
            yield
        finally:
            self._asked.discard(key)
            if self._waiting.pop(key, None) is None:
                self.running_count -= 1
                self._has_ended = True
            self._admit()

    @contextmanager
    def awaited(self, key: TrackerKey) -> Iterator[None]:
        """Note that a caller waits for the tracker during the block."""
        self._callers[key] += 1
        self._rank_anew(key)
        try:
            yield
        finally:
            self._callers[key] -= 1
            if not self._callers[key]:
                del self._callers[key]
                self._rank_anew(key)

    def ask(self, key: TrackerKey) -> None:
        """Note that a call asks something of a tracker that is being recovered or brought back."""
        self._asked.add(key)
        self._rank_anew(key)

    def _rank(self, key: TrackerKey) -> int:
        if key in self._asked:
            return _ASKED
        return _AWAITED if key in self._callers else _LEFT

    def _rank_anew(self, key: TrackerKey) -> None:
        if key in self._waiting:
            (rank, due, number, _), admitted = self._waiting[key]
            if rank != (new_rank := self._rank(key)):
                self._enter((new_rank, due, number, key), admitted)

    def _enter(self, entry: _Entry, admitted: "asyncio.Future[None]") -> None:
        """Give a tracker its place in the order; an earlier one of the same tracker counts no more."""
        self._waiting[entry[-1]] = entry, admitted
        heapq.heappush(self._order, entry)

    def _admit(self) -> None:
        """Begin the most urgent recoveries for which there is room."""
        while self._order and self.running_count < self._running_max:
            entry = heapq.heappop(self._order)
            place, admitted = self._waiting.get(entry[-1], (None, None))
            if place is entry and admitted is not None:
                del self._waiting[entry[-1]]
                self.running_count += 1
                if not admitted.done():  # else it was cancelled, and ends at once
                    admitted.set_result(None)
        if not self._waiting:
            self._order.clear()
            self._running_max = AT_ONCE
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None:
            self._has_ended = False
            self._timer = self._clock.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._has_ended:
            self._running_max = min(self._running_max * 3 // 2, max(AT_ONCE, self._limits.storage_operations_max))
        self._admit()
