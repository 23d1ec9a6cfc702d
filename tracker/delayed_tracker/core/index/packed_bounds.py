"""Bounds of the groups of a sealed bucket's segments, packed: they are most of the memory of a stored index.

A group takes 24 bytes in 64-bit columns, and seven or eight with counts of one or two bytes, and deadlines of four bytes
relative to the first one.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import Int64Array

NarrowArray = NDArray[np.unsignedinteger]
"""Array of 8, 16, 32 or 64 bits: the fewest that hold the largest value."""

_COLUMN_BYTES: Final = 120
"""Memory of an array beyond its values, in bytes."""


class PackedBounds:
    """Bounds of groups of segments, to be read a few at a time. Immutable."""

    __slots__ = ("_base_ms", "_count", "_each", "_earliest", "_first", "_span", "nbytes", "segment_count")

    def __init__(self, groups: SegmentGroups) -> None:
        bounds = groups.bounds
        self._each = groups.each
        self.segment_count = groups.segment_count
        """Segments in all groups."""
        first = bounds.min_deliver_at_ms
        self._base_ms = int(first.min()) if len(first) else 0
        self._count = _narrow(bounds.count)
        self._first = _narrow(first - self._base_ms)
        self._span = _narrow(bounds.max_deliver_at_ms - first)
        earliest = bounds.earliest_from
        self._earliest = self._first if earliest is first else _narrow(earliest - self._base_ms)
        columns = {id(column): column for column in (self._count, self._first, self._span, self._earliest)}
        self.nbytes = sum(_COLUMN_BYTES + column.nbytes for column in columns.values())
        """Approximate memory, in bytes."""

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._count)

    def segment_of(self, group: int) -> int:
        """Return the number of a group's first segment, from 0; for one past the last group, of segments."""
        return min(group * self._each, self.segment_count)

    def segments_from(self, first: int) -> Int64Array:
        """Return the number of the first segment of each group from ``first`` on, and one past the last segment."""
        return np.minimum(np.arange(first, len(self) + 1, dtype=np.int64) * self._each, self.segment_count)

    def take(self, first: int, end: int) -> SegmentBounds:
        """Return the groups from ``first`` to before ``end``."""
        least = self._first[first:end].astype(np.int64) + self._base_ms
        most = least + self._span[first:end].astype(np.int64)  # with 64 unsigned bits the sum would be of floats
        return SegmentBounds(self._count[first:end].astype(np.int64), least, most)

    def row_count(self, first: int, end: int) -> int:
        """Return the rows in the groups from ``first`` to before ``end``."""
        return int(self._count[first:end].sum(dtype=np.int64))

    def rows_through(self, first: int, end: int) -> Int64Array:
        """Return the running totals of the rows in the groups from ``first`` to before ``end``."""
        return np.cumsum(self._count[first:end], dtype=np.int64)

    def earliest_ms(self, group: int) -> int:
        """Return the first deadline of a group and all that follow it.

        Groups are loaded in order, and the deadlines of foreign ones may go back.
        """
        return self._base_ms + int(self._earliest[group])

    def end_before(self, first: int, horizon_ms: int) -> int:
        """Return one past the last group from ``first`` on with a deadline up to ``horizon_ms``, in it or behind."""
        above = horizon_ms - self._base_ms
        if above < 0:
            return first
        column = self._earliest
        # The limit has the column's own type: with another, numpy would widen the column first.
        limit = column.dtype.type(min(above, int(np.iinfo(column.dtype).max)))
        return first + int(column[first:].searchsorted(limit, side="right"))


def _narrow(values: Int64Array) -> NarrowArray:
    narrow: NarrowArray = values.astype(np.min_scalar_type(int(values.max(initial=0))))
    return narrow
