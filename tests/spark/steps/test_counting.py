"""Counts of rows, united from any division of the rows among tasks."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, IndexColumns
from delayed_tracker.spark.plan.acceptance import IndexOutcome
from delayed_tracker.spark.steps.content_hash import content_hash
from delayed_tracker.spark.steps.counting import LedgerTally, _batch, tallies_of

deadlines = st.one_of(st.integers(0, 3), st.integers(0, INT63_MAX))
entries = st.one_of(st.integers(0, 3), st.integers(0, ENTRY_ID_MAX))
rows = st.lists(st.tuples(deadlines, st.just(7), entries), min_size=1, max_size=30)


def tally_of(some: list[tuple[int, int, int]]) -> LedgerTally:
    tally = LedgerTally()
    tally.add(np.full(len(some), IndexOutcome.DUE, np.uint8), IndexColumns.of(some))
    return tally


@given(rows, st.data())
def test_the_content_is_the_same_for_any_division_and_order(some, data):
    """The hash of rows in any order, in two tasks, and through the schema of the step, is the hash of all of them."""
    shuffled = data.draw(st.permutations(some))
    cut = data.draw(st.integers(0, len(some)))
    halves = [tally_of(half) for half in (shuffled[:cut], shuffled[cut:]) if half]
    table = pa.Table.from_batches([_batch({(0, 7): half}) for half in halves])
    assert tallies_of(table)[0, 7].content == tally_of(some).content == content_hash(IndexColumns.of(some))


@given(rows, rows)
def test_other_rows_have_another_content(some, other):
    """Different entries, deadlines, or pairs of them, have different hashes."""
    assert (content_hash(IndexColumns.of(some)) == content_hash(IndexColumns.of(other))) == (
        sorted(some) == sorted(other)
    )


def test_deadlines_that_are_exchanged_change_the_content():
    """Two messages that have exchanged their deadlines are another content, among so many rows that they are divided."""
    entry = np.arange(20_000, dtype=np.int64)
    deadline = 1_795_000_000_000 + entry * 1_000
    exchanged = deadline.copy()
    exchanged[[5, 19_000]] = exchanged[[19_000, 5]]
    ledger = np.full(len(entry), 7, np.int64)
    first, second = (content_hash(IndexColumns(column, ledger, entry)) for column in (deadline, exchanged))
    assert first != second
    backwards = slice(None, None, -1)
    assert first == content_hash(IndexColumns(deadline, ledger, entry).take(backwards))
