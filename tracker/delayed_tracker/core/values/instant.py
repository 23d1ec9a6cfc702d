"""Times on two clocks: the present moment, and the wake-ups that a tracker needs.

Deadlines of messages are times of the wall clock, which can be set forward and back. Durations (leases, back-offs and
all others) are measured on a clock that only advances. Every verb gets both times, so that no step of the wall clock
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
    """Time of the next wake-up on each clock; None if this clock needs none."""

    wall_ms: int | None
    elapsed_ms: int | None


def earliest(moments: Iterable[int | None]) -> int | None:
    """Return the earliest of the given times of one clock, without Nones; None if there is none."""
    first = None
    for moment in moments:
        if moment is not None and (first is None or moment < first):
            first = moment
    return first
