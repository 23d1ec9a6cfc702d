"""Bounds by bytes how many entries are read ahead, although nobody knows the size of an entry before it is read."""

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
    Raises:
        InvalidInput: ``bytes_ahead`` is below 1.
    """

    def __init__(self, bytes_ahead: int) -> None:
        if bytes_ahead < 1:
            raise InvalidInput("bytes_ahead", bytes_ahead, "give at least 1")
        self._bytes_ahead = bytes_ahead
        self._largest = 0
        self.entries = 1
        """Entries that may be on their way, from 1. It is 1 until the first size is known."""

    def seen(self, payload_bytes: int) -> None:
        """Expect the next entries to be as large as the largest of the latest ones."""
        self._largest = max(payload_bytes, self._largest - self._largest // _HALF_LIFE, _ENTRY_BYTES_MIN)
        self.entries = min(max(self._bytes_ahead // self._largest, 1), ENTRIES_AHEAD_MAX)
