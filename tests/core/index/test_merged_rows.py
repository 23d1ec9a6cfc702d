"""Merging the next due rows of several runs ahead equals sorted()."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.index.merged_rows import merge_ahead
from delayed_tracker.core.index.run_heap import RunHeap
from delayed_tracker.core.index.runs import Run
from delayed_tracker.core.values.columns import BoolArray, IndexColumns

Row = tuple[int, int, int]
rows = st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 3))
runs_of_rows = st.lists(st.lists(rows, min_size=1, max_size=90).map(sorted), min_size=1, max_size=6)


def everything(_: Run, indexes: IndexColumns) -> BoolArray:
    return np.ones(len(indexes), np.bool_)


def assert_merges_the_earliest(tables: list[list[Row]], count: int, *, target: int = 1, cutoff_ms: int = 2**60) -> int:
    """Merge, compare with sorting, and return the number of merged rows."""
    runs = [Run(number, number, IndexColumns.of(table)) for number, table in enumerate(tables)]
    ahead = merge_ahead(runs, cutoff_ms, count=count, target=max(target, count), before=None, is_live=everything)
    due = sorted(row for table in tables for row in table if row[0] <= cutoff_ms)
    merged = due[: len(ahead.origin)]
    assert len(merged) >= min(count, len(due))
    assert list(ahead.indexes) == sorted(set(merged)), "equal rows are one"
    ahead.head = len(ahead.indexes)
    assert sum(ahead.consumed()) == len(merged)
    assert sorted(row for table, taken in zip(tables, ahead.consumed(), strict=True) for row in table[:taken]) == merged
    return len(merged)


@given(runs_of_rows, st.integers(1, 300), st.integers(1, 300), st.integers(0, 40))
def test_equals_sorted(tables, count, target, cutoff_ms):
    """The result is the first due rows of the sorted union, each taken from the front of its run."""
    tables = [table for table in tables if table[0][0] <= cutoff_ms]
    if tables:
        assert_merges_the_earliest(tables, count, target=target, cutoff_ms=cutoff_ms)


def test_one_run_with_all_early_rows_is_read_further_than_a_block():
    """A run that has all early rows is read beyond its block."""
    early = [(number, 1, number) for number in range(5_000)]
    late = [[(10_000 + number, 2, number) for number in range(50)] for _ in range(20)]
    assert assert_merges_the_earliest([*late, early], 4_000) >= 4_000


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 200, 1_000])
def test_every_count_around_a_block_is_exact(count):
    """Interleaved runs are merged exactly, with counts at and beside the sizes of blocks."""
    assert_merges_the_earliest([[(3 * number + shift, 1, number) for number in range(70)] for shift in range(3)], count)


def test_ties_in_deadline_go_by_ledger_then_entry():
    """Rows with equal deadlines are sorted by position across runs, in whatever order the runs come."""
    assert assert_merges_the_earliest([[(5, 2, 0)], [(5, 1, 9)], [(5, 1, 8), (5, 3, 0)]], 4) == 4


def test_rows_at_or_after_the_head_of_another_run_are_left():
    """Rows at or after the head of another run are left: positions in that run are not read yet."""
    run = Run(1, 1, IndexColumns.of([(1, 1, 0), (2, 1, 1), (3, 1, 2)]))
    ahead = merge_ahead([run], 9, count=3, target=3, before=(2, 0, 0), is_live=everything)
    assert list(ahead.indexes) == [(1, 1, 0)]


def test_dead_rows_are_passed_with_the_live_row_behind_them():
    """Removed rows before the next live row count as consumed, those behind it do not."""

    def even(_: Run, indexes: IndexColumns) -> BoolArray:
        return indexes.entry_id % 2 == 0

    runs = [Run(1, 1, IndexColumns.of([(number, 1, number) for number in range(1, 6)]))]
    ahead = merge_ahead(runs, 9, count=5, target=5, before=None, is_live=even)
    assert (list(ahead.indexes), ahead.consumed()) == ([(2, 1, 2), (4, 1, 4)], [1])
    ahead.head = 1
    assert ahead.consumed() == [3]
    ahead.head = 2
    assert ahead.consumed() == [5]


def heap_of(*tables: list[Row]) -> RunHeap:
    heap = RunHeap()
    for number, table in enumerate(tables):
        heap.new_run(number, IndexColumns.of(table))
    return heap


def test_rows_merged_ahead_wait_for_an_earlier_run_that_came_meanwhile():
    """An earlier run that comes later makes the merged rows invalid: they are merged again."""
    heap = heap_of([(5, 1, 0), (6, 1, 1)], [(5, 2, 0)])
    assert heap.merge_ahead(9, 3, Run.sort, everything)
    assert list(heap.take_merged(9, 1) or []) == [(5, 1, 0)]
    heap.new_run(9, IndexColumns.of([(4, 3, 0)]))
    assert heap.head_ms == 4
    assert heap.take_merged(9, 1) is None
    heap.put_merged_away()
    heap.check()
    assert heap.loaded_count == 3
    assert heap.merge_ahead(9, 3, Run.sort, everything)
    assert list(heap.take_merged(9, 3) or []) == [(4, 3, 0), (5, 2, 0), (6, 1, 1)]
    heap.put_merged_away()
    assert (len(heap), heap.loaded_count, heap.head_ms) == (0, 0, None)


def test_nothing_moves_until_the_merged_rows_are_put_away():
    """The runs keep the rows that were taken until the merged rows are put away."""
    heap = heap_of([(5, 1, 0), (6, 1, 1)])
    assert heap.merge_ahead(5, 9, Run.sort, everything)
    assert list(heap.take_merged(5, 9) or []) == [(5, 1, 0)]
    assert (heap.loaded_count, [len(run) for run in heap]) == (1, [2])
    heap.put_merged_away()
    assert [len(run) for run in heap] == [1]
    assert not heap.merge_ahead(5, 9, Run.sort, everything), "what is left is not due"


@pytest.mark.parametrize(("unread_ms", "merged"), [(None, 9), (4, 5), (1, 2)])
def test_nothing_is_merged_beyond_rows_that_are_not_read_yet(unread_ms, merged):
    """Such rows will come before it; what is due is merged in any case."""
    heap = heap_of([(ms, 1, ms) for ms in range(9)])
    heap._horizon_ms = 1_000
    assert heap.merge_ahead(1, 1, Run.sort, everything, unread_ms)
    assert heap.merged is not None
    assert len(heap.merged) == merged


def test_takes_that_empty_what_is_merged_merge_further_ahead_the_next_time():
    """The next merge is longer after all rows were taken, and shorter after they were put away early."""
    number = np.arange(200_000, dtype=np.int64)
    heap = RunHeap()
    heap.new_run(1, IndexColumns(number, np.ones_like(number), number))

    def merged_count() -> int:
        assert heap.merged is None
        assert heap.merge_ahead(10**6, 1, Run.sort, everything)
        assert heap.merged is not None
        return len(heap.merged)

    merged = []
    for _ in range(3):
        merged.append(merged_count())
        while heap.take_merged(10**6, 1_000) is not None:
            pass
        heap.put_merged_away()
    assert merged == [merged[0], 2 * merged[0], 4 * merged[0]]
    for _ in range(4):
        merged.append(merged_count())
        heap.put_merged_away()
    assert merged[-1] == merged[0]
