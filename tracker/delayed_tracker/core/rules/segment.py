"""Cutting of a sorted run into segments by time span and count. Shared by the service and the Spark job.

A segment starts at its first deadline t0 and ends before the first index whose deadline exceeds t0 + step - 1, or when
it holds ``count_max`` indexes, whichever comes first.

Source: PIP-195 "Delayed message index bucket snapshot"; Pulsar's ``MutableBucket.sealBucketAndAsyncPersistent``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.kernels.compiled import joined_segments, segment_starts
from delayed_tracker.core.values.columns import Int64Array


@dataclass(frozen=True, slots=True)
class SegmentBounds:
    """Segments as parallel columns: rows per segment, first and last deadline.

    In time order; for foreign segments this is only claimed.
    """

    count: Int64Array
    min_deliver_at_ms: Int64Array
    max_deliver_at_ms: Int64Array

    def __len__(self) -> int:
        return len(self.count)

    @property
    def starts(self) -> Int64Array:
        """Row at which each segment begins, and one past the last row: n + 1 values."""
        starts = np.zeros(len(self.count) + 1, np.int64)
        np.cumsum(self.count, out=starts[1:])
        return starts

    @property
    def earliest_from(self) -> Int64Array:
        """For each segment the first deadline of it and all that follow. Ascends, even if foreign segments do not."""
        first = self.min_deliver_at_ms
        if (first[1:] >= first[:-1]).all():
            return first
        return np.minimum.accumulate(first[::-1])[::-1]

    def take(self, where: slice) -> "SegmentBounds":
        """Return a contiguous range of the segments."""
        return SegmentBounds(self.count[where], self.min_deliver_at_ms[where], self.max_deliver_at_ms[where])

    @classmethod
    def concat(cls, parts: Sequence["SegmentBounds"]) -> "SegmentBounds":
        """Return all segments of all parts, in that order."""
        none = np.empty(0, np.int64)
        return cls(
            np.concatenate([none, *(part.count for part in parts)]),
            np.concatenate([none, *(part.min_deliver_at_ms for part in parts)]),
            np.concatenate([none, *(part.max_deliver_at_ms for part in parts)]),
        )


def cut_segments(deliver_at_ms: Int64Array, *, step_ms: int, count_max: int) -> SegmentBounds:
    """Return the bounds of the segments of a sorted column of deadlines.

    Args:
        deliver_at_ms: ascending deadlines; may be empty, which gives no segment.
        step_ms: a segment spans less than this, >= 1.
        count_max: a segment holds at most this many, >= 1, or -1 for no limit.
    Returns: bounds that cover every row once, in order. Cost: O(n).
    """
    total = len(deliver_at_ms)
    first = segment_starts(np.ascontiguousarray(deliver_at_ms), step_ms, count_max)
    end_rows = np.append(first[1:], total) if total else first
    return SegmentBounds(
        count=end_rows - first,
        min_deliver_at_ms=deliver_at_ms[first],
        max_deliver_at_ms=deliver_at_ms[end_rows - 1],
    )


def join_segments(bounds: SegmentBounds, *, rows_min: int, count_max: int) -> SegmentBounds:
    """Return the bounds with small segments joined to those that follow, until each has ``rows_min`` rows.

    For a codec whose segments have a price of their own. The last segment may have fewer rows, and so may one whose next
    does not fit.

    Args:
        bounds: in time order.
        rows_min: a segment with so many rows takes no more, >= 1; 1 joins nothing.
        count_max: a joined segment holds at most this many rows, or -1 for no limit.
    Cost: O(segments).
    """
    if rows_min <= 1 or not len(bounds):
        return bounds
    first = joined_segments(np.ascontiguousarray(bounds.count), rows_min, count_max)
    last = np.append(first[1:], len(bounds)) - 1
    return SegmentBounds(
        np.add.reduceat(bounds.count, first), bounds.min_deliver_at_ms[first], bounds.max_deliver_at_ms[last]
    )
