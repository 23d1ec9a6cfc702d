"""Groups of segments have the rows and bounds of their segments, and stay short."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_groups import GROUP_ROWS, LARGEST_GROUP_ROWS, SegmentGroups
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import GROUPS_MAX

ROWS = st.lists(st.integers(0, 5_000), max_size=60)


def bounds_of(rows: list[int]) -> SegmentBounds:
    """Return segments of five minutes with these rows."""
    first = np.arange(len(rows), dtype=np.int64) * 300_000
    return SegmentBounds(np.array(rows, np.int64), first, first + 299_999)


@given(ROWS, st.integers(1, 70))
def test_a_group_has_the_rows_and_the_bounds_of_its_segments(rows, each):
    """Groups cover every segment once, in order; the last may have fewer."""
    segments = bounds_of(rows)
    groups = SegmentGroups.in_groups_of(segments, each)
    assert groups.segment_of(len(groups)) == groups.segment_count == len(rows)
    for group in range(len(groups)):
        first, end = groups.segment_of(group), groups.segment_of(group + 1)
        assert end - first == each or (group == len(groups) - 1 and 0 < end - first < each)
        assert groups.bounds.count[group] == sum(rows[first:end])
        assert groups.bounds.min_deliver_at_ms[group] == segments.min_deliver_at_ms[first:end].min()
        assert groups.bounds.max_deliver_at_ms[group] == segments.max_deliver_at_ms[first:end].max()


@given(ROWS, st.integers(1, 70))
def test_groups_stay_short(rows, groups_max):
    """A group has the rows of its longest segment at most, or ``LARGEST_GROUP_ROWS``."""
    groups = SegmentGroups.of(bounds_of(rows), groups_max)
    assert groups.bounds.count.max(initial=0) <= max([LARGEST_GROUP_ROWS, *rows])
    assert groups.each == 1 or sum(rows) <= GROUP_ROWS * len(groups) * 2


@pytest.mark.parametrize(
    ("segments", "rows", "each"),
    [
        pytest.param(GROUPS_MAX, 6, 1, id="few segments"),
        pytest.param(2_016, 25, 4, id="a week"),
        pytest.param(8_640, 6, 17, id="a month"),
        pytest.param(8_640, 115, 2, id="a month of a million"),
        pytest.param(8_640, 1_157, 1, id="a month of ten millions"),
        pytest.param(0, 0, 1, id="nothing"),
    ],
)
def test_as_few_groups_as_are_worth_their_memory(segments, rows, each):
    """Segments are put together down to ``GROUPS_MAX`` groups, unless these would have too many rows."""
    assert SegmentGroups.of(bounds_of([rows] * segments)).each == each


def test_a_burst_among_single_rows_is_not_put_together():
    """Segments that are full make their neighbours' groups short, too."""
    groups = SegmentGroups.of(bounds_of([1] * 50_000 + [500] * 60 + [1] * 50_000))
    assert groups.bounds.count.max() <= LARGEST_GROUP_ROWS
    assert groups.each > 1


def test_groups_that_contradict_their_segments_are_refused():
    """The number of groups follows from the segments."""
    with pytest.raises(InvalidInput, match="groups: 3 is not valid; 4 segments in groups of 2 need another number"):
        SegmentGroups(bounds_of([1, 1, 1]), 2, 4)
    with pytest.raises(InvalidInput, match="a group has one segment or more"):
        SegmentGroups(bounds_of([]), 0, 0)
