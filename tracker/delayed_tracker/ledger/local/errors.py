"""Errors of writing local ledgers, sorted by what the caller does next."""

from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.ledger.errors import LedgerError


class LedgerInUse(LedgerError):
    """Somebody else writes to the topic. Stop that writer, or write to another topic or directory."""

    reason = "LEDGER_IN_USE"


class WriterClosed(LedgerError):
    """The writer was closed. Open the topic again."""

    reason = "WRITER_CLOSED"


class TopicTerminated(LedgerError):
    """The topic was terminated, and takes no more entries."""

    reason = "TOPIC_TERMINATED"


class LedgerDamaged(LedgerError):
    """Entries that were acknowledged are damaged. Restore the file from a copy, or open the topic with on_error=skip."""

    reason = "LEDGER_DAMAGED"


class AppendFailed(LedgerError):
    """The disk did not take entries. Nothing behind ``durable`` is stored; make room, then append it again.

    The topic stays usable. Should the process be killed right now, some of the failed entries may turn up all the same.
    """

    reason = "APPEND_FAILED"

    def __init__(self, topic: str, error: OSError, *, stored: PositionColumns, durable: Position | None) -> None:
        where = f"nothing behind {durable} is stored" if durable is not None else "nothing is stored"
        super().__init__(f"{topic} did not take all entries: {error}; {where}; make room and append them again")
        self.stored = stored
        """The positions of the call's first entries, those that are stored; empty for a flush."""
        self.durable = durable
        """The topic's last entry that is stored; None when it has none."""
