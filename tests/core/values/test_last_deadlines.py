"""Deadlines by position: the last one counts, in few blocks of columns."""

from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.last_deadlines import LastDeadlines

ROW = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5))
LAST_LEDGER = 2**63 - 1


@given(st.lists(st.lists(ROW, max_size=6), max_size=8), st.lists(ROW), st.booleans())
def test_it_equals_a_dict(puts, asked, reads_between):
    """A row is superseded if its position has another last deadline; one that was never put has none."""
    deadlines, expected = LastDeadlines(), {}
    for rows in puts:
        deadlines.put(IndexColumns.of(rows))
        expected |= {position: deadline for deadline, *position in rows for position in [tuple(position)]}
        if reads_between:
            deadlines.positions()
    answer = deadlines.superseded(IndexColumns.of(asked)).tolist()
    assert answer == [expected.get((ledger, entry), deadline) != deadline for deadline, ledger, entry in asked]
    assert list(deadlines.positions().to_columns()) == sorted(expected)


def test_a_copy_stays_as_it_is():
    """A seal reads its copy in another thread, while positions get further deadlines."""
    deadlines = LastDeadlines()
    deadlines.put(IndexColumns.of([(5, 1, 0)]))
    frozen = deadlines.copy()
    deadlines.put(IndexColumns.of([(6, 1, 0), (7, LAST_LEDGER, 0)]))
    asked = IndexColumns.of([(5, 1, 0), (6, 1, 0), (7, LAST_LEDGER, 0), (8, LAST_LEDGER, 0)])
    assert frozen.superseded(asked).tolist() == [False, True, False, False]
    assert deadlines.superseded(asked).tolist() == [True, False, False, True]


def test_positions_that_come_one_by_one_are_in_few_blocks():
    """A look-up searches each block, so their number is logarithmic; a position that comes again takes no further room."""
    deadlines = LastDeadlines()
    for entry in range(1_000):
        deadlines.put(IndexColumns.of([(entry, 1, entry % 300)]))
        deadlines.superseded(IndexColumns.of([(entry, 1, entry)]))
    assert len(deadlines._blocks) <= 10
    assert len(deadlines.positions()) == 300
    assert len(deadlines) <= 600
