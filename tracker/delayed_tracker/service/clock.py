"""Time as a component: the wall clock and timers. Trackers read the time only through :class:`Clock`.

Deadlines of messages are wall-clock milliseconds, so timers are set for wall-clock times. The wall clock may be set
forward or back at any time. :class:`SystemClock` reads it at least every ``WALL_CHECK_MS``, so a step forward is
noticed within a second, and a timer never fires before the wall clock shows its time. Durations (leases, waits of
polls, delays of retries) are measured with the monotonic clock, which is never set. On Linux and macOS, the monotonic
clock stops while the machine is suspended. So a lease outlives a suspend, during which its holder may have been
suspended as well.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Final, Protocol

WALL_CHECK_MS = 1_000


class Timer(Protocol):
    """A call that happens once, unless it is cancelled before."""

    def cancel(self) -> None:
        """Cancel the call; harmless if it has happened."""
        ...


class Clock(Protocol):
    """The wall clock, and calls at a time or after a duration. Callbacks run on the event loop, one by one."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970-01-01 UTC. The value may decrease."""
        ...

    def elapsed_ms(self) -> float:
        """Return the milliseconds since an arbitrary time; only differences have a meaning.

        The value never decreases, and excludes the time for which the machine was suspended.
        """
        ...

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """Call when the wall clock shows ``when_ms`` or later.

        If it does already, call soon, but never from inside this method.
        """
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """Call after ``delay_ms``, independent of the wall clock."""
        ...


async def pause(clock: Clock, delay_ms: float) -> None:
    """Return after ``delay_ms`` of the given clock."""
    over = asyncio.get_running_loop().create_future()
    timer = clock.call_later(delay_ms, lambda: None if over.done() else over.set_result(None))
    try:
        await over
    finally:
        timer.cancel()


class _WallTimer:
    """A timer for a wall-clock time, made of loop timers of a second at most."""

    __slots__ = ("_callback", "_clock", "_loop_timer", "_when_ms")

    def __init__(self, clock: "SystemClock", when_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._when_ms = when_ms
        self._callback = callback
        self._loop_timer = self._arm()

    def _arm(self) -> asyncio.TimerHandle:
        remaining_ms = max(0, min(self._when_ms - self._clock.now_ms(), WALL_CHECK_MS))
        return asyncio.get_running_loop().call_later(remaining_ms / 1_000, self._look)

    def _look(self) -> None:
        if self._clock.now_ms() < self._when_ms:
            self._loop_timer = self._arm()
        else:
            self._callback()

    def cancel(self) -> None:
        self._loop_timer.cancel()


class SystemClock:
    """The machine's clock and the running event loop's timers."""

    def now_ms(self) -> int:
        """See :class:`Clock`."""
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> float:
        """See :class:`Clock`."""
        return time.monotonic_ns() / 1_000_000

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """See :class:`Clock`."""
        return _WallTimer(self, when_ms, callback)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """See :class:`Clock`."""
        return asyncio.get_running_loop().call_later(delay_ms / 1_000, callback)


_ROUNDING_MS: Final = 1e-6
"""A sum of fractions of milliseconds may lie this far beside the time of a timer."""


class _ManualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """A clock that moves only when it is advanced; for tests and simulations.

    Its wall clock can be set without time passing (:meth:`step_wall`). Timers for times and for durations share one
    time line of elapsed milliseconds. Timers of the same instant fire in the order they were set.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._elapsed_ms = 0.0
        self._wall_offset_ms = now_ms
        self._sequence = itertools.count()
        self._after: list[tuple[float, int, _ManualTimer]] = []
        self._at: list[tuple[float, int, _ManualTimer]] = []

    def now_ms(self) -> int:
        """See :class:`Clock`."""
        return int(self._elapsed_ms) + self._wall_offset_ms

    def elapsed_ms(self) -> float:
        """See :class:`Clock`."""
        return self._elapsed_ms

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """See :class:`Clock`."""
        return self._push(self._at, when_ms, callback)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        """See :class:`Clock`."""
        return self._push(self._after, self._elapsed_ms + delay_ms, callback)

    def _push(
        self, heap: list[tuple[float, int, _ManualTimer]], when: float, callback: Callable[[], None]
    ) -> _ManualTimer:
        timer = _ManualTimer(callback)
        heapq.heappush(heap, (when, next(self._sequence), timer))
        return timer

    def next_timer_in_ms(self) -> float | None:
        """Return the milliseconds until the next timer (0 or more), or None if no timer is set."""
        for heap in (self._at, self._after):
            while heap and heap[0][2].callback is None:
                heapq.heappop(heap)
        waits = [self._at[0][0] - self.now_ms()] if self._at else []
        waits += [self._after[0][0] - self._elapsed_ms] if self._after else []
        return max(0.0, min(waits)) if waits else None

    def advance(self, delay_ms: float) -> None:
        """Let time pass and fire each timer at its own time."""
        end = self._elapsed_ms + delay_ms
        while (wait := self.next_timer_in_ms()) is not None and self._elapsed_ms + wait <= end:
            self._elapsed_ms += wait
            self._fire_one()
        self._elapsed_ms = end

    def _fire_one(self) -> None:
        due = [
            heap
            for heap, reached in ((self._at, self.now_ms()), (self._after, self._elapsed_ms))
            if heap and heap[0][0] <= reached + _ROUNDING_MS
        ]
        _, _, timer = heapq.heappop(min(due, key=lambda heap: heap[0][1]))
        callback, timer.callback = timer.callback, None
        assert callback is not None, "cancelled timers were dropped when the next one was looked for"
        callback()

    def step_wall(self, by_ms: int) -> None:
        """Set the wall clock forward or back without time passing. Timers that become due fire on ``advance``."""
        self._wall_offset_ms += by_ms
