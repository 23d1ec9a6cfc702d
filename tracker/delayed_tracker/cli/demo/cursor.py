"""The demo's dispatcher and its cursor: what it has finished with, and so what it offers again after a crash."""

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from delayed_tracker.client import Position
from delayed_tracker.core.values.columns import IndexColumns


class Fate(enum.Enum):
    """How a message ended, for its subscription."""

    DUE_ON_OFFER = "due on offer"
    """The service said it was due already: the dispatcher sent it at once."""
    ACKED = "acked"
    """It was handed out when due, sent and acknowledged."""
    TRIMMED = "trimmed"
    """The mark-delete position passed it."""


@dataclass(slots=True)
class Cursor:
    """What one dispatcher knows of its messages. It outlives the service."""

    indexes: IndexColumns
    """Every message, with its deadline by the service's clock."""
    fates: dict[Position, Fate] = field(default_factory=dict)

    def finish(self, position: Position, fate: Fate) -> bool:
        """Record how a message ended; False if it had ended before."""
        if position in self.fates:
            return False
        self.fates[position] = fate
        return True

    def finish_due(self, offered: IndexColumns, due_offsets: Iterable[int]) -> None:
        """Record the messages that an offer answered as due."""
        for offset in due_offsets:
            self.finish(Position(int(offered.ledger_id[offset]), int(offered.entry_id[offset])), Fate.DUE_ON_OFFER)

    def unfinished(self) -> IndexColumns:
        """The messages that have not ended, in position order: what a dispatcher offers again."""
        open_rows = [position not in self.fates for position in self.positions()]
        return self.indexes.take(np.array(open_rows, np.bool_))

    def unfinished_until(self, deliver_at_ms: int) -> int:
        """How many messages with a deadline up to this one have not ended."""
        return int(np.count_nonzero(self.unfinished().deliver_at_ms <= deliver_at_ms))

    def positions(self) -> list[Position]:
        """Every message's position, in order."""
        columns = zip(self.indexes.ledger_id.tolist(), self.indexes.entry_id.tolist(), strict=True)
        return [Position(ledger_id, entry_id) for ledger_id, entry_id in columns]

    def counts(self) -> dict[Fate, int]:
        """How many messages ended in which way."""
        counted = Counter(self.fates.values())
        return {fate: counted[fate] for fate in Fate}
