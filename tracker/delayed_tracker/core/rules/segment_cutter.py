"""Cutting of rows that come in delivery order, a few at a time, into whole segments. Shared by merging and the rebuild.

Memory is bounded by the rows of one feed and one segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from delayed_tracker.core.rules.segment import SegmentBounds, cut_segments, join_segments
from delayed_tracker.core.values.columns import IndexColumns


@dataclass(frozen=True, slots=True)
class WholeSegments:
    """The next whole segments, one or more."""

    indexes: IndexColumns
    """Rows of all these segments, ascending."""
    bounds: SegmentBounds


class SegmentCutter:
    """Cutter of one sequence of segments; one owner.

    Args:
        step_ms, count_max: how to cut, see ``cut_segments``.
        rows_min: how to join what was cut, see ``join_segments``.
    """

    __slots__ = ("_count_max", "_rows_min", "_step_ms", "_tail")

    def __init__(self, *, step_ms: int, count_max: int, rows_min: int = 1) -> None:
        self._step_ms = step_ms
        self._count_max = count_max
        self._rows_min = rows_min
        self._tail = IndexColumns.empty()
        """Rows that wait for the end of their segment."""

    @property
    def row_count(self) -> int:
        """Rows that wait for the end of their segment."""
        return len(self._tail)

    def feed(self, parts: Sequence[IndexColumns]) -> None:
        """Add the next rows; none may come before those fed earlier."""
        self._tail = IndexColumns.concat([self._tail, *parts])

    def take(self, *, at_end: bool) -> WholeSegments | None:
        """Return the segments that are complete, or None if none is.

        Args:
            at_end: True if no more rows come, so that the last segment is complete, too.
        Cost: O(rows that wait).
        """
        bounds = cut_segments(self._tail.deliver_at_ms, step_ms=self._step_ms, count_max=self._count_max)
        if not at_end and len(bounds) and int(bounds.count[-1]) != self._count_max:
            bounds = bounds.take(slice(0, -1))  # later rows may belong to the last segment
        bounds = join_segments(bounds, rows_min=self._rows_min, count_max=self._count_max)
        if not at_end and len(bounds) and int(bounds.count[-1]) < self._rows_min:
            bounds = bounds.take(slice(0, -1))  # and later segments
        if not len(bounds):
            return None
        end = int(bounds.starts[-1])
        whole = self._tail.take(slice(0, end))
        self._tail = self._tail.take(slice(end, None)).copy()
        return WholeSegments(whole, bounds)
