"""Summaries decode as they were encoded, and damaged ones are refused."""

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
    """Any bounds, ascending or not, and any positions are decoded as encoded."""
    decoded = decode_summary(encode_summary(bounds, bits, snapshot_bytes))
    for name in ("count", "min_deliver_at_ms", "max_deliver_at_ms"):
        assert getattr(decoded.bounds, name).tolist() == getattr(bounds, name).tolist()
        assert getattr(decoded.bounds, name).dtype == np.int64
    assert decoded.bits == bits
    assert decoded.snapshot_bytes == snapshot_bytes


def test_a_week_in_segments_of_five_minutes_takes_nine_bytes_each():
    """The summaries for 10 M indexes stay below a megabyte in the catalogue, without bitmaps."""
    first = np.arange(2_016) * 300_000 + 1_700_000_000_000
    bounds = SegmentBounds(np.full(2_016, 27), first, first + 299_000)
    assert len(encode_summary(bounds, PositionBitmap(), 1)) < 2_016 * 9 + 60


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
            assert len(decoded.bounds.min_deliver_at_ms) == len(decoded.bounds)
            assert (decoded.bounds.min_deliver_at_ms <= decoded.bounds.max_deliver_at_ms).all()


def test_a_newer_format_is_told_apart_from_damage():
    """A newer format is not reported as damage: it must not be dropped, as a newer program reads it."""
    with pytest.raises(StorageFormatUnsupported, match="format 2, this program reads up to 1"):
        decode_summary(b"\x02" + _example()[1:])
