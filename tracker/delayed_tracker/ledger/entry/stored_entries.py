"""Many entry payloads as columns over one buffer: what every reader of ledgers hands on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import BoolArray, Int64Array, PositionColumns
from delayed_tracker.ledger.errors import BadEntry


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """Entry payloads (broker frame included, BookKeeper's digest removed), row by row.

    Row i is ``buffer[start[i]:end[i]]``. Readers give rows in position order; :meth:`take` keeps the buffer.
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
        """Where the entries are; shares memory."""
        return PositionColumns(self.ledger_id, self.entry_id)

    @property
    def payload_bytes(self) -> int:
        """Bytes of all rows together."""
        return int((self.end - self.start).sum())

    def payload(self, row: int) -> bytes:
        """One entry's bytes, copied: for tests, printing, and the few entries that are not messages."""
        return self.buffer[int(self.start[row]) : int(self.end[row])]

    def take(self, where: NDArray[np.intp] | BoolArray | slice) -> "StoredEntries":
        """The rows that a mask, an index array or a slice names."""
        return StoredEntries(
            self.buffer, self.ledger_id[where], self.entry_id[where], self.start[where], self.end[where]
        )

    @classmethod
    def of(cls, ledger_id: int, entry_ids: Sequence[int], payloads: Sequence[bytes]) -> "StoredEntries":
        """Entries of one ledger, laid one behind the other. O(bytes)."""
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
        """All rows of all parts, in that order, over one buffer; copies unless there is exactly one part."""
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
    """What was read of one ledger."""

    entries: StoredEntries
    """Ascending by entry, each once."""
    bad_entries: tuple[BadEntry, ...] = ()
    """Entries of the range asked for that are nowhere, or only damaged. They have no row."""
