"""Verifies the invariants of a tracker from scratch; for tests and for debugging."""

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.merger import BucketMerger
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.engine.upkeep import Upkeep
from delayed_tracker.core.index.buckets import Bucket, MemoryCopies
from delayed_tracker.core.rules.seal import without_repeats
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Wakeup, earliest
from delayed_tracker.core.values.position_bitmap import PositionBitmap


def check_tracker(lifecycle: BucketLifecycle, merger: BucketMerger, upkeep: Upkeep) -> None:
    """Raise InvariantViolation if a tracker contradicts itself, before or after bits that wait are cleared."""
    # Before bits are cleared: a bucket that this drains may make a merge unnecessary.
    merger.check()
    before = upkeep.next_wakeup()
    state = upkeep.for_reading()
    state.expose_live_head()
    # Second copies of positions whose bits were just cleared are passed only now.
    lifecycle.loads.note_loaded()
    after = upkeep.next_wakeup()
    check_invariants(state, lifecycle, state.next_delivery_ms(), after)
    for moment, settled in zip(before, after, strict=True):
        if settled is not None and (moment is None or moment > settled):
            raise InvariantViolation(f"no wake-up at {settled}; before bits were cleared it was at {moment}")


def check_invariants(
    state: TrackerState, lifecycle: BucketLifecycle, next_delivery_ms: int | None, next_wakeup: Wakeup
) -> None:
    """Raise InvariantViolation if the state contradicts itself. O(whole state)."""
    tracked = state.members.check()
    if tracked != state.counters.tracked:
        raise InvariantViolation(f"{state.counters.tracked} positions are counted as tracked, {tracked} bits are set")
    if state.counters.balance():
        raise InvariantViolation(f"the counters are out of balance by {state.counters.balance()}")
    for open_bucket in (state.mutable, state.late):
        if state.members.buckets.get(open_bucket.key) is not open_bucket or not open_bucket.is_open:
            raise InvariantViolation("an open bucket is not where adds look for it")
    state.heap.check()
    state.leases.check()
    lifecycle.check()
    if not state.members.contains(state.leases.bits.to_columns()).all():
        raise InvariantViolation("a leased position is not tracked")
    if _holds_at_or_below_mark_delete(state):
        raise InvariantViolation(f"a position at or below mark-delete {state.mark_delete} is tracked")
    _check_sizes(state)
    if any(run.bucket_number not in state.members.buckets for run in state.heap):
        raise InvariantViolation("a run belongs to a bucket that is gone")
    first_deadlines = []  # in memory, of each bucket that has any
    for bucket in state.members.buckets.values():
        copies = IndexColumns.concat([chunk for run in state.heap.of_bucket(bucket.key) for chunk in run.chunks()])
        live = copies.take(state.copies.is_live(bucket, copies)) if len(copies) else copies
        if len(copies) and bucket.memory is not None:
            _check_copies(state, bucket, bucket.memory, copies)
        if len(live):
            _check_one_deadline(bucket, live)
            first_deadlines.append(int(live.deliver_at_ms.min()))
        if bucket.bits:
            _check_reachable(state, bucket, live)
    _check_wakeups(state, lifecycle, first_deadlines, next_delivery_ms, next_wakeup)


def _holds_at_or_below_mark_delete(state: TrackerState) -> bool:
    firsts = (bucket.bits.first() for bucket in state.members.buckets.values())
    return any(first is not None and first <= state.mark_delete for first in firsts)


def _check_sizes(state: TrackerState) -> None:
    buckets = state.members.buckets.values()
    if state.snapshot_bytes != sum(bucket.snapshot.snapshot_bytes for bucket in buckets if bucket.snapshot is not None):
        raise InvariantViolation("the snapshot bytes are not the sum over the stored buckets")
    if state.sealed_count != sum(bucket.snapshot is not None for bucket in buckets):
        raise InvariantViolation(f"{state.sealed_count} stored buckets are counted, there are others")
    sealing = sum(len(bucket.bits) for bucket in buckets if bucket.memory is not None and not bucket.is_open)
    if state.sealing_count != sealing:
        raise InvariantViolation(f"{state.sealing_count} positions are counted as being stored, {sealing} are")
    if any(bucket.membership_bytes != (0 if bucket.is_open else bucket.bits_bytes) for bucket in buckets):
        raise InvariantViolation("the membership bytes of a bucket were not accounted when its bits changed")
    if state.membership_bytes != sum(bucket.membership_bytes for bucket in buckets):
        raise InvariantViolation("the membership bytes are not the sum over the buckets")
    if state.segments_bytes != sum(bucket.snapshot.nbytes for bucket in buckets if bucket.snapshot is not None):
        raise InvariantViolation("the segment bytes are not the sum over the stored buckets")


def _check_reachable(state: TrackerState, bucket: Bucket, live: IndexColumns) -> None:
    """Check that each tracked position has a live copy, a lease, or a row in an unloaded segment.

    For foreign bitmaps this is unknown until the last segment is loaded.
    """
    if bucket.snapshot is not None and bucket.snapshot.is_foreign and bucket.snapshot.next_min_ms is not None:
        return
    missing = bucket.bits.copy()
    missing.remove(live.positions)
    missing.subtract(state.leases.bits)
    unloaded = bucket.snapshot.unloaded_count if bucket.snapshot is not None else 0
    if len(missing) > unloaded:
        raise InvariantViolation(
            f"bucket {bucket.key} tracks {len(missing)} positions that no copy holds, and only {unloaded} rows are unloaded"
        )


def _check_one_deadline(bucket: Bucket, live: IndexColumns) -> None:
    # Most have one copy of each position; equal copies of a position are allowed.
    if live.positions.repeats().any() and without_repeats(live.sorted()).positions.repeats().any():
        raise InvariantViolation(f"bucket {bucket.key} has a position with two deadlines that count")


def _check_copies(state: TrackerState, bucket: Bucket, memory: MemoryCopies, copies: IndexColumns) -> None:
    """Check that the copies in memory are bounded and that a removed copy can never count again."""
    if len(copies) > len(bucket.bits) + memory.removed_count:
        raise InvariantViolation(
            f"bucket {bucket.key} has {len(copies)} copies of {len(bucket.bits)} positions, {memory.removed_count} may be dead"
        )
    positions = copies.positions
    removed = memory.removed or PositionBitmap()
    forgotten = ~bucket.bits.contains(positions) & ~removed.contains(positions)
    if (forgotten & ~positions.at_or_below(state.mark_delete)).any():
        raise InvariantViolation(
            f"bucket {bucket.key} has a copy without a bit that would count if the position came again"
        )
    for run in state.heap.of_bucket(bucket.key):
        if (
            not run.is_sorted
            and not run.suspect
            and not all(state.copies.is_live(bucket, chunk).all() for chunk in run.chunks())
        ):
            raise InvariantViolation(f"run {run.run_id} may announce the deadline of a dead copy")


def _check_wakeups(
    state: TrackerState,
    lifecycle: BucketLifecycle,
    first_deadlines: list[int],
    next_delivery_ms: int | None,
    next_wakeup: Wakeup,
) -> None:
    """Check that the next deadline is exact and that every wait has a wake-up."""
    unloaded = [bucket.snapshot.next_min_ms for bucket in state.members.buckets.values() if bucket.snapshot is not None]
    deadlines = first_deadlines + [min_ms for min_ms in unloaded if min_ms is not None]
    expected = state.limits.due_from_ms(min(deadlines)) if deadlines else None
    if next_delivery_ms != expected:
        raise InvariantViolation(f"the next delivery is announced for {next_delivery_ms}, it is {expected}")
    leases = state.leases
    durations = earliest((leases.next_expiry_ms(), leases.ended.next_sweep_ms(), *lifecycle.waiting_moments()))
    for moment, wakeup in zip((expected, durations), next_wakeup, strict=True):
        if moment is not None and (wakeup is None or wakeup > moment):
            raise InvariantViolation(f"no wake-up at {moment}; the next one is {wakeup}")
    if state.counters.tracked and next_wakeup == (None, None):
        raise InvariantViolation(f"{state.counters.tracked} positions are tracked and nothing will ever wake up")
