"""Cuts of large buckets: each part by itself is cut into the segments of the whole bucket."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.segment import cut_segments
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.spark.steps.cutting import part_starts

deadlines = st.dictionaries(st.integers(0, 600), st.integers(1, 9), min_size=1, max_size=60)
limits = st.builds(
    TrackerLimits,
    max_step_per_segment_ms=st.sampled_from((1, 40, 1_000)),
    max_indexes_per_segment=st.sampled_from((-1, 1, 5)),
)


def starts_of(counts, limits, *, indexes_per_part, runs=3):
    columns = np.array(sorted(counts), np.int64), np.array([counts[at] for at in sorted(counts)], np.int64)
    pieces = [tuple(column[at : at + runs] for column in columns) for at in range(0, len(counts), runs)]
    return list(part_starts(pieces, limits, indexes_per_part=indexes_per_part))


def segments_of(rows, limits):
    bounds = cut_segments(
        np.array(rows, np.int64), step_ms=limits.max_step_per_segment_ms, count_max=limits.max_indexes_per_segment
    )
    return list(
        zip(bounds.count.tolist(), bounds.min_deliver_at_ms.tolist(), bounds.max_deliver_at_ms.tolist(), strict=True)
    )


@given(deadlines, limits, st.integers(1, 30), st.integers(1, 9))
def test_parts_are_cut_like_the_whole(counts, limits, indexes_per_part, runs):
    """The segments of all parts together are those of the bucket, and parts have the wanted size."""
    rows = [deadline for deadline in sorted(counts) for _ in range(counts[deadline])]
    starts = starts_of(counts, limits, indexes_per_part=indexes_per_part, runs=runs)
    edges = [0, *starts, 1_000]
    parts = [[row for row in rows if first <= row < end] for first, end in itertools.pairwise(edges)]
    assert [segment for part in parts for segment in segments_of(part, limits)] == segments_of(rows, limits)
    assert all(len(part) >= indexes_per_part for part in parts[:-1])


def test_a_bucket_is_divided_where_it_can_be():
    """A bucket is cut between segments, but rows of one deadline stay together."""
    limits = TrackerLimits(max_step_per_segment_ms=1_000, max_indexes_per_segment=5)
    assert starts_of(dict.fromkeys(range(20), 1), limits, indexes_per_part=10) == [10]
    assert starts_of({1: 40}, limits, indexes_per_part=10) == []
    assert starts_of({1: 8, 2: 2, 3: 10}, limits, indexes_per_part=10) == [3]
