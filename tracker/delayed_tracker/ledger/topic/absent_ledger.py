"""Placeholder for a ledger of a topic that cannot be read, so that the other ledgers still can.

Tiered storage never has the ledger that is still written to, and if it has two copies of a ledger, only metadata can
show which of them is complete. Such a ledger keeps its place in the topic. Its entries read as missing, with the
reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry


@dataclass(frozen=True, slots=True)
class AbsentLedger:
    """Implementation of :class:`~delayed_tracker.ledger.topic.topic_log.Ledger` without data."""

    ledger_id: int
    entry_count: int | None
    """Entries by the metadata; None without metadata."""
    problem: str
    remedy: str | None = None
    payload_bytes: int | None = None

    @property
    def last_entry_id(self) -> int:
        """Last entry id; 0 if the entry count is unknown, because an empty ledger would be skipped by searches."""
        return 0 if self.entry_count is None else self.entry_count - 1

    @property
    def closed(self) -> Literal[False]:
        """Always False: the end is unknown."""
        return False

    def read(self, first: int, last: int) -> LedgerEntries:
        """Return no entries; report all of them as bad."""
        if last < first:
            return LedgerEntries(StoredEntries.of(self.ledger_id, [], []))
        known = self.entry_count is not None
        bad = BadEntry(
            self.ledger_id,
            first if known else None,
            None,
            None,
            self.problem,
            entry_count=last - first + 1,
            remedy=self.remedy,
        )
        return LedgerEntries(StoredEntries.of(self.ledger_id, [], []), (bad,))

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """Read as :meth:`read`, in one piece."""
        yield self.read(first, last)
