"""The next record of an entry log behind a place where nothing tells where it starts."""

import mmap
from functools import cached_property
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import BoolArray, Int64Array
from delayed_tracker.ledger.kernels import LEDGER_ID_LIKELY_MAX
from delayed_tracker.ledger.metadata.digest import BODY_HEADER, DIGEST_BYTES

_SIZE_BYTES: Final = 4
_INTERNAL_LEDGER: Final = -1
_LEDGERS_MAP: Final = -2
"""Its entry id."""
_MAP_BYTES_MIN: Final = 20
_DIGEST_BYTES_MAX: Final = max(DIGEST_BYTES.values())
_PADDING_MAX: Final = 3
"""To an alignment of four bytes."""
_PIECE_BYTES: Final = 1 << 20


def find_record(log: bytes | mmap.mmap, position: int) -> int | None:
    """The first place from a position on that looks like a record and is followed by another, or by nothing but zeros.

    Bytes of a payload may look like one, hence the second look; whether it is an entry is for its digest to say.

    Args:
        log: the whole file.
        position: any.
    Returns: None if there is none.
    Cost: O(bytes) up to the place.
    """
    fields = _Fields(log)
    octets = np.frombuffer(log, np.uint8)
    last = len(log) - _SIZE_BYTES - _MAP_BYTES_MIN
    for start in range(position, last + 1, _PIECE_BYTES):
        stop = min(last + 1, start + _PIECE_BYTES)
        # A ledger id begins with 0, that of the map with ff, and no size is 0: most places are out after one look.
        high = octets[start + _SIZE_BYTES : stop + _SIZE_BYTES]
        has_size = octets[start:stop] != 0
        for byte in range(1, _SIZE_BYTES):
            has_size |= octets[start + byte : stop + byte] != 0
        places = np.flatnonzero(has_size & ((high == 0) | (high == 0xFF))) + start
        places = places[fields.are_records(places)]
        if len(places):
            places = places[fields.are_followed(places)]
        if len(places):
            return int(places[0])
    return None


class _Fields:
    """The first fields of what may be records, read at any bytes of a log."""

    def __init__(self, log: bytes | mmap.mmap) -> None:
        self._log = log
        self._end = len(log)
        self._size = _column(log, ">i4", 0)
        self._ledger_id = _column(log, ">i8", 4)
        self._entry_id = _column(log, ">i8", 12)
        self._last_add_confirmed = _column(log, ">i8", 20)
        self._length = _column(log, ">i8", 28)

    def are_records(self, places: Int64Array) -> BoolArray:
        """Which of some places, all with room for an empty map, have a record that ends within the log."""
        size, ledger_id = _at(self._size, places), _at(self._ledger_id, places)
        fit = (size >= _MAP_BYTES_MIN) & (places + size <= self._end - _SIZE_BYTES)
        is_map = fit & (ledger_id == _INTERNAL_LEDGER)
        is_entry = fit & (size >= BODY_HEADER.size) & (ledger_id >= 0) & (ledger_id < LEDGER_ID_LIKELY_MAX)
        rows = np.flatnonzero(is_map | is_entry)
        found = np.zeros(len(places), np.bool_)
        if len(rows):
            entry_id = _at(self._entry_id, places[rows])
            # Writers know of no entry to be acknowledged that comes behind the one they send.
            confirmed = _at(self._last_add_confirmed, places[rows])
            # And of no ledger that has less in it than its entry.
            fewest = np.maximum(size[rows] - BODY_HEADER.size - _DIGEST_BYTES_MAX, 0)
            counted = (confirmed >= -1) & (confirmed < entry_id) & (_at(self._length, places[rows]) >= fewest)
            found[rows] = np.where(is_map[rows], entry_id == _LEDGERS_MAP, counted)
        return found

    def are_followed(self, places: Int64Array) -> BoolArray:
        """Which of some records have another one behind them, or nothing but zeros up to the end."""
        behind = places + _SIZE_BYTES + _at(self._size, places)
        followed: BoolArray = behind >= self._zeros
        for padding in range(_PADDING_MAX + 1):
            rows = np.flatnonzero(~followed & (behind + padding <= self._end - _SIZE_BYTES - _MAP_BYTES_MIN))
            followed[rows] = self.are_records(behind[rows] + padding)
        return followed

    @cached_property
    def _zeros(self) -> int:
        """Where the zeros at the end begin."""
        stop = self._end
        while stop > 0:
            start = max(0, stop - _PIECE_BYTES)
            if kept := len(self._log[start:stop].rstrip(b"\0")):
                return start + kept
            stop = start
        return 0


def _column(log: bytes | mmap.mmap, kind: str, offset: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number for each byte of the log, read from so many bytes behind it on."""
    count = max(0, len(log) - offset - np.dtype(kind).itemsize + 1)
    return np.ndarray((count,), kind, log, min(offset, len(log)), (1,))


def _at(column: np.ndarray[tuple[int], np.dtype[np.int64]], places: Int64Array) -> Int64Array:
    """The numbers at some places; any number where the log ends before it."""
    if not len(column):
        return np.zeros(len(places), np.int64)
    return column[np.minimum(places, len(column) - 1)].astype(np.int64)
