"""Histograms compared with counting one value at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.service.instruments.family import Format
from delayed_tracker.service.instruments.histogram import (
    EXEMPLAR_CHARACTERS_MAX,
    Exemplar,
    Histogram,
    LatenessHistogram,
)

BOUNDS = (0.005, 0.025, 1, 60)
NOW_MS = 1_700_000_000_000
LATE_MS = st.integers(-70_000, 70_000) | st.sampled_from([-1, 0, 5, 6, 25, 26, 1_000, 1_001, 60_000, 60_001])


@given(st.lists(st.lists(LATE_MS, min_size=1, max_size=30), max_size=5))
def test_a_sorted_column_counts_as_its_rows_one_by_one(answers):
    """A sorted column counts as its rows do, and early rows count as not late."""
    together, one_by_one = LatenessHistogram(BOUNDS), Histogram(BOUNDS)
    for late_ms in answers:
        deadlines = np.sort(NOW_MS - np.array(late_ms, np.int64))
        together.observe(deadlines, NOW_MS, ())
        for each in late_ms:
            one_by_one.observe(max(each, 0) / 1_000)
    assert together.histogram().counts == one_by_one.counts
    assert together.histogram().sum == pytest.approx(one_by_one.sum)


def test_ranges_include_their_upper_end_and_samples_are_cumulative():
    """Ranges include their upper end, as Prometheus' ``le`` does."""
    histogram = Histogram((0.5, 1))
    for value in (0.5, 0.6, 1, 2):
        histogram.observe(value)
    text = b"".join(histogram.lines("x_seconds", 'a="b"', Format.TEXT)).decode()
    assert text == (
        'x_seconds_bucket{a="b",le="0.5"} 1\nx_seconds_bucket{a="b",le="1.0"} 3\nx_seconds_bucket{a="b",le="+Inf"} 4\n'
        'x_seconds_sum{a="b"} 4.1\nx_seconds_count{a="b"} 4\n'
    )


def test_an_example_is_of_the_latest_row_and_stands_at_its_range():
    """The exemplar is the row with the first deadline."""
    histogram = LatenessHistogram(BOUNDS)
    deadlines = np.array([NOW_MS - 900, NOW_MS - 4, NOW_MS + 1], np.int64)
    histogram.observe(deadlines, NOW_MS, (("row", "0"),))
    assert histogram.histogram().exemplars == [None, None, Exemplar((("row", "0"),), 0.9, NOW_MS), None, None]
    lines = b"".join(histogram.histogram().lines("late_seconds", "", Format.OPENMETRICS)).decode().splitlines()
    assert lines[2] == f'late_seconds_bucket{{le="1.0"}} 3 # {{row="0"}} 0.9 {NOW_MS / 1_000:.3f}'


@pytest.mark.parametrize(
    ("length", "fits"), [(EXEMPLAR_CHARACTERS_MAX - 4, True), (EXEMPLAR_CHARACTERS_MAX - 3, False)]
)
def test_labels_that_do_not_fit_an_example_are_left_out(length, fits):
    """Names and values of labels count together."""
    shown = Exemplar((("id", "1"), ("t", "x" * length)), 1.0, NOW_MS).render()
    assert (",t=" in shown) == fits
    assert shown.startswith(' # {id="1"')
