"""One timer queue for all trackers. Each tracker wakes at a time of the wall clock, or after a duration.

There are two queues, because deadlines of messages are wall-clock times, and leases and retries are durations. Each
queue has one clock timer, for its first wake-up, and a heap with lazy deletion: a changed wake-up pushes a new entry,
and entries that differ from ``armed`` are skipped. So a change costs O(log n), and 10,000 idle trackers cost two
timers.
"""

import heapq
import itertools
import math
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Protocol

from delayed_tracker.core.values.instant import Wakeup
from delayed_tracker.service.clock import Clock, Timer

WAKES_PER_TURN_MAX = 256
"""Maximum number of trackers woken in one callback of the event loop."""
_STALE_SLACK = 64


class Sleeper(Protocol):
    """Object with a wake-up, compared by identity."""

    def wake(self) -> None:
        """Do what is due, and arm the next wake-up."""
        ...


class TimerQueue:
    """Queue with at most one wake-up by each clock for each sleeper."""

    def __init__(self, clock: Clock) -> None:
        def call_at_elapsed(when_ms: int, callback: Callable[[], None]) -> Timer:
            # Rounded up: a timer that fires a fraction of a millisecond early would have to be set again.
            return clock.call_later(max(0, math.ceil(when_ms - clock.elapsed_ms())), callback)

        self._wall = _ClockQueue(clock.now_ms, clock.call_at)
        self._elapsed = _ClockQueue(clock.elapsed_ms, call_at_elapsed)

    def __len__(self) -> int:
        return len(self._wall.armed.keys() | self._elapsed.armed.keys())

    def arm(self, sleeper: Sleeper, wakeup: Wakeup) -> None:
        """Replace the wake-ups of a sleeper. The clock that reaches its time first wakes it."""
        self._wall.arm(sleeper, wakeup.wall_ms)
        self._elapsed.arm(sleeper, wakeup.elapsed_ms)

    def disarm(self, sleeper: Sleeper) -> None:
        """Remove the wake-ups of a sleeper."""
        self.arm(sleeper, Wakeup(None, None))


class _ClockQueue:
    """Wake-ups by one clock."""

    def __init__(self, now_ms: Callable[[], float], call_at: Callable[[int, Callable[[], None]], Timer]) -> None:
        self.armed: dict[Sleeper, int] = {}
        self._now_ms = now_ms
        self._call_at = call_at
        self._heap: list[tuple[int, int, Sleeper]] = []
        self._sequence = itertools.count()
        self._timer: Timer | None = None
        self._timer_ms = 0

    def arm(self, sleeper: Sleeper, when_ms: int | None) -> None:
        if self.armed.get(sleeper) == when_ms:
            return
        if when_ms is None:
            del self.armed[sleeper]
        else:
            self.armed[sleeper] = when_ms
            heapq.heappush(self._heap, (when_ms, next(self._sequence), sleeper))
            if len(self._heap) > 2 * len(self.armed) + _STALE_SLACK:
                self._heap = [(at_ms, next(self._sequence), one) for one, at_ms in self.armed.items()]
                heapq.heapify(self._heap)
        self._set_timer()

    def _drop_stale(self) -> None:
        while self._heap and self.armed.get(self._heap[0][2]) != self._heap[0][0]:
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
            # An empty context: the wake-ups do not belong to the call that armed the timer.
            self._timer = self._call_at(first_ms, partial(Context().run, self._fire))

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        try:
            for _ in range(WAKES_PER_TURN_MAX):
                self._drop_stale()
                if not self._heap or self._heap[0][0] > now_ms:
                    break
                _, _, sleeper = heapq.heappop(self._heap)
                del self.armed[sleeper]
                sleeper.wake()
        finally:
            # Also if a wake-up failed: the others need their timer.
            self._set_timer()
