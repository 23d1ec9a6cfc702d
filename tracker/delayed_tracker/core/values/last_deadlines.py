"""The last deadline given to each of some positions, which may also have copies with older ones.

Rows are collected, and sorted by position when they are searched. A block of sorted rows is joined with the one before, if
that is less than twice as long: their number stays logarithmic, and a row is sorted a logarithmic number of times.
"""

from collections.abc import Sequence

import numpy as np

from delayed_tracker.core.kernels.compiled import position_order
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Int64Array, PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.sorted_positions import SortedPositions

_ROW_BYTES = 24
_UNSORTED_MAX = 256
"""Calls that may add rows before they become a block."""


class _Block:
    """Distinct positions, ascending, each with a deadline."""

    __slots__ = ("deliver_at_ms", "positions")

    def __init__(self, parts: Sequence[IndexColumns]) -> None:
        """Take the rows of all parts, at least one; of a position that is repeated, the last one counts. O(n)."""
        rows = IndexColumns.concat(parts)
        rows = rows.take(position_order(*map(np.ascontiguousarray, (rows.ledger_id, rows.entry_id))))
        is_last = np.ones(len(rows), np.bool_)
        is_last[:-1] = (rows.ledger_id[1:] != rows.ledger_id[:-1]) | (rows.entry_id[1:] != rows.entry_id[:-1])
        rows = rows.take(is_last)
        self.deliver_at_ms: Int64Array = rows.deliver_at_ms
        self.positions = SortedPositions(rows.positions)

    def __len__(self) -> int:
        return len(self.deliver_at_ms)

    def rows(self) -> IndexColumns:
        positions = self.positions.take(slice(None))
        return IndexColumns(self.deliver_at_ms, positions.ledger_id, positions.entry_id)


class LastDeadlines:
    """Map of positions to deadlines, as columns."""

    __slots__ = ("_blocks", "_unsorted")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        """Oldest first; each is at least twice as long as the next. The youngest that has a position decides."""
        self._unsorted: list[IndexColumns] = []

    def __len__(self) -> int:
        """Return the number of rows: at least that of the positions, and less than twice as many, but for the latest."""
        return sum(map(len, self._blocks)) + sum(map(len, self._unsorted))

    @property
    def nbytes(self) -> int:
        """Approximate memory of the rows, in bytes."""
        return _ROW_BYTES * len(self)

    def put(self, indexes: IndexColumns) -> None:
        """Take deadlines that count from now on; the rows are kept, so they must not be a slice. Amortised O(n log rows)."""
        if len(indexes):
            self._unsorted.append(indexes)
            if len(self._unsorted) >= _UNSORTED_MAX:
                self._sort()

    def superseded(self, indexes: IndexColumns) -> BoolArray:
        """Return a mask of the rows whose position has another last deadline here. O(n), with a search in each block."""
        self._sort()
        superseded = np.zeros(len(indexes), np.bool_)
        asked = np.arange(len(indexes))
        for block in reversed(self._blocks):
            rows = block.positions.find(indexes.positions.take(asked))
            found = rows >= 0
            hits = asked[found]
            superseded[hits] = block.deliver_at_ms[rows[found]] != indexes.deliver_at_ms[hits]
            asked = asked[~found]
            if not len(asked):
                break
        return superseded

    def positions(self) -> PositionBitmap:
        """Return the positions that have a deadline here. O(rows)."""
        self._sort()
        parts = [block.positions.take(slice(None)) for block in self._blocks]
        return PositionBitmap.of(PositionColumns.concat(parts)) if parts else PositionBitmap()

    def copy(self) -> "LastDeadlines":
        """Return the same deadlines, which later changes do not affect; another thread may read them. O(blocks)."""
        self._sort()
        twin = LastDeadlines()
        twin._blocks = self._blocks.copy()
        return twin

    def _sort(self) -> None:
        if not self._unsorted:
            return
        blocks = self._blocks
        blocks.append(_Block(self._unsorted))
        self._unsorted = []
        while len(blocks) > 1 and len(blocks[-2]) < 2 * len(blocks[-1]):
            blocks[-2:] = [_Block([blocks[-2].rows(), blocks[-1].rows()])]
