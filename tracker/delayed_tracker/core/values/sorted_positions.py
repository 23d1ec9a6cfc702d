"""Positions that are searched for: distinct, ascending, and with one key for each."""

import numpy as np

from delayed_tracker.core.values.columns import BoolArray, Int64Array, PositionColumns

_ENTRY_BITS = 32


class SortedPositions:
    """At least one position; they ascend and never change."""

    __slots__ = ("_keys", "_ledgers")

    def __init__(self, positions: PositionColumns) -> None:
        ledger = positions.ledger_id
        starts = np.flatnonzero(np.concatenate(([True], ledger[1:] != ledger[:-1])))
        self._ledgers = ledger[starts]
        ranks = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ledger)))
        # One key for each position, for one binary search: the rank of its ledger among these, then the entry.
        self._keys: Int64Array = ranks << _ENTRY_BITS | positions.entry_id

    def __len__(self) -> int:
        return len(self._keys)

    def take(self, where: BoolArray | slice) -> PositionColumns:
        """Return the positions selected by a mask or a slice."""
        keys = self._keys[where]
        return PositionColumns(self._ledgers[keys >> _ENTRY_BITS], keys & (1 << _ENTRY_BITS) - 1)

    def find(self, positions: PositionColumns) -> Int64Array:
        """Return for each position its row among these, or -1. O(m log n)."""
        ranks = np.minimum(np.searchsorted(self._ledgers, positions.ledger_id), len(self._ledgers) - 1)
        keys = ranks << _ENTRY_BITS | positions.entry_id
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        return np.where((self._ledgers[ranks] == positions.ledger_id) & (self._keys[rows] == keys), rows, -1)
