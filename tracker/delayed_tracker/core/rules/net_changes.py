"""Net effect of consecutive changes of an add log: what is removed, and what is tracked afterwards.

A replay that applies thousands of small changes one by one looks up the same buckets for each of them. Together they have
the effect of their last words: the result is the same, because each change says what is true afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.changes import (
    Added,
    Change,
    CursorMoved,
    MarkDeleteAdvanced,
    OfferedThrough,
    Removed,
    Rescheduled,
)
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Position, PositionColumns


@dataclass(frozen=True, slots=True, eq=False)
class NetChanges:
    """Changes together. Mark-delete comes first, then what is removed, then what is added."""

    removed: PositionColumns
    """Positions that ended at some time, each once: their copies from before are void."""
    added: IndexColumns
    """Positions that are tracked in the end, unless they were tracked before and did not end; each once, in the log's
    order."""
    first_added: int | None
    """Number of the first change that added one of these; None if there is none."""
    mark_delete: Position | None
    """Highest mark-delete position; None if none of the changes has one."""
    offered_through: Position | None
    """Last claim; None if none of the changes has one."""


def net_changes(numbers: Sequence[int], changes: Sequence[Change]) -> NetChanges:
    """Return the net effect of changes, given with their numbers in ascending order. O(n log n) in their positions.

    None of them moves the cursor back.
    """
    if len(changes) == 1 and isinstance(only := changes[0], Added) and len(only.indexes):
        # All that most trackers of a service with thousands have; its rows are distinct.
        return NetChanges(only.indexes.positions.take(slice(0)), only.indexes, numbers[0], None, None)
    mark_delete: Position | None = None
    offered_through: Position | None = None
    parts: list[IndexColumns] = []
    steps: list[tuple[int, bool, bool]] = []  # number, whether its rows end, whether they begin
    for number, change in zip(numbers, changes, strict=True):
        match change:
            case Added():
                parts.append(change.indexes)
                steps.append((number, False, True))
            case Rescheduled():
                parts.append(change.indexes)
                steps.append((number, True, True))
            case Removed():
                # Rows that only end have no deadline; any number stands for it.
                ledger_id, entry_id = change.positions.ledger_id, change.positions.entry_id
                parts.append(IndexColumns(ledger_id, ledger_id, entry_id))
                steps.append((number, True, False))
            case MarkDeleteAdvanced():
                mark_delete = change.mark_delete if mark_delete is None else max(mark_delete, change.mark_delete)
            case OfferedThrough():
                offered_through = change.position
            case CursorMoved():
                raise AssertionError("what comes before and after it has no net effect together")
    rows = IndexColumns.concat(parts)
    step_of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    ends, begins = (np.array([step[which] for step in steps], np.bool_)[step_of] for which in (1, 2))
    removed, added = _last_words(rows.positions, ends, begins)
    first_added = steps[step_of[added[0]]][0] if len(added) else None
    return NetChanges(rows.positions.take(removed), rows.take(added), first_added, mark_delete, offered_through)


def _last_words(
    positions: PositionColumns, ends: BoolArray, begins: BoolArray
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return one row of each position that ended, and the row by which each tracked position is tracked, ascending.

    A position is tracked by the first row that begins it after the last one that ended it.
    """
    if not len(positions):
        return np.empty(0, np.intp), np.empty(0, np.intp)
    order = np.lexsort((positions.entry_id, positions.ledger_id))  # stable: rows of a position stay in their order
    ledger, entry = positions.ledger_id[order], positions.entry_id[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (ledger[1:] != ledger[:-1]) | (entry[1:] != entry[:-1])
    starts = np.flatnonzero(is_first)
    stops = np.append(starts[1:], len(order))
    place = np.arange(len(order))
    last_end = np.maximum.reduceat(np.where(ends[order], place, -1), starts)
    ended = last_end >= 0
    begin = np.where(ended, last_end + ~begins[order][last_end], starts)
    return order[last_end[ended]], np.sort(order[begin[begin < stops]])
