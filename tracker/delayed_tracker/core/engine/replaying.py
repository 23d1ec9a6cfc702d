"""Changes of an add log applied to a recovered tracker, in order, as they were answered.

Nothing is decided again: a position that is due by now stays tracked and is handed out, because its add was answered.
A change whose effect the recovered buckets have already changes nothing (``delayed_tracker.core.values.changes``).
"""

from delayed_tracker.core.engine import adding
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.values.changes import (
    Added,
    Change,
    MarkDeleteAdvanced,
    OfferedThrough,
    Removed,
    Rescheduled,
)
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns


def replay(state: TrackerState, lifecycle: BucketLifecycle, number: int, change: Change) -> None:
    """Apply the change with a number, which is above that of the change before.

    It counts towards ``recovered``: what it removes was recovered and is gone again. The tracker has a journal.
    """
    journal = state.journal
    assert journal is not None
    assert number > journal.last_number
    # Rows of the change are pinned under its number: the journal gives them the number after its last.
    journal.last_number = number - 1
    _apply(state, lifecycle, change)
    journal.last_number = number


def _apply(state: TrackerState, lifecycle: BucketLifecycle, change: Change) -> None:
    match change:
        case Added():
            _track(state, lifecycle, change.indexes)
        case Rescheduled():
            _forget(state, lifecycle, change.indexes.positions)
            _track(state, lifecycle, change.indexes)
        case Removed():
            _forget(state, lifecycle, change.positions)
        case MarkDeleteAdvanced():
            if change.mark_delete > state.mark_delete:
                state.mark_delete = change.mark_delete
                trimmed, buckets = state.trim(change.mark_delete)
                state.counters.recovered -= trimmed
                lifecycle.retire(buckets)
        case OfferedThrough():
            state.offered_through = change.position


def _track(state: TrackerState, lifecycle: BucketLifecycle, indexes: IndexColumns) -> None:
    positions = indexes.positions
    fresh = ~(positions.at_or_below(state.mark_delete) | state.members.contains(positions))
    if fresh.any():
        indexes = indexes.take(fresh)
        adding.place(state, lifecycle, indexes)
        state.counters.recovered += len(indexes)


def _forget(state: TrackerState, lifecycle: BucketLifecycle, positions: PositionColumns) -> None:
    dropped, buckets = state.drop(positions)
    state.counters.recovered -= dropped
    lifecycle.retire(buckets)
