"""Tests of transaction outcomes from the markers in the topic."""

from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.topic.transactions import TransactionMarkers, TransactionOutcome
from tests.ledger.entry.test_entry_columns import scan
from tests.ledger.harness.log_files import message

COMMIT, ABORT = 21, 22
ids = st.tuples(st.sampled_from([0, 1, 2**64 - 1]), st.integers(0, 6))


def test_markers_decide():
    """Transactions are committed, aborted, or open by their markers."""
    columns = scan(
        *(message(txn=(0, txn)) for txn in (1, 2, 3)),
        message(marker=COMMIT, txn=(0, 2)),
        message(marker=ABORT, txn=(0, 1)),
    )
    markers = TransactionMarkers.of(columns)

    assert len(markers) == 2
    assert markers.outcomes(columns.txn_id_most[:3], columns.txn_id_least[:3]).tolist() == [
        TransactionOutcome.ABORTED,
        TransactionOutcome.COMMITTED,
        TransactionOutcome.OPEN,
    ]


def test_other_markers_decide_nothing():
    """Markers of replicated subscriptions, and messages with a transaction id, do not decide an outcome."""
    columns = scan(message(marker=10), message(marker=20, txn=(0, 1)), message(txn=(0, 1)), message(marker=COMMIT))

    assert len(TransactionMarkers.of(columns)) == 0


@given(
    ends=st.lists(st.tuples(ids, st.sampled_from([COMMIT, ABORT])), max_size=12),
    asked=st.lists(ids, max_size=12),
    cut=st.integers(0, 12),
)
def test_outcomes_equal_a_dict(ends, asked, cut):
    """For any markers, in one part or two, the outcome is that of the last marker."""
    parts = [
        TransactionMarkers.of(scan(*(message(marker=marker, txn=txn) for txn, marker in part)))
        for part in (ends[:cut], ends[cut:])
    ]
    rows = scan(*(message(txn=txn) for txn in asked))

    outcomes = TransactionMarkers.concat(parts).outcomes(rows.txn_id_most, rows.txn_id_least)

    named = {COMMIT: TransactionOutcome.COMMITTED, ABORT: TransactionOutcome.ABORTED}
    expected = {txn: named[marker] for txn, marker in ends}
    assert outcomes.tolist() == [expected.get(txn, TransactionOutcome.OPEN) for txn in asked]
    assert TransactionMarkers.concat(parts).by_id() == expected
