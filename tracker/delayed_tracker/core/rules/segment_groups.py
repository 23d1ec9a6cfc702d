"""Groups of adjacent segments: what a tracker remembers of a stored bucket, and the unit in which it loads.

Segments are cut by time, so a bucket of 50,000 indexes over a month has 8,500 segments of six. Remembered one by one,
their bounds would be most of the memory of a tracker with 100 M pending, and most of what recovery reads; and no load
would end within so few rows anyway. The stored segments stay as PIP-195 cuts them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import GROUPS_MAX

GROUP_ROWS: Final = 256
"""Rows of a group, on average, that are few enough to be loaded before most of them are wanted."""
LARGEST_GROUP_ROWS: Final = 8_192
"""Rows of any group at most, unless one of its segments has more: 200 KB in memory."""


@dataclass(frozen=True, slots=True)
class SegmentGroups:
    """Segments of a snapshot in groups. A group counts as one segment with the rows of all its segments."""

    bounds: SegmentBounds
    """Bounds of the groups, one row for each."""
    each: int
    """Segments of a group, >= 1; the last group may have fewer."""
    segment_count: int
    """Segments of the snapshot."""

    def __post_init__(self) -> None:
        """Raise InvalidInput unless the groups are as many as the segments need."""
        if self.each < 1:
            raise InvalidInput("segments of a group", self.each, "a group has one segment or more")
        if len(self.bounds) != -(-self.segment_count // self.each):
            raise InvalidInput(
                "groups",
                len(self.bounds),
                f"{self.segment_count} segments in groups of {self.each} need another number",
            )

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.bounds)

    @classmethod
    def of(cls, segments: SegmentBounds, groups_max: int = GROUPS_MAX) -> "SegmentGroups":
        """Group the segments of a snapshot.

        There are at most ``groups_max`` groups, unless they would be long then: the average stays below ``GROUP_ROWS``
        rows, and no group has more than ``LARGEST_GROUP_ROWS``, unless one of its segments has.
        """
        return cls.in_groups_of(segments, _fitting(segments, groups_max))

    @classmethod
    def in_groups_of(cls, segments: SegmentBounds, each: int) -> "SegmentGroups":
        """Group the segments of a snapshot by a number of segments, >= 1."""
        if each == 1:
            return cls(segments, 1, len(segments))
        starts = np.arange(0, len(segments), each)
        grouped = SegmentBounds(
            np.add.reduceat(segments.count, starts),
            np.minimum.reduceat(segments.min_deliver_at_ms, starts),
            np.maximum.reduceat(segments.max_deliver_at_ms, starts),
        )
        return cls(grouped, each, len(segments))

    def segment_of(self, group: int) -> int:
        """Return the number of a group's first segment, from 0; for one past the last group, of segments."""
        return min(group * self.each, self.segment_count)


def _fitting(segments: SegmentBounds, groups_max: int) -> int:
    count = segments.count
    wanted = -(-len(count) // groups_max)
    if wanted <= 1:
        return 1
    each = min(wanted, GROUP_ROWS * len(count) // max(1, int(count.sum())))
    rows_max = max(LARGEST_GROUP_ROWS, int(count.max()))
    while each > 1 and int(np.add.reduceat(count, np.arange(0, len(count), each)).max()) > rows_max:
        each //= 2
    return max(1, each)
