"""The audit log: one line for each refused call, each destructive call, and each takeover by another principal.

Lines have the logger ``delayed_tracker.audit``, and the request id of the call. Refusals are limited, because anybody
can cause them; what they leave out is counted. The other lines are never left out. No line has a credential.
"""

from typing import Final

import structlog

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import PermissionDenied, Unauthenticated, shortened
from delayed_tracker.service.telemetry.log_rate_limiter import LogRateLimiter

REFUSALS_MAX: Final = 100
"""Lines of refused calls in a minute, of each reason."""
_REFUSED: Final = "call refused"

_log = structlog.stdlib.get_logger("delayed_tracker.audit")


class AuditLog:
    """Writer of the audit log of one service."""

    def __init__(self, clock: Clock) -> None:
        self._budget = LogRateLimiter(
            clock,
            lines_max=REFUSALS_MAX,
            left_out=lambda reason, count: _log.warning(_REFUSED, reason=reason, suppressed=count),
        )

    def refused(self, error: Unauthenticated | PermissionDenied, *, call: str, peer: str) -> None:
        """Log a refused call.

        Args:
            error: has the principal, the action and the topic, if they are known.
            call: full name of the gRPC method, or the HTTP path.
            peer: address of the caller.
        """
        if self._budget.allows(error.reason):
            _log.warning(_REFUSED, reason=error.reason, call=call, peer=peer, problem=error.message, **error.metadata)

    def destroyed(self, *, call: str, peer: str, principal: str, topic: str, subscription: str, outcome: str) -> None:
        """Log a call that drops what a tracker has, with its status: also one that failed."""
        _log.warning(
            "destructive call",
            call=call,
            peer=peer,
            principal=shortened(principal),
            topic=topic,
            subscription=subscription,
            outcome=outcome,
        )

    def taken_over(self, *, peer: str, principal: str, previous: str, topic: str, subscription: str) -> None:
        """Log that a principal has opened a tracker that another principal had opened before."""
        _log.warning(
            "tracker taken over by another principal",
            peer=peer,
            principal=shortened(principal),
            previous_principal=shortened(previous),
            topic=topic,
            subscription=subscription,
        )
