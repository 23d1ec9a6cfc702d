"""Log lines about slow calls to the storage, at most ten a minute for each operation."""

from typing import Final

import structlog

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.telemetry.line_budget import LineBudget

LINES_MAX: Final = 10
"""Lines of one operation in a minute."""

_SLOW: Final = "storage is slow"

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class SlowStorage:
    """Log of slow calls.

    Args:
        clock: measures the minutes.
        slow_ms: calls that take longer are logged; 0 logs none.
    """

    def __init__(self, clock: Clock, *, slow_ms: int) -> None:
        self._slow_ms = slow_ms or float("inf")
        self._budget = LineBudget(clock, lines_max=LINES_MAX, left_out=_left_out)

    def ended(self, operation: str, where: dict[str, str | int], *, took_ms: float, outcome: str) -> None:
        """Record the end of a call."""
        if took_ms > self._slow_ms and self._budget.allows(operation):
            _log.warning(_SLOW, operation=operation, duration_ms=round(took_ms), outcome=outcome, **where)


def _left_out(operation: str, count: int) -> None:
    _log.warning(_SLOW, operation=operation, suppressed=count)
