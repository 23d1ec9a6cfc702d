"""New deadlines of tracked positions: the decision about each row, and the move to a bucket in memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.engine import adding
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Bucket
from delayed_tracker.core.values.changes import Rescheduled
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


def reschedule(
    state: TrackerState, lifecycle: BucketLifecycle, indexes: IndexColumns, now_ms: int
) -> RescheduleOutcome:
    """Give the positions of a batch their new deadlines, where :func:`decide_reschedule` says so."""
    decision = decide_reschedule(state, indexes, now_ms)
    if decision.moved.any():
        moved = indexes.take(decision.moved)
        _, buckets = state.drop(moved.positions)
        place_again(state, lifecycle, moved, buckets)
    elif len(indexes):
        state.note_unchanged()
    return decision.outcome()


def place_again(
    state: TrackerState, lifecycle: BucketLifecycle, moved: IndexColumns, buckets: Sequence[Bucket]
) -> None:
    """Track positions under new deadlines, after their bits were cleared in the buckets that had them."""
    # A snapshot keeps the old deadline: the position moves to a bucket in memory.
    adding.place(state, lifecycle, moved)
    state.note(Rescheduled(moved))
    lifecycle.retire(buckets)
    state.counters.rescheduled += len(moved)
    if state.fixed_delay is not None:
        state.fixed_delay.note_offered(moved, any_due=False)
