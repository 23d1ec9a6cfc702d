"""Errors of writing local ledgers, one class for each reaction of the caller."""

from typing import Self

from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.ledger.errors import LedgerError


class LedgerInUse(LedgerError):
    """Another writer has the topic open. Stop that writer, or write to another topic or directory."""

    reason = "LEDGER_IN_USE"

    @classmethod
    def by(cls, holder: str, what: str) -> Self:
        """Return the error for something that a process writes to."""
        return cls(f"{holder} writes to {what} already; stop it first, or use another directory")


class WriterClosed(LedgerError):
    """The writer is closed. Open the topic again."""

    reason = "WRITER_CLOSED"


class TopicTerminated(LedgerError):
    """The topic was terminated and accepts no more entries."""

    reason = "TOPIC_TERMINATED"


class LedgerDamaged(LedgerError):
    """Acknowledged entries are damaged. Restore the file from a copy, or open the topic with on_error=skip."""

    reason = "LEDGER_DAMAGED"


class AppendFailed(LedgerError):
    """The disk rejected entries. Entries behind ``durable`` are not stored; free some space, then append them again.

    The topic stays usable. If the process is killed at this moment, some of the failed entries may still appear later.
    """

    reason = "APPEND_FAILED"

    def __init__(self, topic: str, error: OSError, *, stored: PositionColumns, durable: Position | None) -> None:
        where = f"nothing after {durable} is stored" if durable is not None else "nothing is stored"
        super().__init__(f"{topic} did not take all entries: {error}; {where}; make room and append them again")
        self.stored = stored
        """Positions of the first entries of the call, as far as they are stored; empty for a flush."""
        self.durable = durable
        """Position of the topic's last stored entry; None if it has none."""
