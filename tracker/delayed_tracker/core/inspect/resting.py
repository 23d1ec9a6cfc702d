"""Facts about a tracker whose core was dropped from memory, because it has nothing to do for long."""

from dataclasses import dataclass, replace
from typing import Final

from delayed_tracker.core.engine.counters import Counters
from delayed_tracker.core.inspect.numbers import NUMBERS
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.verb_results import TrackerStats

_IN_MEMORY: Final = frozenset({"loaded", "mutable", "late", "membership_bytes", "memory_bytes"})
"""Columns of NUMBERS that are 0 while the core is not in memory."""


@dataclass(frozen=True, slots=True)
class RestingTracker:
    """Numbers of a core that was dropped because it can be recovered at any time."""

    stats: TrackerStats
    """As of the core's last moment, with nothing in memory."""
    numbers: tuple[int, ...]
    """The columns of :data:`delayed_tracker.core.inspect.numbers.NUMBERS`, likewise."""
    counters: Counters
    last_lease_id: int
    """The next core gives its leases higher ids."""
    offered_through: Position
    falls_due_ms: int | None
    """Time, in milliseconds since 1970, from which the core is needed; None if nothing is tracked."""


def without_memory(stats: TrackerStats) -> TrackerStats:
    """Return stats of which nothing is in memory any more."""
    return replace(stats, loaded_count=0, mutable_count=0, late_count=0, membership_bytes=0, memory_bytes=0)


def numbers_without_memory(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return the columns of NUMBERS of a tracker of which nothing is in memory any more."""
    return tuple(0 if name in _IN_MEMORY else number for name, number in zip(NUMBERS, numbers, strict=True))
