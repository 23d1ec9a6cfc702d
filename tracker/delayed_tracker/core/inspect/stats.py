"""Stats of a tracker for operators: sizes, counters, and a row for each bucket."""

from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.values.verb_results import BucketView, TrackerStats

_LISTING_BYTES = 200
"""Memory of a slot in each of two dicts, a key and a list, in bytes."""
_BUCKET_BYTES = 4_800
"""Memory of the objects of a sealed bucket beside its bits and bounds, in bytes: measured with 100 and with 200 buckets."""


def tracker_stats(state: TrackerState, *, replay_required: bool) -> TrackerStats:
    """Return sizes and counters of one tracker. O(1)."""
    counters = state.counters
    leased = state.leases.leased_count
    open_buckets = (state.mutable, state.late)
    membership_bytes = state.membership_bytes + sum(bucket.bits_bytes for bucket in open_buckets)
    return TrackerStats(
        epoch=state.epoch,
        pending_count=counters.tracked - leased,
        leased_count=leased,
        loaded_count=state.heap.loaded_count,
        mutable_count=len(state.mutable.bits),
        late_count=len(state.late.bits),
        bucket_count=len(state.members.buckets) - sum(not bucket.bits for bucket in open_buckets) - len(state.drained),
        snapshot_bytes=state.snapshot_bytes,
        membership_bytes=membership_bytes,
        memory_bytes=membership_bytes + memory_beside_bits(state, state.leases.nbytes),
        next_delivery_ms=state.next_delivery_ms(),
        mark_delete=state.mark_delete,
        added_count=counters.added,
        recovered_count=counters.recovered,
        acked_count=counters.acked,
        handed_off_count=counters.handed_off,
        cancelled_count=counters.cancelled,
        trimmed_count=counters.trimmed,
        cleared_count=counters.cleared,
        refused_as_due_count=counters.refused_as_due,
        dropped_as_corrupt_count=counters.dropped_as_corrupt,
        due_on_offer_count=counters.due_on_offer,
        duplicate_count=counters.duplicate,
        lease_expired_count=counters.lease_expired,
        effects_failed_count=counters.effects_failed,
        replay_required=replay_required,
        merge_count=counters.merges,
        rescheduled_count=counters.rescheduled,
        merged_index_count=counters.merged_indexes,
    )


def memory_beside_bits(state: TrackerState, leases_bytes: int) -> int:
    """Return the approximate memory of buckets, rows, leases, segment bounds, ledger index entries and the lookup, in bytes.

    O(1).
    """
    open_buckets = (state.mutable, state.late)
    rescheduled = [bucket.memory.rescheduled for bucket in open_buckets if bucket.memory is not None]
    return (
        state.heap.nbytes
        + leases_bytes
        + state.segments_bytes
        + _LISTING_BYTES * state.members.listed_count
        + state.members.lookup_bytes
        + sum(deadlines.nbytes for deadlines in rescheduled if deadlines is not None)
        + _BUCKET_BYTES * (len(state.members.buckets) - len(open_buckets))
    )


def bucket_views(state: TrackerState) -> list[BucketView]:
    """Return every bucket that is not empty, by first position.

    O(buckets), and the chunks added since the last read.
    """
    views = []
    for bucket in state.members.buckets.values():
        lowest, highest = bucket.bits.first(), bucket.bits.last()
        if lowest is None or highest is None:
            continue
        snapshot = bucket.snapshot
        earliest, latest = bucket.min_deliver_at_ms, bucket.max_deliver_at_ms
        if snapshot is None:
            runs = [run for run in state.heap.of_bucket(bucket.key) if len(run)]
            earliest = min((run.min_deliver_at_ms for run in runs), default=0)
            latest = max((run.max_deliver_at_ms for run in runs), default=0)
        views.append(
            BucketView(
                bucket_id=None if snapshot is None else snapshot.bucket_id,
                state=bucket.state,
                first=lowest if bucket.first is None else bucket.first,
                last=highest if bucket.last is None else bucket.last,
                tracked_count=len(bucket.bits),
                sealed_count=bucket.sealed_count,
                segment_count=0 if snapshot is None else snapshot.bounds.segment_count,
                loaded_segment_count=0 if snapshot is None else snapshot.bounds.segment_of(snapshot.first_unloaded),
                min_deliver_at_ms=earliest,
                max_deliver_at_ms=latest,
                snapshot_bytes=0 if snapshot is None else snapshot.snapshot_bytes,
            )
        )
    return sorted(views, key=lambda view: (view.first, view.last, view.bucket_id or 0))
