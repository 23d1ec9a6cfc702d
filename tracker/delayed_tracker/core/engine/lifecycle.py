"""Life cycle of buckets: sealing, loading, deleting, and the changes that the results of those effects make.

The order is always: new durable object, commit in the catalogue, switch, delete the old. A failed step leaves the state
before it, fully usable, and a wake-up for the retry.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from delayed_tracker.core.engine.effects import DeleteSnapshots, Effect, LoadSegments, StoreSnapshot
from delayed_tracker.core.engine.load_budget import LoadShare
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Bucket, SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.rules.seal import FrozenIndexes, SealedIndexes
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Instant, Wakeup, earliest
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.ordered_map import OrderedMap
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketState


class BucketLifecycle:
    """Effects of one tracker: requested, in flight, and to be tried again."""

    __slots__ = (
        "_deletes",
        "_effects",
        "_loading_count",
        "_loads",
        "_next_effect_id",
        "_retries",
        "_state",
        "_stores",
        "load_share",
        "replay_required",
    )

    def __init__(self, state: TrackerState, load_share: LoadShare) -> None:
        self._state = state
        self.load_share = load_share
        """This tracker's share of the rows that all trackers may hold."""
        self._effects: list[Effect] = []
        self._next_effect_id = 1
        self._stores: dict[int, Bucket] = {}
        self._loads: dict[int, tuple[LoadSegments, Bucket]] = {}
        self._loading_count = 0
        self._deletes: dict[int, DeleteSnapshots] = {}
        # (moment, number) -> the bucket to store again, or the deletion to try again
        self._retries: OrderedMap[tuple[int, int], Bucket | DeleteSnapshots] = OrderedMap()
        self.replay_required = False
        """True if positions were lost with their snapshot since this was last set to False."""

    def take_effects(self) -> list[Effect]:
        """Return the effects requested since the last call, in order; the caller performs them."""
        effects, self._effects = self._effects, []
        return effects

    def new_effect_id(self) -> int:
        """Return an id that no effect and no retry has had."""
        self._next_effect_id += 1
        return self._next_effect_id - 1

    def emit(self, effect: Effect) -> None:
        """Add an effect to those that :meth:`take_effects` returns."""
        self._effects.append(effect)

    def settle_bits(self) -> None:
        """Clear the bits that wait for it, and retire the buckets that are then empty."""
        state = self._state
        state.settle_bits()
        if state.drained:
            drained, state.drained = state.drained, ()
            self.retire(drained)
        self.note_loaded()

    def retire(self, buckets: Sequence[Bucket]) -> None:
        """Retire each bucket that has no bits left."""
        for bucket in buckets:
            self.retire_if_drained(bucket)

    # -- sealing -----------------------------------------------------------------------------------------------------

    def seal(self, bucket: Bucket) -> None:
        """Freeze an open bucket that is not empty and put an empty one in its place. O(runs)."""
        state = self._state
        frozen = self._ask_to_store(bucket)
        if bucket is state.mutable:
            state.mutable = state.members.open_bucket(BucketState.MUTABLE)
        else:
            assert bucket is state.late
            state.late = state.members.open_bucket(BucketState.LATE)
        bucket.state = BucketState.SEALING
        bucket.first, bucket.last, bucket.sealed_count = frozen.first, frozen.last, len(frozen)
        state.members.note_range(bucket)
        state.account(bucket)

    def seal_filled(self, *buckets: Bucket) -> int:
        """Seal the open buckets that are not empty, and return the number of their positions; 0 in a tracker in memory."""
        if self._state.limits.kind is TrackerKind.IN_MEMORY:
            return 0
        filled = [bucket for bucket in buckets if bucket.bits]
        count = sum(len(bucket.bits) for bucket in filled)
        for bucket in filled:
            self.seal(bucket)
        return count

    def _ask_to_store(self, bucket: Bucket) -> FrozenIndexes:
        """Freeze the content of a bucket in memory, and request that it is stored."""
        state = self._state
        frozen = state.freeze(bucket)
        effect = StoreSnapshot(self.new_effect_id(), state.epoch, frozen, state.next_seal_number())
        self._stores[effect.effect_id] = bucket
        self._effects.append(effect)
        return frozen

    def snapshot_stored(
        self, effect_id: int, bucket_id: int, sealed: SealedIndexes, snapshot_bytes: int, now: Instant
    ) -> bool:
        """Switch a bucket from its copies in memory to its snapshot."""
        bucket = self._stores.pop(effect_id, None)
        if bucket is None:
            return False
        bucket.bits.end_loan()
        bucket.store_failed = False
        state = self._state
        state.forget_copies(bucket)
        snapshot = SnapshotSegments(bucket_id, PackedBounds(sealed.bounds), snapshot_bytes)
        # Keep rows that are nearly due in memory instead of reading them back, as far as there is room.
        if room := self.load_share.room(snapshot.bounds.earliest_ms(0)):
            snapshot.next_segment = self._near_segments(snapshot, 0, now, rows_max=room)
        state.enter_snapshot(bucket, snapshot, sealed.ledger_bytes)
        near = sealed.indexes.take(slice(0, int(sealed.bounds.starts[snapshot.next_segment])))
        # Usually nothing was consumed in the meantime. A search for a million rows would delay every add by 50 ms.
        self._put_loaded(bucket, near.copy() if len(bucket.bits) == len(sealed.indexes) else _live_rows(bucket, near))
        self.retire_if_drained(bucket)
        return True

    def snapshot_failed(self, effect_id: int, now: Instant) -> bool:
        """Keep the bucket in memory and retry later, with the content that is left then."""
        bucket = self._stores.pop(effect_id, None)
        if bucket is None:
            return False
        bucket.bits.end_loan()
        bucket.store_failed = True
        self._state.counters.effects_failed += 1
        self._retry_later(bucket, now)
        self.retire_if_drained(bucket)
        return True

    @property
    def fallback_count(self) -> int:
        """Positions in memory because their snapshot could not be stored. O(seals that are not stored yet)."""
        if not self._stores and not self._retries:
            return 0
        waiting = [what for what in self._retries.values() if isinstance(what, Bucket)]
        return sum(len(bucket.bits) for bucket in (*self._stores.values(), *waiting) if bucket.store_failed)

    def _retry_later(self, what: Bucket | DeleteSnapshots, now: Instant) -> None:
        self._retries[now.elapsed_ms + self._state.limits.retry_backoff_ms, self.new_effect_id()] = what

    def is_retry_due(self, now: Instant) -> bool:
        """Return True if :meth:`retry_due` has a store or a deletion to request again."""
        return bool(self._retries) and self._retries.first()[0][0] <= now.elapsed_ms

    def retry_due(self, now: Instant) -> None:
        """Request again every failed store and deletion whose back-off is over; :meth:`prefetch` retries loads."""
        state = self._state
        while self._retries and self._retries.first()[0][0] <= now.elapsed_ms:
            _, what = self._retries.pop_first()
            if isinstance(what, DeleteSnapshots):
                self.delete(what.bucket_ids, void_through=what.void_through)
            elif what.key in state.members.buckets:
                self._ask_to_store(what)

    # -- loading -----------------------------------------------------------------------------------------------------

    def _near_segments(self, snapshot: SnapshotSegments, first: int, now: Instant, *, rows_max: int) -> int:
        """Return one past the last segment to load together with ``first``, or ``first`` if that is not near.

        The segments have about ``rows_max`` rows at most, but there is at least one segment.
        """
        limits = self._state.limits
        horizon_ms = limits.cutoff_ms(now.wall_ms) + limits.prefetch_window_ms
        near_count = snapshot.bounds.end_before(first, horizon_ms) - first
        if not near_count:
            return first
        rows = snapshot.bounds.rows_through(first, first + max(near_count, limits.load_indexes_min))
        worth_count = int(np.searchsorted(rows, limits.load_indexes_min)) + 1
        fitting_count = int(np.searchsorted(rows, min(limits.load_indexes_max, rows_max), side="right"))
        return first + min(max(near_count, worth_count), max(1, fitting_count), len(rows))

    def prefetch(self, now: Instant) -> None:
        """Request every segment that is nearly due while there is room for its rows.

        Without room, request one segment if it is due.
        """
        state, limits, share = self._state, self._state.limits, self.load_share
        if share.place is not None:
            share.stop_waiting()
        state.segments.release_retries(now.elapsed_ms)
        while (wanted := state.segments.first_idle()) is not None:
            min_ms, key = wanted
            due_ms = limits.due_from_ms(min_ms)
            if now.wall_ms < due_ms - limits.prefetch_window_ms:
                return
            room = share.room(min_ms)
            if not room:
                share.wait(min_ms)
                if now.wall_ms < due_ms or self._comes_sooner(min_ms):
                    return
            bucket = state.members.buckets[key]
            snapshot = bucket.snapshot
            assert snapshot is not None
            first = snapshot.next_segment
            end = max(first + 1, self._near_segments(snapshot, first, now, rows_max=room))
            effect = LoadSegments(self.new_effect_id(), state.epoch, snapshot.bucket_id, first, end - 1)
            snapshot.load_effect_id, snapshot.load_first, snapshot.next_segment = effect.effect_id, first, end
            self._loads[effect.effect_id] = (effect, bucket)
            self._loading_count += snapshot.bounds.row_count(first, end)
            state.segments.update(bucket)
            self._effects.append(effect)
            share.stop_waiting()
            self.note_loaded()

    def note_loaded(self) -> None:
        """Update the budget's count of rows of snapshots that are in memory or requested. O(1)."""
        count = self._state.heap.stored_count + self._loading_count
        if count != self.load_share.held_count:
            self.load_share.hold(count)

    def _comes_sooner(self, min_ms: int) -> bool:
        """Return True if a row in memory or in a load in flight is handed out before a row with this deadline.

        The head of the heap leaves a wake-up for the rest, and so does a load in flight.
        """
        head_ms = self._state.heap.head_ms
        if head_ms is not None and head_ms <= min_ms:
            return True
        return any(
            bucket.snapshot is not None and bucket.snapshot.bounds.earliest_ms(load.first) <= min_ms
            for load, bucket in self._loads.values()
        )

    def _next_load_ms(self, min_ms: int) -> int | None:
        """Return the wall-clock time to load the idle segment with this first deadline.

        None if the load starts when polls have made room.
        """
        limits = self._state.limits
        due_ms = limits.due_from_ms(min_ms)
        if self.load_share.place is None:
            return due_ms - limits.prefetch_window_ms
        return None if self._comes_sooner(min_ms) else due_ms

    def settling_may_make_room(self) -> bool:
        """Return True if clearing bits may free room that another tracker waits for.

        The copies and the load in flight of a bucket count until its bits are cleared and it is known to be empty. O(1)
        if no tracker waits, else O(runs + loads).
        """
        state = self._state
        if not self.load_share.has_waiting_trackers:
            return False
        if state.drained:
            return True
        if not (gone_count := state.gone_count):
            return False
        holding = (state.members.buckets[run.bucket_number] for run in state.heap)
        loading = (bucket for _, bucket in self._loads.values())
        return any(bucket.snapshot is not None and len(bucket.bits) <= gone_count for bucket in chain(holding, loading))

    def next_wakeup(self) -> Wakeup:
        """Return the times of the next prefetch, on the wall clock, and of the next retry, in elapsed time."""
        wanted = self._state.segments.first_idle()
        retry_ms = self._retries.first()[0][0] if self._retries else None
        return Wakeup(
            None if wanted is None else self._next_load_ms(wanted[0]),
            earliest((retry_ms, self._state.segments.next_retry_ms())),
        )

    def _forget_load(self, load: LoadSegments, bucket: Bucket) -> SnapshotSegments:
        snapshot = bucket.snapshot
        assert snapshot is not None
        self._loading_count -= snapshot.bounds.row_count(load.first, load.last + 1)
        snapshot.load_effect_id = None
        return snapshot

    def segments_loaded(self, effect_id: int, indexes: IndexColumns, now: Instant) -> bool:
        """Put loaded rows on the heap. Rows that contradict the segment bounds mean a lost snapshot."""
        if effect_id not in self._loads:
            return False
        load, bucket = self._loads[effect_id]
        snapshot = bucket.snapshot
        assert snapshot is not None
        bounds = snapshot.bounds.take(load.first, load.last + 1)
        if len(indexes) != int(bounds.count.sum()) or (
            len(indexes)  # foreign segments may be empty
            and (
                int(indexes.deliver_at_ms.min()) < int(bounds.min_deliver_at_ms.min())
                or int(indexes.deliver_at_ms.max()) > int(bounds.max_deliver_at_ms.max())
            )
        ):
            return self.segment_load_failed(effect_id, now, lost=True)
        del self._loads[effect_id]
        self._forget_load(load, bucket)
        self._put_loaded(bucket, _live_rows(bucket, indexes))
        self._state.segments.update(bucket)
        if snapshot.is_foreign and snapshot.next_min_ms is None:
            # O(copies): a millisecond for a bucket of 50,000, once. Snapshots that are not foreign have the bits of
            # their segments.
            self.settle_bits()
            self.drop_unless(bucket, self._state.reachable_in_memory(bucket))
            self.retire_if_drained(bucket)
        return True

    def _put_loaded(self, bucket: Bucket, rows: IndexColumns) -> None:
        """Put live rows on the heap; they must not share memory with other rows."""
        if len(rows):
            self._state.heap.new_run(bucket.key, rows if rows.ascend() else rows.sorted(), is_stored=True)

    def segment_load_failed(self, effect_id: int, now: Instant, *, lost: bool) -> bool:
        """Retry later, or give up the rows that are only in a lost snapshot."""
        if effect_id not in self._loads:
            return False
        load, bucket = self._loads.pop(effect_id)
        state = self._state
        state.counters.effects_failed += 1
        snapshot = self._forget_load(load, bucket)
        if not lost:
            snapshot.next_segment = load.first
            state.segments.retry_later(bucket, now.elapsed_ms + state.limits.retry_backoff_ms)
            return True
        self.give_up_snapshot(bucket)
        return True

    def forget_load_of(self, bucket: Bucket) -> None:
        """Ignore the load that a bucket waits for, if there is one."""
        if bucket.snapshot is not None and bucket.snapshot.load_effect_id is not None:
            load, _ = self._loads.pop(bucket.snapshot.load_effect_id)
            self._forget_load(load, bucket)

    def give_up_snapshot(self, bucket: Bucket) -> None:
        """Clear the bits of rows that are only in a lost snapshot, so that a replay can add them again."""
        state = self._state
        self.forget_load_of(bucket)
        self.settle_bits()
        assert bucket.snapshot is not None
        bucket.snapshot.next_segment = len(bucket.snapshot.bounds)
        bucket.snapshot_lost = True
        self.drop_unless(bucket, state.reachable_in_memory(bucket))
        self.replay_required = True
        state.segments.update(bucket)
        self.retire_if_drained(bucket)

    def drop_unless(self, bucket: Bucket, reachable: PositionBitmap) -> None:
        """Drop and count the bits that are not in ``reachable``, and request a replay; do nothing if there are none."""
        unreachable = bucket.bits.copy()
        unreachable.subtract(reachable)
        if not unreachable:
            return
        self._state.members.subtract(bucket, unreachable)
        self._state.counters.tracked -= len(unreachable)
        self._state.counters.dropped_as_corrupt += len(unreachable)
        self._state.account(bucket)
        self.replay_required = True
        lowest = unreachable.first()
        assert lowest is not None
        self._state.offer_again_from(lowest)

    # -- deleting ----------------------------------------------------------------------------------------------------

    def retire_if_drained(self, bucket: Bucket) -> None:
        """Forget a sealed bucket without bits, and request the deletion of its snapshot; one being stored waits.

        Call it for every bucket that has lost bits.
        """
        if bucket.key in self._state.members.buckets:
            self._state.account(bucket)
        if bucket.bits or bucket.is_open or bucket.key not in self._state.members.buckets:
            return
        if bucket in self._stores.values():
            return
        if bucket.merging:
            self._load_no_more(bucket)
            return
        if bucket.snapshot is not None:
            self.forget_load_of(bucket)
            self.delete((bucket.snapshot.bucket_id,))
        self._state.remove_bucket(bucket)

    def _load_no_more(self, bucket: Bucket) -> None:
        """Drop the rows and the load of an empty bucket: its snapshot stays only because a merge reads it."""
        assert bucket.snapshot is not None
        self.forget_load_of(bucket)
        self._state.forget_copies(bucket)
        bucket.snapshot.next_segment = len(bucket.snapshot.bounds)
        self._state.segments.update(bucket)

    def delete(self, bucket_ids: tuple[int, ...], *, void_through: int | None = None) -> None:
        """Request that snapshots are removed from the catalogue and the storage.

        Without ids the effect only fences older epochs. With a number, all changes up to it are void.
        """
        effect = DeleteSnapshots(self.new_effect_id(), self._state.epoch, bucket_ids, void_through)
        self._deletes[effect.effect_id] = effect
        self._effects.append(effect)

    def snapshots_deleted(self, effect_id: int) -> bool:
        """Forget a deletion that has succeeded."""
        return self._deletes.pop(effect_id, None) is not None

    def delete_failed(self, effect_id: int, now: Instant) -> bool:
        """Request the deletion again later."""
        failed = self._deletes.pop(effect_id, None)
        if failed is None:
            return False
        self._state.counters.effects_failed += 1
        self._retry_later(failed, now)
        return True

    def undeleted(self) -> frozenset[int]:
        """Return the ids of buckets whose deletion is in flight or waits for a retry."""
        waiting = [what for what in self._retries.values() if isinstance(what, DeleteSnapshots)]
        return frozenset(bucket_id for each in (*self._deletes.values(), *waiting) for bucket_id in each.bucket_ids)

    def contained_through(self) -> int:
        """Return the number of the last change whose rows are all in snapshots or gone, as are those of all before.

        O(buckets in memory). The tracker has a journal.
        """
        state = self._state
        assert state.journal is not None
        retrying = [what for what in self._retries.values() if isinstance(what, Bucket)]
        held = [
            bucket.memory.first_change
            for bucket in (state.mutable, state.late, *self._stores.values(), *retrying)
            if bucket.memory is not None and bucket.bits
        ]
        return min(held) - 1 if held else state.journal.last_number

    def forget_all(self, unwanted: Sequence[int] = ()) -> None:
        """Forget all effects and request the deletion of all snapshots; for a clear or an adopt.

        Results of effects requested earlier are ignored.

        Args:
            unwanted: ids of other buckets to delete in the same step.
        """
        bucket_ids = {
            bucket.snapshot.bucket_id for bucket in self._state.members.buckets.values() if bucket.snapshot is not None
        }
        bucket_ids |= self.undeleted().union(unwanted)
        self._stores.clear()
        self._loads.clear()
        self._loading_count = 0
        self._deletes.clear()
        self._retries.clear()
        self._effects = [effect for effect in self._effects if isinstance(effect, DeleteSnapshots)]
        journal = self._state.journal
        self.delete(tuple(sorted(bucket_ids)), void_through=None if journal is None else journal.last_number)

    def check(self) -> None:
        """Raise InvariantViolation unless every bucket in transition has an effect in flight or a retry."""
        retrying = [what for what in self._retries.values() if isinstance(what, Bucket)]
        for bucket in self._state.members.buckets.values():
            waits = [stored is bucket for stored in self._stores.values()].count(True)
            waits += [other is bucket for other in retrying].count(True)
            if (bucket.state is BucketState.SEALING) != (waits == 1) or waits > 1:
                raise InvariantViolation(
                    f"bucket {bucket.key} is {bucket.state.value} with {waits} attempts to store it"
                )
            waits_for_change = bucket in self._state.drained or bucket in self._stores.values()
            if not bucket.bits and not bucket.is_open and not bucket.merging and not waits_for_change:
                raise InvariantViolation(f"bucket {bucket.key} is drained but was not deleted")
            effect_id = bucket.snapshot.load_effect_id if bucket.snapshot is not None else None
            if effect_id is not None and effect_id not in self._loads:
                raise InvariantViolation(f"bucket {bucket.key} waits for a load that is not in flight")
        for effect_id, (load, bucket) in self._loads.items():
            snapshot = bucket.snapshot
            waiting = (snapshot.load_effect_id, snapshot.load_first, snapshot.next_segment) if snapshot else None
            if waiting != (effect_id, load.first, load.last + 1):
                raise InvariantViolation(f"load {effect_id} is in flight and bucket {bucket.key} does not wait for it")
        loading = sum(
            bucket.snapshot.bounds.row_count(load.first, load.last + 1)
            for load, bucket in self._loads.values()
            if bucket.snapshot is not None
        )
        if loading != self._loading_count:
            raise InvariantViolation(f"{self._loading_count} rows are counted as loading, {loading} are")
        self.load_share.check(self._state.heap.stored_count + self._loading_count)
        self._state.segments.check(self._state.members.buckets)

    def waiting_moments(self) -> list[int]:
        """Return the retry times of failed effects, read from the entries and not from the order that wakes them.

        For verification.
        """
        return [*(moment for moment, _ in self._retries), *self._state.segments.waiting_moments()]


def _live_rows(bucket: Bucket, indexes: IndexColumns) -> IndexColumns:
    """Return a copy of the rows whose positions the bucket still has."""
    return indexes.take(bucket.bits.contains(indexes.positions))
