"""One BookKeeper ledger of a topic, read from entry logs."""

from collections.abc import Iterator
from dataclasses import dataclass

from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.topic.ledger_logs import LedgerLogs
from delayed_tracker.ledger.topic.topic_reader import LedgerSpan


@dataclass(frozen=True, slots=True)
class EntryLogLedger:
    """A :class:`~delayed_tracker.ledger.topic.topic_log.Ledger` over the logs of one or more bookies."""

    span: LedgerSpan
    logs: LedgerLogs
    payload_bytes: int | None

    @property
    def ledger_id(self) -> int:
        """Id of the ledger in BookKeeper."""
        return self.span.ledger_id

    @property
    def last_entry_id(self) -> int:
        """Last entry by the ledger's metadata; by the logs if the ledger was never closed."""
        return self.span.last_entry_id

    @property
    def closed(self) -> bool:
        """True if metadata gives the last entry."""
        return self.span.end_known

    def read(self, first: int, last: int) -> LedgerEntries:
        """Read entries ``first`` to ``last``. If the digest of all copies of an entry is wrong, the entry is bad."""
        return self.logs.read(self.ledger_id, first, last, self.span.digest)

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """Read the same range in pieces of about 4 MB."""
        return self.logs.scan(self.ledger_id, first, last, self.span.digest)

    def locate(self, entry_id: int) -> tuple[str, int] | None:
        """Return log and offset of an entry's first record; None if no log has it."""
        found = self.logs.locate(self.ledger_id, entry_id)
        return None if found is None else (str(found[0]), found[1])
