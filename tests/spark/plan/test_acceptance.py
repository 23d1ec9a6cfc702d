"""Fates of offered indexes, compared with the verdicts of a core."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.metadata.cursor import CursorState, nothing_acked
from delayed_tracker.ledger.topic.transactions import TransactionOutcome
from delayed_tracker.spark.plan.acceptance import Acceptance, IndexOutcome

NOW_MS = 100_000
NOW = Instant(NOW_MS, 0)
limits = st.builds(
    TrackerLimits, tick_ms=st.sampled_from((0, 7)), strict=st.booleans(), max_delay_ms=st.sampled_from((0, 9))
)
rows = st.dictionaries(
    st.tuples(st.integers(1, 3), st.integers(0, 9)), st.integers(NOW_MS - 10, NOW_MS + 20), max_size=12
).map(lambda found: IndexColumns.of([(deadline, *position) for position, deadline in sorted(found.items())]))


def cursor(mark_delete: Position, acked: IndexColumns) -> CursorState:
    state = nothing_acked()
    return CursorState(
        mark_delete, PositionBitmap.of(acked.positions), state.partial_batch_acks, {}, {}, state_ledger_id=None
    )


@given(rows, limits, st.builds(Position, st.integers(1, 3), st.integers(-1, 9)))
def test_equals_the_answers_of_a_core(indexes, limits, mark_delete):
    """Due, distant and acknowledged indexes are those of the core, with and without a tick."""
    committed = np.full(len(indexes), TransactionOutcome.COMMITTED, np.uint8)
    decided = Acceptance(limits, NOW_MS).outcomes(indexes, committed, cursor(mark_delete, IndexColumns.empty()))
    core = TrackerCore(limits, epoch=1)
    core.advance_mark_delete(mark_delete, NOW)
    answer = core.add(indexes, NOW)
    assert np.flatnonzero(decided == IndexOutcome.DUE).tolist() == answer.due.tolist()
    assert np.flatnonzero(decided == IndexOutcome.BEYOND_MAX_DELAY).tolist() == answer.beyond_max_delay.tolist()
    assert np.flatnonzero(decided == IndexOutcome.ACKNOWLEDGED).tolist() == answer.below_mark_delete.tolist()
    assert int((decided == IndexOutcome.ACCEPTED).sum()) == answer.added_count


def test_the_first_reason_counts():
    """An aborted message counts as aborted even if acknowledged; an acknowledged one does not count as due."""
    indexes = IndexColumns.of([(NOW_MS, 1, entry) for entry in range(5)])
    acked = indexes.take(np.array([True, True, True, False, False]))
    transaction = np.array([2, 0, 1, 1, 0], np.uint8)  # aborted, open, committed, committed, open
    outcome = Acceptance(TrackerLimits(), NOW_MS).outcomes(indexes, transaction, cursor(Position(1, -1), acked))
    assert outcome.tolist() == [
        IndexOutcome.ABORTED,
        IndexOutcome.OPEN_TRANSACTION,
        IndexOutcome.ACKNOWLEDGED,
        IndexOutcome.DUE,
        IndexOutcome.OPEN_TRANSACTION,
    ]
