"""Results of the core's verbs. Offsets refer to the columns of the call and ascend."""

import enum
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns, Int64Array, Position

_NONE = np.empty(0, np.int64)
_NONE.flags.writeable = False


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """Result of an add. An offset that is in none of the columns is now tracked."""

    added_count: int
    due: Int64Array
    """Already due: not tracked, the dispatcher sends them now."""
    duplicate: Int64Array
    """Tracked or leased before, or earlier in the same batch: unchanged."""
    beyond_max_delay: Int64Array
    """Further away than ``max_delay_ms``: not tracked."""
    below_mark_delete: Int64Array
    """Already acknowledged: not tracked."""

    @classmethod
    def all_added(cls, count: int) -> "AddOutcome":
        """Return the result of an add in which every index is now tracked."""
        return cls(count, _NONE, _NONE, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Due indexes in (deliver_at_ms, ledger_id, entry_id) order, and their lease."""

    indexes: IndexColumns
    lease_id: int = 0
    """Id of the lease; 0 if there is none (nothing was due, or it was a hand-off)."""
    expires_at_ms: int = 0
    """End of the lease on the wall clock as it is now; a step of that clock does not move the end."""


@dataclass(frozen=True, slots=True)
class LeaseOutcome:
    """Result of an ack or a nack."""

    changed_count: int
    stale: Int64Array
    """Tracked, but not under this lease.

    Leased by another, or (ack) not handed out by it or forgotten, or (nack) free.
    """
    unknown: Int64Array
    """Not tracked: nothing to do."""

    @classmethod
    def all_done(cls, count: int) -> "LeaseOutcome":
        """Return the result for positions that were all leased and are no longer."""
        return cls(count, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class CancelOutcome:
    """Result of a cancel. An offset that is in neither column is cancelled."""

    cancelled_count: int
    leased: Int64Array
    """Leased: unchanged."""
    unknown: Int64Array
    """Not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class RescheduleOutcome:
    """Result of a reschedule. An offset that is in none of the columns, or only in ``due``, has its new deadline."""

    rescheduled_count: int
    """Positions with a new deadline, those in ``due`` included."""
    due: Int64Array
    """Rescheduled, and the new deadline is due: still tracked, the next poll hands them out."""
    duplicate: Int64Array
    """Earlier in the same batch: unchanged, the first row decides."""
    leased: Int64Array
    """Leased: unchanged."""
    unknown: Int64Array
    """Not tracked: nothing to do."""
    beyond_max_delay: Int64Array
    """New deadline further away than ``max_delay_ms``: unchanged."""


@dataclass(frozen=True, slots=True)
class ExtendOutcome:
    """Result of an extend."""

    extended_count: int
    expires_at_ms: int
    stale: Int64Array
    """No longer under this lease: unchanged."""
    unknown: Int64Array
    """Not tracked: nothing to do."""


class MessagePlace(enum.Enum):
    """Place of one position."""

    NOT_TRACKED = "not tracked"
    ACKNOWLEDGED = "acknowledged"
    """At or below mark-delete."""
    MEMORY = "memory"
    """In the mutable bucket, in the late bucket, or in a bucket whose snapshot is being stored."""
    LOADED_SEGMENT = "loaded segment"
    LOADING_SEGMENT = "loading segment"
    """In a bucket with a load in flight: in the segments being read, or behind them."""
    UNLOADED_SEGMENT = "unloaded segment"
    LEASED = "leased"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Place of one position, and the time at which it would be handed out, as far as it is in memory."""

    place: MessagePlace
    deliver_at_ms: int | None = None
    """None if it is not tracked, or is in a segment that is not in memory."""
    available_at_ms: int | None = None
    """Time at which a poll would hand it out: its deadline less a tick, or the end of its lease."""
    bucket_id: int | None = None
    lease_id: int | None = None


@dataclass(frozen=True, slots=True)
class TrimOutcome:
    """Mark-delete position in force after an advance, and the number of tracked positions that it dropped."""

    mark_delete: Position
    trimmed_count: int


class BucketState(enum.Enum):
    """State of a bucket in its life cycle."""

    MUTABLE = "mutable"
    LATE = "late"
    SEALING = "sealing"
    SEALED = "sealed"


@dataclass(frozen=True, slots=True)
class BucketView:
    """One bucket, for operators."""

    bucket_id: int | None
    state: BucketState
    first: Position
    last: Position
    tracked_count: int
    sealed_count: int
    segment_count: int
    loaded_segment_count: int
    min_deliver_at_ms: int
    max_deliver_at_ms: int
    snapshot_bytes: int


@dataclass(frozen=True, slots=True)
class TrackerStats:
    """Sizes and counters of one tracker; O(1) to take.

    added + recovered = pending + leased + acked + handed_off + cancelled + trimmed + cleared + refused_as_due +
    dropped_as_corrupt, at any moment.
    """

    epoch: int
    pending_count: int
    leased_count: int
    loaded_count: int
    mutable_count: int
    late_count: int
    bucket_count: int
    snapshot_bytes: int
    membership_bytes: int
    """Approximate memory of the bitmaps, in bytes."""
    memory_bytes: int
    """Approximate memory that grows with the tracked positions, in bytes: rows, bitmaps, leases, buckets, segment bounds."""
    next_delivery_ms: int | None
    mark_delete: Position
    added_count: int
    recovered_count: int
    acked_count: int
    handed_off_count: int
    cancelled_count: int
    trimmed_count: int
    cleared_count: int
    refused_as_due_count: int
    dropped_as_corrupt_count: int
    due_on_offer_count: int
    duplicate_count: int
    lease_expired_count: int
    effects_failed_count: int
    replay_required: bool
    merge_count: int = 0
    merged_index_count: int = 0
    rescheduled_count: int = 0
    """Positions given another deadline, by a reschedule or a nack. Not part of the equation above."""
