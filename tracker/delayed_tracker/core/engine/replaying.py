"""Changes of an add log applied to a recovered tracker, as they were answered.

Nothing is decided again: a position that is due by now stays tracked and is handed out, because its add was answered.
A change whose effect the recovered buckets have already changes nothing (``delayed_tracker.core.values.changes``).
"""

from collections.abc import Sequence

from delayed_tracker.core.engine import adding
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.rules.net_changes import net_changes
from delayed_tracker.core.values.changes import Change, CursorMoved
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns


def replay(state: TrackerState, lifecycle: BucketLifecycle, numbers: Sequence[int], changes: Sequence[Change]) -> None:
    """Apply changes with ascending numbers, which are above that of the change before, at least one.

    They count towards ``recovered``: what they remove was recovered and is gone again. The tracker has a journal.
    """
    assert state.journal is not None
    assert numbers[0] > state.journal.last_number
    begin = 0
    for end, change in enumerate(changes):
        if isinstance(change, CursorMoved):
            # What came before ends with it, and what comes after is above another position.
            _replay_net(state, lifecycle, numbers[begin:end], changes[begin:end])
            _move_cursor(state, lifecycle, change)
            state.journal.last_number = numbers[end]
            begin = end + 1
    _replay_net(state, lifecycle, numbers[begin:], changes[begin:])


def _replay_net(
    state: TrackerState, lifecycle: BucketLifecycle, numbers: Sequence[int], changes: Sequence[Change]
) -> None:
    """Apply changes that do not move the cursor back, if there are any, by their net effect."""
    journal = state.journal
    assert journal is not None
    if not numbers:
        return
    net = net_changes(numbers, changes)
    if net.mark_delete is not None and net.mark_delete > state.mark_delete:
        state.mark_delete = net.mark_delete
        trimmed, buckets = state.trim(net.mark_delete)
        state.counters.recovered -= trimmed
        lifecycle.retire(buckets)
    if len(net.removed):
        _forget(state, lifecycle, net.removed)
    if net.first_added is not None:
        # Rows are pinned under the first change that added one: the journal gives them the number after its last.
        journal.last_number = net.first_added - 1
        _track(state, lifecycle, net.added)
    if net.offered_through is not None:
        state.offered_through = net.offered_through
    journal.last_number = numbers[-1]


def _move_cursor(state: TrackerState, lifecycle: BucketLifecycle, moved: CursorMoved) -> None:
    trimmed, buckets = state.move_cursor(moved.mark_delete, moved.trimmed_through)
    state.counters.recovered -= trimmed
    lifecycle.retire(buckets)


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
