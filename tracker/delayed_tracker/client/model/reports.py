"""Answers of the service to an operator, as frozen values: sizes, buckets, single messages, the state of snapshots."""

import enum
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from delayed_tracker.client.model.answers import Position
from delayed_tracker.wire.roaring_bitmap import entries_of


@dataclass(frozen=True, slots=True)
class TrackerStats:
    """Sizes and counters of one tracker since it was last loaded.

    At any time: added + recovered = pending + leased + acked + handed_off + cancelled + trimmed + cleared +
    refused_as_due + dropped_as_corrupt.
    """

    epoch: int
    owner: str
    pending_count: int
    leased_count: int
    loaded_count: int
    mutable_count: int
    late_count: int
    bucket_count: int
    snapshot_bytes: int
    membership_bytes: int
    memory_bytes: int
    """Approximate memory that grows with the tracked positions, in bytes; includes ``membership_bytes``."""
    next_delivery_at_ms: int | None
    mark_delete: Position | None
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
    orphans_swept_count: int
    snapshots_missing_count: int
    snapshots_corrupt_count: int
    replay_required: bool
    server_time_ms: int
    pause_reading: bool
    """See DueMessages."""
    merge_count: int
    merged_index_count: int
    """Indexes that merges rewrote."""
    handed_out_count: int
    """Positions that polls returned, leased or not; a position counts each time. Not part of the identity."""
    rescheduled_count: int
    """Positions given another deadline, by a reschedule or a nack; each time counts. Not part of the identity."""
    log_bytes: int
    """Bytes of the tracker's records in the add log, written or waiting; 0 without an add log."""
    unwritten_consumed_count: int
    """Consumed positions that are not in the add log yet: a crash now would hand them out again."""
    consumption_window_positions: int | None
    """Limit of ``unwritten_consumed_count`` of all trackers together; None without an add log."""
    offered_through: Position | None
    """The dispatcher's claim: all that is delayed and unacknowledged up to it was offered. None if there is none."""
    unloaded: bool
    """True if the tracker is idle and not in memory; sizes of what is in memory are 0."""

    @property
    def unaccounted_count(self) -> int:
        """Added and recovered positions that no other counter contains: always 0."""
        gone = (
            self.acked_count
            + self.handed_off_count
            + self.cancelled_count
            + self.trimmed_count
            + self.cleared_count
            + self.refused_as_due_count
            + self.dropped_as_corrupt_count
        )
        return self.added_count + self.recovered_count - self.pending_count - self.leased_count - gone


class BucketState(enum.Enum):
    """State of a bucket."""

    MUTABLE = "mutable"
    LATE = "late"
    SEALING = "sealing"
    SEALED = "sealed"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of a tracker."""

    bucket_id: int | None
    """Id of the snapshot; None before there is one."""
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
class PeekedMessages:
    """Tracked indexes as parallel columns, ordered by (deliver_at_ms, ledger, entry)."""

    deliver_at_ms: "array[int]"
    ledger_ids: "array[int]"
    entry_ids: "array[int]"
    leased_offsets: tuple[int, ...]
    """Offsets of the positions that are leased now."""
    truncated: bool
    """True if the range contains more."""

    def __len__(self) -> int:
        return len(self.ledger_ids)

    def __iter__(self) -> Iterator[Position]:
        return map(Position, self.ledger_ids, self.entry_ids)


@dataclass(frozen=True, slots=True)
class LedgerMembership:
    """Tracked entries of one ledger, or of a range of its entries."""

    ledger_id: int
    bitmap: bytes
    """Entry ids as a 32-bit Roaring bitmap in the portable format: ``pyroaring.BitMap.deserialize`` reads it."""

    def entry_ids(self) -> "array[int]":
        """Return the entry ids, ascending. O(entries), a second for ten million."""
        return entries_of(self.bitmap)


class MessagePlace(enum.Enum):
    """Place of a position in the tracker."""

    NOT_TRACKED = "not_tracked"
    """Not tracked, and above mark-delete."""
    ACKNOWLEDGED = "acknowledged"
    """At or below mark-delete."""
    MEMORY = "memory"
    """In the mutable bucket, among the late positions, or in a bucket whose snapshot is being stored."""
    LOADED_SEGMENT = "loaded_segment"
    LOADING_SEGMENT = "loading_segment"
    UNLOADED_SEGMENT = "unloaded_segment"
    LEASED = "leased"
    """Under a lease."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Place of one position, the reason why it was not delivered, and the next step."""

    position: Position
    place: MessagePlace
    deliver_at_ms: int | None
    """Deadline, if the position is tracked."""
    available_at_ms: int | None
    """Time at which a poll would return it: its deadline less a tick, or the end of its lease."""
    bucket_id: int | None
    segment: int | None
    """Segment of the bucket, from 0."""
    lease_id: int | None
    explanation: str
    """The same explanation as text."""
    server_time_ms: int


@dataclass(frozen=True, slots=True)
class DeliveryHistogram:
    """Number of tracked indexes in each interval of deadlines."""

    from_ms: int
    step_ms: int
    before_count: int
    """Deadlines before ``from_ms``."""
    counts: tuple[int, ...]
    """Count of each bar: bar i counts deadlines in [from_ms + i * step_ms, from_ms + (i + 1) * step_ms)."""
    after_count: int
    estimated_count: int
    """Indexes that were not counted but spread evenly over the span of a segment on disk."""

    @property
    def total_count(self) -> int:
        """Tracked indexes, within the bars or not."""
        return self.before_count + sum(self.counts) + self.after_count


@dataclass(frozen=True, slots=True)
class SnapshotVerdict:
    """Result of verifying one snapshot."""

    bucket_id: int
    segment_count: int
    index_count: int
    snapshot_bytes: int
    problems: tuple[str, ...]
    """Problems, one sentence each; empty if there are none."""


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """Result of verifying the snapshots of a tracker."""

    snapshots: tuple[SnapshotVerdict, ...]
    orphan_bucket_ids: tuple[int, ...]
    """Snapshots without a catalogue entry: harmless, deleted when the tracker is loaded next."""

    @property
    def sound(self) -> bool:
        """True if no snapshot has a problem."""
        return not any(verdict.problems for verdict in self.snapshots)


@dataclass(frozen=True, slots=True)
class TrackerSummary:
    """One tracker of a listing; the fields after ``open`` have a meaning only if it is open."""

    topic: str
    subscription: str
    open: bool
    """True if the tracker is open, in memory or not; otherwise it is only on disk."""
    recovering: bool
    owner: str
    epoch: int
    pending_count: int
    leased_count: int
    bucket_count: int
    next_delivery_at_ms: int | None
    unloaded: bool = False
    """True if the tracker is open, idle and not in memory."""


@dataclass(frozen=True, slots=True)
class TrackerPage:
    """One page of a listing."""

    trackers: tuple[TrackerSummary, ...]
    next_page_token: str
    """Token of the next page; empty on the last page."""
