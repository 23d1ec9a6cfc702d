"""Results of opening, clearing and importing a tracker."""

from dataclasses import dataclass

from delayed_tracker.core.values.columns import Position


@dataclass(frozen=True, slots=True)
class Opened:
    """Result of an open: the epoch to send with calls, and the position to replay from."""

    epoch: int
    mark_delete: Position
    offered_through: Position
    """The dispatcher's claim; BEFORE_ALL if there is none."""
    recovered_count: int
    """Positions recovered by this open; 0 if the tracker was loaded."""
    bucket_count: int
    add_log_missing: bool
    """True if it was recovered without the add log of its last owner: what no snapshot has must be offered again."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """Result of a clear: the epoch to send from now on, and the number of positions dropped."""

    epoch: int
    cleared_count: int


@dataclass(frozen=True, slots=True)
class Adopted:
    """Result of an import: epoch, mark-delete position, and the number of positions tracked now and before."""

    epoch: int
    mark_delete: Position
    offered_through: Position
    """The claim in force; BEFORE_ALL if there is none."""
    bucket_count: int
    tracked_count: int
    replaced_count: int
