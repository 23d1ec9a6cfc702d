"""Receives the results of the effects that the runner of one tracker performs."""

from typing import Protocol

from delayed_tracker.core.engine.effect_results import EffectResult
from delayed_tracker.core.engine.effects import DeleteSnapshots, MergeSnapshots
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap


class EffectResults(Protocol):
    """The open tracker, as its runner sees it."""

    @property
    def epoch(self) -> int:
        """Epoch of the core now."""
        ...

    @property
    def mark_delete(self) -> Position:
        """Mark-delete position of the core now."""
        ...

    def apply(self, result: EffectResult) -> bool:
        """Apply a result. Returns False if the core has forgotten the effect: then the runner undoes what it made."""
        ...

    def still_tracked(self, effect: MergeSnapshots) -> PositionBitmap:
        """Return a copy of the positions that the sources of a merge track now; fewer than when it was asked for."""
        ...

    def catalogue_written(self, effect: DeleteSnapshots) -> None:
        """Note that the catalogue carries the effect's epoch and none of its buckets; objects may remain."""
        ...

    def catalogue_fenced(self, epoch: int) -> None:
        """Note that the catalogue refused this epoch, because it has a newer one."""
        ...
