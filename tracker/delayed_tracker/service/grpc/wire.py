"""Converts columns and positions between the API's messages and the core. Errors name the fields of the messages."""

import sys
from collections.abc import Sequence
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import (
    ENTRY_ID_MAX,
    IndexColumns,
    Int64Array,
    Position,
    PositionColumns,
    index_columns,
    position_columns,
)
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.errors import BatchTooLarge, TrackerKey
from delayed_tracker.service.limits import NAME_BYTES_MAX, OWNER_BYTES_MAX
from delayed_tracker.v1 import tracker_pb2

_FIELDS = {"ledger_id": "ledger_ids", "entry_id": "entry_ids"}
_WIRE = np.dtype("<i8")
_VALUE_BYTES: Final = _WIRE.itemsize
_IS_NATIVE: Final = sys.byteorder == "little"
_SMALL_BYTES: Final = 4_096
"""Columns up to this size are tested as bytes."""


def _column(field: str, packed: bytes, batch_max: int) -> Int64Array:
    count = len(packed) // _WIRE.itemsize
    if count > batch_max:
        raise BatchTooLarge(field, count, batch_max)
    column = np.frombuffer(packed, _WIRE)
    return column if _IS_NATIVE else column.astype(np.int64)


def _in_words_of_the_api(error: InvalidInput) -> InvalidInput:
    return InvalidInput(
        _FIELDS.get(error.field, error.field),
        error.value,
        error.remedy,
        offsets=error.offsets,
        offset_count=error.offset_count,
    )


def _require_equal_lengths(**columns: Int64Array) -> None:
    lengths = {field: len(values) for field, values in columns.items()}
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{field} has {length}" for field, length in lengths.items())
        raise InvalidInput(next(iter(columns)), given, "give columns of equal length")


def _fit(signed: Sequence[bytes], entry_ids: bytes) -> bool:
    """Return True if no value of the packed columns is negative, and the entry ids have at most 32 bits.

    Slices of the bytes cost a microsecond for a small request, and numpy's reductions five for each column.
    """
    return all(column[7::_VALUE_BYTES].isascii() for column in signed) and not any(
        entry_ids[high::_VALUE_BYTES].strip(b"\0") for high in range(4, _VALUE_BYTES)
    )


def _all_of(column: Int64Array) -> int:
    """Return the bitwise or of all values. A value above 2^n - 1 sets a higher bit, a negative one the sign."""
    return int(np.bitwise_or.reduce(column))


def to_indexes(columns: Sequence[bytes], *, batch_max: int) -> IndexColumns:
    """Convert a request's three packed columns to indexes.

    Returns: read-only columns that share the memory of the bytes.
    Raises:
        BatchTooLarge: a column is longer than ``batch_max``.
        InvalidInput: unequal lengths, or values out of range.
    """
    deliver_at_ms, ledger_ids, entry_ids = columns
    deadlines = _column("deliver_at_ms", deliver_at_ms, batch_max)
    ledgers, entries = _column("ledger_ids", ledger_ids, batch_max), _column("entry_ids", entry_ids, batch_max)
    if not len(deadlines) == len(ledgers) == len(entries):
        _require_equal_lengths(deliver_at_ms=deadlines, ledger_ids=ledgers, entry_ids=entries)
    if len(entry_ids) <= _SMALL_BYTES:
        fits = _fit((deliver_at_ms, ledger_ids), entry_ids)
    else:
        fits = (_all_of(deadlines) | _all_of(ledgers)) >= 0 and 0 <= _all_of(entries) <= ENTRY_ID_MAX
    if fits:
        return IndexColumns(deadlines, ledgers, entries)
    try:
        return index_columns(deadlines, ledgers, entries)
    except InvalidInput as error:
        raise _in_words_of_the_api(error) from error


def to_positions(columns: Sequence[bytes], *, batch_max: int) -> PositionColumns:
    """Convert a request's two packed columns to positions. Result and errors are those of :func:`to_indexes`."""
    ledger_ids, entry_ids = columns
    ledgers, entries = _column("ledger_ids", ledger_ids, batch_max), _column("entry_ids", entry_ids, batch_max)
    if len(ledgers) != len(entries):
        _require_equal_lengths(ledger_ids=ledgers, entry_ids=entries)
    if len(entry_ids) <= _SMALL_BYTES:
        fits = _fit((ledger_ids,), entry_ids)
    else:
        fits = _all_of(ledgers) >= 0 and 0 <= _all_of(entries) <= ENTRY_ID_MAX
    if fits:
        return PositionColumns(ledgers, entries)
    try:
        return position_columns(ledgers, entries)
    except InvalidInput as error:
        raise _in_words_of_the_api(error) from error


def from_indexes(indexes: IndexColumns) -> tuple[bytes, bytes, bytes]:
    """Return the three columns of an answer, packed."""
    return _packed(indexes.deliver_at_ms), _packed(indexes.ledger_id), _packed(indexes.entry_id)


def _packed(column: Int64Array) -> bytes:
    return column.astype(_WIRE, copy=False).tobytes()


def to_offsets(offsets: Int64Array) -> list[int]:
    """Return the offsets of an answer as a list."""
    # Lists of Python integers extend a repeated field several times faster than arrays.
    listed: list[int] = offsets.tolist()
    return listed


def to_key(tracker: tracker_pb2.TrackerRef) -> TrackerKey:
    """Return the key of the tracker that a request names. Raises InvalidInput if a name is empty or too long."""
    _require_name("tracker.topic", tracker.topic, NAME_BYTES_MAX)
    _require_name("tracker.subscription", tracker.subscription, NAME_BYTES_MAX)
    return TrackerKey(tracker.topic, tracker.subscription)


def require_owner_name(owner: str) -> str:
    """Return the owner's name. Raises InvalidInput if it is empty or too long."""
    _require_name("owner", owner, OWNER_BYTES_MAX)
    return owner


def _require_name(field: str, name: str, bytes_max: int) -> None:
    size = len(name.encode())
    if not 1 <= size <= bytes_max:
        raise InvalidInput(field, name[:64], f"give 1 to {bytes_max} bytes of text, not {size}")


def require_epoch(epoch: int) -> int:
    """Return the owner's epoch. Raises InvalidInput if the request carries none."""
    if epoch == 0:
        raise InvalidInput("epoch", epoch, "give the epoch that OpenTracker answered")
    return epoch


def to_mark_delete(position: tracker_pb2.Position) -> Position:
    """Return a mark-delete position; -1:-1 is "before all".

    Raises:
        InvalidInput: no cursor can have this position.
    """
    given = Position(position.ledger_id, position.entry_id)
    before_all = given == (-1, -1)
    if given.ledger_id < 0 and not before_all:
        raise InvalidInput("mark_delete.ledger_id", given.ledger_id, "give 0 or more")
    if not -1 <= given.entry_id <= ENTRY_ID_MAX:
        raise InvalidInput("mark_delete.entry_id", given.entry_id, f"give -1 to {ENTRY_ID_MAX}")
    return given


def to_offered_through(position: tracker_pb2.Position) -> Position:
    """Return a dispatcher's claim. Raises InvalidInput if no entry is there; entry -1 is before a ledger's first."""
    if position.ledger_id < 0:
        raise InvalidInput("offered_through.ledger_id", position.ledger_id, "give 0 or more, or leave the claim out")
    if not -1 <= position.entry_id <= ENTRY_ID_MAX:
        raise InvalidInput("offered_through.entry_id", position.entry_id, f"give -1 to {ENTRY_ID_MAX}")
    return Position(position.ledger_id, position.entry_id)


def from_position(position: Position) -> tracker_pb2.Position:
    """Return a position as a message."""
    return tracker_pb2.Position(ledger_id=position.ledger_id, entry_id=position.entry_id)


def after(mark_delete: Position) -> Position:
    """Return the position at which a replay begins."""
    return Position(mark_delete.ledger_id, mark_delete.entry_id + 1)
