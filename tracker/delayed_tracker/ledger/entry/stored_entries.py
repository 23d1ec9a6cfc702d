"""Payloads of many entries as columns over one buffer, the result of every reader of ledgers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import BoolArray, Int64Array, PositionColumns
from delayed_tracker.ledger.errors import BadEntry


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """Entry payloads (with the broker frame, without BookKeeper's digest), one per row.

    Row i is ``buffer[start[i]:end[i]]``. Readers return rows in position order; :meth:`take` shares the buffer.
    """

    buffer: bytes
    ledger_id: Int64Array
    entry_id: Int64Array
    start: Int64Array
    end: Int64Array

    def __len__(self) -> int:
        return len(self.ledger_id)

    @property
    def positions(self) -> PositionColumns:
        """Positions of the entries; shares memory."""
        return PositionColumns(self.ledger_id, self.entry_id)

    @property
    def payload_bytes(self) -> int:
        """Bytes of all rows together."""
        return int((self.end - self.start).sum())

    def payload(self, row: int) -> bytes:
        """Return a copy of one entry's bytes, for tests, printing, and the few entries that are not messages."""
        return self.buffer[int(self.start[row]) : int(self.end[row])]

    def take(self, where: NDArray[np.intp] | BoolArray | slice) -> "StoredEntries":
        """Return the rows that a mask, an index array or a slice selects."""
        return StoredEntries(
            self.buffer, self.ledger_id[where], self.entry_id[where], self.start[where], self.end[where]
        )

    @classmethod
    def of(cls, ledger_id: int, entry_ids: Sequence[int], payloads: Sequence[bytes]) -> "StoredEntries":
        """Return the entries of one ledger with their payloads one behind the other. O(bytes)."""
        ends = np.cumsum(np.fromiter(map(len, payloads), np.int64, len(payloads)), dtype=np.int64)
        return cls(
            buffer=b"".join(payloads),
            ledger_id=np.full(len(payloads), ledger_id, np.int64),
            entry_id=np.asarray(entry_ids, np.int64),
            start=np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends,
            end=ends,
        )

    @classmethod
    def concat(cls, parts: Sequence["StoredEntries"]) -> "StoredEntries":
        """Return all rows of all parts, in that order, over one buffer. Copies unless there is exactly one part."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of(0, [], [])
        shifts = np.cumsum([0, *(len(part.buffer) for part in parts[:-1])], dtype=np.int64)
        return cls(
            buffer=b"".join(part.buffer for part in parts),
            ledger_id=np.concatenate([part.ledger_id for part in parts]),
            entry_id=np.concatenate([part.entry_id for part in parts]),
            start=np.concatenate([part.start + shift for part, shift in zip(parts, shifts, strict=True)]),
            end=np.concatenate([part.end + shift for part, shift in zip(parts, shifts, strict=True)]),
        )


@dataclass(frozen=True, slots=True)
class LedgerEntries:
    """Result of reading a range of one ledger."""

    entries: StoredEntries
    """Entries that are whole, ascending, each once."""
    bad_entries: tuple[BadEntry, ...] = ()
    """Entries of the range that are missing or have only damaged copies. They have no row."""
