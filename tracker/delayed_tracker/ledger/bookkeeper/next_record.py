"""Finds the next record of an entry log behind damage, where the start of the record is unknown."""

import mmap
from functools import cached_property
from typing import Final

import numpy as np

from delayed_tracker.bookkeeper.wire.digest import BODY_HEADER, DIGEST_BYTES
from delayed_tracker.core.values.columns import BoolArray, Int64Array
from delayed_tracker.ledger.kernels import LEDGER_ID_LIKELY_MAX

_SIZE_BYTES: Final = 4
_INTERNAL_LEDGER: Final = -1
_LEDGERS_MAP: Final = -2
"""Entry id of the ledgers map."""
_MAP_BYTES_MIN: Final = 20
_DIGEST_BYTES_MAX: Final = max(DIGEST_BYTES.values())
_PADDING_MAX: Final = 3
"""Padding aligns a record to four bytes."""
_PIECE_BYTES_MIN: Final = 1 << 12
_PIECE_BYTES: Final = 1 << 20


class RecordFinder:
    """Finder of records in one log, whose first fields it reads at any byte.

    Args:
        log: the whole file.
    """

    def __init__(self, log: bytes | mmap.mmap) -> None:
        self._log = log
        self._octets = np.frombuffer(log, np.uint8)
        self._end = len(log)
        self._size = _column(log, ">i4", 0)
        self._ledger_id = _column(log, ">i8", 4)
        self._entry_id = _column(log, ">i8", 12)
        self._last_add_confirmed = _column(log, ">i8", 20)
        self._length = _column(log, ">i8", 28)

    def find(self, position: int) -> int | None:
        """Return the first offset from ``position`` on with a likely record that another record or only zeros follow.

        Bytes of a payload may look like a record, so the following bytes are checked too. The caller checks the digest to
        find out if the record is a valid entry.

        Args:
            position: any offset.
        Returns: None if there is none.
        Cost: O(bytes) up to the offset found; the first call also crosses the zeros at the end of the log.
        """
        octets = self._octets
        start, last = position, len(octets) - _SIZE_BYTES - _MAP_BYTES_MIN
        # Most records are near, and there may be many to find.
        piece_bytes = _PIECE_BYTES_MIN
        while start <= last:
            stop = min(last + 1, start + piece_bytes)
            # A ledger id begins with byte 0, that of the ledgers map with ff, and no size is 0. This rules out most
            # offsets.
            high = octets[start + _SIZE_BYTES : stop + _SIZE_BYTES]
            has_size = octets[start:stop] != 0
            for byte in range(1, _SIZE_BYTES):
                has_size |= octets[start + byte : stop + byte] != 0
            places = np.flatnonzero(has_size & ((high == 0) | (high == 0xFF))) + start
            places = places[self._are_records(places)]
            if len(places):
                places = places[self._are_followed(places)]
            if len(places):
                return int(places[0])
            start, piece_bytes = stop, min(_PIECE_BYTES, 4 * piece_bytes)
        return None

    def _are_records(self, places: Int64Array) -> BoolArray:
        """Return True for each offset with a record that ends within the log. Each must have room for an empty map."""
        size, ledger_id = _at(self._size, places), _at(self._ledger_id, places)
        fit = (size >= _MAP_BYTES_MIN) & (places + size <= self._end - _SIZE_BYTES)
        is_map = fit & (ledger_id == _INTERNAL_LEDGER)
        is_entry = fit & (size >= BODY_HEADER.size) & (ledger_id >= 0) & (ledger_id < LEDGER_ID_LIKELY_MAX)
        rows = np.flatnonzero(is_map | is_entry)
        found = np.zeros(len(places), np.bool_)
        if len(rows):
            entry_id = _at(self._entry_id, places[rows])
            # A record's last add confirmed is below its own entry.
            confirmed = _at(self._last_add_confirmed, places[rows])
            # The payload bytes of a ledger are at least those of this entry.
            fewest = np.maximum(size[rows] - BODY_HEADER.size - _DIGEST_BYTES_MAX, 0)
            counted = (confirmed >= -1) & (confirmed < entry_id) & (_at(self._length, places[rows]) >= fewest)
            found[rows] = np.where(is_map[rows], entry_id == _LEDGERS_MAP, counted)
        return found

    def _are_followed(self, places: Int64Array) -> BoolArray:
        """Return True for each record that is followed by another record, or only by zeros up to the end."""
        behind = places + _SIZE_BYTES + _at(self._size, places)
        followed: BoolArray = behind >= self._zeros
        for padding in range(_PADDING_MAX + 1):
            rows = np.flatnonzero(~followed & (behind + padding <= self._end - _SIZE_BYTES - _MAP_BYTES_MIN))
            followed[rows] = self._are_records(behind[rows] + padding)
        return followed

    @cached_property
    def _zeros(self) -> int:
        """Offset at which the zeros at the end begin."""
        stop = self._end
        while stop > 0:
            start = max(0, stop - _PIECE_BYTES)
            if kept := len(self._log[start:stop].rstrip(b"\0")):
                return start + kept
            stop = start
        return 0


def _column(log: bytes | mmap.mmap, kind: str, offset: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a column with one number for each byte of the log, read ``offset`` bytes behind that byte."""
    count = max(0, len(log) - offset - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, log, min(offset, len(log)), (1,))


def _at(column: np.ndarray[tuple[int], np.dtype[np.int64]], places: Int64Array) -> Int64Array:
    """Return the numbers at some offsets. A number beyond the end of the log is arbitrary."""
    if not len(column):
        return np.zeros(len(places), np.int64)
    return column[np.minimum(places, len(column) - 1)].astype(np.int64)
