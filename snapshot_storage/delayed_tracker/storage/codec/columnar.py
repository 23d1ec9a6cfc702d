"""The columnar codec: snapshots with the meaning of PIP-195's, in a fifth of the bytes.

Positions of a bucket are mostly consecutive, and its deadlines ascend within a segment: bit-packed, a row of 50,000 over 30
days takes 34 bits, three of them more than its entropy. A segment has a header of some 16 bytes, so small segments are
joined (``SnapshotCodec.segment_rows_min``). Entry 0 has the bounds of every segment and one bitmap of all positions; PIP-195 has a bitmap
for each segment, which takes as much as the rows do.

Layout. Numbers are little-endian, bits are counted from the lowest of the first byte, varints are protobuf's. The lowest
three bits of the first byte are 6 or 7, which no protobuf message begins with; the upper five are the version, 1 to 3::

    segment   0F | row count varint | step width u8 | entry width u8 | first deadline varint | lowest entry varint |
              ledger count varint | first ledger varint | distance to the ledger before, varint, for each other ledger |
              step to the deadline before, for each row but the first, in step-width bits |
              for each row its entry less the lowest, in entry-width bits, then the number of its ledger in as few bits
              as the ledger count needs | 0 bits up to a whole byte
    metadata  0E | segment count u32 | first deadline i64 | column row counts | column gaps | column spans | bitmap
    column    width u8 | base i64 | its values less the base, width bits each | 0 bits up to a whole byte

A gap is a segment's first deadline less the last one of the segment before; the first segment has gap 0. A span is a
segment's last deadline less its first. ``bitmap`` has the positions of all segments (``PositionBitmap.serialize``).

Storages have a checksum for each entry; there is none in it. Damaged bytes raise, or are other rows: nothing is allocated
that is out of proportion to them. Widths say how many rows there can be: a segment's positions differ, so n rows need
positions of log2(n) bits, and row counts have one bit each.
"""

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from delayed_tracker.core.kernels.compiled import position_order_in_segments
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import INT63_MAX, IndexColumns, Int64Array
from delayed_tracker.core.values.errors import InvalidInput, InvariantViolation
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec import columnar_kernels as kernels
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata, cut
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported

BOUNDS_BYTES: Final = 1
"""Bytes that the bounds of one segment take in the metadata at least: of segments far apart they take six."""
METADATA_OCTET: Final = 0x0E
SEGMENT_OCTET: Final = 0x0F
_KIND_BITS: Final = 7
_VERSION_MAX: Final = 3
"""Highest version that there may be; entries of a newer one than this module's are refused and not taken for damaged."""
_VERSION_SHIFT: Final = 3
_METADATA_KIND: Final = METADATA_OCTET & _KIND_BITS
_SEGMENT_KIND: Final = SEGMENT_OCTET & _KIND_BITS

_HEADER: Final = struct.Struct("<BIq")
_COLUMN: Final = struct.Struct("<Bq")
_REBUILD: Final = "rebuild it from the ledgers"

_FAULTS: Final = {
    kernels.ROW_COUNT: "row count {value}: it is 1 to 2147483647",
    kernels.DEADLINE_WIDTH: "step width {value}: deadlines have 63 bits at most",
    kernels.ENTRY_WIDTH: "entry width {value}: it is 32 at most, and so many rows need a bit more for each doubling",
    kernels.FIRST_DEADLINE: "first deadline: not a varint of 63 bits",
    kernels.LOWEST_ENTRY: "lowest entry {value}: it is 0 to 4294967295",
    kernels.LEDGER_COUNT: "ledger count {value}: it is 1 to the row count",
    kernels.LEDGER_ID: "ledger number {value}: ids ascend up to 9223372036854775807",
    kernels.SIZE: "{value} bytes: its header says another number",
    kernels.DEADLINE: "step {value}: the deadline is above 9223372036854775807",
    kernels.LEDGER_INDEX: "ledger index {value}: it is below the ledger count",
    kernels.ENTRY_ID: "entry id {value}: it is 4294967295 at most",
    kernels.PADDING: "{value} bytes: a bit behind its last row is set",
}


def is_columnar(entry: bytes) -> bool:
    """Return True if the first byte of an entry is one of this codec, in any version."""
    if not entry or not 1 <= entry[0] >> _VERSION_SHIFT <= _VERSION_MAX:
        return False
    return entry[0] & _KIND_BITS in (_METADATA_KIND, _SEGMENT_KIND)


def encode_segments(indexes: IndexColumns, bounds: SegmentBounds) -> list[bytes]:
    """Return one entry for each segment, in one pass over the rows. O(n).

    Args:
        indexes: ascending by deadline.
        bounds: of the rows; no segment is empty.
    """
    deliver_at_ms, ledger_id, entry_id = (
        np.ascontiguousarray(column) for column in (indexes.deliver_at_ms, indexes.ledger_id, indexes.entry_id)
    )
    starts = bounds.starts
    has_one_ledger = not len(ledger_id) or bool((ledger_id == ledger_id[0]).all())
    order = np.empty(0, np.int64) if has_one_ledger else position_order_in_segments(ledger_id, entry_id, starts)
    words, offsets = kernels.encode_segments(deliver_at_ms, ledger_id, entry_id, order, starts)
    return cut(words.astype("<u8", copy=False).view(np.uint8), offsets)


def decode_segments(entries: Sequence[bytes]) -> IndexColumns:
    """Return the rows of any number of segments, in stored order.

    Args:
        entries: stored segments of this codec; may be empty.
    Raises:
        StorageFormatUnsupported: a newer version wrote one of them.
        SnapshotCorrupt: one is not a segment, or has a value out of range; names it by its place in ``entries``.
    Cost: O(bytes).
    """
    words = _words(b"".join(entries))
    ends = np.cumsum(np.fromiter(map(len, entries), np.int64, len(entries)))
    *columns, (fault, segment, value) = kernels.decode_segments(words, ends)
    if fault:
        entry = entries[int(segment)]
        where = f"segment {segment + 1} of {len(entries)}"
        _require_version(entry, _SEGMENT_KIND, where)
        raise SnapshotCorrupt(f"{where}: {_FAULTS[int(fault)].format(value=int(value))}; {_REBUILD}")
    return IndexColumns(*columns)


def encode_metadata(bounds: SegmentBounds, positions: PositionBitmap) -> bytes:
    """Return entry 0.

    Args:
        bounds: of all segments, which ascend and do not overlap in time.
        positions: of all segments.
    Raises:
        InvariantViolation: a position is in two rows, or the segments overlap (a bug of the caller).
    Cost: O(segments), and the bitmap.
    """
    if len(positions) != int(bounds.count.sum()):
        raise InvariantViolation(f"a snapshot of {int(bounds.count.sum())} rows has {len(positions)} positions")
    first, last = bounds.min_deliver_at_ms, bounds.max_deliver_at_ms
    gaps = np.zeros(len(bounds), np.int64)
    gaps[1:] = first[1:] - last[:-1]
    spans = last - first
    if len(bounds) and min(int(gaps.min()), int(spans.min()), int(bounds.count.min()) - 1) < 0:
        raise InvariantViolation("segments to encode overlap in time, or one is empty")
    return b"".join(
        (
            _HEADER.pack(METADATA_OCTET, len(bounds), int(first[0]) if len(bounds) else 0),
            _encode_column(bounds.count, width_min=1),
            _encode_column(gaps),
            _encode_column(spans),
            positions.serialize(),
        )
    )


def decode_metadata(entry: bytes) -> SnapshotMetadata:
    """Decode entry 0 of a snapshot.

    Raises:
        StorageFormatUnsupported: a newer version wrote it.
        SnapshotCorrupt: the bytes are not metadata, or have an invalid bitmap or a value out of range.
    Cost: O(bytes).
    """
    _require_version(entry, _METADATA_KIND, "snapshot metadata")
    try:
        _, segment_count, first = _HEADER.unpack_from(entry)
        count, offset = _decode_column(entry, _HEADER.size, segment_count, "row counts", width_min=1)
        gaps, offset = _decode_column(entry, offset, segment_count, "gaps")
        spans, offset = _decode_column(entry, offset, segment_count, "spans")
        if offset == len(entry):  # without bytes the bitmap would be read as an empty set
            raise _corrupt("bitmap: it has no bytes")
        positions = PositionBitmap.deserialize(entry[offset:])
    except struct.error as error:
        raise _corrupt(f"{len(entry)} bytes are cut short") from error
    except InvalidInput as error:
        raise _corrupt(f"bitmap: {error.remedy}") from error
    if max(positions.ledgers(), default=0) > INT63_MAX:
        raise _corrupt(f"bitmap: ledger ids go up to {INT63_MAX}")
    # First each count by itself, because the sum of larger ones could wrap around.
    if int(count.max(initial=0)) > len(positions):
        raise _corrupt(f"row counts: one is {int(count.max())} where the bitmap has {len(positions)} positions")
    if bool((count < 1).any()) or int(count.sum()) != len(positions):
        raise _corrupt(f"row counts: they sum to {int(count.sum())} where the bitmap has {len(positions)} positions")
    bounds = _bounds(count, first, gaps, spans)
    return SnapshotMetadata(bounds, union=positions)


def _bounds(count: Int64Array, first: int, gaps: Int64Array, spans: Int64Array) -> SegmentBounds:
    if first < 0 or (len(gaps) and min(int(gaps.min()), int(spans.min())) < 0):
        raise _corrupt("deadlines: one is negative, or below the one before")
    ends = np.cumsum(np.append(first, np.stack([gaps, spans], axis=1)))[1:]
    if bool((ends < 0).any()):  # the first sum above the maximum is negative
        raise _corrupt(f"deadlines: one is above {INT63_MAX}")
    return SegmentBounds(count, ends[0::2].copy(), ends[1::2].copy())


def _encode_column(values: Int64Array, *, width_min: int = 0) -> bytes:
    base = int(values.min()) if len(values) else 0
    width = max(width_min, (int(values.max()) - base).bit_length() if len(values) else 0)
    packed = kernels.pack(values - base, width).astype("<u8", copy=False).tobytes()
    return _COLUMN.pack(width, base) + packed[: (len(values) * width + 7) // 8]


def _decode_column(entry: bytes, offset: int, count: int, name: str, *, width_min: int = 0) -> tuple[Int64Array, int]:
    width, base = _COLUMN.unpack_from(entry, offset)
    offset += _COLUMN.size
    end = offset + (count * width + 7) // 8
    if not width_min <= width <= 63 or base < 0:
        raise _corrupt(f"{name}: width {width} and base {base} are out of range")
    if end > len(entry):
        raise _corrupt(f"{name}: {count} values of {width} bits are more than the {len(entry)} bytes")
    if width == 0:
        return np.full(count, base, np.int64), end
    values = kernels.unpack(_words(entry[offset:end]), 0, width, count)
    if int(values.max(initial=0)) > INT63_MAX - base:
        raise _corrupt(f"{name}: one is above {INT63_MAX}")
    return values + base, end


def _words(octets: bytes) -> kernels.UInt64Array:
    padding = kernels.READ_AHEAD_BYTES + -len(octets) % 8
    return np.frombuffer(octets + bytes(padding), "<u8").astype(np.uint64, copy=False)


def _require_version(entry: bytes, kind: int, where: str) -> None:
    """Refuse an entry of another version, or of the other kind."""
    if not is_columnar(entry) or entry[0] & _KIND_BITS != kind:
        raise SnapshotCorrupt(f"{where}: first byte {entry[:1].hex() or 'missing'} is not one of its kind; {_REBUILD}")
    if (version := entry[0] >> _VERSION_SHIFT) != 1:
        raise StorageFormatUnsupported(
            f"{where}: it has version {version} of the columnar codec, this program reads version 1; use a newer program"
        )


def _corrupt(fault: str) -> SnapshotCorrupt:
    return SnapshotCorrupt(f"snapshot metadata, {fault}; {_REBUILD}")
