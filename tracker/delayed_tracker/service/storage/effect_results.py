"""What the runner tells about effects, and to whom."""

from typing import Protocol

from delayed_tracker.core.engine.effects import DeleteSnapshots, LoadSegments, MergeSnapshots, StoreSnapshot
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap


class EffectReports(Protocol):
    """Whom results are reported to. The verbs are the core's; false means the core has forgotten the effect."""

    @property
    def epoch(self) -> int:
        """The core's epoch now."""
        ...

    @property
    def mark_delete(self) -> Position:
        """The core's mark-delete position now."""
        ...

    def snapshot_stored(
        self, effect: StoreSnapshot, bucket_id: int, sealed: SealedIndexes, *, snapshot_bytes: int
    ) -> bool:
        """The snapshot is durable and catalogued. False: it must be removed again."""
        ...

    def snapshot_failed(self, effect: StoreSnapshot) -> bool:
        """Nothing durable came of it, or nothing that is not going to be removed."""
        ...

    def snapshots_merged(
        self,
        effect: MergeSnapshots,
        bucket_id: int,
        bounds: SegmentBounds,
        *,
        snapshot_bytes: int,
        stored: PositionBitmap,
    ) -> bool:
        """The merged snapshot stands in the catalogue in place of its sources. False: put everything back."""
        ...

    def still_tracked(self, effect: MergeSnapshots) -> PositionBitmap:
        """What the sources of a merge track now; the caller's own. It may be less than when the merge was asked for."""
        ...

    def merge_failed(
        self, effect: MergeSnapshots, *, lost_bucket_ids: tuple[int, ...] = (), too_large: bool = False
    ) -> bool:
        """Everything is as before: try again later, or (``too_large``) never, or (lost) without those sources."""
        ...

    def segments_loaded(self, effect: LoadSegments, indexes: IndexColumns) -> bool:
        """The rows of all the segments, in order."""
        ...

    def segment_load_failed(self, effect: LoadSegments, *, lost: bool) -> bool:
        """They could not be read: now, or (``lost``) ever."""
        ...

    def snapshots_deleted(self, effect: DeleteSnapshots) -> bool:
        """Pointers and snapshots are gone, and the catalogue carries the effect's epoch."""
        ...

    def catalogue_written(self, effect: DeleteSnapshots) -> None:
        """The catalogue carries the effect's epoch and none of its buckets; their objects were tried."""
        ...

    def delete_failed(self, effect: DeleteSnapshots) -> bool:
        """Some may still be there."""
        ...

    def catalogue_fenced(self, epoch: int) -> None:
        """The catalogue refused this epoch: a newer one has been written to it."""
        ...
