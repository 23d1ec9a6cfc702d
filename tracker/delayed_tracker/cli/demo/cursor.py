"""Cursor of the demo's dispatcher: the messages that have ended, and those to add again after a crash."""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from delayed_tracker.client import Position
from delayed_tracker.core.values.columns import IndexColumns


class EndReason(enum.Enum):
    """End of a message for its subscription."""

    DUE_ON_OFFER = "due on offer"
    """Already due when it was added: the dispatcher delivered it at once."""
    ACKED = "acked"
    """Returned by a poll when due, delivered and acknowledged."""
    TRIMMED = "trimmed"
    """Passed by the mark-delete position."""


@dataclass(slots=True)
class Cursor:
    """Messages of one dispatcher, and how they ended. Outlives the service."""

    indexes: IndexColumns
    """All messages, with deadlines by the service's clock."""
    end_reasons: dict[Position, EndReason] = field(default_factory=dict)

    def finish(self, position: Position, reason: EndReason) -> bool:
        """Record the end of a message; return False if it had ended before."""
        if position in self.end_reasons:
            return False
        self.end_reasons[position] = reason
        return True

    def finish_due(self, offered: IndexColumns, due_offsets: Iterable[int]) -> None:
        """Record the messages that were due when they were added."""
        for offset in due_offsets:
            self.finish(Position(int(offered.ledger_id[offset]), int(offered.entry_id[offset])), EndReason.DUE_ON_OFFER)

    def unfinished(self) -> IndexColumns:
        """Return the messages that have not ended, in position order: the dispatcher adds these again."""
        open_rows = [position not in self.end_reasons for position in self.positions()]
        return self.indexes.take(np.array(open_rows, np.bool_))

    def unfinished_until(self, deliver_at_ms: int) -> int:
        """Return the number of messages with a deadline up to this one that have not ended."""
        return int(np.count_nonzero(self.unfinished().deliver_at_ms <= deliver_at_ms))

    def positions(self) -> list[Position]:
        """Return the positions of all messages, in order."""
        columns = zip(self.indexes.ledger_id.tolist(), self.indexes.entry_id.tolist(), strict=True)
        return [Position(ledger_id, entry_id) for ledger_id, entry_id in columns]

    def counts(self) -> dict[EndReason, int]:
        """Return the number of messages for each kind of end."""
        counted = Counter(self.end_reasons.values())
        return {reason: counted[reason] for reason in EndReason}
