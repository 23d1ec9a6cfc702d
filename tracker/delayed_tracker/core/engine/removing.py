"""Positions that leave because somebody is done with them: acknowledged, cancelled, or at or below mark-delete."""

import numpy as np

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.values.changes import CursorMoved, MarkDeleteAdvanced, Removed
from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.core.values.verb_results import CancelOutcome, LeaseOutcome


def acknowledge_whole(state: TrackerState, lease_id: int, positions: PositionColumns) -> bool:
    """Forget the positions of a whole lease, in the order of the hand-out; their bits are cleared later.

    Returns: False if they are not the positions of the lease; then nothing was done.
    """
    if not state.leases.end_whole(lease_id, positions):
        return False
    state.note(Removed(positions))
    state.forget_soon(positions)
    state.counters.acked += len(positions)
    return True


def acknowledge(
    state: TrackerState, lifecycle: BucketLifecycle, lease_id: int, positions: PositionColumns, elapsed_ms: int
) -> LeaseOutcome:
    """Forget the positions that a lease holds, and those that it returned when it expired and is remembered for.

    Raises: InvalidInput for a lease id never given out.
    """
    held, stale, free = state.leases.classify(lease_id, positions)
    acked = 0
    if held.any():
        state.note(Removed(positions.take(held)))
        state.leases.release(lease_id, positions.take(held))
        acked, buckets = state.take_bits(positions.take(held))
        lifecycle.retire(buckets)
    unknown = free
    if free.any():
        tracked = free & state.members.contains(positions)
        unknown = free & ~tracked
        late = tracked & state.leases.ended.handed_out_by(lease_id, positions, elapsed_ms)
        stale |= tracked & ~late
        if late.any():
            acked += _drop_free(state, lifecycle, positions.take(late))
    state.counters.acked += acked
    return LeaseOutcome(acked, np.flatnonzero(stale), np.flatnonzero(unknown))


def cancel(state: TrackerState, lifecycle: BucketLifecycle, positions: PositionColumns) -> CancelOutcome:
    """Forget the positions that are tracked and not leased."""
    leased = state.leases.bits.contains(positions)
    tracked = state.members.contains(positions) & ~leased
    cancelled = 0
    if tracked.any():
        cancelled = _drop_free(state, lifecycle, positions.take(tracked))
    elif len(positions):
        state.note_unchanged()
    state.counters.cancelled += cancelled
    return CancelOutcome(cancelled, np.flatnonzero(leased), np.flatnonzero(~tracked & ~leased))


def _drop_free(state: TrackerState, lifecycle: BucketLifecycle, positions: PositionColumns) -> int:
    """Forget tracked positions that no lease holds, and return their number."""
    state.note(Removed(positions))
    state.leases.ended.forget(positions)
    dropped, buckets = state.drop(positions)
    lifecycle.retire(buckets)
    return dropped


def trim(state: TrackerState, lifecycle: BucketLifecycle, mark_delete: Position) -> int:
    """Take a mark-delete position, forget everything at or below it, leased or not, and return the number."""
    state.mark_delete = mark_delete
    state.note(MarkDeleteAdvanced(mark_delete))
    trimmed, buckets = state.trim(mark_delete)
    state.counters.trimmed += trimmed
    lifecycle.retire(buckets)
    return trimmed


def move_cursor(state: TrackerState, lifecycle: BucketLifecycle, mark_delete: Position) -> int:
    """Take a mark-delete position, lower or higher; forget what is at or below it, no lease holds, and return the number.

    What was forgotten before and lies above it can be added again.
    """
    through = max(state.mark_delete, mark_delete)
    state.note(CursorMoved(mark_delete, through))
    trimmed, buckets = state.move_cursor(mark_delete, through)
    state.counters.trimmed += trimmed
    lifecycle.retire(buckets)
    return trimmed
