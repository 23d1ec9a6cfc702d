"""Whole columns of protobuf varints written and read at once.

A varint holds seven bits a byte, lowest first, and the top bit of a byte says that another follows. Writing lays tokens
out in a table of fixed-width cells, one row per message, and keeps the cells that are in use; reading gathers eight
bytes at a time and squeezes the seven-bit groups together.

Rejected: one scatter per byte position (1.5 times slower to write), 64-bit words instead of cells (their masks cost more
than they save).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracker.core.columns import BoolArray, Int64Array

UInt8Array = NDArray[np.uint8]

_GROUPS_PER_WORD: Final = 8
# Squeezing eight groups of seven bits together: at each step every second group moves down beside its neighbour.
_SQUEEZE: Final = tuple(
    (np.uint64(stay), np.uint64(move), np.uint64(distance))
    for stay, move, distance in (
        (0x007F007F007F007F, 0x3F803F803F803F80, 1),
        (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
    )
)
# By the number of bytes a varint has in its first word: which bits of the word belong to it.
_WORD_MASK: Final = np.array([(1 << (8 * size)) - 1 for size in range(_GROUPS_PER_WORD + 1)], np.uint64)


def varint_width(value: int) -> int:
    """How many bytes one non-negative value takes."""
    return max(1, -(-value.bit_length() // 7))


def varint_widths(values: Int64Array) -> int | Int64Array:
    """How many bytes each value takes; a plain number when all take the same, as deadlines and ledgers mostly do."""
    if not len(values):
        return 1
    least, most = varint_width(int(values.min())), varint_width(int(values.max()))
    if least == most:
        return least
    widths = np.full(len(values), least, np.int64)
    for width in range(least, most):
        widths += values >= (1 << (7 * width))
    return widths


class CellTable:
    """Rows of variable-length bytes under construction, one column of cells at a time from left to right."""

    def __init__(self, row_count: int, cell_count_max: int) -> None:
        self._cells = np.empty((row_count, cell_count_max), np.uint8)
        self._keep: BoolArray = np.ones((row_count, cell_count_max), np.bool_)
        self._column = 0
        self._ragged = False
        self.widths: Int64Array = np.zeros(row_count, np.int64)
        """Bytes of each row so far."""

    def put(self, octet: int | Int64Array) -> None:
        """Append one byte to every row: the same, or one for each."""
        self._cells[:, self._column] = octet
        self._column += 1
        self.widths += 1

    def put_varint(self, values: Int64Array, widths: int | Int64Array) -> None:
        """Append a varint to every row; ``widths`` as :func:`varint_widths` gives them."""
        uniform = isinstance(widths, int)
        width_max = widths if isinstance(widths, int) else int(widths.max(initial=1))
        for place in range(width_max):
            octet = (values >> (7 * place)).astype(np.uint8)
            column = self._column + place
            if uniform:
                octet = octet | np.uint8(0x80) if place < width_max - 1 else octet & np.uint8(0x7F)
            else:
                octet &= np.uint8(0x7F)
                octet |= (widths > place + 1).view(np.uint8) << np.uint8(7)  # type: ignore[union-attr]
                self._keep[:, column] = widths > place
            self._cells[:, column] = octet
        self._ragged |= not uniform
        self._column += width_max
        self.widths += widths

    def flat(self) -> UInt8Array:
        """The bytes of all rows, one row after the other."""
        cells = self._cells[:, : self._column]
        return cells[self._keep[:, : self._column]] if self._ragged else np.ascontiguousarray(cells).reshape(-1)


def spans(starts: Int64Array, widths: Int64Array) -> Int64Array:
    """Every offset of the ranges that begin at ``starts`` and are ``widths`` long, range after range."""
    ends = np.cumsum(widths)
    if not len(ends):
        return np.empty(0, np.int64)
    return np.repeat(starts - (ends - widths), widths) + np.arange(int(ends[-1]))


class VarintReader:
    """Reads columns of varints out of one byte string."""

    def __init__(self, encoded: bytes) -> None:
        # Eight more bytes, so that a whole word can be read at the last one.
        padded = np.frombuffer(encoded + bytes(_GROUPS_PER_WORD), np.uint8)
        self.octets: UInt8Array = padded[: len(encoded)]
        self._words = np.ndarray((len(encoded) + 1,), "<u8", buffer=padded, strides=(1,))

    def read(self, starts: Int64Array, widths: Int64Array) -> Int64Array:
        """The values of canonical varints of one to nine bytes, all of them below 2^63."""
        width_max = int(widths.max(initial=1))
        words = self._words[starts]
        if width_max == 1:
            return (words & np.uint64(0x7F)).astype(np.int64)
        if width_max == int(widths.min(initial=width_max)):
            words &= _WORD_MASK[min(width_max, _GROUPS_PER_WORD)]
        else:
            words &= _WORD_MASK[np.minimum(widths, _GROUPS_PER_WORD)]
        words &= np.uint64(0x7F7F7F7F7F7F7F7F)
        for stay, move, distance in _SQUEEZE:
            words = (words & stay) | ((words >> distance) & move)
        if width_max > _GROUPS_PER_WORD:
            ninth = np.flatnonzero(widths > _GROUPS_PER_WORD)
            words[ninth] |= self.octets[starts[ninth] + _GROUPS_PER_WORD].astype(np.uint64) << np.uint64(56)
        return words.astype(np.int64)
