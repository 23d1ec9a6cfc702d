"""Runs of rows, merged as they arrive."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.spark import schema
from delayed_tracker.spark.steps.encoding import merge_runs, sorted_runs

ROW = st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 30))
TASKS = st.lists(st.dictionaries(st.integers(0, 2), st.lists(ROW, min_size=1, max_size=60)), max_size=6)
HEAD = schema.PART, schema.DELIVER_AT_MS, schema.LEDGER_ID, schema.ENTRY_ID


def brought(tasks: list[dict[int, list[tuple[int, int, int]]]], rows_max: int) -> list[pa.RecordBatch]:
    """Return the output of tasks in the order in which Spark brings it."""
    parts = np.array([5, 6, 5])
    given = [
        run
        for task in tasks
        for run in sorted_runs({part: [IndexColumns.of(rows)] for part, rows in task.items()}, parts, rows_max=rows_max)
    ]
    assert all(run.column(schema.TASK).to_pylist() == [int(parts[run.column(schema.PART)[0].as_py()])] for run in given)
    ordered = pa.Table.from_batches(given).sort_by([(name, "ascending") for name in HEAD]) if given else None
    return [] if ordered is None else ordered.to_batches(max_chunksize=4)


@given(TASKS, st.integers(1, 40), st.integers(1, 80))
def test_merged_runs_are_all_rows_once_in_order(
    tasks: list[dict[int, list[tuple[int, int, int]]]], rows_max: int, held_max: int
):
    """Merged runs yield all rows once, in order, for any overlap and any limit of held rows."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for part, rows in merge_runs(brought(tasks, rows_max), held_max=held_max):
        found.setdefault(part, []).extend(rows)
    expected = {part for task in tasks for part in task}
    assert list(found) == sorted(expected)
    for part in expected:
        assert found[part] == sorted({row for task in tasks for row in task.get(part, [])})


@pytest.mark.parametrize("order", [1, -1])
def test_many_rows_of_one_deadline_are_not_held_together(order: int):
    """Tasks read neighbouring positions, so rows with one common deadline are divided, too."""
    tasks = [{0: [(7, 1, entry) for entry in range(first, first + 50)]} for first in range(0, 5000, 50)][::order]
    pieces = [len(rows) for _, rows in merge_runs(brought(tasks, 50), held_max=200)]
    assert sum(pieces) == 5000
    assert max(pieces) <= 200
