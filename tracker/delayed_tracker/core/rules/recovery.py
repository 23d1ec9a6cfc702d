"""Recovery as a plan: which buckets of the catalogue to keep and to delete, given mark-delete and the time.

Pure. The service reads the catalogue, reads metadata if :func:`needs_metadata` returns True, and passes the plan to
``TrackerCore.recovered``.

Two buckets may contain the same position: it was given back with another deadline, or acknowledged and offered again,
and then sealed again; a crash came before its removal from the older bucket was recorded. Then the bucket whose content
was frozen last is right, whatever the ranges: the one with the highest seal number. Bucket ids do not show this, since
stores finish in any order. Foreign (Pulsar-written) buckets have no number and count as older than ours. Among them the
enclosing one is right.

Source: Pulsar's ``BucketDelayedDeliveryTracker.recoverBucketSnapshot``. It differs in working on bits: a bucket left
without bits is deleted, the others keep their own. Pulsar drops a range that overlaps without enclosing, and every
position in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import BEFORE_ALL, Position, before
from delayed_tracker.core.values.position_bitmap import PositionBitmap


@dataclass(frozen=True, slots=True, eq=False)
class RecoverableBucket:
    """Bucket of the catalogue with its known content: the union of its bits, or one set for each segment.

    With the union, a bucket whose leading segments are due in part needs ``due_bits``, too.
    """

    bucket_id: int
    first: Position
    last: Position
    groups: SegmentGroups
    bits: PositionBitmap | None = None
    segment_bits: Sequence[PositionBitmap] | None = None
    due_bits: PositionBitmap | None = None
    """Positions of the leading groups that are wholly due at the cutoff of the recovery."""
    consumed: PositionBitmap = field(default_factory=PositionBitmap)
    snapshot_bytes: int = 0
    seal_number: int | None = None
    """Number taken from the tracker's counter when the content was frozen; None if this tracker did not freeze it."""
    is_foreign: bool = False
    """True if Pulsar wrote it: its bitmaps may contain positions that no segment has."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptBucket:
    """A bucket that is kept, with its surviving bits and the first group of segments that is still needed."""

    bucket_id: int
    first: Position
    last: Position
    groups: SegmentGroups
    bits: PositionBitmap
    first_group: int
    snapshot_bytes: int
    is_foreign: bool


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """Buckets to keep and buckets to delete, in a deterministic order."""

    keep: tuple[KeptBucket, ...] = ()
    delete: tuple[int, ...] = ()
    due_skipped_count: int = 0
    """Unconsumed positions in leading groups that are wholly due: the dispatcher's replay sends them at once."""


def leading_due_groups(groups: SegmentGroups, cutoff_ms: int | None) -> int:
    """Return the number of leading groups of segments that are wholly due; none without a cutoff."""
    if cutoff_ms is None:
        return 0
    alive = np.flatnonzero(groups.bounds.max_deliver_at_ms > cutoff_ms)
    return int(alive[0]) if len(alive) else len(groups)


def needs_metadata(groups: SegmentGroups, cutoff_ms: int | None) -> bool:
    """Return True if the union of the bits is not enough: some leading groups are wholly due, but not all."""
    return 0 < leading_due_groups(groups, cutoff_ms) < len(groups)


def claim_after_loss(offered_through: Position, lost_from: Position) -> Position:
    """Return the dispatcher's claim when positions from ``lost_from`` on are lost: it ends before them.

    If the first position of all is lost, or BEFORE_ALL is given, nothing is claimed (BEFORE_ALL).
    """
    if offered_through < lost_from:
        return offered_through
    return max(BEFORE_ALL, before(lost_from))


def plan_recovery(
    buckets: Sequence[RecoverableBucket], *, mark_delete: Position, cutoff_ms: int | None
) -> RecoveryPlan:
    """Decide which buckets to keep and which to delete.

    Leading groups of segments that are wholly due are skipped with their bits, if a replay sends them; consumed positions and those at or below
    mark-delete are dropped. A position that several buckets still hold stays in the first of them in this order: those
    with a seal number, the highest first; then the others, by first position, the widest first.

    Args:
        buckets: the catalogue's readable buckets, in any order.
        mark_delete: everything at or below is acknowledged.
        cutoff_ms: deadlines at or before it are due; None skips nothing, because no replay follows.
    Returns: kept buckets by first position and deleted ones by id; each position in at most one bucket.
    """
    claimed, skipped = PositionBitmap(), PositionBitmap()
    keep: list[KeptBucket] = []
    delete: list[int] = []
    for bucket in sorted(buckets, key=_precedence):
        first_group = leading_due_groups(bucket.groups, cutoff_ms)
        bits, due = _surviving_bits(bucket, first_group)
        for positions in (bits, due):
            positions.subtract(bucket.consumed)
            positions.remove_through(mark_delete)
            positions.subtract(claimed)
        skipped.update(due)
        if not bits:
            delete.append(bucket.bucket_id)
            continue
        claimed.update(bits)
        lowest, highest = bits.first(), bits.last()
        assert lowest is not None
        assert highest is not None
        keep.append(
            KeptBucket(
                bucket_id=bucket.bucket_id,
                # The range of a foreign bucket is only a hint: it must not exclude bits outside it.
                first=min(bucket.first, lowest),
                last=max(bucket.last, highest),
                groups=bucket.groups,
                bits=bits,
                first_group=first_group,
                snapshot_bytes=bucket.snapshot_bytes,
                is_foreign=bucket.is_foreign,
            )
        )
    skipped.subtract(claimed)
    keep.sort(key=lambda kept: (kept.first, kept.last, kept.bucket_id))
    return RecoveryPlan(tuple(keep), tuple(sorted(delete)), len(skipped))


def _precedence(bucket: RecoverableBucket) -> tuple[int, ...]:
    """Return a sort key: of several buckets with one position, the one with the lowest key is right."""
    if bucket.seal_number is not None:
        return (0, -bucket.seal_number, -bucket.bucket_id)
    return (1, *bucket.first, *(-part for part in bucket.last), bucket.bucket_id)


def _surviving_bits(bucket: RecoverableBucket, first_group: int) -> tuple[PositionBitmap, PositionBitmap]:
    """Return the bits of the groups still needed, and of those that are skipped; the caller owns both."""
    due, bits = PositionBitmap(), PositionBitmap()
    if bucket.segment_bits is not None:
        first_segment = bucket.groups.segment_of(first_group)
        for number, segment in enumerate(bucket.segment_bits):
            (due if number < first_segment else bits).update(segment)
        return bits, due
    assert bucket.bits is not None
    if first_group == len(bucket.groups):
        return bits, bucket.bits.copy()
    bits = bucket.bits.copy()
    if first_group:
        assert bucket.due_bits is not None, "a partly due bucket needs its metadata"
        due.update(bucket.due_bits)
        bits.subtract(due)
    return bits, due
