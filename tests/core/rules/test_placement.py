"""The stop of an add equals that of a loop that places row by row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.placement import LedgerSpan, SealTarget, Stop, first_stop, sealed_in_order
from delayed_tracker.core.values.limits import TrackerLimits


def stop_row_by_row(ledgers, late, *, mutable_count, late_count, last_ledger_id, limits) -> Stop:
    for row, (ledger, is_late) in enumerate(zip(ledgers, late, strict=True)):
        if is_late:
            late_count += 1
            if late_count >= limits.late_indexes_max:
                return Stop(row + 1, SealTarget.LATE)
            continue
        if ledger > last_ledger_id and mutable_count >= limits.min_index_count_per_bucket:
            return Stop(row, SealTarget.MUTABLE)
        last_ledger_id = max(last_ledger_id, ledger)
        mutable_count += 1
        if mutable_count >= limits.mutable_indexes_max:
            return Stop(row + 1, SealTarget.MUTABLE)
    return Stop(len(ledgers), SealTarget.NOTHING)


def stop(ledgers, late=None, *, mutable_count=0, late_count=0, last_ledger_id=-1, limits) -> Stop:
    arguments = {
        "mutable_count": mutable_count,
        "late_count": late_count,
        "last_ledger_id": last_ledger_id,
        "limits": limits,
    }
    late = [False] * len(ledgers) if late is None else late
    found = first_stop(np.array(ledgers, np.int64), np.array(late, np.bool_), **arguments)
    assert found == stop_row_by_row(ledgers, late, **arguments)
    return found


LIMITS = TrackerLimits(min_index_count_per_bucket=3, mutable_indexes_max=5, late_indexes_max=2)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=14),
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(-1, 4),
    st.builds(
        TrackerLimits,
        min_index_count_per_bucket=st.integers(1, 6),
        mutable_indexes_max=st.integers(1, 8),
        late_indexes_max=st.integers(1, 4),
    ),
)
def test_equals_the_loop(rows, mutable_count, late_count, last_ledger_id, limits):
    """The stop equals the loop's for any ledgers in any order and any fill, also above the maximum."""
    stop(
        [ledger for ledger, _ in rows],
        [is_late for _, is_late in rows],
        mutable_count=mutable_count,
        late_count=late_count,
        last_ledger_id=last_ledger_id,
        limits=limits,
    )


def test_seals_before_the_first_row_of_the_next_ledger():
    """The row that crosses the boundary belongs to the next bucket."""
    assert stop([1, 1, 1, 2], limits=LIMITS) == Stop(3, SealTarget.MUTABLE)


def test_a_boundary_before_enough_indexes_does_not_seal():
    """With two of three indexes, the next ledger joins the bucket."""
    assert stop([1, 1, 2], limits=LIMITS) == Stop(3, SealTarget.NOTHING)


def test_a_ledger_below_the_highest_seen_is_no_boundary():
    """Descending ledgers cross no boundary; only the maximum limits them."""
    assert stop([9, 8, 7, 6], limits=LIMITS) == Stop(4, SealTarget.NOTHING)
    assert stop([9, 8, 7, 6, 5, 4], limits=LIMITS) == Stop(5, SealTarget.MUTABLE)


def test_a_ledger_that_never_rolls_over_is_sealed_at_the_maximum():
    """A ledger that never rolls over is sealed at the maximum, so memory stays bounded."""
    assert stop([1] * 9, mutable_count=1, last_ledger_id=1, limits=LIMITS) == Stop(4, SealTarget.MUTABLE)


def test_late_rows_fill_their_own_home():
    """Late rows neither cross a boundary nor fill the mutable bucket."""
    assert stop([7, 1, 1, 7], [False, True, True, False], limits=LIMITS) == Stop(3, SealTarget.LATE)


def test_a_boundary_at_the_first_row_seals_before_anything_is_placed():
    """A stop of zero rows and a seal makes the caller come back with the same rows."""
    assert stop([2], mutable_count=3, last_ledger_id=1, limits=LIMITS) == Stop(0, SealTarget.MUTABLE)


def sealed_row_by_row(counts, limits):
    """Return the buckets as lists of (ledger, rank), by repeated calls of ``first_stop``."""
    rows = [(ledger, rank) for ledger, count in counts for rank in range(count)]
    sealed, filling, start = [], [], 0
    while start < len(rows):
        ledgers = np.array([ledger for ledger, _ in rows[start:]], np.int64)
        found = first_stop(
            ledgers,
            np.zeros(len(ledgers), np.bool_),
            mutable_count=len(filling),
            late_count=0,
            last_ledger_id=filling[-1][0] if filling else -1,
            limits=limits,
        )
        filling += rows[start : start + found.row_count]
        start += found.row_count
        if found.seal is SealTarget.MUTABLE:
            sealed.append(filling)
            filling = []
    return sealed, filling


@given(
    st.dictionaries(st.integers(0, 9), st.integers(0, 20), max_size=6),
    st.builds(TrackerLimits, min_index_count_per_bucket=st.integers(1, 9), mutable_indexes_max=st.integers(1, 12)),
)
def test_counts_decide_as_rows_in_order_do(ledgers, limits):
    """Counts give the same buckets as rows, for empty ledgers, long ledgers, and a minimum above the maximum."""
    counts = sorted(ledgers.items())
    spans, tail = sealed_in_order(counts, limits)
    expanded = [[(s.ledger_id, rank) for s in bucket for rank in range(s.first, s.end)] for bucket in [*spans, tail]]
    sealed, filling = sealed_row_by_row(counts, limits)
    assert expanded == [*sealed, filling]


def test_a_ledger_that_never_ends_is_divided():
    """Eight rows of one ledger, at most three in a bucket, fill two buckets, and two rows stay."""
    limits = TrackerLimits(min_index_count_per_bucket=2, mutable_indexes_max=3)
    sealed, tail = sealed_in_order([(7, 8)], limits)
    assert sealed == [(LedgerSpan(7, 0, 3),), (LedgerSpan(7, 3, 6),)]
    assert tail == (LedgerSpan(7, 6, 8),)
