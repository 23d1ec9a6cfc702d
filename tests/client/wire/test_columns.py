"""Tests of packing columns for the wire."""

import subprocess
import sys
from array import array

import numpy as np
import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.columns import ENTRY_ID_MAX, INT63_MAX, int_column, pack, pack_positions
from delayed_tracker.wire.message_columns import ADD_COLUMNS

VALUES = [0, 1, 127, 128, 2**32, INT63_MAX]


@pytest.mark.parametrize(
    "column",
    [
        VALUES,
        tuple(VALUES),
        array("q", VALUES),
        array("Q", VALUES),
        np.array(VALUES, np.int64),
        np.array(VALUES, np.uint64),
        np.array(VALUES, np.int64)[::1],
        np.repeat(np.array(VALUES, np.int64), 2)[::2],
        np.array(VALUES, object),
    ],
    ids=lambda column: type(column).__name__,
)
def test_any_sequence_of_ints_becomes_the_same_field(column):
    """A packed column reads back from the message as the same integers."""
    packed = pack("ledger_ids", column)
    encoded = ADD_COLUMNS.encoded(pb.AddMessagesRequest(epoch=3), (b"", packed, b""))
    assert pb.AddMessagesRequest.FromString(encoded) == pb.AddMessagesRequest(epoch=3, ledger_ids=VALUES)
    assert int_column(packed) == array("q", VALUES)


def test_narrow_arrays_are_widened():
    """Arrays of smaller integers are read value by value, not as 8-byte buffers."""
    assert pack("x", np.array([1, 2], np.int32)) == pack("x", [1, 2])
    assert pack("x", array("B", [1, 2])) == pack("x", range(1, 3))


def test_big_endian_buffers_are_not_taken_as_they_are():
    """A buffer in the other byte order is converted."""
    assert pack("x", np.array([1, 2], ">i8")) == pack("x", [1, 2])


def test_an_empty_column_leaves_the_field_empty():
    """An empty column gives no bytes."""
    assert not ADD_COLUMNS.encoded(pb.AddMessagesRequest(), (b"", pack("ledger_ids", []), b""))


@pytest.mark.parametrize(
    ("column", "offset"),
    [
        ([0, -1], 1),
        (array("q", [5, 6, -7]), 2),
        (np.array([2**63], np.uint64), 0),
        ([2**63], 0),
        ([1, 2**64], 1),
        ([0, 1, "2"], 2),
        ([0, 1.0], 1),
        ([None], 0),
    ],
)
def test_values_out_of_range_are_refused_by_offset(column, offset):
    """The error names the field, offset, value and remedy."""
    with pytest.raises(InvalidInput) as caught:
        pack("ledger_ids", column)
    assert caught.value.field == "ledger_ids"
    assert caught.value.offsets == (offset,)
    assert f"at offset {offset}" in str(caught.value)
    assert "from 0 to 9223372036854775807" in str(caught.value)


@pytest.mark.parametrize(
    "column",
    [
        bytes(8),
        bytearray(16),
        np.array([1, 2], "datetime64[ms]"),
        np.array([1, 2], "timedelta64[s]"),
        np.array(["1", "2"]),
    ],
)
def test_what_has_no_integers_is_refused(column):
    """Octets are no values, and times have units; both are buffers that say otherwise, or nothing."""
    with pytest.raises(InvalidInput, match=r"ledger_ids: .* is not valid.*; give integers from 0 to"):
        pack("ledger_ids", column)


@pytest.mark.parametrize("entry_id", [2**32, 2**40, 2**56, 2**62])
def test_entry_ids_above_32_bits_are_refused(entry_id):
    """Entry ids above 32 bits are refused, because they do not fit the snapshot's bitmaps."""
    assert pack("entry_ids", [ENTRY_ID_MAX], maximum=ENTRY_ID_MAX)
    with pytest.raises(InvalidInput, match="entry_ids"):
        pack("entry_ids", [1, entry_id], maximum=ENTRY_ID_MAX)


def test_at_most_a_thousand_offsets_are_listed_and_all_are_counted():
    """The error of a wholly bad column lists at most a thousand offsets and the count of all."""
    with pytest.raises(InvalidInput) as caught:
        pack("ledger_ids", [-1] * 1_500)
    assert len(caught.value.offsets) == 1_000
    assert caught.value.offset_count == 1_500


def test_columns_of_unequal_length_are_refused():
    """The error contains both lengths."""
    with pytest.raises(InvalidInput, match="ledger_ids has 2, entry_ids has 1"):
        pack_positions([1, 2], [1])


def test_the_client_does_not_import_numpy():
    """The client is imported without numpy."""
    program = "import sys, delayed_tracker.client; sys.exit('numpy' in sys.modules or 'pyroaring' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
