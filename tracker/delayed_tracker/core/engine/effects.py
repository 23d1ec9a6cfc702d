"""Effects: frozen values with ids that request work outside the core, and the queue in which they leave it.

The owner drains them with ``TrackerCore.take_effects()``, performs them in any order and with any concurrency, and
reports each exactly once by ``TrackerCore.apply`` with a result of ``effect_results``. A result whose effect id the core
has forgotten (because an epoch has passed) is ignored. Inside one effect the order of steps is part of the contract: new
durable object -> commit in the catalogue -> report -> delete the old.
"""

from dataclasses import dataclass

from delayed_tracker.core.rules.seal import FrozenIndexes
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """Seal the frozen indexes and make them durable.

    Steps: ``sealed = seal(frozen)`` away from the caller's thread; encode; create the snapshot; add it to the catalogue
    under ``epoch``; report ``SnapshotStored``. If the
    catalogue refuses, delete the object again. On any failure report ``SnapshotFailed``. If an entry would be larger than
    the storage takes, store the bucket in pieces (``rules.seal.in_halves``) and report ``PiecesStored``.
    """

    effect_id: int
    epoch: int
    frozen: FrozenIndexes
    seal_number: int
    """For the catalogue. Taken when the indexes were frozen, so that a retry of this effect keeps it."""


@dataclass(frozen=True, slots=True)
class LoadSegments:
    """Read and decode segments ``first`` to ``last`` (0-based, inclusive; storage entry = segment + 1).

    Report ``SegmentsLoaded`` with the rows of all of them in order, or ``SegmentLoadFailed``.
    """

    effect_id: int
    epoch: int
    bucket_id: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DeleteSnapshots:
    """Remove the buckets from the catalogue under ``epoch`` in one step, then delete their snapshots.

    With no bucket ids it only records the epoch, which fences writers of older ones. Report
    ``SnapshotsDeleted`` or ``DeleteFailed``; a retry repeats both steps harmlessly.
    """

    effect_id: int
    epoch: int
    bucket_ids: tuple[int, ...]
    void_through: int | None = None
    """Number of the last change that a clear made void, to be recorded in the same step; None for other deletions."""
    failure_count: int = 0
    """Attempts before, each of which left only objects that nothing names."""


@dataclass(frozen=True, slots=True, eq=False)
class MergeSource:
    """One snapshot of a merge, with its rows that still count."""

    bucket_id: int
    segment_count: int
    live: PositionBitmap
    """Positions that are still tracked; the merge drops all others.

    Lent until the result is reported: do not change it.
    """
    is_foreign: bool = False
    """True if its segments may be out of time order, or lack positions of its bitmaps: it is not merged then, nor lost."""


@dataclass(frozen=True, slots=True, eq=False)
class MergeSnapshots:
    """Make one snapshot of several, a few segments at a time.

    Two passes over the sources' segments: bounds and bitmaps first, then bytes. Create the merged snapshot; in one
    catalogue step under ``epoch`` remove the sources and add it; report ``SnapshotsMerged``;
    the core asks for the sources' deletion afterwards. On failure everything is as before: report
    ``MergeFailed``, naming sources that are missing or corrupt, or that the merged snapshot
    would be too large for one metadata entry.
    """

    effect_id: int
    epoch: int
    sources: tuple[MergeSource, ...]
    """In ascending order of range."""
    first: Position
    last: Position
    step_ms: int
    count_max: int
    seal_number: int
    """For the catalogue. Taken together with ``live``."""


Effect = StoreSnapshot | LoadSegments | DeleteSnapshots | MergeSnapshots


class EffectQueue:
    """Effects of one tracker that its owner has not taken yet."""

    __slots__ = ("_effects", "_next_id")

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._next_id = 1

    def new_id(self) -> int:
        """Return an id that no effect and no retry has had."""
        self._next_id += 1
        return self._next_id - 1

    def append(self, effect: Effect) -> None:
        """Request one more effect."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """Return the effects requested since the last call, in order; the caller performs them."""
        effects, self._effects = self._effects, []
        return effects

    def keep_deletions(self) -> None:
        """Forget all requests but those to delete."""
        self._effects = [effect for effect in self._effects if isinstance(effect, DeleteSnapshots)]
