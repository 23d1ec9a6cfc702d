"""Measures how long loads take, so that they begin early enough for their rows to be in memory when they are due."""

from typing import Final

from delayed_tracker.core.engine.load_budget import LoadBudget

LEAD_MS_MAX: Final = 60_000
"""Loads begin at most this long before their rows are due, however slow the storage is, unless there is room for more."""
_MEAN_SHARE: Final = 8
_DEVIATION_SHARE: Final = 4


class LoadLead:
    """Lead of the loads of one storage, from the smoothed duration and deviation of recent loads.

    Both are smoothed as TCP does it for its retransmission timer (RFC 6298, section 2), so that a slow storage counts
    after one load and is forgotten after some twenty. The lead is twice the duration, plus four deviations: that covers
    more than 99 % of the loads of a steady storage, and the way of their rows to the caller.

    Args:
        budget: its ``lead_ms`` is kept up to date.
    """

    __slots__ = ("_budget", "_deviation_ms", "_mean_ms")

    def __init__(self, budget: LoadBudget) -> None:
        self._budget = budget
        self._mean_ms: float | None = None
        self._deviation_ms = 0.0

    def took(self, duration_ms: float) -> None:
        """Record the duration of a load that succeeded, from its request on, with waits and retries."""
        if self._mean_ms is None:
            self._mean_ms, self._deviation_ms = duration_ms, duration_ms / 2
        else:
            error_ms = duration_ms - self._mean_ms
            self._mean_ms += error_ms / _MEAN_SHARE
            self._deviation_ms += (abs(error_ms) - self._deviation_ms) / _DEVIATION_SHARE
        self._budget.lead_ms = min(LEAD_MS_MAX, round(2 * self._mean_ms + 4 * self._deviation_ms))
