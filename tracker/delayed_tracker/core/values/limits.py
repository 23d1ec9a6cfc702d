"""Limits and durations of the core, in one flat frozen value."""

import enum
from dataclasses import dataclass
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput

GROUPS_MAX: Final = 512
"""Groups of a bucket's segments that are few enough: each takes eight bytes, a bucket without segments some 2,000."""


class TrackerKind(enum.Enum):
    """Storage of the tracked positions when there are many."""

    BUCKET = "bucket"
    """Positions are sealed into buckets and stored (PIP-195)."""
    IN_MEMORY = "in-memory"
    """Positions stay in memory. No bucket is ever sealed, and a restart needs a replay of everything."""


@dataclass(frozen=True, slots=True)
class TrackerLimits:
    """Settings of one tracker's core. Durations in milliseconds, sizes in indexes.

    Source: broker.conf keys ``delayedDelivery*`` (PIP-195); the others are ours.
    """

    kind: TrackerKind = TrackerKind.BUCKET
    """Kind of the tracker. Both kinds give the same answers."""
    tick_ms: int = 1_000
    """Non-strict delivery may hand out this much early, so that one wake-up serves a tick."""
    strict: bool = False
    """True if no index is handed out before its deadline, not even by a tick."""
    min_index_count_per_bucket: int = 50_000
    """The mutable bucket is sealed at a ledger boundary once it holds this many."""
    mutable_indexes_max: int = 1_000_000
    """The mutable bucket is sealed when it holds this many, also within a ledger."""
    late_indexes_max: int = 100_000
    """Late positions beyond this many become a bucket of their own."""
    max_step_per_segment_ms: int = 300_000
    """A segment spans less than this."""
    max_indexes_per_segment: int = 5_000
    """A segment holds at most this many; -1 is unlimited."""
    segment_groups_max: int = GROUPS_MAX
    """A stored bucket remembers the bounds of about this many groups of adjacent segments, and loads whole groups."""
    prefetch_window_ms: int = 300_000
    """A segment is loaded when its first deadline is this near."""
    load_indexes_min: int = 1
    """A load that becomes due includes following segments until it has this many indexes: each read has a cost."""
    read_ahead_indexes: int = 0
    """A load that becomes due takes as much more as lets all buckets together have this many indexes in memory.

    Each read has a cost. A load takes a part of the room in memory at most, so that many trackers find room.
    """
    load_indexes_max: int = 50_000
    """One load requests whole segments up to about this many indexes (at least one segment)."""
    loads_in_flight_max: int = 4
    """Loads of one tracker in flight, each of another bucket."""
    loaded_indexes_max: int = 1_000_000
    """No segment is loaded ahead while all trackers of the process hold this many indexes from snapshots in memory."""
    max_num_buckets: int = -1
    """Above this number of sealed buckets, adjacent ones are merged; -1 never merges."""
    max_delay_ms: int = 0
    """Deadlines further away than this are refused; 0 is unlimited."""
    fixed_delay_lookahead: int = 50_000
    """In-memory tracker: reading may pause when this many positions wait, all with the same delay; 0 disables it."""
    retry_backoff_ms: int = 1_000
    """A failed effect is tried again after this time."""
    late_ack_ms: int = 600_000
    """Time in which an ended lease still acknowledges its positions: longer than restarts and retries of callers."""
    late_ack_positions_max: int = 1_000_000
    """Maximum of positions remembered for late acks, in 26 to 50 MB; by default as many as may be leased."""

    def __post_init__(self) -> None:
        """Raise InvalidInput for values that no tracker can work with."""
        for at_least_one in (
            "min_index_count_per_bucket",
            "mutable_indexes_max",
            "late_indexes_max",
            "max_step_per_segment_ms",
            "segment_groups_max",
            "load_indexes_min",
            "load_indexes_max",
            "loads_in_flight_max",
            "loaded_indexes_max",
            "retry_backoff_ms",
            "late_ack_ms",
            "late_ack_positions_max",
        ):
            value = getattr(self, at_least_one)
            if value < 1:
                raise InvalidInput(at_least_one, value, "give 1 or more")
        for at_least_zero in (
            "tick_ms",
            "prefetch_window_ms",
            "read_ahead_indexes",
            "max_delay_ms",
            "fixed_delay_lookahead",
        ):
            value = getattr(self, at_least_zero)
            if value < 0:
                raise InvalidInput(at_least_zero, value, "give 0 or more")
        for unlimited_below in ("max_indexes_per_segment", "max_num_buckets"):
            value = getattr(self, unlimited_below)
            if value < 1 and value != -1:
                raise InvalidInput(unlimited_below, value, "give 1 or more, or -1")

    def cutoff_ms(self, now_ms: int) -> int:
        """Return the deadline at or before which an index is due at ``now_ms``."""
        return now_ms if self.strict else now_ms + self.tick_ms

    def due_from_ms(self, deliver_at_ms: int) -> int:
        """Return the first time at which an index with this deadline is due."""
        return deliver_at_ms if self.strict else deliver_at_ms - self.tick_ms
