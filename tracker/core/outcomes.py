"""What the core's verbs answer. Offsets point into the columns of the call and ascend."""

import enum
from dataclasses import dataclass

from tracker.core.columns import IndexColumns, Int64Array, Position


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


@dataclass(frozen=True, slots=True)
class Delivery:
    """Due indexes in (deliver_at_ms, ledger_id, entry_id) order, and the lease they are under."""

    indexes: IndexColumns
    lease_id: int = 0
    """0: there is no lease (nothing was due, or it was a hand-off)."""
    expires_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeaseOutcome:
    """What became of the positions of an ack or a nack."""

    changed_count: int
    stale: Int64Array
    """Leased again under another lease, or (nack) no longer leased: unchanged."""
    unknown: Int64Array
    """Not tracked: nothing to do."""


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
