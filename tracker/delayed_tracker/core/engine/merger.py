"""Merging: chooses the sealed buckets that become one, and switches to the merged snapshot when it is durable.

Delivery continues during a merge: the sources keep their bits, their copies and their loads until the merged snapshot
has replaced them in the catalogue. Then one bucket takes over all their tracked positions; rows that are loaded stay
loaded.

Source: PIP-195 "Merge delayed message index buckets"; Pulsar's ``asyncMergeBucketSnapshot``. There are two differences.
It merges whole snapshots and not only the segments that are not loaded yet (apache/pulsar #26251 lost the others). It
deletes the sources only after the merged snapshot is durable and in the catalogue (#26239).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from delayed_tracker.core.engine.effects import MergeSnapshots, MergeSource
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Bucket, SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.rules.merge_plan import group_to_merge
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketState

_NONE: Final[frozenset[tuple[int, ...]]] = (
    frozenset()
)  # shared: an empty one of its own would cost each tracker 216 bytes


class BucketMerger:
    """Merges of one tracker, at most one at a time."""

    __slots__ = ("_barren_at", "_effect_id", "_lifecycle", "_retry_at_ms", "_sources", "_state", "_too_large")

    def __init__(self, state: TrackerState, lifecycle: BucketLifecycle) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._effect_id: int | None = None
        self._sources: Sequence[Bucket] = ()
        self._retry_at_ms: int | None = None
        self._barren_at: int | None = None
        """Value of ``sealed_changes`` when no group could be merged; until it changes, none is searched for."""
        self._too_large: frozenset[tuple[int, ...]] = _NONE
        """Groups, by bucket ids, whose merged metadata would exceed an entry."""

    def next_retry_ms(self) -> int | None:
        """Return the elapsed time at which a failed merge is tried again, or None."""
        return self._retry_at_ms

    @property
    def backlog(self) -> int:
        """Sealed buckets above the limit. O(1)."""
        limit = self._state.limits.max_num_buckets
        return 0 if limit == -1 else max(0, self._state.sealed_count - limit)

    def is_wanted(self, now: Instant) -> bool:
        """Return True if :meth:`merge_if_needed` has to search for buckets to merge. O(1)."""
        state = self._state
        if self._effect_id is not None or state.limits.max_num_buckets == -1:
            return False
        if state.sealed_count <= state.limits.max_num_buckets:
            self._retry_at_ms = None
            return False
        if state.sealed_changes == self._barren_at:
            return False
        return self._retry_at_ms is None or now.elapsed_ms >= self._retry_at_ms

    def merge_if_needed(self, now: Instant) -> None:
        """Request a merge if there are more sealed buckets than allowed and none is in flight.

        O(1) if there is nothing to do.
        """
        if not self.is_wanted(now):
            return
        self._retry_at_ms = None
        group = self._choose()
        if not group:
            self._barren_at = self._state.sealed_changes
            return
        self._begin(group)

    def _choose(self) -> list[Bucket]:
        sealed = [
            bucket
            for bucket in self._state.members.buckets.values()
            if bucket.state is BucketState.SEALED and not bucket.snapshot_lost
        ]
        sealed.sort(key=lambda bucket: (*_range(bucket), bucket.key))
        # A group is obsolete when one of its buckets is gone.
        ids = set(_bucket_ids(sealed))
        self._too_large = frozenset(group for group in self._too_large if ids.issuperset(group))
        found = group_to_merge(
            [len(bucket.bits) for bucket in sealed],
            self._state.limits.max_num_buckets,
            is_barred=lambda start, size: _bucket_ids(sealed[start : start + size]) in self._too_large,
        )
        return [] if found is None else sealed[found[0] : sum(found)]

    def _begin(self, group: list[Bucket]) -> None:
        limits = self._state.limits
        sources = []
        for bucket in group:
            bucket.merging = True
            assert bucket.snapshot is not None
            sources.append(
                MergeSource(
                    bucket.snapshot.bucket_id,
                    bucket.snapshot.bounds.segment_count,
                    bucket.bits.lend(),
                    is_foreign=bucket.snapshot.is_foreign,
                )
            )
        self._effect_id, self._sources = self._lifecycle.effects.new_id(), group
        self._lifecycle.effects.append(
            MergeSnapshots(
                effect_id=self._effect_id,
                epoch=self._state.epoch,
                sources=tuple(sources),
                first=min(_range(bucket)[0] for bucket in group),
                last=max(_range(bucket)[1] for bucket in group),
                step_ms=limits.max_step_per_segment_ms,
                count_max=limits.max_indexes_per_segment,
                seal_number=self._state.next_seal_number(),
            )
        )

    def _end(self) -> list[Bucket]:
        sources, self._sources = list(self._sources), ()
        self._effect_id = None
        for bucket in sources:
            bucket.merging = False
            bucket.bits.end_loan()
        return sources

    def merged(
        self, effect_id: int, bucket_id: int, bounds: SegmentBounds, *, snapshot_bytes: int, stored: PositionBitmap
    ) -> bool:
        """Switch from the sources to the merged snapshot, and request the deletion of the sources.

        Args:
            effect_id: id of the merge; a result with another id is ignored.
            bucket_id: id of the merged snapshot.
            bounds: its segments, at least one.
            snapshot_bytes: its size.
            stored: the positions in it.
        """
        if effect_id != self._effect_id:
            return False
        state = self._state
        sources = self._end()
        groups = SegmentGroups.of(bounds, state.limits.segment_groups_max)
        snapshot = SnapshotSegments(
            bucket_id, PackedBounds(groups), snapshot_bytes, next_group=_loaded(sources, groups.bounds)
        )
        bits, reachable = PositionBitmap(), stored.copy()
        runs = []
        for source in sources:
            self._lifecycle.loads.forget(source)
            bits.update(source.bits)
            reachable.update(state.copies.reachable(source))
            # A removed copy of one source would count again under the bit of another source for the same position.
            state.copies.drop_removed(source)
            runs += state.heap.of_bucket(source.key)
            state.unlist_bucket(source)
        first, last = min(_range(source)[0] for source in sources), max(_range(source)[1] for source in sources)
        bucket = state.insert_sealed(bits, snapshot, first, last)
        for run in runs:
            state.heap.move(run, bucket.key)
        self._lifecycle.drop_unless(bucket, reachable)
        state.counters.merges += 1
        state.counters.merged_indexes += bucket.sealed_count
        self._lifecycle.delete(_bucket_ids(sources))
        self._lifecycle.retire_if_drained(bucket)
        return True

    def failed(
        self, effect_id: int, now: Instant, *, lost_bucket_ids: Sequence[int] = (), too_large: bool = False
    ) -> bool:
        """Leave everything as it was, and retry later.

        The retry leaves out lost snapshots; if the merged snapshot was too large, another group is merged.
        """
        if effect_id != self._effect_id:
            return False
        sources = self._end()
        self._state.counters.effects_failed += 1
        if too_large:
            self._too_large |= {_bucket_ids(sources)}
        else:
            self._retry_at_ms = now.elapsed_ms + self._state.limits.retry_backoff_ms
        for bucket in sources:
            if bucket.snapshot is not None and bucket.snapshot.bucket_id in lost_bucket_ids:
                self._lifecycle.give_up_snapshot(bucket)
            else:
                self._lifecycle.retire_if_drained(bucket)
        return True

    def forget(self) -> None:
        """Forget the merge in flight, so that its result is ignored; for a clear or an adopt."""
        self._end()
        self._retry_at_ms = None
        self._barren_at = None
        self._too_large = _NONE

    def check(self) -> None:
        """Raise InvariantViolation unless exactly the sources of the merge in flight are marked.

        Unless the tracker is closed, too many buckets must lead to a merge.
        """
        marked = [bucket for bucket in self._state.members.buckets.values() if bucket.merging]
        if {bucket.key for bucket in marked} != {bucket.key for bucket in self._sources}:
            raise InvariantViolation("a bucket is marked as merging that no merge reads, or the other way round")
        if bool(self._sources) != (self._effect_id is not None):
            raise InvariantViolation("a merge is under way without sources")
        limit = self._state.limits.max_num_buckets
        over = not self._state.is_closed and limit != -1 and self._state.sealed_count > limit
        waits = self._effect_id is not None or self._retry_at_ms is not None
        if over and not waits and self._barren_at != self._state.sealed_changes:
            raise InvariantViolation("there are too many buckets, and no merge is in flight or planned")


def _range(bucket: Bucket) -> tuple[Position, Position]:
    assert bucket.first is not None
    assert bucket.last is not None
    return bucket.first, bucket.last


def _bucket_ids(buckets: Sequence[Bucket]) -> tuple[int, ...]:
    return tuple(bucket.snapshot.bucket_id for bucket in buckets if bucket.snapshot is not None)


def _loaded(sources: Sequence[Bucket], bounds: SegmentBounds) -> int:
    """Return the number of leading groups of the merged snapshot that end before the first deadline not in memory."""
    unloaded = [bucket.snapshot.next_min_ms for bucket in sources if bucket.snapshot is not None]
    first_ms = min((min_ms for min_ms in unloaded if min_ms is not None), default=None)
    if first_ms is None:
        return len(bounds)
    behind = np.flatnonzero(bounds.max_deliver_at_ms >= first_ms)
    return int(behind[0]) if len(behind) else len(bounds)
