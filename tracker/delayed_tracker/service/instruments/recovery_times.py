"""How long recoveries take, those under way included."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.instruments.histogram import Histogram

RECOVERY_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
RECOVERY_OUTCOMES: Final = ("succeeded", "failed", "cancelled")


class RecoveryTimes:
    """Of all trackers; used from one event loop."""

    def __init__(self, clock: Clock) -> None:
        self.by_outcome = {outcome: Histogram(RECOVERY_BOUNDS_S) for outcome in RECOVERY_OUTCOMES}
        self._clock = clock
        self._begun_ms: dict[object, float] = {}

    @property
    def longest_ms(self) -> float:
        """For how long the oldest of those under way has been running; 0 if none is. O(1)."""
        begun_ms = next(iter(self._begun_ms.values()), None)
        return 0.0 if begun_ms is None else self._clock.elapsed_ms() - begun_ms

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure what is done in the block, and what becomes of it."""
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
