"""Segment bounds in narrow columns equal the bounds they were made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import INT63_MAX

WEEK_MS = 7 * 24 * 3_600_000
DEADLINES = st.one_of(st.integers(0, 300), st.integers(0, 70_000), st.integers(0, INT63_MAX))
SEGMENTS = st.lists(st.tuples(st.integers(0, 2**33), DEADLINES, DEADLINES), max_size=30)


def bounds_of(segments: list[tuple[int, int, int]]) -> SegmentBounds:
    """Return bounds of segments given as (rows, one deadline, another); the deadlines are in any order."""
    rows = np.array(segments, np.int64).reshape(-1, 3)
    return SegmentBounds(rows[:, 0], rows[:, 1:].min(axis=1, initial=INT63_MAX), rows[:, 1:].max(axis=1, initial=0))


@given(segments=SEGMENTS, data=st.data())
def test_any_range_comes_back(segments, data):
    """Any range is returned as it was, with values of every width, in order or not."""
    bounds = bounds_of(segments)
    packed = PackedBounds(SegmentGroups.of(bounds))
    first = data.draw(st.integers(0, len(bounds)))
    end = data.draw(st.integers(first, len(bounds)))
    taken, expected = packed.take(first, end), bounds.take(slice(first, end))
    for column in ("count", "min_deliver_at_ms", "max_deliver_at_ms"):
        assert getattr(taken, column).tolist() == getattr(expected, column).tolist()
        assert getattr(taken, column).dtype == np.int64
    assert len(packed) == len(bounds)
    assert packed.row_count(first, end) == int(expected.count.sum())
    assert packed.rows_through(first, end).tolist() == np.cumsum(expected.count).tolist()


@given(segments=SEGMENTS.filter(bool), horizon_ms=st.one_of(DEADLINES, st.integers(-(2**40), 2**70)), data=st.data())
def test_the_first_deadline_from_a_segment_on_counts(segments, horizon_ms, data):
    """The first deadline of later segments counts, as a foreign segment may come before its predecessors in time."""
    bounds = bounds_of(segments)
    packed = PackedBounds(SegmentGroups.of(bounds))
    earliest = [int(bounds.min_deliver_at_ms[number:].min()) for number in range(len(bounds))]
    assert [packed.earliest_ms(number) for number in range(len(bounds))] == earliest
    first = data.draw(st.integers(0, len(bounds)))
    within = [number for number in range(first, len(bounds)) if earliest[number] <= horizon_ms]
    assert packed.end_before(first, horizon_ms) == (within[-1] + 1 if within else first)


@pytest.mark.parametrize(
    ("rows", "bytes_per_segment"), [(27, 1 + 4 + 4), (5_000, 2 + 4 + 4)], ids=["a few rows", "full segments"]
)
def test_a_week_in_steps_of_five_minutes_is_narrow(rows, bytes_per_segment):
    """Counts take one or two bytes and deadlines four, not eight for each of three columns."""
    first = np.arange(1_700_000_000_000, 1_700_000_000_000 + WEEK_MS, 300_000)
    count = np.full_like(first, 1)
    count[0] = rows
    groups = SegmentGroups.in_groups_of(SegmentBounds(count, first, first + 299_999), 1)
    assert PackedBounds(groups).nbytes == bytes_per_segment * len(first) + 3 * 120
