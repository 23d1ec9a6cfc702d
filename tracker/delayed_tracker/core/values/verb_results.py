"""What the core's verbs answer. Offsets point into the columns of the call and ascend."""

import enum
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns, Int64Array, Position

_NONE = np.empty(0, np.int64)
_NONE.flags.writeable = False


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """What became of each offered index: an offset in none of the columns is now tracked."""

    added_count: int
    due: Int64Array
    """Due already: not tracked, the dispatcher sends them now."""
    duplicate: Int64Array
    """Tracked or leased before, or earlier in the same batch: unchanged."""
    beyond_max_delay: Int64Array
    """Further away than ``max_delay_ms``: not tracked."""
    below_mark_delete: Int64Array
    """Acknowledged already: not tracked."""

    @classmethod
    def all_added(cls, count: int) -> "AddOutcome":
        """Every index is now tracked."""
        return cls(count, _NONE, _NONE, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Due indexes in (deliver_at_ms, ledger_id, entry_id) order, and the lease they are under."""

    indexes: IndexColumns
    lease_id: int = 0
    """0: there is no lease (nothing was due, or it was a hand-off)."""
    expires_at_ms: int = 0
    """When the lease ends, on the wall clock as it stands now: a step of that clock does not move the end."""


@dataclass(frozen=True, slots=True)
class LeaseOutcome:
    """What became of the positions of an ack or a nack."""

    changed_count: int
    stale: Int64Array
    """Tracked, and not this lease's: leased by another, or (ack) not handed out by it or forgotten, or (nack) free."""
    unknown: Int64Array
    """Not tracked: nothing to do."""

    @classmethod
    def all_done(cls, count: int) -> "LeaseOutcome":
        """Every position was held, and is no longer."""
        return cls(count, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class CancelOutcome:
    """What became of each position of a cancel: an offset in neither column is cancelled."""

    cancelled_count: int
    leased: Int64Array
    """In somebody's hands: unchanged."""
    unknown: Int64Array
    """Not tracked: nothing to do."""


@dataclass(frozen=True, slots=True)
class ExtendOutcome:
    """What became of the positions of an extend."""

    extended_count: int
    expires_at_ms: int
    stale: Int64Array
    """Not under this lease any more: unchanged."""
    unknown: Int64Array
    """Not tracked: nothing to do."""


class MessagePlace(enum.Enum):
    """Where one position is."""

    NOT_TRACKED = "not tracked"
    ACKNOWLEDGED = "acknowledged"
    """At or below mark-delete."""
    MEMORY = "memory"
    """In the mutable bucket, among the late positions, or in a bucket whose snapshot is being stored."""
    LOADED_SEGMENT = "loaded segment"
    LOADING_SEGMENT = "loading segment"
    """In a bucket with a load in flight: in the segments being read, or behind them."""
    UNLOADED_SEGMENT = "unloaded segment"
    LEASED = "leased"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where one position is, and when it would be handed out, as far as memory tells."""

    place: MessagePlace
    deliver_at_ms: int | None = None
    """None if it is not tracked, or stands in a segment that is not in memory."""
    available_at_ms: int | None = None
    """When a poll would hand it out: its deadline less a tick, or the end of its lease."""
    bucket_id: int | None = None
    lease_id: int | None = None


@dataclass(frozen=True, slots=True)
class TrimOutcome:
    """The mark-delete position in force after an advance, and how many tracked positions it dropped."""

    mark_delete: Position
    trimmed_count: int


class BucketState(enum.Enum):
    """Where a home of positions stands in its life."""

    MUTABLE = "mutable"
    LATE = "late"
    SEALING = "sealing"
    SEALED = "sealed"


@dataclass(frozen=True, slots=True)
class BucketView:
    """One bucket as operators see it."""

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
    """Memory of the bitmaps, about."""
    memory_bytes: int
    """Memory that grows with what is tracked, about: rows, bitmaps, leases, segment bounds."""
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
