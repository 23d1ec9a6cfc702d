"""Recovery as a plan: from the catalogue's buckets, the mark-delete position and the time to what is kept and deleted.

Pure; the shell reads the catalogue, asks for metadata where :func:`needs_metadata` says so, and hands the plan to
``TrackerCore.recovered``.

Source: Pulsar's ``BucketDelayedDeliveryTracker.recoverBucketSnapshot``. It differs in working on bits: where foreign
buckets overlap, a position belongs to the enclosing one, and a bucket left with nothing is deleted. Pulsar drops a range
that overlaps without enclosing, and every position in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracker.core.columns import Position
from tracker.core.position_bitmap import PositionBitmap
from tracker.core.segment import SegmentBounds


@dataclass(frozen=True, slots=True, eq=False)
class RecoverableBucket:
    """A catalogued bucket with what is known of its content: the union of its bits, or one set for each segment."""

    bucket_id: int
    first: Position
    last: Position
    bounds: SegmentBounds
    bits: PositionBitmap | None = None
    segment_bits: Sequence[PositionBitmap] | None = None
    consumed: PositionBitmap = field(default_factory=PositionBitmap)
    snapshot_bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class KeptBucket:
    """A bucket to go on with: its surviving bits, and the first segment that is still needed."""

    bucket_id: int
    first: Position
    last: Position
    bounds: SegmentBounds
    bits: PositionBitmap
    first_segment: int
    snapshot_bytes: int


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What to keep and what to delete, in a deterministic order."""

    keep: tuple[KeptBucket, ...] = ()
    delete: tuple[int, ...] = ()
    due_skipped_count: int = 0
    """Unconsumed positions in leading segments that are wholly due: the dispatcher's replay sends them at once."""


def leading_due_segments(bounds: SegmentBounds, cutoff_ms: int) -> int:
    """How many leading segments are wholly due."""
    alive = np.flatnonzero(bounds.max_deliver_at_ms > cutoff_ms)
    return int(alive[0]) if len(alive) else len(bounds)


def needs_metadata(bounds: SegmentBounds, cutoff_ms: int) -> bool:
    """Whether the union of the bits is not enough: some leading segments are wholly due, but not all are."""
    return 0 < leading_due_segments(bounds, cutoff_ms) < len(bounds)


def plan_recovery(buckets: Sequence[RecoverableBucket], *, mark_delete: Position, cutoff_ms: int) -> RecoveryPlan:
    """Decide what to keep.

    Leading segments that are wholly due are skipped with their bits; consumed positions and those at or below
    mark-delete are dropped; of overlapping buckets the widest range comes first and takes what it holds.

    Args:
        buckets: the catalogue's readable buckets, in any order.
        mark_delete: everything at or below is acknowledged.
        cutoff_ms: deadlines at or before it are due.
    Returns: kept buckets by first position; each position in at most one of them.
    """
    widest_first = sorted(
        buckets,
        key=lambda bucket: (bucket.first, tuple(-part for part in bucket.last), bucket.bucket_id),
    )
    claimed = PositionBitmap()
    keep: list[KeptBucket] = []
    delete: list[int] = []
    skipped = 0
    for bucket in widest_first:
        first_segment = leading_due_segments(bucket.bounds, cutoff_ms)
        bits, due = _surviving_bits(bucket, first_segment)
        for positions in (bits, due):
            positions.subtract(bucket.consumed)
            positions.remove_through(mark_delete)
            positions.subtract(claimed)
        skipped += len(due)
        if not bits:
            delete.append(bucket.bucket_id)
            continue
        claimed.update(bits)
        lowest, highest = bits.first(), bits.last()
        assert lowest is not None
        assert highest is not None
        # A foreign range is only an index: it must not hide bits that lie outside.
        first, last = min(bucket.first, lowest), max(bucket.last, highest)
        keep.append(
            KeptBucket(bucket.bucket_id, first, last, bucket.bounds, bits, first_segment, bucket.snapshot_bytes)
        )
    return RecoveryPlan(tuple(keep), tuple(delete), skipped)


def _surviving_bits(bucket: RecoverableBucket, first_segment: int) -> tuple[PositionBitmap, PositionBitmap]:
    """The bits of the segments still needed, and of those that are skipped; both the caller's own."""
    due, bits = PositionBitmap(), PositionBitmap()
    if bucket.segment_bits is not None:
        for number, segment in enumerate(bucket.segment_bits):
            (due if number < first_segment else bits).update(segment)
        return bits, due
    assert bucket.bits is not None
    if first_segment == len(bucket.bounds):
        return bits, bucket.bits.copy()
    assert first_segment == 0, "a partly due bucket needs its metadata"
    return bucket.bits.copy(), due
