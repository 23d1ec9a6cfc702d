"""Bytes of a tracker's changes in an add log: columns, each as narrow as its values allow.

Layout, little-endian::

    kind u8 | row count u32 | columns
    column   width u8 | first i64 | step i64 | (row count - 1) narrow values

A narrow value is a row's distance to the row before, less ``step``, the least of these distances; its width is 0, 1, 2,
4 or 8 bytes. So a ledger's consecutive entries take no bytes, and deadlines of one week about four each.

Kinds: 1 added and 2 rescheduled (deadline, ledger, entry), 3 removed (ledger, entry), 4 mark-delete and 5 offered
through (a ledger and an entry, of one row), 6 cursor moved (ledger and entry of two rows: where it stands, and through
where nothing was tracked).
"""

import struct
from typing import Final

import numpy as np

from delayed_tracker.core.values.changes import (
    Added,
    Change,
    CursorMoved,
    MarkDeleteAdvanced,
    OfferedThrough,
    Removed,
    Rescheduled,
)
from delayed_tracker.core.values.columns import IndexColumns, Int64Array, Position, PositionColumns
from delayed_tracker.storage.codec import kernels
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported

ROWS_MAX: Final = 2**24
"""Rows of a record; a call changes at most 10,000,000. A column of equal distances takes no bytes, so the size of a record
does not bound what a damaged count allocates."""

_HEADER: Final = struct.Struct("<BI")
_COLUMN: Final = struct.Struct("<Bqq")
_NARROW: Final = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_ADDED, _RESCHEDULED, _REMOVED, _MARK_DELETE, _OFFERED, _MOVED = range(1, 7)
_COLUMN_COUNTS: Final = {_ADDED: 3, _RESCHEDULED: 3, _REMOVED: 2, _MARK_DELETE: 2, _OFFERED: 2, _MOVED: 2}


def encode_change(change: Change) -> bytes:
    """Return the bytes that :func:`decode_change` reads. O(n)."""
    match change:
        case Added(indexes):
            return _encode(_ADDED, indexes.deliver_at_ms, indexes.ledger_id, indexes.entry_id)
        case Rescheduled(indexes):
            return _encode(_RESCHEDULED, indexes.deliver_at_ms, indexes.ledger_id, indexes.entry_id)
        case Removed(positions):
            return _encode(_REMOVED, positions.ledger_id, positions.entry_id)
        case MarkDeleteAdvanced(position):
            return _encode(_MARK_DELETE, *_places(position))
        case OfferedThrough(position):
            return _encode(_OFFERED, *_places(position))
        case CursorMoved(mark_delete, trimmed_through):
            return _encode(_MOVED, *_places(mark_delete, trimmed_through))


def decode_change(record: bytes) -> Change:
    """Return the change of a record.

    Raises:
        StorageFormatUnsupported: a newer program wrote it.
        SnapshotCorrupt: the bytes do not decode.
    """
    try:
        kind, count = _HEADER.unpack_from(record)
        if kind not in _COLUMN_COUNTS:
            raise StorageFormatUnsupported(f"a record of the add log has kind {kind}; use a newer program")
        if count > ROWS_MAX:
            raise _corrupt(record, f"{count} rows are more than {ROWS_MAX}")
        offset, columns = _HEADER.size, []
        for _ in range(_COLUMN_COUNTS[kind]):
            column, offset = _decode_column(record, offset, count)
            columns.append(column)
    except struct.error as error:
        raise _corrupt(record, str(error)) from error
    if offset != len(record):
        raise _corrupt(record, "there are bytes behind the columns")
    match kind:
        case 1:
            return Added(IndexColumns(*columns))
        case 2:
            return Rescheduled(IndexColumns(*columns))
        case 3:
            return Removed(PositionColumns(*columns))
    expected = 2 if kind == _MOVED else 1
    if count != expected:
        raise _corrupt(
            record, f"{'two positions were' if kind == _MOVED else 'one position was'} expected, not {count}"
        )
    places = [Position(int(ledger_id), int(entry_id)) for ledger_id, entry_id in zip(*columns, strict=True)]
    if kind == _MOVED:
        return CursorMoved(*places)
    return MarkDeleteAdvanced(*places) if kind == _MARK_DELETE else OfferedThrough(*places)


def _places(*positions: Position) -> tuple[Int64Array, Int64Array]:
    ledger_ids, entry_ids = zip(*positions, strict=True)
    return np.array(ledger_ids, np.int64), np.array(entry_ids, np.int64)


def _encode(kind: int, *columns: Int64Array) -> bytes:
    parts = [_HEADER.pack(kind, len(columns[0]))]
    if len(columns[0]) == 1:  # nothing can overflow, and numpy's block costs more than all the rest
        return b"".join((*parts, *(_COLUMN.pack(0, int(column[0]), 0) for column in columns)))
    # Distances wrap around, as the sums do that undo it; a kernel that is not compiled would warn.
    with np.errstate(over="ignore"):
        for column in columns:
            parts += _encode_column(column)
    return b"".join(parts)


def _encode_column(values: Int64Array) -> tuple[bytes, bytes]:
    if len(values) < 2:
        return _COLUMN.pack(0, int(values[0]) if len(values) else 0, 0), b""
    step, greatest = map(int, kernels.distance_bounds(np.ascontiguousarray(values)))
    span = greatest - step
    if not span:
        return _COLUMN.pack(0, int(values[0]), step), b""
    width = next(width for width in _NARROW if span < 1 << (8 * width))
    distances = values[1:] - values[:-1]
    return _COLUMN.pack(width, int(values[0]), step), (distances - step).astype(_NARROW[width]).tobytes()


def _decode_column(record: bytes, offset: int, count: int) -> tuple[Int64Array, int]:
    width, first, step = _COLUMN.unpack_from(record, offset)
    offset += _COLUMN.size
    values = np.empty(count, np.int64)
    if not count:
        return values, offset
    distances: Int64Array | int = step
    if width:
        if width not in _NARROW:
            raise _corrupt(record, f"there are no columns of width {width}")
        end = offset + width * (count - 1)
        if end > len(record):
            raise _corrupt(record, "they are cut short")
        distances = np.frombuffer(record, _NARROW[width], count - 1, offset).astype(np.int64) + step
        offset = end
    values[0], values[1:] = first, distances
    return np.cumsum(values, out=values), offset


def _corrupt(record: bytes, fault: str) -> SnapshotCorrupt:
    return SnapshotCorrupt(f"the {len(record)} bytes of a record of the add log do not decode: {fault}")
