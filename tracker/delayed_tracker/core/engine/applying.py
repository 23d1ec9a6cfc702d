"""Results of effects, passed to the part that asked for the effect."""

from delayed_tracker.core.engine.effect_results import (
    DeleteFailed,
    EffectResult,
    MergeFailed,
    PiecesStored,
    SegmentLoadFailed,
    SegmentsLoaded,
    SnapshotFailed,
    SnapshotsDeleted,
    SnapshotsMerged,
    SnapshotStored,
)
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.merger import BucketMerger
from delayed_tracker.core.engine.upkeep import Upkeep
from delayed_tracker.core.values.instant import Instant


def apply_result(
    result: EffectResult, lifecycle: BucketLifecycle, merger: BucketMerger, upkeep: Upkeep, now: Instant
) -> bool:
    """Apply one result. Returns False if its effect is forgotten: then no position was changed."""
    match result:
        # These two change no bits, so those that wait to be cleared may wait on.
        case SnapshotsDeleted():
            return lifecycle.snapshots_deleted(result.effect_id)
        case DeleteFailed():
            return lifecycle.delete_failed(result.effect_id, now, is_dropped=result.is_dropped)
        case SegmentsLoaded():
            return lifecycle.segments_loaded(result.effect_id, result.indexes, now)
    upkeep.bring_up_to_date()
    match result:
        case SnapshotStored():
            return lifecycle.snapshot_stored(
                result.effect_id, result.bucket_id, result.sealed, result.snapshot_bytes, now
            )
        case PiecesStored():
            return lifecycle.pieces_stored(result.effect_id, result.pieces, now)
        case SnapshotFailed():
            return lifecycle.snapshot_failed(result.effect_id, now)
        case SegmentLoadFailed():
            return lifecycle.segment_load_failed(result.effect_id, now, lost=result.lost)
        case SnapshotsMerged():
            return merger.merged(
                result.effect_id,
                result.bucket_id,
                result.bounds,
                snapshot_bytes=result.snapshot_bytes,
                stored=result.stored,
            )
        case MergeFailed():
            return merger.failed(
                result.effect_id, now, lost_bucket_ids=result.lost_bucket_ids, too_large=result.too_large
            )
