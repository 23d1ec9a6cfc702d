"""Loads of segments: what is read, when, and within which room.

A segment is read when its first deadline is nearly due, as far as the budget of all trackers leaves room: within the
prefetch window, or within the time that a load takes if that is longer. Without room, it is read when it will be due as
soon as a load can end, and few at a time.

Segments are loaded in the groups that a tracker remembers (``SegmentGroups``); a group of few rows is one segment here.
One load takes all segments of a bucket that are wanted now, and a tracker has few loads in flight. Others wait here, in
the order of their deadlines: what becomes urgent meanwhile overtakes them, as it could not in a line of requests.
"""

from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from delayed_tracker.core.engine.effects import EffectQueue, LoadSegments
from delayed_tracker.core.engine.load_budget import LoadShare
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Bucket, SnapshotSegments
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Instant

_TOGETHER_SHARE: Final = 4
"""Buckets are read together if they would be read within this part of the time that one load covers."""
_NO_LOADS: Final[dict[int, tuple[LoadSegments, Bucket]]] = {}  # shared by idle trackers: the first entry replaces it


class _Allowed(NamedTuple):
    """Rows that a tracker may read now."""

    rows_max: int
    ahead_ms: int
    """Largest distance of their first deadline."""


class SegmentLoads:
    """Loads of one tracker, at most one for each bucket."""

    __slots__ = ("_effects", "_in_flight", "_row_count", "_state", "_together_ms", "share")

    def __init__(self, state: TrackerState, effects: EffectQueue, share: LoadShare) -> None:
        self._state = state
        self._effects = effects
        self._in_flight = _NO_LOADS
        self._row_count = 0
        """Rows of the loads in flight."""
        self._together_ms = -1
        """Buckets are read together if their first deadline is not after this one and there is spare room."""
        self.share = share
        """This tracker's share of the rows that all trackers may hold."""

    @property
    def _ahead_ms(self) -> int:
        """Time before a deadline at which its segment is loaded if there is room."""
        return max(self._state.limits.prefetch_window_ms, self.share.lead_ms)

    def _allowed(self, min_ms: int, room: int) -> _Allowed | None:
        """Return what may be in memory if its first deadline is this one; None if rows have to be handed out before.

        ``room`` is the room that the share has for that deadline.
        """
        if room:
            return _Allowed(room, self._ahead_ms)
        return None if self._must_wait(min_ms) else _Allowed(self.share.urgent_room, self.share.lead_ms)

    def kept_groups(self, snapshot: SnapshotSegments, now: Instant) -> int:
        """Return how many first groups of a new snapshot stay in memory, since they would be loaded at once."""
        first_ms = snapshot.bounds.earliest_ms(0)
        allowed = self._allowed(first_ms, self.share.room(first_ms))
        return 0 if allowed is None else self._near_groups(snapshot, 0, now, allowed)

    def _near_groups(self, snapshot: SnapshotSegments, first: int, now: Instant, allowed: _Allowed) -> int:
        """Return one past the last group to load together with ``first``, or ``first`` if that is not wanted yet.

        The groups have about as many rows as are allowed at most, but there is at least one group. Those that will
        be wanted before this load can end are taken along.
        """
        limits, rows_max = self._state.limits, allowed.rows_max
        horizon_ms = max(limits.cutoff_ms(now.wall_ms) + allowed.ahead_ms + self.share.lead_ms, self._together_ms)
        near_count = snapshot.bounds.end_before(first, horizon_ms) - first
        if not near_count:
            return first
        worth_max = self._worth_max()
        rows = snapshot.bounds.rows_through(first, first + max(near_count, worth_max))
        worth_count = int(np.searchsorted(rows, worth_max)) + 1
        fitting_count = int(np.searchsorted(rows, min(limits.load_indexes_max, rows_max), side="right"))
        return first + min(max(near_count, worth_count), max(1, fitting_count), len(rows))

    def _worth_max(self) -> int:
        """Return the rows up to which a load that is made anyway takes segments that are not near yet."""
        limits = self._state.limits
        each = limits.read_ahead_indexes // max(1, self._state.segments.bucket_count)
        return max(limits.load_indexes_min, min(each, self.share.spare_room))

    def prefetch(self, now: Instant) -> None:
        """Request every segment that is nearly due while there is room for its rows, and few loads are in flight.

        Without room, request what will be due before a load can end, as far as the share allows. When one bucket is read
        ahead, others that would soon be read are read with it: rows that come one bucket at a time would each disturb
        what was merged ahead.
        """
        state, limits, share = self._state, self._state.limits, self.share
        if share.place is not None:
            share.stop_waiting()
        state.segments.release_retries(now.elapsed_ms)
        while self._may_request and (wanted := state.segments.first_idle()) is not None:
            min_ms, key = wanted
            due_ms = limits.due_from_ms(min_ms)
            is_near = now.wall_ms >= due_ms - self._ahead_ms
            room = share.room(min_ms) if is_near else share.spare_room
            if not is_near and (min_ms > self._together_ms or not room):
                return
            if not room:
                share.wait(min_ms)
            allowed = self._allowed(min_ms, room)
            if allowed is None or (is_near and now.wall_ms < due_ms - allowed.ahead_ms):
                return
            bucket = state.members.buckets[key]
            snapshot = bucket.snapshot
            assert snapshot is not None
            first = snapshot.next_group
            end = max(first + 1, self._near_groups(snapshot, first, now, allowed))
            bounds = snapshot.bounds
            if is_near and limits.read_ahead_indexes and end < len(bounds):
                span_ms = bounds.earliest_ms(end) - min_ms
                self._together_ms = max(self._together_ms, min_ms + span_ms // _TOGETHER_SHARE)
            effect = LoadSegments(
                self._effects.new_id(),
                state.epoch,
                snapshot.bucket_id,
                bounds.segment_of(first),
                bounds.segment_of(end) - 1,
            )
            snapshot.load_effect_id, snapshot.load_first, snapshot.next_group = effect.effect_id, first, end
            if not self._in_flight:
                self._in_flight = {}
            self._in_flight[effect.effect_id] = (effect, bucket)
            self._row_count += bounds.row_count(first, end)
            state.segments.update(bucket)
            self._effects.append(effect)
            share.stop_waiting()
            self.note_loaded()

    def note_loaded(self) -> None:
        """Update the budget's count of rows of snapshots that are in memory or requested. O(1)."""
        count = self._state.heap.stored_count + self._row_count
        if count != self.share.held_count:
            self.share.hold(count)

    @property
    def _may_request(self) -> bool:
        """True if one more load may be in flight; else the result of one asks for the next."""
        return len(self._in_flight) < self._state.limits.loads_in_flight_max

    @property
    def in_flight_count(self) -> int:
        """Loads that were requested and have not ended. O(1)."""
        return len(self._in_flight)

    def _must_wait(self, min_ms: int) -> bool:
        """Return True if a tracker without room has to hand out rows before it may read one with this deadline."""
        return not self.share.urgent_room and self._comes_sooner(min_ms)

    def _comes_sooner(self, min_ms: int) -> bool:
        """Return True if a row in memory or in a load in flight is handed out before a row with this deadline.

        The head of the heap leaves a wake-up for the rest, and so does a load in flight.
        """
        head_ms = self._state.heap.head_ms
        if head_ms is not None and head_ms <= min_ms:
            return True
        return any(
            bucket.snapshot is not None and bucket.snapshot.bounds.earliest_ms(bucket.snapshot.load_first) <= min_ms
            for _, bucket in self._in_flight.values()
        )

    def next_load_ms(self) -> int | None:
        """Return the wall-clock time of the next load; None if nothing is to be loaded, or polls have to make room.

        It is None, too, if as many loads are in flight as may be.
        """
        wanted = self._state.segments.first_idle()
        if wanted is None or not self._may_request:
            return None
        min_ms = wanted[0]
        due_ms = self._state.limits.due_from_ms(min_ms)
        if self.share.place is None:
            return due_ms - self._ahead_ms
        return None if self._must_wait(min_ms) else due_ms - self.share.lead_ms

    def clearing_may_make_room(self) -> bool:
        """Return True if clearing bits or putting merged rows away may free room that a tracker waits for.

        The copies and the load in flight of a bucket count until its bits are cleared and it is known to be empty; merged
        rows count until they are put away, which is worth its cost when half of them are taken. O(1) if no tracker
        waits, else O(runs + loads).
        """
        state = self._state
        if not self.share.has_waiting_trackers:
            return False
        if state.drained or state.heap.is_half_taken:
            return True
        if not (gone_count := state.gone_count):
            return False
        holding = (state.members.buckets[run.bucket_number] for run in state.heap)
        loading = (bucket for _, bucket in self._in_flight.values())
        return any(bucket.snapshot is not None and len(bucket.bits) <= gone_count for bucket in chain(holding, loading))

    def bucket_of(self, effect_id: int) -> Bucket | None:
        """Return the bucket that waits for a load; None if the load is forgotten."""
        load = self._in_flight.get(effect_id)
        return None if load is None else load[1]

    def fits(self, effect_id: int, indexes: IndexColumns) -> bool:
        """Return False if rows contradict the bounds of the segments that the load in flight reads."""
        _, bucket = self._in_flight[effect_id]
        snapshot = bucket.snapshot
        assert snapshot is not None
        bounds = snapshot.bounds.take(snapshot.load_first, snapshot.next_group)
        if len(indexes) != int(bounds.count.sum()):
            return False
        return not len(indexes) or (  # foreign segments may be empty
            int(indexes.deliver_at_ms.min()) >= int(bounds.min_deliver_at_ms.min())
            and int(indexes.deliver_at_ms.max()) <= int(bounds.max_deliver_at_ms.max())
        )

    def arrived(self, bucket: Bucket, live: IndexColumns) -> None:
        """End the load that a bucket waits for, with the rows that count."""
        self.forget(bucket)
        self.put(bucket, live)
        self._state.segments.update(bucket)

    def put(self, bucket: Bucket, rows: IndexColumns) -> None:
        """Put live rows on the heap; they must not share memory with other rows."""
        if len(rows):
            self._state.heap.new_run(bucket.key, rows if rows.ascend() else rows.sorted(), is_stored=True)

    def retry_later(self, bucket: Bucket, now: Instant) -> None:
        """Load the same segments again after the back-off; their load has failed."""
        snapshot = self.forget(bucket)
        snapshot.next_group = snapshot.load_first
        self._state.segments.retry_later(bucket, now.elapsed_ms + self._state.limits.retry_backoff_ms)

    def forget(self, bucket: Bucket) -> SnapshotSegments:
        """Ignore the load that a bucket waits for, if there is one."""
        snapshot = bucket.snapshot
        assert snapshot is not None
        if snapshot.load_effect_id is not None:
            del self._in_flight[snapshot.load_effect_id]
            self._row_count -= snapshot.bounds.row_count(snapshot.load_first, snapshot.next_group)
            snapshot.load_effect_id = None
        return snapshot

    def forget_all(self) -> None:
        """Ignore the results of all loads in flight."""
        self._in_flight.clear()
        self._row_count = 0

    def check(self) -> None:
        """Raise InvariantViolation unless loads and buckets name each other and their rows are counted."""
        for bucket in self._state.members.buckets.values():
            effect_id = bucket.snapshot.load_effect_id if bucket.snapshot is not None else None
            if effect_id is not None and effect_id not in self._in_flight:
                raise InvariantViolation(f"bucket {bucket.key} waits for a load that is not in flight")
        row_count = 0
        for effect_id, (load, bucket) in self._in_flight.items():
            snapshot = bucket.snapshot
            if snapshot is None or not _waits_for(snapshot, load):
                raise InvariantViolation(f"load {effect_id} is in flight and bucket {bucket.key} does not wait for it")
            row_count += snapshot.bounds.row_count(snapshot.load_first, snapshot.next_group)
        if row_count != self._row_count:
            raise InvariantViolation(f"{self._row_count} rows are counted as loading, {row_count} are")
        self.share.check(self._state.heap.stored_count + self._row_count)
        self._state.segments.check(self._state.members.buckets)


def _waits_for(snapshot: SnapshotSegments, load: LoadSegments) -> bool:
    """Return True if the groups that a bucket waits for are the segments of this load."""
    bounds = snapshot.bounds
    waited = (bounds.segment_of(snapshot.load_first), bounds.segment_of(snapshot.next_group) - 1)
    return snapshot.load_effect_id == load.effect_id and waited == (load.first, load.last)
