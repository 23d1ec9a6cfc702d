"""Barriers: everything that a tracker has is forgotten, or replaced by the buckets of a plan."""

from collections.abc import Sequence

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.merger import BucketMerger
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.rules.recovery import RecoveryPlan
from delayed_tracker.core.values.columns import BEFORE_ALL


def forget_everything(
    state: TrackerState, lifecycle: BucketLifecycle, merger: BucketMerger, unwanted: Sequence[int] = ()
) -> int:
    """Forget all positions, leases and effects under a new epoch, and request the deletion of all snapshots.

    Args:
        state: its bits were cleared.
        lifecycle: ignores the results of its effects from now on.
        merger: ignores the result of its merge from now on.
        unwanted: ids of other buckets to delete in the same step.
    Returns: the number of positions.
    """
    cleared = state.counters.tracked
    state.epoch += 1
    merger.forget()
    lifecycle.forget_all(unwanted)
    lifecycle.replay_required = False  # nothing is missing any more
    state.reset_buckets()
    state.offered_through = BEFORE_ALL
    state.counters.cleared += cleared
    return cleared


def insert_recovered(state: TrackerState, plan: RecoveryPlan) -> None:
    """Track the positions of the buckets that a plan keeps; nothing of them is in memory."""
    for bucket in plan.keep:
        snapshot = SnapshotSegments(
            bucket.bucket_id,
            PackedBounds(bucket.groups),
            bucket.snapshot_bytes,
            bucket.first_group,
            bucket.is_foreign,
        )
        state.insert_sealed(bucket.bits, snapshot, bucket.first, bucket.last)
        state.counters.tracked += len(bucket.bits)
        state.counters.recovered += len(bucket.bits)
