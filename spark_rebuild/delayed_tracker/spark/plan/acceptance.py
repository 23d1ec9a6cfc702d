"""Outcome of each index that a subscription is offered: the verdicts of the core on adds, computed on columns."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.ledger.metadata.cursor import CursorState
from delayed_tracker.ledger.topic.transactions import TransactionOutcome


class IndexOutcome(IntEnum):
    """Outcome of an index. If several apply, the last of this list wins."""

    ACCEPTED = 0
    BEYOND_MAX_DELAY = 1
    """Delay longer than the tracker accepts; the dispatcher handles the message."""
    DUE = 2
    """The dispatcher sends the message at once."""
    ACKNOWLEDGED = 3
    OPEN_TRANSACTION = 4
    ABORTED = 5


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Acceptance rules of a job, the same for all subscriptions."""

    limits: TrackerLimits
    now_ms: int
    """Time at which all indexes are offered."""

    def outcomes(self, indexes: IndexColumns, transaction: NDArray[np.uint8], cursor: CursorState) -> NDArray[np.uint8]:
        """Return a :class:`IndexOutcome` for each index.

        Args:
            indexes: in any order; deadlines are 0 or more.
            transaction: a ``TransactionOutcome`` for each index; COMMITTED if it was written in no transaction.
            cursor: the acknowledgements of the subscription.
        Cost: O(n).
        """
        outcome = np.zeros(len(indexes), np.uint8)
        # Later lines win.
        if self.limits.max_delay_ms:
            outcome[indexes.deliver_at_ms > self.now_ms + self.limits.max_delay_ms] = IndexOutcome.BEYOND_MAX_DELAY
        outcome[indexes.deliver_at_ms <= self.limits.cutoff_ms(self.now_ms)] = IndexOutcome.DUE
        outcome[cursor.acknowledges(indexes.positions)] = IndexOutcome.ACKNOWLEDGED
        outcome[transaction == TransactionOutcome.OPEN] = IndexOutcome.OPEN_TRANSACTION
        outcome[transaction == TransactionOutcome.ABORTED] = IndexOutcome.ABORTED
        return outcome
