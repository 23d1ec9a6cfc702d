"""Columns: invalid ones are refused and change nothing, valid ones are not copied."""

import itertools

import numpy as np
import pytest

from delayed_tracker.core.values.columns import (
    ENTRY_ID_MAX,
    INT63_MAX,
    IndexColumns,
    Position,
    PositionColumns,
    index_columns,
    position_columns,
)
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import Shell


def test_unequal_lengths_are_refused_naming_each():
    """The message gives the length of each column."""
    with pytest.raises(InvalidInput, match="deliver_at_ms has 2, ledger_id has 1, entry_id has 2") as error:
        index_columns([1, 2], [1], [1, 2])
    assert error.value.field == "deliver_at_ms"


@pytest.mark.parametrize("column", ["deliver_at_ms", "ledger_id", "entry_id"])
def test_negative_values_are_refused_by_offset(column):
    """The field, the first value and the offset are named."""
    columns = {"deliver_at_ms": [5, 5], "ledger_id": [5, 5], "entry_id": [5, 5], column: [5, -7]}
    with pytest.raises(InvalidInput) as error:
        index_columns(**columns)
    assert (error.value.field, error.value.value, error.value.offsets) == (column, -7, (1,))


@pytest.mark.parametrize(
    ("column", "maximum"),
    [("deliver_at_ms", INT63_MAX), ("ledger_id", INT63_MAX), ("entry_id", ENTRY_ID_MAX)],
)
def test_each_column_takes_its_maximum_and_nothing_above(column, maximum):
    """Deadlines and ledgers have 63 bits, entries 32."""
    columns = {"deliver_at_ms": [0], "ledger_id": [0], "entry_id": [0]}
    taken = index_columns(**{**columns, column: [maximum]})
    assert getattr(taken, column).tolist() == [maximum]
    with pytest.raises(InvalidInput) as error:
        index_columns(**{**columns, column: [maximum + 1]})
    assert (error.value.field, error.value.value) == (column, maximum + 1)


@pytest.mark.parametrize("value", [2**64 - 1, 2**64, 10**30, -(10**30)])
def test_values_beyond_64_bits_are_refused_by_offset(value):
    """Python integers of any size are values out of range and cause no crash."""
    with pytest.raises(InvalidInput) as error:
        position_columns([1, value], [1, 1])
    assert (error.value.field, error.value.value, error.value.offsets) == ("ledger_id", value, (1,))


def test_unsigned_columns_are_compared_without_wrapping():
    """A uint64 above 2^63-1 must not become a negative number."""
    with pytest.raises(InvalidInput):
        position_columns(np.array([2**63], np.uint64), np.array([0], np.uint64))
    assert list(position_columns(np.array([7], np.uint64), np.array([3], np.uint32))) == [Position(7, 3)]


@pytest.mark.parametrize(
    "values",
    [[1.5], np.array([1.0]), ["1"], [None], [True], np.array([[1]]), 1, [[1], [1, 2]], np.array([1 + 2j])],
    ids=["float", "float column", "text", "none", "bool", "two dimensions", "scalar", "ragged", "complex"],
)
def test_what_is_not_a_flat_sequence_of_integers_is_refused(values):
    """Values are not rounded, parsed or flattened silently."""
    with pytest.raises(InvalidInput) as error:
        position_columns(values, [1])
    assert error.value.field == "ledger_id"


def test_the_first_thousand_bad_offsets_are_listed_and_all_are_counted():
    """A batch of invalid values does not make an error of unlimited size."""
    with pytest.raises(InvalidInput, match=r"\(1500 in all\)") as error:
        position_columns([-1] * 1_500, [0] * 1_500)
    assert error.value.offsets == tuple(range(1_000))
    assert error.value.offset_count == 1_500
    assert len(error.value.violations) == 1_000
    assert error.value.violations[3].field == "ledger_id[3]"


def test_a_refused_batch_applies_nothing():
    """No part of a refused batch reaches the tracker."""
    shell = Shell.with_limits(TrackerLimits())
    with pytest.raises(InvalidInput):
        shell.add((100_000, 1, 0), (100_000, 1, 2**32))
    assert len(shell.core) == 0
    assert shell.contains((1, 0)) == [False]


def test_int64_input_is_shared_and_cannot_be_written_through():
    """Columns of the right type are not copied and still belong to the caller."""
    ledgers = np.array([1, 2])
    columns = position_columns(ledgers, [0, 0])
    assert np.shares_memory(columns.ledger_id, ledgers)
    with pytest.raises(ValueError, match="read-only"):
        columns.ledger_id[0] = 9
    ledgers[0] = 5  # the caller's own array stays writable


def test_empty_columns_are_legal():
    """A batch without rows is valid."""
    assert len(index_columns([], [], [])) == 0
    assert list(PositionColumns.of([])) == []
    assert PositionColumns.of([]).repeats().tolist() == []
    assert len(IndexColumns.concat([])) == 0


def test_rows_sort_by_deadline_then_position_whatever_their_order():
    """The fast path for ascending positions and the general one equal sorted()."""
    ascending = [(9, 1, 0), (3, 1, 1), (9, 1, 2), (3, 2, 0), (0, 2, 1)]
    assert list(IndexColumns.of(ascending).sorted()) == sorted(ascending)
    shuffled = [ascending[number] for number in (3, 0, 4, 2, 1)]
    assert list(IndexColumns.of(shuffled).sorted()) == sorted(ascending)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_rows_ascend_exactly_if_sorting_would_change_nothing(count):
    """Rows ascend exactly if sorting changes nothing, for all sequences of up to three out of eight rows."""
    for rows in itertools.product(itertools.product((3, 4), repeat=3), repeat=count):
        assert IndexColumns.of(rows).ascend() == (list(rows) == sorted(rows))


def test_a_copy_of_a_slice_does_not_keep_what_it_was_cut_from():
    """A copy has memory of its own, and no more than its rows need."""
    whole = IndexColumns.of([(number, 1, number) for number in range(9)])
    copy = whole.take(slice(2, 4)).copy()
    assert list(copy) == [(2, 1, 2), (3, 1, 3)]
    for column in (copy.deliver_at_ms, copy.ledger_id, copy.entry_id):
        assert column.base is None
        assert column.nbytes == 16


def test_repeats_marks_every_later_row_of_a_position():
    """The first row of a position is not a repeat, wherever it is."""
    columns = PositionColumns.of([(2, 5), (1, 5), (2, 5), (2, 5), (1, 6)])
    assert columns.repeats().tolist() == [False, False, True, True, False]
    assert columns.first_rows().tolist() == [0, 1, 0, 0, 4]


def test_a_position_compares_by_ledger_first():
    """(1, 9) is below (2, 0), and the position itself counts as at or below."""
    columns = PositionColumns.of([(1, 9), (2, 0), (2, 1), (3, 0)])
    assert columns.at_or_below(Position(2, 0)).tolist() == [True, True, False, False]
    assert columns.at_or_below(Position(2, -1)).tolist() == [True, False, False, False]
