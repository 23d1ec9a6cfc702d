"""What becomes of an index that a subscription is offered: the core's answers to adds, from columns alone."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.ledger.metadata.cursor import CursorState
from delayed_tracker.ledger.topic.transactions import TransactionOutcome


class Fate(IntEnum):
    """What becomes of one; the first that applies from the end of this list."""

    ACCEPTED = 0
    BEYOND_MAX_DELAY = 1
    """Further away than the tracker takes; the dispatcher deals with it."""
    DUE = 2
    """The dispatcher sends it at once."""
    ACKNOWLEDGED = 3
    OPEN_TRANSACTION = 4
    ABORTED = 5


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The rules of one job: the same for all subscriptions."""

    limits: TrackerLimits
    now_ms: int
    """The one moment at which everything is offered."""

    def fates(self, indexes: IndexColumns, transaction: NDArray[np.uint8], cursor: CursorState) -> NDArray[np.uint8]:
        """A :class:`Fate` for each index.

        Args:
            indexes: in any order; deadlines are 0 or more.
            transaction: for each a ``TransactionOutcome``; COMMITTED also for what was written in none.
            cursor: what the subscription has acknowledged.
        Cost: O(n).
        """
        fate = np.zeros(len(indexes), np.uint8)
        # Later lines win.
        if self.limits.max_delay_ms:
            fate[indexes.deliver_at_ms > self.now_ms + self.limits.max_delay_ms] = Fate.BEYOND_MAX_DELAY
        fate[indexes.deliver_at_ms <= self.limits.cutoff_ms(self.now_ms)] = Fate.DUE
        fate[cursor.acknowledges(indexes.positions)] = Fate.ACKNOWLEDGED
        fate[transaction == TransactionOutcome.OPEN] = Fate.OPEN_TRANSACTION
        fate[transaction == TransactionOutcome.ABORTED] = Fate.ABORTED
        return fate
