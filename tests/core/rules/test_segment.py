"""Cutting segments: examples, and a comparison with a simple loop over rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.segment import SegmentBounds, cut_segments, join_segments
from delayed_tracker.core.values.columns import INT63_MAX

Bounds = list[tuple[int, int, int]]


def cut(deadlines: list[int], *, step_ms: int, count_max: int = -1) -> Bounds:
    return rows_of(cut_segments(np.array(deadlines, np.int64), step_ms=step_ms, count_max=count_max))


def rows_of(bounds: SegmentBounds) -> Bounds:
    columns = (bounds.count, bounds.min_deliver_at_ms, bounds.max_deliver_at_ms)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def cut_row_by_row(deadlines: list[int], *, step_ms: int, count_max: int) -> Bounds:
    """Cut as PIP-195 describes it: close the segment before a row that is a step away, or when it is full."""
    segments: list[list[int]] = []
    for deadline in deadlines:
        full = segments and count_max != -1 and len(segments[-1]) >= count_max
        if not segments or full or deadline > segments[-1][0] + step_ms - 1:
            segments.append([])
        segments[-1].append(deadline)
    return [(len(segment), segment[0], segment[-1]) for segment in segments]


def test_scenario_row_7_a_step_of_300_seconds_ends_before_its_last_millisecond_is_exceeded():
    """Deadlines at 0, 299, 300 and 301 s with steps of 300 s are cut into {0, 299} and {300, 301}."""
    assert cut([0, 299_000, 300_000, 301_000], step_ms=300_000) == [(2, 0, 299_000), (2, 300_000, 301_000)]
    assert cut([0, 299_999, 300_000], step_ms=300_000) == [(2, 0, 299_999), (1, 300_000, 300_000)]


def test_scenario_row_9_one_deadline_is_cut_by_count():
    """50,000 indexes with one deadline and at most 5,000 a segment are ten segments of 5,000."""
    assert cut([7_000] * 50_000, step_ms=3_600_000, count_max=5_000) == [(5_000, 7_000, 7_000)] * 10


def test_the_step_counts_from_the_segments_own_first_deadline():
    """A step begins at the first deadline of its segment, not at a multiple of the step."""
    assert cut([5, 14, 15, 24, 25], step_ms=10) == [(2, 5, 14), (2, 15, 24), (1, 25, 25)]


def test_no_limit_on_the_count_leaves_one_segment_for_each_step():
    """A count of -1 is unlimited."""
    assert cut([1] * 20_000, step_ms=1, count_max=-1) == [(20_000, 1, 1)]


def test_no_deadlines_give_no_segments():
    """A drained bucket that is still stored has no segments."""
    bounds = cut_segments(np.empty(0, np.int64), step_ms=10, count_max=5)
    assert len(bounds) == 0
    assert bounds.starts.tolist() == [0]


@pytest.mark.parametrize(
    ("deadlines", "step_ms", "expected"),
    [
        ([INT63_MAX], 1, [(1, INT63_MAX, INT63_MAX)]),
        ([INT63_MAX - 1, INT63_MAX], 300_000, [(2, INT63_MAX - 1, INT63_MAX)]),
        ([INT63_MAX - 1, INT63_MAX], 2, [(2, INT63_MAX - 1, INT63_MAX)]),
        ([0, INT63_MAX, INT63_MAX], INT63_MAX, [(1, 0, 0), (2, INT63_MAX, INT63_MAX)]),
        ([1, INT63_MAX], INT63_MAX, [(2, 1, INT63_MAX)]),
        # The limit of the first segment is 2^63-1 exactly, and that row is outside it.
        ([INT63_MAX - 1, INT63_MAX], 1, [(1, INT63_MAX - 1, INT63_MAX - 1), (1, INT63_MAX, INT63_MAX)]),
        ([INT63_MAX - 10, INT63_MAX], 10, [(1, INT63_MAX - 10, INT63_MAX - 10), (1, INT63_MAX, INT63_MAX)]),
    ],
)
def test_deadlines_near_the_end_of_time_are_cut_like_any_other(deadlines, step_ms, expected):
    """First deadline plus step may exceed 63 bits, or be the last value exactly."""
    assert cut_row_by_row(deadlines, step_ms=step_ms, count_max=-1) == expected
    assert cut(deadlines, step_ms=step_ms) == expected


@given(
    st.lists(st.one_of(st.integers(0, 60), st.integers(INT63_MAX - 60, INT63_MAX)), max_size=40),
    st.one_of(st.integers(1, 70), st.sampled_from([INT63_MAX - 1, INT63_MAX])),
    st.sampled_from([-1, 1, 2, 3, 7]),
)
def test_cut_equals_the_row_by_row_rule(deadlines, step_ms, count_max):
    """The cut equals the simple loop, for the lowest and the highest deadlines."""
    deadlines.sort()
    expected = cut_row_by_row(deadlines, step_ms=step_ms, count_max=count_max)
    assert cut(deadlines, step_ms=step_ms, count_max=count_max) == expected


def test_starts_and_take_name_rows_and_ranges():
    """There is one start more than there are segments, and ``take`` keeps a range of them."""
    bounds = cut_segments(np.array([1, 2, 11, 21, 22, 23]), step_ms=10, count_max=-1)
    assert bounds.starts.tolist() == [0, 2, 3, 6]
    assert rows_of(bounds.take(slice(1, 3))) == [(1, 11, 11), (3, 21, 23)]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_the_earliest_deadline_still_to_come_is_known_for_each_segment(first_ms):
    """The earliest deadline from each segment on is right for any order; in time order it is the column itself."""
    column = np.array(first_ms, np.int64)
    bounds = SegmentBounds(np.ones_like(column), column, column)
    assert bounds.earliest_from.tolist() == [min(first_ms[number:]) for number in range(len(first_ms))]
    if first_ms == sorted(first_ms):
        assert bounds.earliest_from is column


def join_one_by_one(bounds: Bounds, *, rows_min: int, count_max: int) -> Bounds:
    """Join each segment to the one before while that is small, and both together are not too large."""
    joined: Bounds = []
    for count, least, most in bounds:
        if joined and joined[-1][0] < rows_min and (count_max == -1 or joined[-1][0] + count <= count_max):
            joined[-1] = (joined[-1][0] + count, joined[-1][1], most)
        else:
            joined.append((count, least, most))
    return joined


@given(
    st.lists(st.integers(0, 60), max_size=60),
    st.integers(1, 20),
    st.sampled_from([-1, 1, 2, 3, 7]),
    st.integers(1, 12),
)
def test_small_segments_are_joined_one_by_one(deadlines, step_ms, count_max, rows_min):
    """Segments grow until they have enough rows; none grows above the maximum, and every row stays."""
    bounds = cut_segments(np.array(sorted(deadlines), np.int64), step_ms=step_ms, count_max=count_max)
    joined = rows_of(join_segments(bounds, rows_min=rows_min, count_max=count_max))
    assert joined == join_one_by_one(rows_of(bounds), rows_min=rows_min, count_max=count_max)
    assert sum(count for count, _, _ in joined) == len(deadlines)
    if count_max == -1:
        assert all(count >= rows_min for count, _, _ in joined[:-1])


def test_one_row_is_enough_by_default():
    """A codec whose segments have no price of their own gets the bounds back as they are."""
    bounds = cut_segments(np.array([1, 20, 30]), step_ms=10, count_max=-1)
    assert join_segments(bounds, rows_min=1, count_max=-1) is bounds
