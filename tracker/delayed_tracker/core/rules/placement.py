"""Placement of added rows: finds the row at which an add must stop to seal. Pure.

The service uses :func:`first_stop`. The rebuild uses :func:`sealed_in_order`, the same rule for counts by ledger.

A batch is placed as if row by row, so batch boundaries never change the result:

- a row above the sealed frontier goes to the mutable bucket. If its ledger lies above every ledger seen there and the
  bucket holds enough, the bucket is sealed first; if the row fills the bucket to its maximum, it is sealed after it.
- any other row is late. If it fills the late bucket to its maximum, that is sealed after it.
- the in-memory tracker seals nothing.

Source: PIP-195 "delayedDeliveryMinIndexCountPerBucket". The maxima are ours: a ledger that never rolls over, or ledgers
in descending order, would otherwise grow memory without bound.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.values.columns import BoolArray, Int64Array
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits


class SealTarget(enum.Enum):
    """Bucket to seal once the rows before the stop are placed."""

    NOTHING = "nothing"
    MUTABLE = "mutable"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Stop:
    """Number of rows to place, then the bucket to seal."""

    row_count: int
    seal: SealTarget


def first_stop(
    ledger_id: Int64Array,
    late: BoolArray,
    *,
    mutable_count: int,
    late_count: int,
    last_ledger_id: int,
    limits: TrackerLimits,
) -> Stop:
    """Return the first stop among rows: the point at which a bucket must be sealed.

    Args:
        ledger_id: ledgers of the rows to place, in order; none of them is tracked.
        late: mask of the rows that lie at or below the sealed frontier.
        mutable_count: positions in the mutable bucket before the first row.
        late_count: positions in the late bucket before the first row.
        last_ledger_id: highest ledger that the mutable bucket has had, -1 if none.
        limits: sizes at which buckets are full.
    Returns: the stop; ``row_count`` is the number of rows if no bucket must be sealed. It is 0 only for a seal. Cost:
    O(n).
    """
    best = Stop(len(ledger_id), SealTarget.NOTHING)
    if (
        limits.kind is TrackerKind.IN_MEMORY
        or not len(ledger_id)
        or (
            late_count + len(ledger_id) < limits.late_indexes_max
            and mutable_count + len(ledger_id) < limits.mutable_indexes_max
            and (
                mutable_count + len(ledger_id) <= limits.min_index_count_per_bucket or ledger_id.max() <= last_ledger_id
            )
        )
    ):
        return best  # most batches: no bucket can fill up, and no boundary is crossed with enough indexes
    on_time = np.flatnonzero(~late)
    if len(on_time):
        ledgers = ledger_id[on_time]
        seen = np.maximum.accumulate(np.concatenate(([last_ledger_id], ledgers[:-1])))
        held = mutable_count + np.arange(len(ledgers))
        crossing = np.flatnonzero((ledgers > seen) & (held >= limits.min_index_count_per_bucket))
        if len(crossing):
            best = Stop(int(on_time[crossing[0]]), SealTarget.MUTABLE)
        filling = max(0, limits.mutable_indexes_max - mutable_count - 1)
        if filling < len(on_time) and on_time[filling] < best.row_count:
            best = Stop(int(on_time[filling]) + 1, SealTarget.MUTABLE)
    behind = np.flatnonzero(late)
    filling = max(0, limits.late_indexes_max - late_count - 1)
    if filling < len(behind) and behind[filling] < best.row_count:
        best = Stop(int(behind[filling]) + 1, SealTarget.LATE)
    return best


@dataclass(frozen=True, slots=True)
class LedgerSpan:
    """Consecutive accepted rows of one ledger: ranks ``first`` to ``end - 1``, counted from 0 in entry order."""

    ledger_id: int
    first: int
    end: int

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.end - self.first


def sealed_in_order(
    counts: Iterable[tuple[int, int]], limits: TrackerLimits
) -> tuple[list[tuple[LedgerSpan, ...]], tuple[LedgerSpan, ...]]:
    """Return the sealed buckets for rows in position order: the rule of :func:`first_stop`, from counts alone.

    No row is late then, so the late bucket stays empty.

    Args:
        counts: (ledger id, rows accepted of it), ascending by ledger.
        limits: sizes at which the mutable bucket is full.
    Returns: the rows of each sealed bucket, in order; and those that stay in the mutable one. Cost: O(ledgers +
    buckets).
    """
    sealed: list[tuple[LedgerSpan, ...]] = []
    filling: list[LedgerSpan] = []
    held = 0
    for ledger_id, count in counts:
        if count and held >= limits.min_index_count_per_bucket:
            sealed.append(tuple(filling))
            filling, held = [], 0
        first = 0
        while first < count:
            end = min(count, first + limits.mutable_indexes_max - held)
            filling.append(LedgerSpan(ledger_id, first, end))
            held, first = held + end - first, end
            if held == limits.mutable_indexes_max:
                sealed.append(tuple(filling))
                filling, held = [], 0
    return sealed, tuple(filling)
