"""Summary of a bucket for recovery, small enough for the catalogue, so that recovery opens no snapshot.

Layout, little-endian::

    version u8 = 2 | segment count u32 | snapshot bytes u64 | each u32 | column count | column span | column min | bitmap
    column   kind u8 | base i64 | one narrow value for each group of segments
    kind     bytes per narrow value (1, 2, 4 or 8); 0x80 added if each value builds on the one before

``each`` is the number of segments in a group (``SegmentGroups``), ``span`` a group's last deadline less its first, ``min``
its first deadline, ``bitmap`` the union of all positions (``PositionBitmap.serialize``). A narrow value is the distance to
``base``, the smallest value of its column, or to the value before. Version 1 has no ``each``, and values for each segment.
"""

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import INT63_MAX, Int64Array
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported

SUMMARY_VERSION: Final = 2

_HEADER: Final = struct.Struct("<BIQ")
_EACH: Final = struct.Struct("<I")
_COLUMN: Final = struct.Struct("<Bq")
_CHAINED: Final = 0x80
_NARROW: Final = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}


@dataclass(frozen=True, slots=True)
class BucketSummary:
    """A bucket without its rows."""

    groups: SegmentGroups
    bits: PositionBitmap
    """Positions of all segments; owned by the caller."""
    snapshot_bytes: int

    def encoded(self) -> bytes:
        """Return the bytes that :func:`decode_summary` reads: about nine for each group of segments, and the bitmap."""
        groups, bounds = self.groups, self.groups.bounds
        return b"".join(
            (
                _HEADER.pack(SUMMARY_VERSION, groups.segment_count, self.snapshot_bytes),
                _EACH.pack(groups.each),
                _encode_column(bounds.count),
                _encode_column(bounds.max_deliver_at_ms - bounds.min_deliver_at_ms),
                _encode_column(bounds.min_deliver_at_ms),
                self.bits.serialize(),
            )
        )


def encode_summary(segments: SegmentBounds, bits: PositionBitmap, snapshot_bytes: int) -> bytes:
    """Return the summary of a bucket with these segments, encoded."""
    return BucketSummary(SegmentGroups.of(segments), bits, snapshot_bytes).encoded()


def decode_summary(stored: bytes) -> BucketSummary:
    """Return the summary that :meth:`BucketSummary.encoded` wrote.

    Raises:
        StorageFormatUnsupported: a newer version wrote it.
        SnapshotCorrupt: the bytes do not decode; the snapshot itself may still be sound, read its metadata.
    """
    if stored[:1] > bytes([SUMMARY_VERSION]):
        raise StorageFormatUnsupported(
            f"a bucket summary has format {stored[0]}, this program reads up to {SUMMARY_VERSION}; use a newer program"
        )
    try:
        version, segment_count, snapshot_bytes = _HEADER.unpack_from(stored)
        if not version:
            raise _corrupt(stored, f"there is no format {version}")
        each, offset = 1, _HEADER.size
        if version > 1:
            (each,) = _EACH.unpack_from(stored, offset)
            offset += _EACH.size
        if not each:
            raise _corrupt(stored, "its groups have no segments")
        group_count = -(-segment_count // each)
        count, offset = _decode_column(stored, offset, group_count)
        span, offset = _decode_column(stored, offset, group_count)
        least, offset = _decode_column(stored, offset, group_count)
        if offset == len(stored):  # without bytes the bitmap would be read as an empty set
            raise _corrupt(stored, "they are cut short")
        bits = PositionBitmap.deserialize(stored[offset:])
    except (struct.error, InvalidInput) as error:
        raise _corrupt(stored, str(error)) from error
    most = least + span
    if bool(((count < 0) | (span < 0) | (least < 0) | (most < least)).any()):
        raise _corrupt(stored, "a value is out of range")
    if not segment_count and len(bits):
        raise _corrupt(stored, f"it has {len(bits)} positions in no segment")
    if max(bits.ledgers(), default=0) > INT63_MAX:
        raise _corrupt(stored, "a ledger id is out of range")
    bounds = SegmentBounds(count, least, most)
    groups = SegmentGroups.of(bounds) if version == 1 else SegmentGroups(bounds, each, segment_count)
    return BucketSummary(groups, bits, snapshot_bytes)


def _encode_column(values: Int64Array) -> bytes:
    chained = len(values) > 1 and bool((values[1:] >= values[:-1]).all())
    base = int(values.min()) if len(values) else 0
    narrow = np.diff(values, prepend=values[:1]) if chained else values - base
    largest = int(narrow.max(initial=0))
    size = next(size for size in _NARROW if largest < 1 << (8 * size))
    return _COLUMN.pack(_CHAINED | size if chained else size, base) + narrow.astype(_NARROW[size]).tobytes()


def _decode_column(stored: bytes, offset: int, count: int) -> tuple[Int64Array, int]:
    kind, base = _COLUMN.unpack_from(stored, offset)
    offset += _COLUMN.size
    size = kind & ~_CHAINED
    if size not in _NARROW:
        raise _corrupt(stored, f"there are no columns of kind {kind}")
    end = offset + size * count
    if end > len(stored):
        raise _corrupt(stored, "they are cut short")
    narrow = np.frombuffer(stored, _NARROW[size], count, offset).astype(np.int64)
    return (np.cumsum(narrow) if kind & _CHAINED else narrow) + base, end


def _corrupt(stored: bytes, fault: str) -> SnapshotCorrupt:
    return SnapshotCorrupt(
        f"the {len(stored)} bytes of a bucket summary do not decode: {fault}; read the snapshot instead"
    )
