"""Log of errors that nobody expects: they are reported to the event loop, some of each kind in a minute with a traceback."""

import asyncio
from typing import Any, Final

import structlog

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.telemetry.log_rate_limiter import LogRateLimiter

LINES_MAX: Final = 20
"""Lines of one kind of error in a minute. What fails is often tried again every second, for each of thousands of trackers."""
_EVENT: Final = "internal error"

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class InternalErrors:
    """Handler of exceptions of one event loop.

    Args:
        clock: measures the minutes.
    """

    def __init__(self, clock: Clock) -> None:
        self._budget = LogRateLimiter(clock, lines_max=LINES_MAX, left_out=_left_out)

    def report(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what ``loop.call_exception_handler`` was given."""
        error = context.get("exception")
        kind = type(error).__name__
        if self._budget.allows(kind):
            _log.error(_EVENT, kind=kind, said=context.get("message"), exc_info=error)


def _left_out(kind: str, count: int) -> None:
    _log.error(_EVENT, kind=kind, suppressed=count)
