"""Sealing a frozen bucket: the copies that count, and the error for a missing one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.seal import FrozenIndexes, SealedIndexes, seal, without_repeats
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.last_deadlines import LastDeadlines
from delayed_tracker.core.values.position_bitmap import PositionBitmap


def last_deadlines(table) -> LastDeadlines:
    """Return deadlines by position, each put on its own."""
    deadlines = LastDeadlines()
    for position, deliver_at_ms in table.items():
        deadlines.put(IndexColumns.of([(deliver_at_ms, *position)]))
    return deadlines


def frozen(*chunks, live, rescheduled=None, step_ms=10, count_max=-1) -> FrozenIndexes:
    return FrozenIndexes(
        bucket_number=1,
        chunks=tuple(IndexColumns.of(chunk) for chunk in chunks),
        live=PositionBitmap.of(PositionColumns.of(live)),
        rescheduled=None if rescheduled is None else last_deadlines(rescheduled),
        step_ms=step_ms,
        count_max=count_max,
        first=Position(*min(live)),
        last=Position(*max(live)),
    )


def rows(sealed: SealedIndexes) -> list[tuple[int, int, int]]:
    return list(sealed.indexes)


def test_sorts_and_cuts_whatever_the_order_of_copies():
    """Copies in any order become rows in delivery order, in segments."""
    sealed = seal(frozen([(30, 1, 0), (5, 1, 1)], [(12, 2, 0)], live=[(1, 0), (1, 1), (2, 0)]))
    assert rows(sealed) == [(5, 1, 1), (12, 2, 0), (30, 1, 0)]
    assert sealed.bounds.count.tolist() == [2, 1]
    assert list(sealed.segment(0)) == [(5, 1, 1), (12, 2, 0)]
    assert list(sealed.segment(1)) == [(30, 1, 0)]
    assert (sealed.first, sealed.last) == (Position(1, 0), Position(2, 0))


def test_removed_copies_are_dropped():
    """A copy counts only under its bit."""
    assert rows(seal(frozen([(5, 1, 0), (6, 1, 1)], live=[(1, 1)]))) == [(6, 1, 1)]


def test_of_copies_with_several_deadlines_the_last_one_counts():
    """A position cancelled at 5 and added again at 9 has the deadline 9."""
    sealed = seal(frozen([(5, 1, 0), (9, 1, 0), (7, 1, 1)], live=[(1, 0), (1, 1)], rescheduled={(1, 0): 9}))
    assert rows(sealed) == [(7, 1, 1), (9, 1, 0)]


def test_equal_copies_are_one_row():
    """A position that was given back may have two equal copies, which become one row."""
    assert rows(seal(frozen([(5, 1, 0)], [(5, 1, 0)], [(5, 1, 0)], live=[(1, 0)]))) == [(5, 1, 0)]


def test_a_live_position_without_copy_is_a_bug():
    """A live position without a copy is refused: the snapshot would lose it."""
    with pytest.raises(InvariantViolation, match="2 positions to seal but 1 copies"):
        seal(frozen([(5, 1, 0)], live=[(1, 0), (1, 1)]))


def test_a_copy_with_a_deadline_that_does_not_count_is_no_copy():
    """A rescheduled position needs a copy with the deadline that counts."""
    with pytest.raises(InvariantViolation, match="1 positions to seal but 0 copies"):
        seal(frozen([(5, 1, 0)], live=[(1, 0)], rescheduled={(1, 0): 9}))


def test_two_deadlines_that_both_count_are_a_bug():
    """Two deadlines of one position are refused: nothing decides which is the last."""
    with pytest.raises(InvariantViolation, match="1 positions to seal but 2 copies"):
        seal(frozen([(5, 1, 0), (9, 1, 0)], live=[(1, 0)]))


def test_rows_count_wherever_they_lie_among_many():
    """Rows are tested some thousands at a time, and none is lost between two blocks."""
    count = 200_000
    entries = np.random.default_rng(1).permutation(count)
    dead, rescheduled = entries[::7], Position(1, int(entries[-1]))
    assert rescheduled.entry_id not in dead
    live = PositionBitmap.of(PositionColumns(np.ones(count, np.int64), entries))
    live.remove(PositionColumns(np.ones(len(dead), np.int64), dead))
    chunk = IndexColumns(2 * entries, np.ones(count, np.int64), entries)
    older = IndexColumns.of([(7, *rescheduled)])
    sealed = seal(
        FrozenIndexes(
            1,
            (older, chunk),
            live,
            last_deadlines({rescheduled: 2 * rescheduled.entry_id}),
            10**6,
            5_000,
            Position(1, 0),
            Position(1, count - 1),
        )
    )
    expected = np.setdiff1d(np.arange(count), dead)
    assert np.array_equal(sealed.indexes.entry_id, expected)
    assert np.array_equal(sealed.indexes.deliver_at_ms, 2 * expected)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 1)), max_size=20).map(sorted))
def test_without_repeats_keeps_one_of_each(table):
    """Rows without repeats stay in order."""
    assert list(without_repeats(IndexColumns.of(table))) == sorted(set(table))


@given(
    st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 9)), st.integers(0, 40), min_size=1),
    st.dictionaries(st.tuples(st.integers(3, 4), st.integers(0, 9)), st.integers(0, 40)),
    st.data(),
)
def test_seal_equals_a_sorted_dict(live, dead, data):
    """Each live position is sealed once, with its last deadline, whatever other copies exist."""
    older = data.draw(st.dictionaries(st.sampled_from(sorted(live)), st.integers(0, 40)))
    copies = [(ms, *position) for table in (live, dead, older, live) for position, ms in table.items()]
    copies = data.draw(st.permutations(copies))
    cut = data.draw(st.integers(0, len(copies)))
    rescheduled = {position: live[position] for position in older}
    sealed = seal(frozen(copies[:cut], copies[cut:], live=live, rescheduled=rescheduled))
    assert rows(sealed) == sorted((ms, *position) for position, ms in live.items())
