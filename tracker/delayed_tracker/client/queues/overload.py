"""How a client slows down: a call that the service refused because it is full is made again, later.

Such a call applied nothing, so any may be repeated. It waits as long as the service says, and up to half as long again,
so that clients which were refused together do not come back together; and only if the call then has as much time again
of what it may take in all.
"""

from delayed_tracker.client.errors import Overloaded
from delayed_tracker.core.values.errors import DelayedTrackerError

_JITTER = 0.5


def pause_before_retry_s(error: DelayedTrackerError, *, left_s: float, chance: float) -> float | None:
    """How long to wait before making a failed call again; None: it has failed for good.

    Args:
        error: how it failed.
        left_s: what is left of the time it may take.
        chance: from 0 to 1, at random.
    """
    # Leases that are exhausted are for the caller to acknowledge: no pause of ours brings room.
    if not isinstance(error, Overloaded) or error.reason != Overloaded.reason or error.retry_after_s is None:
        return None
    pause_s = error.retry_after_s * (1 + _JITTER * chance)
    return pause_s if 2 * pause_s <= left_s else None
