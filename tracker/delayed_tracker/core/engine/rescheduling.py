"""Decisions about rescheduled rows: each is a tracked position with the deadline that it is to have."""

from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.values.columns import BoolArray, IndexColumns
from delayed_tracker.core.values.verb_results import RescheduleOutcome


@dataclass(frozen=True, slots=True, eq=False)
class RescheduleDecision:
    """One mask for each outcome of a reschedule; each row is in exactly one, except that ``due`` is part of ``moved``."""

    moved: BoolArray
    """To get their new deadline."""
    due: BoolArray
    duplicate: BoolArray
    leased: BoolArray
    unknown: BoolArray
    beyond_max_delay: BoolArray

    def outcome(self) -> RescheduleOutcome:
        """Return the answer of the reschedule, as ascending offsets."""
        return RescheduleOutcome(
            rescheduled_count=int(self.moved.sum()),
            due=self.due.nonzero()[0],
            duplicate=self.duplicate.nonzero()[0],
            leased=self.leased.nonzero()[0],
            unknown=self.unknown.nonzero()[0],
            beyond_max_delay=self.beyond_max_delay.nonzero()[0],
        )


def decide_reschedule(state: TrackerState, indexes: IndexColumns, now_ms: int) -> RescheduleDecision:
    """Decide the outcome of each row of a batch; the state does not change. O(n), and a lookup per ledger.

    If a position is repeated in the batch, the first row decides, even if it changes nothing.
    """
    limits = state.limits
    positions = indexes.positions
    duplicate = positions.repeats()
    leased = ~duplicate & state.leases.bits.contains(positions)
    tracked = state.members.contains(positions)
    unknown = ~(duplicate | tracked)
    moved = tracked & ~(duplicate | leased)
    beyond = np.zeros(len(indexes), np.bool_)
    if limits.max_delay_ms:
        beyond = moved & (indexes.deliver_at_ms > now_ms + limits.max_delay_ms)
        moved &= ~beyond
    due = moved & (indexes.deliver_at_ms <= limits.cutoff_ms(now_ms))
    return RescheduleDecision(moved, due, duplicate, leased, unknown, beyond)
