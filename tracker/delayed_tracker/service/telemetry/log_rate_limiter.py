"""Bound on the log lines of one event: some each minute, and one at its end that counts the others."""

from collections.abc import Callable
from typing import Final

from delayed_tracker.service.clock import Clock

MINUTE_MS: Final = 60_000


class LogRateLimiter:
    """Limit of the log lines of each event in a minute. Used from one event loop.

    Args:
        clock: measures.
        lines_max: of one event within a minute, 1 or more.
        left_out: called at the end of a minute in which lines were left out, with the event and their number.
    """

    def __init__(self, clock: Clock, *, lines_max: int, left_out: Callable[[str, int], None]) -> None:
        self._clock = clock
        self._lines_max = lines_max
        self._left_out = left_out
        self._asked: dict[str, tuple[float, int]] = {}
        """Begin of the minute of each event, and the lines within it."""

    def allows(self, event: str) -> bool:
        """Count a line, and tell whether it may be written."""
        now_ms = self._clock.elapsed_ms()
        begun_ms, asked = self._asked.get(event, (now_ms, 0))
        if now_ms - begun_ms >= MINUTE_MS and asked <= self._lines_max:
            begun_ms, asked = now_ms, 0
        asked += 1
        self._asked[event] = begun_ms, asked
        if asked == self._lines_max + 1:
            self._clock.call_later(begun_ms + MINUTE_MS - now_ms, lambda: self._minute_over(event))
        return asked <= self._lines_max

    def _minute_over(self, event: str) -> None:
        _, asked = self._asked.pop(event)
        self._left_out(event, asked - self._lines_max)
