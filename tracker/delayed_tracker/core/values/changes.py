"""Changes of a tracker that a crash must not undo: the content of an add log, in the order of the verbs.

Each change says what is true afterwards, whatever was true before: a position is tracked with a deadline, or not
tracked. So a log may be applied again to a state that has the effect of some of its changes already, as long as it is
applied to its end.
"""

from dataclasses import dataclass
from typing import TypeAlias

from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """Positions that became tracked: none of them was tracked before."""

    indexes: IndexColumns
    """Each position once."""


@dataclass(frozen=True, slots=True, eq=False)
class Rescheduled:
    """Positions that were tracked and have another deadline from now on."""

    indexes: IndexColumns
    """Each position once."""


@dataclass(frozen=True, slots=True, eq=False)
class Removed:
    """Positions that are no longer tracked: acknowledged, handed off, cancelled, or answered as due."""

    positions: PositionColumns


@dataclass(frozen=True, slots=True)
class MarkDeleteAdvanced:
    """A higher mark-delete position: nothing at or below it is tracked."""

    mark_delete: Position


@dataclass(frozen=True, slots=True)
class CursorMoved:
    """Another mark-delete position, which may be lower, and what is tracked above it stays.

    The dispatcher's claim ends there, unless it is lower.
    """

    mark_delete: Position
    """BEFORE_ALL if the cursor stands before the first entry."""
    trimmed_through: Position
    """Nothing at or below was tracked when the cursor was moved, and nothing of it is until it is added again.

    The higher of the position before and ``mark_delete``.
    """


@dataclass(frozen=True, slots=True)
class OfferedThrough:
    """A new claim of the dispatcher, or the end of the old one.

    Every delayed and unacknowledged message at or below the position was offered, and its offer answered.
    """

    position: Position
    """BEFORE_ALL if there is no claim."""


Change: TypeAlias = Added | Rescheduled | Removed | MarkDeleteAdvanced | CursorMoved | OfferedThrough
