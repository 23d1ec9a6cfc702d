"""Merging: which sealed buckets become one, and the switch once their merged snapshot is durable.

Delivery goes on meanwhile: the sources keep their bits, their copies and their loads until the merged snapshot has taken
their place in the catalogue. Then one home takes over everything they still track; what they had loaded stays loaded.

Source: PIP-195 "Merge delayed message index buckets"; Pulsar's ``asyncMergeBucketSnapshot``. It differs in merging whole
snapshots instead of the segments that are not loaded yet (apache/pulsar #26251 lost the others), and in deleting the
sources only after the merged snapshot is durable and catalogued (#26239).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from delayed_tracker.core.engine.effects import MergeSnapshots, MergeSource
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Home, SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.rules.merge_plan import group_to_merge
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketState

_NONE: Final[frozenset[tuple[int, ...]]] = (
    frozenset()
)  # shared: an empty one of its own would cost each tracker 216 bytes


class BucketMerger:
    """At most one merge at a time for each tracker."""

    __slots__ = ("_barren_at", "_effect_id", "_lifecycle", "_retry_at_ms", "_sources", "_state", "_too_large")

    def __init__(self, state: TrackerState, lifecycle: BucketLifecycle) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._effect_id: int | None = None
        self._sources: Sequence[Home] = ()
        self._retry_at_ms: int | None = None
        self._barren_at: int | None = None
        """With the stored buckets of this moment no group could be merged: no need to look again before one comes or goes."""
        self._too_large: frozenset[tuple[int, ...]] = _NONE
        """Groups, by bucket ids, whose merged metadata would exceed an entry."""

    def next_retry_ms(self) -> int | None:
        """When a merge that failed is tried again, in elapsed time, or None."""
        return self._retry_at_ms

    @property
    def backlog(self) -> int:
        """How many sealed buckets there are above the limit. O(1)."""
        limit = self._state.limits.max_num_buckets
        return 0 if limit == -1 else max(0, self._state.sealed_count - limit)

    def is_wanted(self, now: Instant) -> bool:
        """Whether :meth:`merge_if_needed` has to look for buckets to merge. O(1)."""
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
        """Ask for a merge if there are more sealed buckets than allowed and none is under way. O(1) if not."""
        if not self.is_wanted(now):
            return
        self._retry_at_ms = None
        group = self._choose()
        if not group:
            self._barren_at = self._state.sealed_changes
            return
        self._begin(group)

    def _choose(self) -> list[Home]:
        sealed = [
            home
            for home in self._state.members.homes.values()
            if home.state is BucketState.SEALED and not home.snapshot_lost
        ]
        sealed.sort(key=lambda home: (*_range(home), home.key))
        # Groups of which a bucket has gone never come again.
        ids = set(_bucket_ids(sealed))
        self._too_large = frozenset(group for group in self._too_large if ids.issuperset(group))
        found = group_to_merge(
            [len(home.bits) for home in sealed],
            self._state.limits.max_num_buckets,
            is_barred=lambda start, size: _bucket_ids(sealed[start : start + size]) in self._too_large,
        )
        return [] if found is None else sealed[found[0] : sum(found)]

    def _begin(self, group: list[Home]) -> None:
        limits = self._state.limits
        sources = []
        for home in group:
            home.merging = True
            assert home.snapshot is not None
            sources.append(MergeSource(home.snapshot.bucket_id, len(home.snapshot.bounds), home.bits.lend()))
        self._effect_id, self._sources = self._lifecycle.new_effect_id(), group
        self._lifecycle.emit(
            MergeSnapshots(
                effect_id=self._effect_id,
                epoch=self._state.epoch,
                sources=tuple(sources),
                first=min(_range(home)[0] for home in group),
                last=max(_range(home)[1] for home in group),
                step_ms=limits.max_step_per_segment_ms,
                count_max=limits.max_indexes_per_segment,
                seal_number=self._state.next_seal_number(),
            )
        )

    def _end(self) -> list[Home]:
        sources, self._sources = list(self._sources), ()
        self._effect_id = None
        for home in sources:
            home.merging = False
            home.bits.end_loan()
        return sources

    def merged(
        self, effect_id: int, bucket_id: int, bounds: SegmentBounds, *, snapshot_bytes: int, stored: PositionBitmap
    ) -> bool:
        """Switch from the sources to the merged snapshot, and ask for the sources' deletion.

        Args:
            effect_id: of the merge; another is ignored.
            bucket_id: the merged snapshot's.
            bounds: its segments, at least one.
            snapshot_bytes: its size.
            stored: the positions in it.
        """
        if effect_id != self._effect_id:
            return False
        state = self._state
        sources = self._end()
        snapshot = SnapshotSegments(
            bucket_id, PackedBounds(bounds), snapshot_bytes, next_segment=_loaded(sources, bounds)
        )
        bits, reachable = PositionBitmap(), stored.copy()
        runs = []
        for source in sources:
            self._lifecycle.forget_load_of(source)
            bits.update(source.bits)
            reachable.update(state.reachable_in_memory(source))
            # A dead copy of one source would count under another's bit of the same position.
            state.drop_dead_copies(source)
            runs += state.heap.of_home(source.key)
            state.unlist_home(source)
        first, last = min(_range(source)[0] for source in sources), max(_range(source)[1] for source in sources)
        home = state.insert_sealed(bits, snapshot, first, last)
        for run in runs:
            state.heap.move(run, home.key)
        self._lifecycle.drop_unless(home, reachable)
        state.counters.merges += 1
        state.counters.merged_indexes += home.sealed_count
        self._lifecycle.delete(_bucket_ids(sources))
        self._lifecycle.retire_if_drained(home)
        return True

    def failed(
        self, effect_id: int, now: Instant, *, lost_bucket_ids: Sequence[int] = (), too_large: bool = False
    ) -> bool:
        """Leave everything as it was, and try again later: without what is lost, with another group if it was too large."""
        if effect_id != self._effect_id:
            return False
        sources = self._end()
        self._state.counters.effects_failed += 1
        if too_large:
            self._too_large |= {_bucket_ids(sources)}
        else:
            self._retry_at_ms = now.elapsed_ms + self._state.limits.retry_backoff_ms
        for home in sources:
            if home.snapshot is not None and home.snapshot.bucket_id in lost_bucket_ids:
                self._lifecycle.give_up_snapshot(home)
            else:
                self._lifecycle.retire_if_drained(home)
        return True

    def forget(self) -> None:
        """A barrier has passed: the result of a merge under way is ignored."""
        self._end()
        self._retry_at_ms = None
        self._barren_at = None
        self._too_large = _NONE

    def check(self, *, planning: bool) -> None:
        """Raise InvariantViolation unless exactly the sources of the merge under way are marked.

        Args:
            planning: whether merges are still begun; then too many buckets must have one coming.
        """
        marked = [home for home in self._state.members.homes.values() if home.merging]
        if {home.key for home in marked} != {home.key for home in self._sources}:
            raise InvariantViolation("a bucket is marked as merging that no merge reads, or the other way round")
        if bool(self._sources) != (self._effect_id is not None):
            raise InvariantViolation("a merge is under way without sources")
        limit = self._state.limits.max_num_buckets
        over = planning and limit != -1 and self._state.sealed_count > limit
        waits = self._effect_id is not None or self._retry_at_ms is not None
        if over and not waits and self._barren_at != self._state.sealed_changes:
            raise InvariantViolation("there are too many buckets, and nobody is going to merge them")


def _range(home: Home) -> tuple[Position, Position]:
    assert home.first is not None
    assert home.last is not None
    return home.first, home.last


def _bucket_ids(homes: Sequence[Home]) -> tuple[int, ...]:
    return tuple(home.snapshot.bucket_id for home in homes if home.snapshot is not None)


def _loaded(sources: Sequence[Home], bounds: SegmentBounds) -> int:
    """How many leading segments of the merged snapshot lie wholly before everything that is not in memory."""
    unloaded = [home.snapshot.next_min_ms for home in sources if home.snapshot is not None]
    first_ms = min((min_ms for min_ms in unloaded if min_ms is not None), default=None)
    if first_ms is None:
        return len(bounds)
    behind = np.flatnonzero(bounds.max_deliver_at_ms >= first_ms)
    return int(behind[0]) if len(behind) else len(bounds)
