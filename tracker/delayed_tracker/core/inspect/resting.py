"""Facts about a tracker whose core was dropped from memory, because it has nothing to do for long."""

from dataclasses import dataclass, replace
from typing import Final

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.inspect.numbers import NUMBERS
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.counters import Counters
from delayed_tracker.core.values.instant import Wakeup, earliest
from delayed_tracker.core.values.verb_results import TrackerStats

_IN_MEMORY: Final = frozenset({"loaded", "mutable", "late", "membership_bytes", "memory_bytes"})
"""Columns of NUMBERS that are 0 while the core is not in memory."""
_RETURN_AHEAD_MS = 5_000
"""A core that was dropped is needed at least this long before its next delivery."""
_RETURN_LOADS = 8
"""Its return takes as long as this many loads at most: of catalogue, log and segments, one after the other."""


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


def can_rest(state: TrackerState, lifecycle: BucketLifecycle, timer: Wakeup) -> bool:
    """Return True if no leases, also no ended ones, nothing to retry, and no lost positions would be forgotten. O(1)."""
    return (
        state.journal is not None
        and not state.leases.leased_count
        and timer.elapsed_ms is None
        and lifecycle.loads.share.place is None
        and not lifecycle.replay_required
        and not lifecycle.undeleted()
    )


def falls_due_ms(state: TrackerState, timer: Wakeup, *, lead_ms: int) -> int | None:
    """Return the time from which the core is needed: well before the next delivery, and by the next prefetch.

    ``lead_ms`` is the time that a load takes.
    """
    delivery_ms = state.next_delivery_ms()
    if delivery_ms is not None:
        delivery_ms -= max(state.limits.prefetch_window_ms, _RETURN_AHEAD_MS, _RETURN_LOADS * lead_ms)
    return earliest((delivery_ms, timer.wall_ms))


def at_rest(
    state: TrackerState, stats: TrackerStats, numbers: tuple[int, ...], *, falls_due_ms: int | None
) -> RestingTracker:
    """Return what is to be known of a tracker with these stats and numbers once nothing of it is in memory."""
    return RestingTracker(
        stats=replace(stats, loaded_count=0, mutable_count=0, late_count=0, membership_bytes=0, memory_bytes=0),
        numbers=tuple(0 if name in _IN_MEMORY else number for name, number in zip(NUMBERS, numbers, strict=True)),
        counters=state.counters,
        last_lease_id=state.leases.last_id,
        offered_through=state.offered_through,
        falls_due_ms=falls_due_ms,
    )
