"""A BookKeeper ledger read out of entry logs, as one ledger of a topic."""

from collections.abc import Iterator
from dataclasses import dataclass

from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.topic.ledger_logs import LedgerLogs
from delayed_tracker.ledger.topic.topic_reader import LedgerSpan


@dataclass(frozen=True, slots=True)
class LoggedLedger:
    """Implements :class:`~delayed_tracker.ledger.topic.topic_log.Ledger` over the logs of one or more bookies."""

    span: LedgerSpan
    logs: LedgerLogs
    payload_bytes: int | None

    @property
    def ledger_id(self) -> int:
        """Of BookKeeper."""
        return self.span.ledger_id

    @property
    def last_entry_id(self) -> int:
        """By the ledger's metadata, or by the logs for one that was never closed."""
        return self.span.last_entry_id

    @property
    def closed(self) -> bool:
        """Whether metadata says where it ends."""
        return self.span.end_known

    def read(self, first: int, last: int) -> LedgerEntries:
        """Entries ``first`` to ``last``; a digest that does not fit makes an entry bad unless another copy is whole."""
        return self.logs.read(self.ledger_id, first, last, self.span.digest)

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """The same in pieces of about 4 MB."""
        return self.logs.scan(self.ledger_id, first, last, self.span.digest)

    def locate(self, entry_id: int) -> tuple[str, int] | None:
        """Log and offset of an entry's first record; None when no log has it."""
        found = self.logs.locate(self.ledger_id, entry_id)
        return None if found is None else (str(found[0]), found[1])
