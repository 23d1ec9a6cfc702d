"""Merging of the segments of several snapshots into those of one, a few rows at a time.

    source 1   [1 4 9] [12 ...    Of the rows fed, those up to the smallest "last row of a source that has more" are
    source 2   [2 3] [5 ...   ->  certainly the earliest: they are taken, cut into segments, and whole segments are
    source 3   ended              returned. The merge then returns the sources that it needs more of. The caller reads
                                  them; "not yet" is an ordinary result here and no exception.

Memory is bounded by the rows of one feed and one segment, never by a bucket. The sets of positions are the exception.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.rules.segment_cutter import SegmentCutter, WholeSegments
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap

_Key = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Needed:
    """Sources that must be fed or ended before the merge can continue."""

    sources: tuple[int, ...]


class StreamMerge:
    """A merge in progress: feed and end sources, and advance, until it returns None. One owner.

    Args:
        live: for each source the positions that count; no two sources share one. Copied.
        step_ms, count_max: how to cut segments, see ``cut_segments``.
        rows_min: how to join them, see ``join_segments``.
    """

    def __init__(self, live: Sequence[PositionBitmap], *, step_ms: int, count_max: int, rows_min: int = 1) -> None:
        self._sources = [_Source(bits.copy()) for bits in live]
        self._cutter = SegmentCutter(step_ms=step_ms, count_max=count_max, rows_min=rows_min)

    @property
    def row_count(self) -> int:
        """Rows in memory. O(sources)."""
        return sum(source.row_count for source in self._sources) + self._cutter.row_count

    def feed(self, source: int, rows: IndexColumns) -> None:
        """Add the next rows of a source, none before its earlier rows; removed copies and repeats are dropped.

        Raises:
            InvalidInput: the source's rows do not ascend.
        Cost: O(rows).
        """
        self._sources[source].feed(rows)

    def end(self, source: int) -> None:
        """Mark the end of a source.

        Raises:
            InvalidInput: a position that counts had no row.
        """
        self._sources[source].end()

    def advance(self) -> WholeSegments | Needed | None:
        """Continue with the rows that were fed.

        Returns: the next segments, or the sources to feed first, or None at the end of the merge. Cost: O(n log n) in
        the rows that were fed since.
        """
        needed = tuple(number for number, source in enumerate(self._sources) if source.is_starved)
        if needed:
            return Needed(needed)
        self._take()
        whole = self._cutter.take(at_end=all(source.is_done for source in self._sources))
        return self._unfinished() if whole is None else whole

    def _unfinished(self) -> Needed | None:
        needed = tuple(number for number, source in enumerate(self._sources) if source.is_starved)
        return Needed(needed) if needed else None

    def _take(self) -> None:
        """Pass to the cutter the rows that no later row can precede."""
        open_ends = [source.last for source in self._sources if not source.has_ended]
        limit = min(open_ends, default=None)
        parts = [part for source in self._sources if len(part := source.take_through(limit))]
        if parts:
            self._cutter.feed([IndexColumns.concat(parts).sorted()])


class _Source:
    """Rows of one source."""

    __slots__ = ("_rows", "_wanted", "has_ended", "last")

    def __init__(self, wanted: PositionBitmap) -> None:
        self._rows = IndexColumns.empty()
        self._wanted = wanted
        """Positions that count and have had no row yet."""
        self.has_ended = False
        self.last: _Key = (-1, -1, -1)
        """Last row fed, removed or not: no later row precedes it."""

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def is_starved(self) -> bool:
        return not self.has_ended and not len(self._rows)

    @property
    def is_done(self) -> bool:
        return self.has_ended and not len(self._rows)

    def feed(self, rows: IndexColumns) -> None:
        if not len(rows):
            return
        if _key(rows, 0) < self.last or not rows.ascend():
            raise InvalidInput("rows", f"{len(rows)} rows", "give each source's rows in delivery order")
        self.last = _key(rows, -1)
        fresh = rows.take(self._wanted.contains(rows.positions))
        if not len(fresh):
            return
        repeats = fresh.positions.repeats()
        if repeats.any():
            fresh = fresh.take(~repeats)
        self._wanted.remove(fresh.positions)
        self._rows = IndexColumns.concat([self._rows, fresh]) if len(self._rows) else fresh

    def end(self) -> None:
        if self._wanted:
            raise InvalidInput("rows", f"{len(self._wanted)} positions without a row", "give a row for each position")
        self.has_ended = True

    def take_through(self, limit: _Key | None) -> IndexColumns:
        """Consume the rows at or before a key; all rows for None."""
        count = len(self._rows) if limit is None else _count_through(self._rows, limit)
        taken = self._rows.take(slice(0, count))
        self._rows = self._rows.take(slice(count, None))
        return taken


def _key(rows: IndexColumns, row: int) -> _Key:
    return int(rows.deliver_at_ms[row]), int(rows.ledger_id[row]), int(rows.entry_id[row])


def _count_through(rows: IndexColumns, key: _Key) -> int:
    """Return the number of sorted rows at or before a key: three nested binary searches."""
    start, end = 0, len(rows)
    for column, value in zip((rows.deliver_at_ms, rows.ledger_id, rows.entry_id), key, strict=True):
        within = column[start:end]
        start, end = (
            start + int(np.searchsorted(within, value, side="left")),
            start + int(np.searchsorted(within, value, side="right")),
        )
    return end
