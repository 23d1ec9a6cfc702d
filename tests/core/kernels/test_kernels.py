"""The core's kernels equal numpy; CI runs this module with and without the JIT."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.kernels.compiled import delivery_order, position_order_in_segments
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX

deadlines = st.integers(0, 5) | st.integers(1_700_000_000_000, 1_700_600_000_000) | st.integers(0, INT63_MAX)
ledgers = st.integers(7, 9) | st.integers(0, INT63_MAX)
entries = st.integers(0, 5) | st.integers(0, ENTRY_ID_MAX)


@given(st.lists(st.tuples(deadlines, ledgers, entries), max_size=60))
def test_delivery_order_is_a_stable_sort_by_three_keys(table):
    """Rows are sorted for any spread of each column, any order of rows, and with equal rows."""
    deliver_at_ms, ledger_id, entry_id = np.array(table, np.int64).reshape(-1, 3).T.copy()
    expected = np.lexsort((entry_id, ledger_id, deliver_at_ms))
    assert delivery_order(deliver_at_ms, ledger_id, entry_id).tolist() == expected.tolist()


@pytest.mark.parametrize("span", [1, 60_000, 7 * 86_400_000, INT63_MAX])
def test_delivery_order_of_many_rows(span):
    """Many rows are sorted over several digits, with many rows for each value of one digit."""
    rng = np.random.default_rng(span)
    deliver_at_ms = rng.integers(0, span, 3_000)
    ledger_id = rng.integers(0, 3, 3_000)
    entry_id = rng.permutation(3_000)
    expected = np.lexsort((entry_id, ledger_id, deliver_at_ms))
    assert np.array_equal(delivery_order(deliver_at_ms, ledger_id, entry_id), expected)


@given(st.lists(st.lists(st.tuples(ledgers, entries), max_size=12), max_size=6))
def test_positions_are_ordered_within_each_segment(segments):
    """Rows stay in their segment, and segments may be empty."""
    positions = [position for segment in segments for position in segment]
    ledger_id, entry_id = np.array(positions, np.int64).reshape(-1, 2).T.copy()
    starts = np.cumsum([0, *map(len, segments)])
    order = position_order_in_segments(ledger_id, entry_id, starts).tolist()
    assert sorted(order) == list(range(len(positions)))
    assert [positions[row] for row in order] == [position for segment in segments for position in sorted(segment)]
