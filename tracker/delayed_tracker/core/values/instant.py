"""One moment as two clocks show it, and when a tracker wants to be woken by either of them.

Deadlines of messages are moments of the wall clock, which is set forward and back. Leases, back-offs and everything else
that lasts "so long" are measured on a clock that only runs. Every verb is given both, so that no step of the wall clock
ends a lease or delays a retry.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Instant(NamedTuple):
    """The moment at which a verb is called."""

    wall_ms: int
    """Milliseconds since 1970-01-01 UTC; may step forward and back between two calls."""
    elapsed_ms: int
    """Milliseconds since any fixed moment; never less than at the call before."""


class Wakeup(NamedTuple):
    """When something is to be done, by each clock; None: not because of this clock."""

    wall_ms: int | None
    elapsed_ms: int | None

    def due_at(self, now: Instant) -> bool:
        """Tell whether either clock has come so far."""
        return (self.wall_ms is not None and self.wall_ms <= now.wall_ms) or (
            self.elapsed_ms is not None and self.elapsed_ms <= now.elapsed_ms
        )


def earliest(moments: Iterable[int | None]) -> int | None:
    """Return the first of those moments of one clock that are given, or None."""
    return min((moment for moment in moments if moment is not None), default=None)
