"""Queries of a tracker: the place of a position, the rows between two times, the entries that a cursor should read.

No function here changes the state. They return the segments that are not in memory, so that the service can read them.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Bucket
from delayed_tracker.core.rules.seal import without_repeats
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import (
    INT63_MAX,
    BoolArray,
    IndexColumns,
    Int64Array,
    Position,
    PositionColumns,
)
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.position_bitmap import PositionBitmap, bitmap_entries
from delayed_tracker.core.values.verb_results import Explanation, MessagePlace


@dataclass(frozen=True, slots=True, eq=False)
class UnloadedSegments:
    """Segments of a bucket that are not in memory, in the groups that the tracker remembers."""

    bucket_id: int
    bounds: SegmentBounds
    """Bounds of the groups: each has the rows of some adjacent segments."""
    starts: Int64Array
    """Number of each group's first segment in the snapshot, from 0, and one past the last segment."""
    bits: PositionBitmap
    """Copy of the positions that the bucket still tracks, in memory or not."""


def explain(state: TrackerState, position: Position, now: Instant) -> Explanation:
    """Return the place of a position and the time at which it would be handed out.

    O(copies in memory of its bucket).
    """
    if position <= state.mark_delete:
        return Explanation(MessagePlace.ACKNOWLEDGED)
    bucket = _bucket_of(state, position)
    if bucket is None:
        return Explanation(MessagePlace.NOT_TRACKED)
    bucket_id = None if bucket.snapshot is None else bucket.snapshot.bucket_id
    lease = state.leases.holder(position)
    if lease is not None:
        rows = lease.outstanding()
        deadline = int(rows.deliver_at_ms[_is_at(rows.positions, position)][0])
        expires_at_ms = now.wall_ms + lease.expiry_of(position) - now.elapsed_ms
        return Explanation(MessagePlace.LEASED, deadline, expires_at_ms, bucket_id, lease.lease_id)
    deadline_in_memory = _deadline_in_memory(state, bucket, position)
    if deadline_in_memory is not None:
        place = MessagePlace.MEMORY if bucket.snapshot is None else MessagePlace.LOADED_SEGMENT
        available_at_ms = state.limits.due_from_ms(deadline_in_memory)
        return Explanation(place, deadline_in_memory, available_at_ms, bucket_id)
    loading = bucket.snapshot is not None and bucket.snapshot.load_effect_id is not None
    return Explanation(MessagePlace.LOADING_SEGMENT if loading else MessagePlace.UNLOADED_SEGMENT, bucket_id=bucket_id)


def _is_at(positions: PositionColumns, position: Position) -> BoolArray:
    at: BoolArray = (positions.ledger_id == position.ledger_id) & (positions.entry_id == position.entry_id)
    return at


def _bucket_of(state: TrackerState, position: Position) -> Bucket | None:
    if position.ledger_id < 0 or position.entry_id < 0:
        return None
    return next((bucket for bucket, _ in state.members.locate(PositionColumns.of([position]))), None)


def _deadline_in_memory(state: TrackerState, bucket: Bucket, position: Position) -> int | None:
    for run in state.heap.of_bucket(bucket.key):
        for chunk in run.chunks():
            here = chunk.take(_is_at(chunk.positions, position))
            live = here.take(state.copies.is_live(bucket, here))
            if len(live):
                return int(live.deliver_at_ms[0])
    return None


def loaded_between(state: TrackerState, from_ms: int, until_ms: int | None) -> tuple[IndexColumns, BoolArray]:
    """Return the tracked rows in memory with a deadline in [from_ms, until_ms), sorted, and a mask of the leased ones.

    O(copies in memory).
    """
    last_ms = INT63_MAX if until_ms is None else until_ms - 1
    parts = [
        rows.take(state.copies.is_live(state.members.buckets[run.bucket_number], rows))
        for run in state.heap
        for chunk in run.chunks()
        if len(rows := _between(chunk, from_ms, last_ms))
    ]
    parts += [_between(rows, from_ms, last_ms) for rows in state.leases.outstanding()]
    found = without_repeats(IndexColumns.concat(parts).sorted())
    return found, state.leases.bits.contains(found.positions)


def _between(rows: IndexColumns, first_ms: int, last_ms: int) -> IndexColumns:
    return rows.take((rows.deliver_at_ms >= first_ms) & (rows.deliver_at_ms <= last_ms))


def unloaded(state: TrackerState) -> list[UnloadedSegments]:
    """Return the segments that are not in memory, by bucket, including those being read. O(buckets + bitmaps)."""
    found = []
    for bucket in state.members.buckets.values():
        snapshot = bucket.snapshot
        if snapshot is None or snapshot.next_min_ms is None:
            continue
        packed, first = snapshot.bounds, snapshot.first_unloaded
        bounds, starts = packed.take(first, len(packed)), packed.segments_from(first)
        found.append(UnloadedSegments(snapshot.bucket_id, bounds, starts, bucket.bits.copy()))
    return found


def stored_counts(state: TrackerState) -> dict[int, tuple[int, int]]:
    """Return for each stored bucket the positions still tracked, and those that its snapshot has. O(buckets)."""
    return {
        bucket.snapshot.bucket_id: (len(bucket.bits), bucket.sealed_count)
        for bucket in state.members.buckets.values()
        if bucket.snapshot is not None
    }


def remaining(state: TrackerState, bucket_ids: Collection[int] | None) -> dict[int, PositionBitmap]:
    """Return copies of the positions still tracked of each stored bucket, or of each of these. O(bitmaps)."""
    return {
        bucket.snapshot.bucket_id: bucket.bits.copy()
        for bucket in state.members.buckets.values()
        if bucket.snapshot is not None and (bucket_ids is None or bucket.snapshot.bucket_id in bucket_ids)
    }


def filter_range(state: TrackerState, ledger_id: int, first_entry: int, last_entry: int) -> list[tuple[int, int]]:
    """Return the parts of [first_entry, last_entry] of a ledger that are not tracked: a cursor should read them now.

    Returns: (first, last) pairs, both inclusive, ascending and not adjoining; none if everything is tracked. Cost:
    O(buckets of the ledger + tracked entries of the range). Source: PIP-195's discontinuous read.
    """
    tracked = bitmap_entries(state.members.entries_between(ledger_id, first_entry, last_entry + 1))
    starts = np.concatenate(([first_entry], tracked + 1))
    ends = np.concatenate((tracked - 1, [last_entry]))
    gaps = starts <= ends
    return list(zip(starts[gaps].tolist(), ends[gaps].tolist(), strict=True))
