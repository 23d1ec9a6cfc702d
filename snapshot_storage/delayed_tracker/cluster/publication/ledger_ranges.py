"""Plans the buckets of a subscription as a broker keeps them: disjoint ranges of whole ledgers.

Our buckets are ranges of positions: several may have positions of one ledger, and the one that was sealed last is right.
A broker finds a bucket by ledger, and two of its ranges must not share one. So the positions that count are divided anew at
the ends of ledgers, by the rule by which Pulsar seals: a range ends with the ledger that gives it enough indexes.

Pure: the caller has read the metadata of the snapshots.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from delayed_tracker.core.rules.recovery import RecoverableBucket, plan_recovery
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap


@dataclass(frozen=True, slots=True, eq=False)
class SourceBucket:
    """A stored bucket, and those of its positions that count."""

    bucket_id: int
    groups: SegmentGroups
    bits: PositionBitmap
    """Never empty; no two buckets of a subscription share a position."""


@dataclass(frozen=True, slots=True, eq=False)
class LedgerRange:
    """A bucket to publish: all positions of consecutive ledgers that count."""

    first_ledger: int
    last_ledger: int
    ledger_counts: tuple[tuple[int, int], ...]
    """(ledger id, positions) of each ledger that has any, ascending."""

    @property
    def index_count(self) -> int:
        """Number of positions."""
        return sum(count for _, count in self.ledger_counts)

    def halves(self) -> tuple["LedgerRange", "LedgerRange"]:
        """Return two ranges with about half of the positions each; there must be two ledgers or more."""
        assert len(self.ledger_counts) > 1
        half, total, cut = self.index_count // 2, 0, 0
        for place, (_, count) in enumerate(self.ledger_counts[:-1], start=1):
            total, cut = total + count, place
            if total >= half:
                break
        return _range(self.ledger_counts[:cut]), _range(self.ledger_counts[cut:])


def surviving_buckets(
    buckets: Sequence[RecoverableBucket], *, mark_delete: Position, acked: PositionBitmap
) -> list[SourceBucket]:
    """Return the buckets that have positions which count, and these positions.

    Positions that are consumed, acknowledged, or in a bucket that was sealed later are dropped.

    Args:
        buckets: of the catalogue, in any order; their sets are not changed.
        mark_delete: everything at or below is acknowledged.
        acked: positions that are acknowledged one by one.
    Cost: O(ledgers of all buckets).
    """
    found = []
    for kept in plan_recovery(buckets, mark_delete=mark_delete, cutoff_ms=None).keep:
        kept.bits.subtract(acked)
        if kept.bits:
            found.append(SourceBucket(kept.bucket_id, kept.groups, kept.bits))
    return found


def plan_ranges(sources: Sequence[SourceBucket], *, index_count_min: int) -> list[LedgerRange]:
    """Return the ranges to publish, ascending and disjoint; the last one may have fewer indexes.

    Args:
        sources: of :func:`surviving_buckets`.
        index_count_min: a range ends with the ledger by which it has so many, >= 1: ``delayedDeliveryMinIndexCountPerBucket``.
    """
    counts: dict[int, int] = {}
    for source in sources:
        for ledger, bits in source.bits.bitmaps():
            counts[ledger] = counts.get(ledger, 0) + len(bits)
    return list(_ranges(sorted(counts.items()), index_count_min))


def within(bits: PositionBitmap, wanted: LedgerRange) -> PositionBitmap:
    """Return the positions of a set in the ledgers of a range; the bitmaps are copied."""
    first, last = wanted.first_ledger, wanted.last_ledger
    return PositionBitmap.from_bitmaps(
        {ledger: bitmap.copy() for ledger, bitmap in bits.bitmaps() if first <= ledger <= last}
    )


def _ranges(counts: Sequence[tuple[int, int]], index_count_min: int) -> Iterator[LedgerRange]:
    start = total = 0
    for place, (_, count) in enumerate(counts, start=1):
        total += count
        if total >= index_count_min:
            yield _range(counts[start:place])
            start, total = place, 0
    if start < len(counts):
        yield _range(counts[start:])


def _range(counts: Sequence[tuple[int, int]]) -> LedgerRange:
    return LedgerRange(counts[0][0], counts[-1][0], tuple(counts))
