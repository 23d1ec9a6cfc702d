"""Results of effects, as frozen values that name their effect.

The owner of a tracker performs each effect and passes exactly one result to ``TrackerCore.apply``. A result whose effect the
core has forgotten, because a barrier has passed, changes nothing: ``apply`` returns False, and the owner undoes what it made.
"""

from dataclasses import dataclass

from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotStored:
    """``StoreSnapshot`` succeeded: the snapshot is durable and in the catalogue. If forgotten, remove it again."""

    effect_id: int
    bucket_id: int
    sealed: SealedIndexes
    snapshot_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class StoredPiece:
    """A part of a frozen bucket that was stored as a snapshot of its own."""

    bucket_id: int
    sealed: SealedIndexes
    snapshot_bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class PiecesStored:
    """``StoreSnapshot`` succeeded in pieces, since the storage takes no entry as large as one snapshot would need.

    All are durable, and entered the catalogue in one step. If forgotten, remove them again.
    """

    effect_id: int
    pieces: tuple[StoredPiece, ...]
    """Ascending; each position of the bucket is in the range of one of them."""


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """``StoreSnapshot`` failed: the indexes stay in memory, and the core asks again later."""

    effect_id: int


@dataclass(frozen=True, slots=True, eq=False)
class SegmentsLoaded:
    """``LoadSegments`` succeeded."""

    effect_id: int
    indexes: IndexColumns
    """The rows of all its segments, in order."""


@dataclass(frozen=True, slots=True)
class SegmentLoadFailed:
    """``LoadSegments`` failed."""

    effect_id: int
    lost: bool
    """True if the snapshot is missing or corrupt, False if a later attempt may succeed."""


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotsMerged:
    """``MergeSnapshots`` succeeded: the merged snapshot has replaced its sources in the catalogue. If forgotten, undo that."""

    effect_id: int
    bucket_id: int
    bounds: SegmentBounds
    """At least one segment."""
    snapshot_bytes: int
    stored: PositionBitmap
    """The positions in the merged snapshot."""


@dataclass(frozen=True, slots=True)
class MergeFailed:
    """``MergeSnapshots`` failed: the snapshots are as they were. The core tries again later."""

    effect_id: int
    lost_bucket_ids: tuple[int, ...] = ()
    """Sources that are missing or corrupt: the core tries again without them."""
    too_large: bool = False
    """True if the merged metadata would exceed one entry, or a source cannot be merged: the core merges another group."""


@dataclass(frozen=True, slots=True)
class SnapshotsDeleted:
    """``DeleteSnapshots`` succeeded: pointers and snapshots are gone, and the catalogue carries the effect's epoch."""

    effect_id: int


@dataclass(frozen=True, slots=True)
class DeleteFailed:
    """``DeleteSnapshots`` failed: some snapshots may still be there, and the core asks again later."""

    effect_id: int
    is_dropped: bool = False
    """True if the catalogue names none of them any more: nobody waits for what is left, and the pauses grow."""


EffectResult = (
    SnapshotStored
    | PiecesStored
    | SnapshotFailed
    | SegmentsLoaded
    | SegmentLoadFailed
    | SnapshotsMerged
    | MergeFailed
    | SnapshotsDeleted
    | DeleteFailed
)
