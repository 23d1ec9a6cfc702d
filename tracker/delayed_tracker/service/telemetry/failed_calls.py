"""Log lines of calls that end with an unexpected error, with its traceback: some of each method and class in a minute."""

from typing import Final

import structlog

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.telemetry.log_rate_limiter import LogRateLimiter

LINES_MAX: Final = 100
"""Lines in a minute, of each method and class of error: a caller that repeats its call must not fill the disk."""
_FAILED: Final = "call failed"

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class FailedCalls:
    """Logger of calls that failed by a fault of the service, for all methods of one service."""

    def __init__(self, clock: Clock) -> None:
        self._budget = LogRateLimiter(clock, lines_max=LINES_MAX, left_out=_left_out)

    def failed(self, method: str, error: Exception) -> None:
        """Log a call that failed.

        Args:
            method: full name of the gRPC method, without blanks.
            error: the error that the service did not expect.
        """
        if self._budget.allows(f"{method} {type(error).__name__}"):
            _log.error(_FAILED, method=method, exc_info=error)


def _left_out(event: str, count: int) -> None:
    method, _, error = event.partition(" ")
    _log.error(_FAILED, method=method, error=error, suppressed=count)
