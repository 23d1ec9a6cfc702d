"""Measures the lag of the event loop: the time by which its timers are late."""

import asyncio
from typing import Final

from delayed_tracker.service.instruments.histogram import Histogram

LOOK_S: Final = 0.1


class LoopLag:
    """Measurement ten times a second, from the event loop that it measures.

    Args:
        lag: receives the lag in seconds.
    """

    def __init__(self, lag: Histogram) -> None:
        self._lag = lag
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to measure."""
        self._ask(asyncio.get_running_loop())

    def stop(self) -> None:
        """Stop measuring. May be called if it is not running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(LOOK_S, self._note, loop, loop.time() + LOOK_S)

    def _note(self, loop: asyncio.AbstractEventLoop, asked_for_s: float) -> None:
        self._lag.observe(max(0.0, loop.time() - asked_for_s))
        self._ask(loop)
