"""Turns of work that would only crowd itself if all of it ran at once: a few at a time, the most urgent first.

What a call asks for comes first, then what an open waits for, then what nobody waits for; among equals what falls due
first, if that is known, then what came first. A piece takes up room only at first: a storage that is slow, or hangs for
some trackers, delays the others by as much, and no longer.

Recoveries take turns because each step of each would wait behind the same step of all others, and all would end
together: of 1,000 trackers opened at once the first was answered after 2.2 to 7 s, and with a few at a time after 0.7 to
2.7 s, on two cores with twice as much to do. Stores take turns because the rows and the bytes of each are in memory
meanwhile.
"""

import asyncio
import heapq
import itertools
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from delayed_tracker.service.clock import Clock, Timer

_ASKED, _AWAITED, _LEFT = range(3)
_TIMER_MS: Final = 1.0
"""A timer may be early by a rounding error, and must not be set again for that."""
_STALE_MAX: Final = 64
"""Places in the order that count no more, beside as many as there are turns."""
_Entry: TypeAlias = tuple[int, float, int, "_Turn"]
"""Rank, deadline, number and turn: the least comes first."""


class _Turn:
    """Turn of one piece of work, from when it is known until it has ended."""

    __slots__ = ("asked", "begun", "caller_count", "due_ms", "entry", "is_under_way", "number")

    def __init__(self, number: int, due_ms: int | None) -> None:
        self.number = number
        self.due_ms = float("inf") if due_ms is None else due_ms
        self.asked = False
        self.caller_count = 0
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_under_way = False
        self.entry: _Entry | None = None
        """Its place in the order; None when it has begun."""

    @property
    def rank(self) -> int:
        if self.asked:
            return _ASKED
        return _AWAITED if self.caller_count else _LEFT


class Turns:
    """The work of one kind of all trackers, under way and waiting.

    Args:
        at_once: pieces under way at a time, without those that take long.
        look_ms: a piece that is under way for so long takes up no room any more.
        clock: for the time that a piece takes.
    """

    def __init__(self, at_once: int, look_ms: int, clock: Clock) -> None:
        self.running_count = 0
        """Pieces under way."""
        self._at_once = at_once
        self._look_ms = look_ms
        self._clock = clock
        self._numbers = itertools.count()
        self._turns: dict[Hashable, _Turn] = {}
        self._order: list[_Entry] = []
        self._young: dict[_Turn, float] = {}
        """Pieces that take up room, in the order in which they began, and when that was."""
        self._timer: Timer | None = None

    def join(self, work: Hashable, *, due_ms: int | None = None) -> None:
        """Put a piece of work into the order. It begins in a later step of the event loop.

        Args:
            work: its key, which has no other turn.
            due_ms: its earliest deadline, in milliseconds since 1970, UTC; None if it is not known.
        """
        assert work not in self._turns
        turn = self._turns[work] = _Turn(next(self._numbers), due_ms)
        self._place(turn)

    async def until_turn(self, work: Hashable) -> None:
        """Return when a piece of work may begin."""
        self._begin()
        await self._turns[work].begun

    def leave(self, work: Hashable) -> None:
        """Note that a piece of work has ended, also if it never began."""
        turn = self._turns.pop(work)
        turn.entry = None
        if turn.is_under_way:
            self.running_count -= 1
            self._young.pop(turn, None)
        else:
            turn.begun.cancel()
        self._begin()

    @contextmanager
    def awaited(self, work: Hashable) -> Iterator[None]:
        """Note that an open waits for a piece of work during the block; nothing happens unless it has a turn."""
        turn = self._turns.get(work)
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

    def ask(self, work: Hashable) -> None:
        """Note that a call asks for a piece of work; nothing happens unless it waits for its turn."""
        if (turn := self._turns.get(work)) is not None and not turn.asked:
            turn.asked = True
            self._place(turn)

    def _place(self, turn: _Turn) -> None:
        """Put a turn where its rank belongs. Its earlier place in the order counts no more."""
        rank = turn.rank
        if turn.begun.done() or (turn.entry is not None and turn.entry[0] == rank):
            return
        turn.entry = (rank, turn.due_ms, turn.number, turn)
        heapq.heappush(self._order, turn.entry)
        if len(self._order) > 2 * len(self._turns) + _STALE_MAX:
            self._order = [entry for entry in self._order if entry[-1].entry is entry]
            heapq.heapify(self._order)

    def _begin(self) -> None:
        """Begin the most urgent pieces, as many as there is room for."""
        while self._order and len(self._young) < self._at_once:
            entry = heapq.heappop(self._order)
            turn = entry[-1]
            if turn.entry is entry:
                turn.entry = None
                turn.is_under_way = True
                self.running_count += 1
                self._young[turn] = self._clock.elapsed_ms()
                if not turn.begun.done():  # else its task was cancelled, and leaves at once
                    turn.begun.set_result(None)
        if self.running_count == len(self._turns):  # none waits
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None and self._young:
            age_ms = self._clock.elapsed_ms() - next(iter(self._young.values()))
            self._timer = self._clock.call_later(max(0.0, self._look_ms - age_ms), self._look)

    def _look(self) -> None:
        self._timer = None
        now_ms = self._clock.elapsed_ms()
        for turn, begun_ms in list(self._young.items()):
            if now_ms - begun_ms >= self._look_ms - _TIMER_MS:
                del self._young[turn]
        self._begin()
