"""Counts steps of the wall clock: deadlines follow it, so an operator has to know when it was set."""

from typing import Final

import structlog

from delayed_tracker.service.clock import Clock, Timer

LOOK_MS: Final = 1_000
STEP_MS_MIN: Final = 500
"""A time server that slews the clock moves it by less than a millisecond in each second."""
_READING_MS_MAX: Final = 100
"""If the process was held up for longer between two readings, they are not compared."""

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class ClockSteps:
    """Comparison of the wall clock with the elapsed time, once a second. A suspended machine looks like a step forward.

    Args:
        clock: is compared.
    """

    def __init__(self, clock: Clock) -> None:
        self.forward_count = 0
        """Steps of half a second or more into the future."""
        self.back_count = 0
        """Steps of half a second or more into the past."""
        self._clock = clock
        self._ahead_ms = 0.0
        """Wall clock less elapsed time, at the last look."""
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start to look."""
        self._ahead_ms = self._clock.now_ms() - self._clock.elapsed_ms()
        self._timer = self._clock.call_later(LOOK_MS, self._look)

    def stop(self) -> None:
        """Stop looking. May be called if it does not look."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._clock.call_later(LOOK_MS, self._look)
        before_ms, now_ms, after_ms = self._clock.elapsed_ms(), self._clock.now_ms(), self._clock.elapsed_ms()
        if after_ms - before_ms > _READING_MS_MAX:
            return
        ahead_ms = now_ms - before_ms
        step_ms, self._ahead_ms = ahead_ms - self._ahead_ms, ahead_ms
        if abs(step_ms) < STEP_MS_MIN:
            return
        if step_ms > 0:
            self.forward_count += 1
        else:
            self.back_count += 1
        _log.warning("the wall clock was set, or the machine was suspended", step_ms=round(step_ms))
