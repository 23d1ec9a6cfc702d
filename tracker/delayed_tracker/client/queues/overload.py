"""Repeats calls that the service refused because it, or the quota of the caller, is at a limit.

Such a call applied nothing, so every call may be repeated. The pause is the time in the service's answer, plus a random
part of up to half of it: clients that were refused together then do not return together. The call is repeated only if
the time that is left is at least twice the pause.
"""

from delayed_tracker.client.errors import Overloaded
from delayed_tracker.core.values.errors import DelayedTrackerError

_JITTER = 0.5
_REPEATED = frozenset({"OVERLOADED", "QUOTA_EXCEEDED"})


def pause_before_retry_s(error: DelayedTrackerError, *, left_s: float, chance: float) -> float | None:
    """Return the pause in seconds before a failed call is repeated; None if it is not to be repeated.

    Args:
        error: the error of the call.
        left_s: seconds left of the call's time limit.
        chance: random number from 0 to 1.
    """
    # LEASES_EXHAUSTED is not repeated: only the caller's acks make room.
    if not isinstance(error, Overloaded) or error.reason not in _REPEATED or error.retry_after_s is None:
        return None
    pause_s = error.retry_after_s * (1 + _JITTER * chance)
    return pause_s if 2 * pause_s <= left_s else None
