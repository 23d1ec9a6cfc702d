"""One timer for all trackers: who is to be woken when, and a single clock timer for the first of them.

A heap with lazy deletion: moving a wake-up pushes a new entry, and an entry that no longer says what ``_armed`` says is
skipped. So moving costs O(log n), and 10,000 idle trackers cost one armed timer.
"""

import heapq
import itertools
from contextvars import Context
from functools import partial
from typing import Protocol

from tracker.service.clock import Clock, Timer

WAKES_PER_TURN_MAX = 256
"""Trackers woken before the event loop gets its turn again."""
_STALE_SLACK = 64


class Sleeper(Protocol):
    """What can be woken; told apart by identity."""

    def wake(self) -> None:
        """Do what is due, and arm the next wake-up."""
        ...


class WakeupQueue:
    """At most one wake-up for each sleeper."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._armed: dict[Sleeper, int] = {}
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._sequence = itertools.count()
        self._timer: Timer | None = None
        self._timer_ms = 0

    def __len__(self) -> int:
        return len(self._armed)

    def arm(self, sleeper: Sleeper, when_ms: int | None) -> None:
        """Wake at this wall-clock moment instead of any earlier arranged one; never, if None."""
        if self._armed.get(sleeper) == when_ms:
            return
        if when_ms is None:
            del self._armed[sleeper]
        else:
            self._armed[sleeper] = when_ms
            heapq.heappush(self._heap, (when_ms, next(self._sequence), sleeper))
            if len(self._heap) > 2 * len(self._armed) + _STALE_SLACK:
                self._heap = [(at_ms, next(self._sequence), one) for one, at_ms in self._armed.items()]
                heapq.heapify(self._heap)
        self._set_timer()

    def _drop_stale(self) -> None:
        while self._heap and self._armed.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _set_timer(self) -> None:
        self._drop_stale()
        first_ms = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if first_ms == self._timer_ms:
                return
            self._timer.cancel()
            self._timer = None
        if first_ms is not None:
            self._timer_ms = first_ms
            # Time wakes them, not whoever happened to arm the timer: what they do is not done for that call.
            self._timer = self._clock.call_at(first_ms, partial(Context().run, self._fire))

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        try:
            for _ in range(WAKES_PER_TURN_MAX):
                self._drop_stale()
                if not self._heap or self._heap[0][0] > now_ms:
                    break
                _, _, sleeper = heapq.heappop(self._heap)
                del self._armed[sleeper]
                sleeper.wake()
        finally:
            # Also if one of them failed: the others must not lose their timer.
            self._set_timer()
