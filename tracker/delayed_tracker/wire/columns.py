"""Converts columns of integers between Python sequences and the wire, without a columns library.

A column is sent as packed little-endian 64-bit values. ``array.array``, numpy arrays and other buffers of 8-byte
integers are copied as they are; other sequences are read integer by integer. Values out of range are refused, with
their offsets, before the client sends anything.
"""

import operator
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, SupportsIndex

from delayed_tracker.core.values.errors import OFFSETS_REPORTED_MAX, InvalidInput

INT63_MAX: Final = 2**63 - 1
ENTRY_ID_MAX: Final = 2**32 - 1

_VALUE_BYTES = 8
_EIGHT_BYTE_FORMATS = frozenset({"q", "Q", "l", "L", "<q", "<Q", "<l", "<L", "@q", "@Q", "@l", "@L"})


class IntColumn(Protocol):
    """Sequence of integers: a list, a tuple, a range, ``array.array``, a one-dimensional numpy array."""

    def __len__(self) -> int: ...

    def __getitem__(self, offset: int, /) -> int: ...


def pack(field: str, values: IntColumn, *, maximum: int = INT63_MAX) -> bytes:
    """Return the column as packed sfixed64.

    Args:
        field: the column's name, for errors.
        values: 0 to ``maximum``; may be empty; copied.
        maximum: 2^63-1, or 2^32-1 for entry ids.
    Raises:
        InvalidInput: a value is out of range or not an integer; the error contains the offsets.
    Cost: O(n), about 1 ns a value for buffers and 20 ns for lists.
    """
    if isinstance(values, (bytes, bytearray)):  # octets, which an array would take for packed values
        raise InvalidInput(field, type(values).__name__, f"give integers from 0 to {maximum}")
    packed = _buffer_bytes(values)
    if packed is None:
        try:
            packed = _little_endian(array("Q", _each(values)))
        except (OverflowError, TypeError, ValueError) as error:
            raise _out_of_range(field, values, maximum) from error
    # Every eighth byte is the top byte of a value. Slices and these two tests run at memory speed.
    if not packed[7::_VALUE_BYTES].isascii():
        raise _out_of_range(field, values, maximum)
    if maximum == ENTRY_ID_MAX and any(packed[high::_VALUE_BYTES].strip(b"\0") for high in range(4, _VALUE_BYTES)):
        raise _out_of_range(field, values, maximum)
    return packed


def pack_positions(ledger_ids: IntColumn, entry_ids: IntColumn) -> tuple[bytes, bytes]:
    """Return two position columns, packed; raises InvalidInput for bad values and for unequal lengths."""
    require_equal_lengths(ledger_ids=ledger_ids, entry_ids=entry_ids)
    return pack("ledger_ids", ledger_ids), pack("entry_ids", entry_ids, maximum=ENTRY_ID_MAX)


def pack_indexes(deliver_at_ms: IntColumn, ledger_ids: IntColumn, entry_ids: IntColumn) -> tuple[bytes, bytes, bytes]:
    """Return three index columns, packed; raises InvalidInput for bad values and for unequal lengths."""
    try:
        are_equal = len(deliver_at_ms) == len(ledger_ids) == len(entry_ids)
    except TypeError:
        are_equal = False
    if not are_equal:
        require_equal_lengths(deliver_at_ms=deliver_at_ms, ledger_ids=ledger_ids, entry_ids=entry_ids)
    return (
        pack("deliver_at_ms", deliver_at_ms),
        pack("ledger_ids", ledger_ids),
        pack("entry_ids", entry_ids, maximum=ENTRY_ID_MAX),
    )


def require_equal_lengths(**columns: IntColumn) -> None:
    """Raise InvalidInput with the length of each column unless all lengths are equal."""
    lengths = {name: _length(name, column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InvalidInput(next(iter(columns)), given, "give columns of equal length")


def _length(field: str, column: IntColumn) -> int:
    try:
        return len(column)
    except TypeError as error:
        raise InvalidInput(field, column, "give a sequence of integers: a list, an array, a numpy array") from error


def int_column(packed: bytes) -> "array[int]":
    """Return packed values as ``array('q')``, which is compact and which numpy reads as a buffer."""
    column = array("q")
    column.frombytes(packed)
    if sys.byteorder == "big":
        column.byteswap()
    return column


def slice_packed(packed: bytes, first: int, count: int) -> bytes:
    """Return ``count`` values from offset ``first`` on."""
    return packed[first * _VALUE_BYTES : (first + count) * _VALUE_BYTES]


def _each(values: IntColumn) -> Iterable[int]:
    return values if isinstance(values, Iterable) else (values[offset] for offset in range(len(values)))


def _buffer_bytes(values: IntColumn) -> bytes | None:
    try:
        view = memoryview(values)  # type: ignore[arg-type]  # raises TypeError if the column is not a buffer
    except (TypeError, ValueError, BufferError):  # numpy says ValueError where a type has no format: times, for one
        return None
    with view:
        if view.ndim == 1 and view.itemsize == _VALUE_BYTES and view.format in _EIGHT_BYTE_FORMATS:
            packed = view.tobytes()
            return packed if sys.byteorder == "little" else _little_endian(array("Q", packed))
    return None


def _little_endian(column: "array[int]") -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def _out_of_range(field: str, values: IntColumn, maximum: int) -> InvalidInput:
    def fits(value: object) -> bool:
        return isinstance(value, SupportsIndex) and 0 <= operator.index(value) <= maximum

    bad = [(offset, value) for offset, value in enumerate(_each(values)) if not fits(value)]
    worst = bad[0][1] if bad else type(values).__name__
    return InvalidInput(
        field,
        worst,
        f"give integers from 0 to {maximum}",
        offsets=[offset for offset, _ in bad[:OFFSETS_REPORTED_MAX]],
        offset_count=len(bad),
    )


def offsets(values: Sequence[int], first: int) -> tuple[int, ...]:
    """Return offsets into a batch as offsets into the whole, where the batch starts at ``first``."""
    return tuple(values) if first == 0 else tuple(offset + first for offset in values)
