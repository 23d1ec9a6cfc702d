"""Taking the earliest rows of several runs, against sorted()."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.core.columns import IndexColumns
from tracker.core.k_way_merge import Taken, take_earliest

rows = st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 3))
runs_of_rows = st.lists(st.lists(rows, max_size=90).map(sorted), max_size=6)


def assert_takes_the_earliest(runs: list[list[tuple[int, int, int]]], count: int) -> Taken:
    taken = take_earliest([IndexColumns.of(run) for run in runs], count)
    expected = sorted(row for run in runs for row in run)[:count]
    assert list(taken.indexes) == expected
    assert sum(taken.consumed) == len(expected) == len(taken.run)
    for number, (run, consumed) in enumerate(zip(runs, taken.consumed, strict=True)):
        origin = [row for row, source in zip(taken.indexes, taken.run.tolist(), strict=True) if source == number]
        assert origin == run[:consumed], "rows come from the front of the run that is named"
    return taken


@given(runs_of_rows, st.integers(1, 300))
def test_equals_sorted(runs, count):
    """The first rows of the sorted union, each from the run it is said to be from."""
    assert_takes_the_earliest(runs, count)


@given(st.integers(1, 5), st.integers(1, 400), st.integers(1, 500))
def test_equal_rows_of_different_runs_are_all_kept(run_count, length, count):
    """Repeats are the caller's to judge: they may belong to different homes."""
    assert_takes_the_earliest([[(5, 1, 1)] * length] * run_count, count)


def test_one_run_with_all_early_rows_is_read_further_than_a_block():
    """Skew: nothing of the other runs is early enough."""
    early = [(number, 1, number) for number in range(5_000)]
    late = [[(10_000 + number, 2, number) for number in range(50)] for _ in range(20)]
    taken = assert_takes_the_earliest([*late, early], 4_000)
    assert taken.consumed == [0] * 20 + [4_000]


def test_empty_runs_are_passed_over():
    """No run, only empty runs, and empty ones among others."""
    assert_takes_the_earliest([], 5)
    assert_takes_the_earliest([[]], 5)
    assert_takes_the_earliest([[], []], 5)
    assert_takes_the_earliest([[], [(1, 1, 1)], []], 5)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 200, 1_000])
def test_every_count_around_a_block_is_exact(count):
    """Interleaved runs, with the count at and beside the sizes of blocks."""
    assert_takes_the_earliest([[(3 * number + shift, 1, number) for number in range(70)] for shift in range(3)], count)


def test_ties_in_deadline_go_by_ledger_then_entry():
    """Across runs as within one."""
    runs = [[(5, 2, 0)], [(5, 1, 9)], [(5, 1, 8), (5, 3, 0)]]
    assert list(assert_takes_the_earliest(runs, 3).indexes) == [(5, 1, 8), (5, 1, 9), (5, 2, 0)]
