"""Sealing: from a frozen home of indexes to sorted rows and segment bounds. Pure, and run away from the caller's path.

Source: Pulsar's ``MutableBucket.sealBucketAndAsyncPersistent``, which does this on the dispatcher's thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.rules.segment import SegmentBounds, cut_segments
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.position_bitmap import PositionBitmap

_ROWS_AT_ONCE: Final = 65_536
"""So many rows are looked up in a set together: each time, other threads of Python wait up to a millisecond."""


@dataclass(frozen=True, slots=True)
class FrozenIndexes:
    """A home's copies of indexes as they were at the moment of sealing, to be read until the result is reported.

    Nobody writes to any part of it.
    """

    home_key: int
    chunks: tuple[IndexColumns, ...]
    """Copies in any order; dead ones among them."""
    live: PositionBitmap
    """The positions that count: each has at least one copy."""
    redated: Mapping[Position, int]
    """Positions that may have copies under an older deadline, with the deadline that counts."""
    step_ms: int
    count_max: int
    first: Position
    last: Position

    def __len__(self) -> int:
        return len(self.live)


@dataclass(frozen=True, slots=True)
class SealedIndexes:
    """A sealed bucket's content: rows in delivery order, cut into segments."""

    indexes: IndexColumns
    """Ascending by (deliver_at_ms, ledger_id, entry_id); no position twice."""
    bounds: SegmentBounds
    first: Position
    last: Position
    ledger_bytes: float | None = None
    """Memory of the bitmap of one ledger of the home that was frozen, on average; None if nobody measured."""

    def segment(self, number: int) -> IndexColumns:
        """The rows of one segment; shares memory."""
        starts = self.bounds.starts
        return self.indexes.take(slice(int(starts[number]), int(starts[number + 1])))


def without_old_dates(live: BoolArray, indexes: IndexColumns, redated: Mapping[Position, int]) -> BoolArray:
    """The live copies less those of positions that were dated anew under another deadline; may change ``live``.

    Cost: O(1) if nothing was dated anew, else a step for each copy of such a position.
    """
    if redated and len(indexes):
        suspects = PositionBitmap.of(PositionColumns.of(redated))
        for row in np.flatnonzero(live & suspects.contains(indexes.positions)):
            position = Position(int(indexes.ledger_id[row]), int(indexes.entry_id[row]))
            live[row] = int(indexes.deliver_at_ms[row]) == redated[position]
    return live


def live_rows(indexes: IndexColumns, live: PositionBitmap, redated: Mapping[Position, int]) -> IndexColumns:
    """The rows that count: their position is live and, where it was dated anew, their deadline is the last one."""
    keep = np.ones(len(indexes), np.bool_)
    for start in range(0, len(indexes), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        part = indexes.take(rows)
        keep[rows] = without_old_dates(live.contains(part.positions), part, redated)
    return indexes if keep.all() else indexes.take(keep)


def without_repeats(indexes: IndexColumns) -> IndexColumns:
    """Sorted rows without exact repeats of their predecessor."""
    repeat = indexes.repeat_predecessors()
    return indexes.take(~repeat) if repeat.any() else indexes


def seal(frozen: FrozenIndexes) -> SealedIndexes:
    """Drop dead copies, sort, cut.

    Raises:
        InvariantViolation: a live position has no copy, or two with different deadlines (a bug of the core).
    Cost: O(n log n).
    """
    indexes = without_repeats(live_rows(IndexColumns.concat(frozen.chunks), frozen.live, frozen.redated).sorted())
    if len(indexes) != len(frozen.live):
        raise InvariantViolation(
            f"home {frozen.home_key} has {len(frozen.live)} positions to seal but {len(indexes)} copies of them"
        )
    return SealedIndexes(
        indexes=indexes,
        bounds=cut_segments(indexes.deliver_at_ms, step_ms=frozen.step_ms, count_max=frozen.count_max),
        first=frozen.first,
        last=frozen.last,
        ledger_bytes=frozen.live.nbytes / max(1, frozen.live.ledger_count),
    )
