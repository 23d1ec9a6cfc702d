"""Records of the add log: every change comes back, in few bytes, and damaged bytes are an error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.changes import (
    Added,
    CursorMoved,
    MarkDeleteAdvanced,
    OfferedThrough,
    Removed,
    Rescheduled,
)
from delayed_tracker.core.values.columns import BEFORE_ALL, INT63_MAX, IndexColumns, Position
from delayed_tracker.storage.codec.log_records import decode_change, encode_change
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported

NUMBERS = st.one_of(st.integers(0, 5), st.integers(0, INT63_MAX))
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 2**32 - 1)), max_size=20)


def content(change):
    match change:
        case Added(indexes) | Rescheduled(indexes):
            return type(change), list(indexes)
        case Removed(positions):
            return type(change), list(positions)
    return change


@given(ROWS)
def test_every_change_comes_back(rows):
    indexes = IndexColumns.of(rows)
    for change in (Added(indexes), Rescheduled(indexes), Removed(indexes.positions)):
        assert content(decode_change(encode_change(change))) == content(change)


@pytest.mark.parametrize("position", [BEFORE_ALL, Position(0, -1), Position(INT63_MAX, 2**32 - 1)])
def test_positions_come_back(position):
    for change in (MarkDeleteAdvanced(position), OfferedThrough(position)):
        assert decode_change(encode_change(change)) == change
    for other in (BEFORE_ALL, Position(7, 2), Position(INT63_MAX, 0)):
        for change in (CursorMoved(position, other), CursorMoved(other, position)):
            assert decode_change(encode_change(change)) == change


def test_a_ledgers_entries_over_a_week_take_four_bytes_each():
    random = np.random.default_rng(7)
    deadlines = random.integers(1_700_000_000_000, 1_700_604_800_000, 1_000)
    record = encode_change(Added(IndexColumns(deadlines, np.full(1_000, 9), np.arange(1_000))))
    assert 4_000 < len(record) < 4_100


def test_bytes_that_do_not_decode_are_an_error():
    record = encode_change(Added(IndexColumns.of([(5, 1, 1), (900, 1, 2), (6, 2, 7)])))
    for wrong in (b"", record[:-1], record + b"\0", record[:5] + b"\x03" + record[6:]):
        with pytest.raises(SnapshotCorrupt):
            decode_change(wrong)
    with pytest.raises(StorageFormatUnsupported):
        decode_change(b"\x09" + record[1:])
    two = encode_change(Removed(IndexColumns.of([(5, 1, 1), (900, 1, 2)]).positions))
    with pytest.raises(SnapshotCorrupt, match="one position"):
        decode_change(b"\x04" + two[1:])
    one = encode_change(MarkDeleteAdvanced(Position(1, 1)))
    with pytest.raises(SnapshotCorrupt, match="two positions"):
        decode_change(b"\x06" + one[1:])
