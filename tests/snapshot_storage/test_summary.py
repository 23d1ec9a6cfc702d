"""Summaries decode as they were encoded, and damaged ones are refused."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.summary import decode_summary, encode_summary
from tests.snapshot_storage.strategies import position_bits, segment_bounds


@given(segment_bounds(), position_bits, st.integers(0, 2**63 - 1))
def test_round_trip(bounds, bits, snapshot_bytes):
    """Any bounds, ascending or not, and any positions in them are decoded as encoded."""
    if not len(bounds):
        bits = PositionBitmap()
    decoded = decode_summary(encode_summary(bounds, bits, snapshot_bytes))
    for name in ("count", "min_deliver_at_ms", "max_deliver_at_ms"):
        assert getattr(decoded.groups.bounds, name).tolist() == getattr(bounds, name).tolist()
        assert getattr(decoded.groups.bounds, name).dtype == np.int64
    assert (decoded.groups.each, decoded.groups.segment_count) == (1, len(bounds))
    assert decoded.bits == bits
    assert decoded.snapshot_bytes == snapshot_bytes


@pytest.mark.parametrize(("days", "rows"), [(7, 25), (30, 6), (365, 1)])
def test_many_short_segments_take_as_many_bytes_as_512(days, rows):
    """A summary stays below five kilobytes without bitmap, however far the deadlines of a bucket are apart."""
    first = np.arange(days * 288) * 300_000 + 1_700_000_000_000
    bounds = SegmentBounds(np.full_like(first, rows), first, first + 299_000)
    stored = encode_summary(bounds, PositionBitmap(), 1)
    assert len(stored) < 512 * 9 + 80
    groups = decode_summary(stored).groups
    assert groups.segment_count == days * 288
    assert groups.bounds.count.sum() == days * 288 * rows


def test_a_summary_of_the_first_format_is_read_in_groups():
    """A summary with the bounds of each segment, of an older program, gives the groups that are stored now."""
    first = np.arange(2_016) * 300_000 + 1_700_000_000_000
    bounds = SegmentBounds(np.full(2_016, 27), first, first + 299_000)
    bits = PositionBitmap.of(PositionColumns.of((5, entry) for entry in range(9)))
    columns = struct.pack("<Bq2016B", 1, 27, *[0] * 2_016) + struct.pack("<Bq2016B", 1, 299_000, *[0] * 2_016)
    deadlines = struct.pack("<Bq2016I", 0x84, int(first[0]), 0, *[300_000] * 2_015)
    old = struct.pack("<BIQ", 1, 2_016, 68) + columns + deadlines + bits.serialize()
    read, expected = decode_summary(old), decode_summary(encode_summary(bounds, bits, 68))
    assert read.groups.each == expected.groups.each == 4
    assert read.groups.segment_count == 2_016
    for name in ("count", "min_deliver_at_ms", "max_deliver_at_ms"):
        assert getattr(read.groups.bounds, name).tolist() == getattr(expected.groups.bounds, name).tolist()
    assert (read.bits, read.snapshot_bytes) == (bits, 68)


def test_groups_without_segments_are_damage():
    """A count of segments in a group of zero is refused, and divides nothing."""
    stored = bytearray(_example())
    stored[13:17] = bytes(4)
    with pytest.raises(SnapshotCorrupt, match="its groups have no segments"):
        decode_summary(bytes(stored))


def test_positions_without_segments_are_damage():
    """A summary with positions and no segments is refused: recovery would take its bucket for drained and delete it."""
    none = np.zeros(0, np.int64)
    bits = PositionBitmap.of(PositionColumns.of([(5, 1), (5, 2)]))
    stored = encode_summary(SegmentBounds(none, none, none), bits, 68)
    with pytest.raises(SnapshotCorrupt, match="it has 2 positions in no segment; read the snapshot instead"):
        decode_summary(stored)


def _example() -> bytes:
    bounds = SegmentBounds(np.array([2, 3]), np.array([1_000, 2_000]), np.array([1_500, 2_000]))
    return encode_summary(bounds, PositionBitmap.of(PositionColumns.of((5, entry) for entry in range(5))), 68)


def test_every_cut_is_corrupt():
    """No prefix of a summary is one, and neither is a summary with bytes behind it."""
    stored = _example()
    for size in range(len(stored)):
        with pytest.raises(SnapshotCorrupt):
            decode_summary(stored[:size])
    with pytest.raises(SnapshotCorrupt):
        decode_summary(stored + b"\x00")


def test_every_flipped_bit_decodes_or_is_refused():
    """A flipped bit gives a summary or the expected error; only the storage's checksum detects it for certain."""
    stored = _example()
    for place in range(len(stored)):
        for bit in range(8):
            flipped = bytearray(stored)
            flipped[place] ^= 1 << bit
            try:
                decoded = decode_summary(bytes(flipped))
            except (SnapshotCorrupt, StorageFormatUnsupported):
                continue
            assert len(decoded.groups.bounds.min_deliver_at_ms) == len(decoded.groups.bounds)
            assert (decoded.groups.bounds.min_deliver_at_ms <= decoded.groups.bounds.max_deliver_at_ms).all()


def test_a_newer_format_is_told_apart_from_damage():
    """A newer format is not reported as damage: it must not be dropped, as a newer program reads it."""
    with pytest.raises(StorageFormatUnsupported, match="format 3, this program reads up to 2"):
        decode_summary(b"\x03" + _example()[1:])
