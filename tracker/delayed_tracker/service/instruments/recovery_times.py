"""Durations of recoveries, including those in progress."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.instruments.histogram import Histogram

RECOVERY_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
RECOVERY_OUTCOMES: Final = ("succeeded", "failed", "cancelled")


class RecoveryTimes:
    """Durations of the recoveries of all trackers; used from one event loop."""

    def __init__(self, clock: Clock) -> None:
        self.by_outcome = {outcome: Histogram(RECOVERY_BOUNDS_S) for outcome in RECOVERY_OUTCOMES}
        self._clock = clock
        self._begun_ms: dict[object, float] = {}

    @property
    def longest_ms(self) -> float:
        """Milliseconds since the oldest recovery in progress began; 0 if there is none. O(1)."""
        begun_ms = next(iter(self._begun_ms.values()), None)
        return 0.0 if begun_ms is None else self._clock.elapsed_ms() - begun_ms

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the duration and the outcome of the block."""
        which, outcome = object(), "succeeded"
        self._begun_ms[which] = begun_ms = self._clock.elapsed_ms()
        try:
            yield
        except BaseException as error:
            outcome = "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"
            raise
        finally:
            del self._begun_ms[which]
            self.by_outcome[outcome].observe((self._clock.elapsed_ms() - begun_ms) / 1_000)
