"""Plan of the buckets of a subscription: the sealing and merging rules of the core, applied to counts.

The core receives indexes one by one; a rebuild only counts them. If indexes come in position order, at one time, and
none is consumed before the end, then the counts of accepted indexes by ledger determine the sealed buckets. Merges
follow each seal, as the core requests them.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from delayed_tracker.core.rules.merge_plan import group_to_merge
from delayed_tracker.core.rules.placement import LedgerSpan, sealed_in_order
from delayed_tracker.core.values.columns import INT63_MAX, Position
from delayed_tracker.core.values.limits import TrackerLimits

LedgerCount = tuple[int, int]
"""(ledger id, number of accepted indexes)."""

EntryAt = Callable[[int, int], int]
"""(ledger id, rank) -> entry id of the accepted index of that rank, from 0, in entry order."""


@dataclass(frozen=True, slots=True)
class PlannedBucket:
    """A bucket to be stored."""

    first: Position
    last: Position
    index_count: int
    is_merged: bool = False


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """Buckets of one subscription, ascending and disjoint."""

    buckets: tuple[PlannedBucket, ...]
    tail_first: Position | None
    """First index that no bucket contains because too few follow to seal a bucket; None if there is none."""
    tail_count: int
    merge_count: int
    """Number of merges in the plan."""


def plan_buckets(
    counts: Sequence[LedgerCount],
    limits: TrackerLimits,
    *,
    entry_at: EntryAt,
    too_large: Collection[tuple[Position, Position]] = frozenset(),
    whole_ledgers: bool = False,
) -> BucketPlan:
    """Return the buckets that the core would have stored, or with ``whole_ledgers`` those that a broker would have.

    Args:
        counts: accepted indexes, ascending by ledger.
        limits: of the tracker.
        entry_at: called only for the first and last index of a bucket.
        whole_ledgers: no two buckets share a ledger, and the last one has all that is left.
        too_large: (first, last) of merged buckets whose metadata exceeds its limit: they are not made.
    Cost: O(ledgers), and O(buckets) for each merge.
    """
    sealed, tail = sealed_in_order(counts, replace(limits, mutable_indexes_max=INT63_MAX) if whole_ledgers else limits)
    if whole_ledgers and tail:
        sealed, tail = [*sealed, tail], ()
    buckets: list[PlannedBucket] = []
    merge_count = 0
    for spans in sealed:
        buckets.append(_bucket(spans, entry_at))
        while (group := _next_merge(buckets, limits.max_num_buckets, too_large)) is not None:
            start, size = group
            buckets[start : start + size] = [_merged(buckets[start : start + size])]
            merge_count += 1
    return BucketPlan(
        tuple(buckets),
        tail_first=Position(tail[0].ledger_id, entry_at(tail[0].ledger_id, tail[0].first)) if tail else None,
        tail_count=sum(map(len, tail)),
        merge_count=merge_count,
    )


def _bucket(spans: tuple[LedgerSpan, ...], entry_at: EntryAt) -> PlannedBucket:
    first, last = spans[0], spans[-1]
    return PlannedBucket(
        Position(first.ledger_id, entry_at(first.ledger_id, first.first)),
        Position(last.ledger_id, entry_at(last.ledger_id, last.end - 1)),
        sum(map(len, spans)),
    )


def _next_merge(
    buckets: Sequence[PlannedBucket], count_max: int, too_large: Collection[tuple[Position, Position]]
) -> tuple[int, int] | None:
    return group_to_merge(
        [bucket.index_count for bucket in buckets],
        count_max,
        is_barred=lambda start, size: (buckets[start].first, buckets[start + size - 1].last) in too_large,
    )


def _merged(group: Sequence[PlannedBucket]) -> PlannedBucket:
    return PlannedBucket(group[0].first, group[-1].last, sum(bucket.index_count for bucket in group), is_merged=True)
