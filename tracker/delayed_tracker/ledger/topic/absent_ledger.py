"""A ledger of a topic that is nowhere to be read, so that the others still are.

Tiered storage never has the ledger that is still written to; of two copies of one ledger, only metadata can tell which is
whole. Such a ledger stands in its place among the others: its entries read as missing ones, with the reason.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry


@dataclass(frozen=True, slots=True)
class AbsentLedger:
    """Implements :class:`~delayed_tracker.ledger.topic.topic_log.Ledger` over nothing."""

    ledger_id: int
    entry_count: int | None
    """As metadata says; None when none does."""
    problem: str
    remedy: str | None = None
    payload_bytes: int | None = None

    @property
    def last_entry_id(self) -> int:
        """0 when nobody knows: whoever took it for empty would answer from the ledgers around it."""
        return 0 if self.entry_count is None else self.entry_count - 1

    @property
    def closed(self) -> Literal[False]:
        """Nobody knows."""
        return False

    def read(self, first: int, last: int) -> LedgerEntries:
        """No entries; all of them are bad."""
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
        """The same, in one piece."""
        yield self.read(first, last)
