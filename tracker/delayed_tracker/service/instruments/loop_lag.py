"""How late the event loop is: it is asked for a turn at known moments, and what it takes longer is noted."""

import asyncio
from typing import Final

from delayed_tracker.service.instruments.histogram import Histogram

LOOK_S: Final = 0.1


class LoopLag:
    """Looks ten times a second; used from the event loop it measures.

    Args:
        lag: where seconds are noted.
    """

    def __init__(self, lag: Histogram) -> None:
        self._lag = lag
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from now on."""
        self._ask(asyncio.get_running_loop())

    def stop(self) -> None:
        """Look no more; harmless if nobody does."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(LOOK_S, self._note, loop, loop.time() + LOOK_S)

    def _note(self, loop: asyncio.AbstractEventLoop, asked_for_s: float) -> None:
        self._lag.observe(max(0.0, loop.time() - asked_for_s))
        self._ask(loop)
