"""Sealing: turns the frozen indexes of a bucket into sorted rows and segment bounds. Pure, and run in another thread.

Source: Pulsar's ``MutableBucket.sealBucketAndAsyncPersistent``, which does this on the dispatcher's thread.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.rules.segment import SegmentBounds, cut_segments
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Position
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.last_deadlines import LastDeadlines
from delayed_tracker.core.values.position_bitmap import PositionBitmap

_ROWS_AT_ONCE: Final = 65_536
"""Rows to test against a set in one call: during each call other Python threads wait up to a millisecond."""


@dataclass(frozen=True, slots=True)
class FrozenIndexes:
    """Index copies of a bucket at the moment of sealing, valid until the result is reported.

    No part of it is changed.
    """

    bucket_number: int
    chunks: tuple[IndexColumns, ...]
    """Copies in any order, removed ones included."""
    live: PositionBitmap
    """Positions that count; each has at least one copy."""
    rescheduled: LastDeadlines | None
    """Deadlines that count, of positions that may have copies with an older one; None if there are none."""
    step_ms: int
    count_max: int
    first: Position
    last: Position

    def __len__(self) -> int:
        return len(self.live)


@dataclass(frozen=True, slots=True)
class SealedIndexes:
    """Content of a sealed bucket: rows in delivery order, cut into segments."""

    indexes: IndexColumns
    """Ascending by (deliver_at_ms, ledger_id, entry_id); no position twice."""
    bounds: SegmentBounds
    first: Position
    last: Position
    ledger_bytes: float | None = None
    """Average memory of the bitmap of one ledger of the frozen bucket, in bytes; None if not measured."""

    def segment(self, number: int) -> IndexColumns:
        """Return the rows of one segment; shares memory."""
        starts = self.bounds.starts
        return self.indexes.take(slice(int(starts[number]), int(starts[number + 1])))


def in_halves(sealed: SealedIndexes, *, step_ms: int, count_max: int) -> tuple[SealedIndexes, SealedIndexes]:
    """Return the rows of the lower and of the upper half of the positions, each cut into segments of its own.

    Args:
        sealed: two rows or more.
        step_ms: a segment spans less than this.
        count_max: a segment holds at most this many, or -1 for no limit.
    Cost: O(n log n).
    """
    indexes = sealed.indexes
    order = np.lexsort((indexes.entry_id, indexes.ledger_id))
    middle = len(order) // 2
    is_upper = np.zeros(len(order), np.bool_)
    is_upper[order[middle:]] = True
    halves = []
    for mask, ranks in ((~is_upper, order[:middle]), (is_upper, order[middle:])):
        rows = indexes.take(mask)
        bounds = cut_segments(rows.deliver_at_ms, step_ms=step_ms, count_max=count_max)
        first, last = (Position(int(indexes.ledger_id[row]), int(indexes.entry_id[row])) for row in ranks[[0, -1]])
        halves.append(SealedIndexes(rows, bounds, first, last))
    return halves[0], halves[1]


def without_rescheduled(
    live: BoolArray, indexes: IndexColumns, suspects: PositionBitmap, rescheduled: LastDeadlines
) -> BoolArray:
    """Remove from the mask ``live`` the copies of rescheduled positions with an old deadline; may change ``live``.

    ``suspects``: a set that contains every rescheduled position, and few others that are live. O(n).
    """
    rows = np.flatnonzero(live & suspects.contains(indexes.positions))
    if len(rows):
        live[rows] = ~rescheduled.superseded(indexes.take(rows))
    return live


def live_rows(indexes: IndexColumns, live: PositionBitmap, rescheduled: LastDeadlines | None) -> IndexColumns:
    """Return the rows that count: their position is live and, if it was rescheduled, their deadline is the last one."""
    keep = np.ones(len(indexes), np.bool_)
    suspects = None if rescheduled is None else rescheduled.positions()
    for start in range(0, len(indexes), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        part = indexes.take(rows)
        keep[rows] = live.contains(part.positions)
        if suspects is not None and rescheduled is not None:
            keep[rows] = without_rescheduled(keep[rows], part, suspects, rescheduled)
    return indexes if keep.all() else indexes.take(keep)


def without_repeats(indexes: IndexColumns) -> IndexColumns:
    """Return sorted rows without exact repeats of their predecessor."""
    repeat = indexes.repeat_predecessors()
    return indexes.take(~repeat) if repeat.any() else indexes


def seal(frozen: FrozenIndexes) -> SealedIndexes:
    """Drop removed copies, sort the rest, and cut it into segments.

    Raises:
        InvariantViolation: a live position has no copy, or two with different deadlines (a bug of the core).
    Cost: O(n log n).
    """
    indexes = without_repeats(live_rows(IndexColumns.concat(frozen.chunks), frozen.live, frozen.rescheduled).sorted())
    if len(indexes) != len(frozen.live):
        raise InvariantViolation(
            f"bucket {frozen.bucket_number} has {len(frozen.live)} positions to seal but {len(indexes)} copies of them"
        )
    return SealedIndexes(
        indexes=indexes,
        bounds=cut_segments(indexes.deliver_at_ms, step_ms=frozen.step_ms, count_max=frozen.count_max),
        first=frozen.first,
        last=frozen.last,
        ledger_bytes=frozen.live.nbytes / max(1, frozen.live.ledger_count),
    )
