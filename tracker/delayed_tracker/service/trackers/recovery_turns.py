"""Turns of recoveries: a few trackers at a time are recovered or brought back into memory, the most urgent first.

A tracker that a call asks something of comes first, then one whose open waits for it, then one that nobody waits for any
more; among equals the one that falls due first, if that is known, then the one that came first.

Without turns each step of each recovery waits behind the same step of all others, and they end together: of 1,000
trackers opened at once, the first was answered after 2.2 to 7 s, and with two at a time after 0.7 to 1.9 s, on two cores
with twice as much to do. All of them took as long. A storage that is slow, or hangs for some trackers, delays no others:
while no recovery ends, more begin.
"""

import asyncio
import heapq
import itertools
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from delayed_tracker.service.clock import Clock, Timer
from delayed_tracker.service.limits import ServiceLimits

AT_ONCE: Final = 2
"""Recoveries under way at a time, as long as they end."""
LOOK_MS: Final = 50
"""If none has ended for so long, half as many more may be under way."""

_ASKED, _AWAITED, _LEFT = range(3)
_Entry: TypeAlias = tuple[int, float, int, "_Turn"]
"""Rank, deadline, number and turn: the least comes first."""


class _Turn:
    """Turn of one recovery, from when it is known until it has ended."""

    __slots__ = ("asked", "begun", "caller_count", "due_ms", "entry", "number")

    def __init__(self, number: int, due_ms: int | None) -> None:
        self.number = number
        self.due_ms = float("inf") if due_ms is None else due_ms
        self.asked = False
        self.caller_count = 0
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.entry: _Entry | None = None
        """Its place in the order; None when it has begun."""

    @property
    def rank(self) -> int:
        if self.asked:
            return _ASKED
        return _AWAITED if self.caller_count else _LEFT


class RecoveryTurns:
    """The recoveries of all trackers, under way and waiting.

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
        self._turns: dict[Hashable, _Turn] = {}
        self._order: list[_Entry] = []
        self._running_max = AT_ONCE
        self._has_ended = False
        self._timer: Timer | None = None

    def join(self, tracker: Hashable, *, due_ms: int | None = None) -> None:
        """Put a recovery into the order. It begins in a later step of the event loop.

        Args:
            tracker: has no other turn.
            due_ms: its earliest deadline, in milliseconds since 1970, UTC; None if it is not known.
        """
        assert tracker not in self._turns
        turn = self._turns[tracker] = _Turn(next(self._numbers), due_ms)
        self._place(turn)

    async def until_turn(self, tracker: Hashable) -> None:
        """Return when the recovery may begin."""
        self._begin()
        await self._turns[tracker].begun

    def leave(self, tracker: Hashable) -> None:
        """Note that a recovery has ended, also if it never began."""
        turn = self._turns.pop(tracker)
        if turn.entry is None:
            self.running_count -= 1
            self._has_ended = True
        turn.entry = None
        self._begin()

    @contextmanager
    def awaited(self, tracker: Hashable) -> Iterator[None]:
        """Note that an open waits for the recovery during the block."""
        turn = self._turns.get(tracker)
        if turn is None:
            yield
            return
        turn.caller_count += 1
        self._place(turn)
        try:
            yield
        finally:
            turn.caller_count -= 1
            self._place(turn)

    def ask(self, tracker: Hashable) -> None:
        """Note that a call asks something of a tracker; nothing happens unless it waits for its turn."""
        if (turn := self._turns.get(tracker)) is not None and not turn.asked:
            turn.asked = True
            self._place(turn)

    def _place(self, turn: _Turn) -> None:
        """Put a turn where its rank belongs. Its earlier place in the order counts no more."""
        if not turn.begun.done() and (turn.entry is None or turn.entry[0] != turn.rank):
            turn.entry = (turn.rank, turn.due_ms, turn.number, turn)
            heapq.heappush(self._order, turn.entry)

    def _begin(self) -> None:
        """Begin the most urgent recoveries, as many as may be under way."""
        while self._order and self.running_count < self._running_max:
            entry = heapq.heappop(self._order)
            turn = entry[-1]
            if turn.entry is entry:
                turn.entry = None
                self.running_count += 1
                if not turn.begun.done():  # else its task was cancelled, and leaves at once
                    turn.begun.set_result(None)
        if self.running_count == len(self._turns):  # none waits
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
            self._running_max = max(AT_ONCE, min(self._running_max * 3 // 2, self._limits.storage_operations_max))
        self._begin()
