"""Bounds by bytes how many entries are read ahead, although nobody knows the size of an entry before it is read."""

from collections.abc import Iterable
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput

ENTRIES_AHEAD_MAX: Final = 1_024
_ENTRY_BYTES_MIN: Final = 256
"""Memory of a small entry, about."""
_HALF_LIFE: Final = 64
"""A large entry makes about as many behind it count as large, too."""


class AheadBound:
    """Bounds the entries that are on their way at a time.

    Args:
        bytes_ahead: bytes that these entries may have, from 1. One entry is always allowed.
        entries_max: most entries, from 1. With the size of the largest frame, it bounds the memory for entries that turn out
            to be larger than those before them.
    Raises:
        InvalidInput: an argument is below 1.
    """

    def __init__(self, bytes_ahead: int, entries_max: int = ENTRIES_AHEAD_MAX) -> None:
        for name, value in (("bytes_ahead", bytes_ahead), ("entries_max", entries_max)):
            if value < 1:
                raise InvalidInput(name, value, "give at least 1")
        self._bytes_ahead = bytes_ahead
        self._entries_max = entries_max
        self._largest = 0
        self.entries = 1
        """Entries that may be on their way, from 1. It is 1 until the first size is known."""

    def seen(self, payload_bytes: Iterable[int]) -> None:
        """Expect the next entries to be as large as the largest of the latest ones, whose sizes are given in order."""
        largest = self._largest
        for each in payload_bytes:
            largest -= largest // _HALF_LIFE
            largest = max(largest, each)
        self._largest = max(largest, _ENTRY_BYTES_MIN)
        self._bound()

    def resize(self, bytes_ahead: int) -> None:
        """Allow another number of bytes, from 1, from the next entry on."""
        self._bytes_ahead = bytes_ahead
        if self._largest:
            self._bound()

    def expects_at_most(self, payload_bytes: int) -> bool:
        """Return True if the next entries are expected to have no more bytes each."""
        return 0 < self._largest <= payload_bytes

    def _bound(self) -> None:
        self.entries = min(max(self._bytes_ahead // self._largest, 1), self._entries_max)
