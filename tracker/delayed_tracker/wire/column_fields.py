"""Reads and writes ``repeated sfixed64`` fields as bytes, without one Python integer for each value.

A packed ``repeated sfixed64`` field has the wire form of a ``bytes`` field. The service and the client therefore cut
columns out of an encoded message, or append them to one, without decoding their values. Protobuf parses only the few
bytes around them. Other legal encodings (unpacked values, a column in several pieces, thousands of fields) are parsed by
protobuf: the result is the same, only slower.
"""

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from delayed_tracker.wire.calls import ACKS_MAX

HeadT = TypeVar("HeadT", bound=Message)

_VALUE_BYTES: Final = 8
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LONG_VARINT: Final = 0x80
_LENGTH_BITS_MAX: Final = 28
"""Most bits of a length that is read here; protobuf reads longer ones (more than four bytes)."""
_VARINT_BYTES_MAX: Final = 10
_FIELDS_MAX: Final = ACKS_MAX + 24
"""Most top-level fields of a message that is cut here. An ack of that many leases has a field for each of them; beyond
that protobuf is faster, whose walk over the fields does not run in Python."""


@dataclass(slots=True)
class Columned(Generic[HeadT]):
    """A message and its columns."""

    head: HeadT
    """The message without its columns."""
    columns: tuple[bytes, ...]
    """Little-endian 64-bit values of each column, in the order of the field names; empty if the column is absent."""

    @property
    def row_count(self) -> int:
        """Values in the longest column."""
        return max(map(len, self.columns)) // _VALUE_BYTES


class ColumnFields(Generic[HeadT]):
    """Reader and writer of the columns of one message type.

    Args:
        kind: the generated class.
        fields: names of its columns. All are ``repeated sfixed64`` with field numbers below 16.
    """

    def __init__(self, kind: type[HeadT], *fields: str) -> None:
        self._kind = kind
        self._fields = fields
        numbers = [kind.DESCRIPTOR.fields_by_name[field].number for field in fields]
        self._tags = [bytes((number << 3 | _LENGTH,)) for number in numbers]
        self._places = {number << 3 | _LENGTH: place for place, number in enumerate(numbers)}
        self._unpacked = frozenset(number << 3 | _FIXED64 for number in numbers)

    def FromString(self, encoded: bytes) -> Columned[HeadT]:  # noqa: N802  # used in place of a message's class
        """Return the message and its columns.

        Raises:
            DecodeError: the bytes are not such a message; raised by the message's own ``FromString``.
        Cost: a copy of the columns' memory, and about two microseconds.
        """
        return self._cut(encoded) or self._parsed(encoded)

    def encoded(self, head: HeadT, columns: Sequence[bytes]) -> bytes:
        """Return a message without columns and its columns as one encoded message. Empty columns add no bytes."""
        parts = [head.SerializeToString()]
        for tag, column in zip(self._tags, columns, strict=True):
            if column:
                parts += (tag, varint(len(column)), column)
        return b"".join(parts)

    def _cut(self, encoded: bytes) -> Columned[HeadT] | None:
        """Cut the columns out of the top-level fields; return None if protobuf has to parse the message.

        Cost: bounded by the number of fields, and by one copy of the message.
        """
        columns = [b""] * len(self._fields)
        head = b""
        seen: set[int] = set()
        kept_from = at = 0
        end = len(encoded)
        try:
            for _ in range(_FIELDS_MAX):
                if at >= end:
                    break
                start = at
                tag = encoded[at]
                at += 1
                if tag >= _LONG_VARINT:
                    return None
                kind = tag & 7
                if kind == _LENGTH:
                    size = encoded[at]
                    at += 1
                    if size >= _LONG_VARINT:
                        size &= 0x7F
                        shift = 7
                        while (more := encoded[at]) >= _LONG_VARINT:
                            size |= (more & 0x7F) << shift
                            shift += 7
                            at += 1
                            if shift == _LENGTH_BITS_MAX:
                                return None
                        size |= more << shift
                        at += 1
                    place = self._places.get(tag)
                    if place is not None:
                        # Each column once, even an empty one: each place where one is cut out copies the head.
                        if place in seen or size % _VALUE_BYTES:
                            return None
                        seen.add(place)
                        columns[place] = encoded[at : at + size]
                        head += encoded[kept_from:start]
                        kept_from = at + size
                    at += size
                elif kind == _VARINT:
                    last = at + _VARINT_BYTES_MAX
                    while encoded[at] >= _LONG_VARINT:
                        at += 1
                        if at == last:
                            return None
                    at += 1
                elif kind == _FIXED64 and tag not in self._unpacked:
                    at += _VALUE_BYTES
                elif kind == _FIXED32:
                    at += 4
                else:
                    return None
        except IndexError:
            return None
        if at != end:
            return None
        return Columned(self._kind.FromString(head + encoded[kept_from:]), tuple(columns))

    def _parsed(self, encoded: bytes) -> Columned[HeadT]:
        message = self._kind.FromString(encoded)
        columns = tuple(_packed(getattr(message, field)) for field in self._fields)
        for field in self._fields:
            message.ClearField(field)
        return Columned(message, columns)


def _packed(values: Sequence[int]) -> bytes:
    column = array("q", values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()


def varint(value: int) -> bytes:
    """Return a non-negative number as a protobuf varint."""
    # A loop takes longer.
    if value < _LONG_VARINT:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value >= _LONG_VARINT:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
