"""Decisions about added rows, and the rows placed in the open buckets.

Source: ``BucketDelayedDeliveryTracker.addMessage``, which checks duplicates before due (apache/pulsar #26230).
"""

from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.rules.placement import SealTarget, Stop, first_stop
from delayed_tracker.core.values.changes import Added, Removed
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.verb_results import AddOutcome


@dataclass(frozen=True, slots=True, eq=False)
class AddDecision:
    """One mask for each outcome of an add; each row is in exactly one of the first five."""

    fresh: BoolArray
    """To be tracked."""
    due: BoolArray
    duplicate: BoolArray
    beyond_max_delay: BoolArray
    below_mark_delete: BoolArray
    refused: BoolArray
    """Due rows that are tracked: their bits are cleared, because the dispatcher sends the messages now."""

    def outcome(self) -> AddOutcome:
        """Return the answer of the add, as ascending offsets."""
        return AddOutcome(
            added_count=int(self.fresh.sum()),
            due=self.due.nonzero()[0],
            duplicate=self.duplicate.nonzero()[0],
            beyond_max_delay=self.beyond_max_delay.nonzero()[0],
            below_mark_delete=self.below_mark_delete.nonzero()[0],
        )


def decide_add(state: TrackerState, indexes: IndexColumns, now_ms: int) -> AddDecision:
    """Decide the outcome of each row of a batch; the state does not change. O(n), and a lookup per ledger.

    If a position is repeated in the batch, the first row decides: the others are duplicates if it is tracked, and else
    have the same outcome. A leased position stays as it is. Otherwise due is checked before duplicate.
    """
    limits = state.limits
    positions = indexes.positions
    below = positions.at_or_below(state.mark_delete)
    undecided = ~below
    repeats = positions.repeats()
    duplicate = undecided & (repeats | state.leases.bits.contains(positions))
    undecided &= ~duplicate
    due = undecided & (indexes.deliver_at_ms <= limits.cutoff_ms(now_ms))
    tracked = state.members.contains(positions)
    refused = due & tracked
    duplicate |= undecided & ~due & tracked
    undecided &= ~(due | tracked)
    beyond = np.zeros(len(indexes), np.bool_)
    if limits.max_delay_ms:
        beyond = undecided & (indexes.deliver_at_ms > now_ms + limits.max_delay_ms)
        undecided &= ~beyond
    if repeats.any() and (due.any() or beyond.any()):
        # Nobody would send a position that its second caller believes to be tracked.
        first = positions.first_rows()[repeats]
        due[repeats], beyond[repeats] = due[first], beyond[first]
        duplicate &= ~(due | beyond)
    return AddDecision(undecided, due, duplicate, beyond, below, refused)


def would_track(state: TrackerState, indexes: IndexColumns, now_ms: int) -> bool:
    """Return True if an add of the batch would track a position that is not tracked yet. O(n), changes nothing."""
    limits = state.limits
    fresh = (indexes.deliver_at_ms > limits.cutoff_ms(now_ms)) & ~indexes.positions.at_or_below(state.mark_delete)
    if limits.max_delay_ms:
        fresh &= indexes.deliver_at_ms <= now_ms + limits.max_delay_ms
    return bool(fresh.any()) and not bool(state.members.contains(indexes.positions.take(fresh)).all())


def put_if_above(state: TrackerState, indexes: IndexColumns, now_ms: int) -> bool:
    """Track a batch of ascending entries of one ledger, above all that is tracked of it; most batches are.

    Such a batch contains no repeat, no duplicate, and nothing late or leased, so nothing is looked up, and bits that wait
    to be cleared do not matter.

    Returns:
        False if the batch is another one; then nothing was done.
    """
    limits, memory = state.limits, state.mutable.memory
    if not len(indexes) or memory is None:
        return False
    ledger_id, first_entry = int(indexes.ledger_id[0]), int(indexes.entry_id[0])
    if int(indexes.ledger_id[-1]) != ledger_id or not indexes.positions.ascend():
        return False
    first = Position(ledger_id, first_entry)
    held = len(state.mutable.bits) + len(indexes)
    seals = limits.kind is TrackerKind.BUCKET and (
        held >= limits.mutable_indexes_max
        or (held > limits.min_index_count_per_bucket and ledger_id > memory.last_ledger_id)
    )
    if (
        seals
        or first <= state.mark_delete
        or first <= state.members.frontier()
        or first_entry <= state.members.last_entry(ledger_id)
    ):
        return False
    deadlines = indexes.deliver_at_ms
    # numpy's reductions have a fixed cost, which a single row need not pay.
    earliest_ms = int(deadlines[0]) if len(deadlines) == 1 else int(deadlines.min())
    if earliest_ms <= limits.cutoff_ms(now_ms) or (
        limits.max_delay_ms and int(deadlines.max()) > now_ms + limits.max_delay_ms
    ):
        return False
    state.put_above(state.mutable, ledger_id, indexes, earliest_ms)
    state.counters.added += len(indexes)
    state.note(Added(indexes))
    return True


def add_any(
    state: TrackerState, lifecycle: BucketLifecycle, indexes: IndexColumns, now_ms: int
) -> tuple[IndexColumns, AddOutcome]:
    """Track the fresh rows of any batch, and clear the bits of those that the dispatcher sends now.

    Returns: the rows that are tracked from now on, and the answer.
    """
    decision = decide_add(state, indexes, now_ms)
    fresh, refused = decision.fresh, decision.refused
    accepted = indexes if fresh.all() else indexes.take(fresh)
    if refused.any():
        state.note(Removed(indexes.take(refused).positions))
        changing = refused | fresh
        refuse_and_place(state, lifecycle, indexes.take(changing), refused[changing])
    else:
        place(state, lifecycle, accepted)
    outcome, counters = decision.outcome(), state.counters
    counters.due_on_offer += len(outcome.due)
    counters.duplicate += len(outcome.duplicate)
    counters.beyond_max_delay += len(outcome.beyond_max_delay)
    counters.below_mark_delete += len(outcome.below_mark_delete)
    counters.added += len(accepted)
    if len(accepted):
        state.note(Added(accepted))
    elif len(outcome.duplicate) and not refused.any():
        state.note_unchanged()
    return accepted, outcome


def place(state: TrackerState, lifecycle: BucketLifecycle, indexes: IndexColumns) -> None:
    """Put untracked, distinct rows into the open buckets, and seal these where the rules say so.

    Rows at or below the sealed frontier go to the late bucket.
    """
    while len(indexes):
        stop, late = _next_stop(state, indexes)
        here, late = indexes.take(slice(0, stop.row_count)), late[: stop.row_count]
        if late.any():
            state.put(state.mutable, here.take(~late))
            state.put(state.late, here.take(late))
        else:
            state.put(state.mutable, here)
        if stop.seal is not SealTarget.NOTHING:
            lifecycle.seal(state.mutable if stop.seal is SealTarget.MUTABLE else state.late)
        indexes = indexes.take(slice(stop.row_count, None))


def refuse_and_place(
    state: TrackerState, lifecycle: BucketLifecycle, indexes: IndexColumns, refused: BoolArray
) -> None:
    """Clear the bits of the refused rows and place the others, with the result of doing so row by row.

    Rows are handled together where their order has no effect, and else in halves, so that a seal sees the rows that were
    refused before it.
    """
    fresh = indexes.take(~refused)
    if not refused.all() and refused.any() and _order_matters(state, fresh, indexes.positions.take(refused)):
        half = len(indexes) // 2
        refuse_and_place(state, lifecycle, indexes.take(slice(0, half)), refused[:half])
        refuse_and_place(state, lifecycle, indexes.take(slice(half, None)), refused[half:])
        return
    if refused.any():
        dropped, buckets = state.drop(indexes.positions.take(refused))
        state.counters.refused_as_due += dropped
        lifecycle.retire(buckets)
    place(state, lifecycle, fresh)


def _order_matters(state: TrackerState, fresh: IndexColumns, refused: PositionColumns) -> bool:
    """Return True if placing may seal a bucket, or refusing may drain a sealed one, which moves the sealed frontier."""
    if _next_stop(state, fresh)[0].seal is not SealTarget.NOTHING:
        return True
    counts: dict[int, int] = {}
    for bucket, rows in state.members.locate(refused):
        counts[bucket.key] = counts.get(bucket.key, 0) + len(rows)
    buckets = state.members.buckets
    return any(not buckets[key].is_open and len(buckets[key].bits) == count for key, count in counts.items())


def _next_stop(state: TrackerState, indexes: IndexColumns) -> tuple[Stop, BoolArray]:
    """Return the row at which placing must stop to seal, and the mask of rows that are late until then."""
    memory = state.mutable.memory
    assert memory is not None
    late = indexes.positions.at_or_below(state.members.frontier())
    stop = first_stop(
        indexes.ledger_id,
        late,
        mutable_count=len(state.mutable.bits),
        late_count=len(state.late.bits),
        last_ledger_id=memory.last_ledger_id,
        limits=state.limits,
    )
    return stop, late
