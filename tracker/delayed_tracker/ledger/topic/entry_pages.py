"""Reads a topic page by page; each page is bounded in entries and in bytes."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.topic.topic_log import Ledger, TopicLog

_FIRST_PIECE_ENTRIES: Final = 16
"""Entries of the first read if the size of entries is unknown."""
_PIECE_ENTRIES_MAX: Final = 128
"""Most entries of one read. Later entries may be far larger; this many of the largest Pulsar entries still fit the
memory."""


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Consecutive entries of a topic."""

    entries: StoredEntries
    bad_entries: tuple[BadEntry, ...]
    """Missing or damaged entries of the page; they have no row."""
    next: Position | None
    """Position at which the next page begins; None at the end of the topic."""


def read_page(log: TopicLog, start: Position | None, *, entries_max: int, bytes_max: int) -> EntryPage:
    """Read a page of entries from a position on.

    Args:
        log: the topic.
        start: need not exist; the page begins with the next entry. None for the beginning.
        entries_max: 1 or more; unreadable entries count, too.
        bytes_max: 1 or more, bytes of payload. A larger entry becomes a page of its own.
    Raises:
        InvalidInput: one of the bounds is below 1.
        LedgerFileInvalid: the file is not valid, so that nothing can be read from it.
    Cost: about the bytes of the page; at least a few entries if the size of the ledger is unknown.
    """
    for name, value in (("entries_max", entries_max), ("bytes_max", bytes_max)):
        if value < 1:
            raise InvalidInput(name, value, "give 1 or more")
    page = _Page(entries_max, bytes_max)
    for ledger in log.ledgers:
        if start is not None and ledger.ledger_id < start.ledger_id:
            continue
        in_it = start is not None and ledger.ledger_id == start.ledger_id
        next_id = max(start.entry_id, 0) if start is not None and in_it else 0
        while next_id <= ledger.last_entry_id:
            if page.is_full:
                return page.ended(Position(ledger.ledger_id, next_id))
            next_id = page.take(ledger, next_id)
    return page.ended(None)


@dataclass(slots=True)
class _Page:
    """Page under construction."""

    entries_left: int
    bytes_left: int
    parts: list[StoredEntries] = field(default_factory=list)
    bad_entries: list[BadEntry] = field(default_factory=list)
    entry_count: int = 0
    byte_count: int = 0
    is_full: bool = False

    def take(self, ledger: Ledger, first: int) -> int:
        """Add as many of the next few entries of a ledger as fit, and return the first entry that was not taken."""
        last = min(first + self._piece_entries(ledger) - 1, ledger.last_entry_id)
        found = ledger.read(first, last)
        ends = np.cumsum(found.entries.end - found.entries.start)
        fitting = int(np.searchsorted(ends, self.bytes_left, side="right"))
        if fitting == 0 and not self.entry_count and len(ends):
            fitting = 1
        taken, behind = found.entries, last + 1
        if fitting < len(ends):
            self.is_full = True
            taken, behind = taken.take(slice(fitting)), int(taken.entry_id[fitting])
        self._add(taken, found, behind)
        self.entries_left -= behind - first
        self.is_full = self.is_full or not self.entries_left or self.bytes_left <= 0
        return behind

    def _add(self, taken: StoredEntries, found: LedgerEntries, behind: int) -> None:
        self.parts.append(taken)
        self.entry_count += len(taken)
        self.byte_count += taken.payload_bytes
        self.bytes_left -= taken.payload_bytes
        # Bad entries behind the last entry taken belong to the next page.
        self.bad_entries += [bad for bad in found.bad_entries if bad.entry_id is None or bad.entry_id < behind]

    def _piece_entries(self, ledger: Ledger) -> int:
        """Return the number of entries that are likely to fit."""
        entries_max = min(self.entries_left, _PIECE_ENTRIES_MAX)
        if self.entry_count:
            entry_bytes = self.byte_count // self.entry_count
        elif ledger.payload_bytes is not None:
            entry_bytes = ledger.payload_bytes // (ledger.last_entry_id + 1)
        else:
            return min(_FIRST_PIECE_ENTRIES, entries_max)
        return max(1, min(self.bytes_left // max(entry_bytes, 1), entries_max))

    def ended(self, behind: Position | None) -> EntryPage:
        """Return the page; the next one begins at ``behind``."""
        return EntryPage(StoredEntries.concat(self.parts), tuple(self.bad_entries), behind)
