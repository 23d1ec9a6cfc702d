"""Life cycle of buckets: sealing, deleting, and the changes that the results of effects make.

The order is always: new durable object, commit in the catalogue, switch, delete the old. A failed step leaves the state
before it, fully usable, and a wake-up for the retry.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from delayed_tracker.core.engine.effect_results import StoredPiece
from delayed_tracker.core.engine.effects import DeleteSnapshots, EffectQueue, StoreSnapshot
from delayed_tracker.core.engine.load_budget import LoadShare
from delayed_tracker.core.engine.loading import SegmentLoads
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Bucket, SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.rules.seal import FrozenIndexes, SealedIndexes
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position, before
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Instant, earliest
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.ordered_map import OrderedMap
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketState

_DOUBLINGS_MAX: Final = 8
"""Times that a pause before another attempt is doubled: 1 s becomes four minutes."""
_STORE_DOUBLINGS_MAX: Final = 3
"""Fewer, because a storage that works again should soon have what is only in memory."""


class BucketLifecycle:
    """Stores and deletions of one tracker, in flight and to be tried again; ``loads`` has its loads."""

    __slots__ = (
        "_deletes",
        "_retries",
        "_state",
        "_stores",
        "effects",
        "loads",
        "replay_required",
    )

    def __init__(self, state: TrackerState, load_share: LoadShare) -> None:
        self._state = state
        self.effects = EffectQueue()
        self.loads = SegmentLoads(state, self.effects, load_share)
        self._stores: dict[int, Bucket] = {}
        self._deletes: dict[int, DeleteSnapshots] = {}
        # (moment, number) -> the bucket to store again, or the deletion to try again
        self._retries: OrderedMap[tuple[int, int], Bucket | DeleteSnapshots] = OrderedMap()
        self.replay_required = False
        """True if positions were lost with their snapshot since this was last set to False."""

    def bring_up_to_date(self) -> None:
        """Clear the bits that wait for it, and retire the buckets that are then empty."""
        state = self._state
        state.bring_up_to_date()
        if state.drained:
            drained, state.drained = state.drained, ()
            self.retire(drained)
        self.loads.note_loaded()

    def clear_gone_bits(self) -> None:
        """Clear the bits that wait for it. Merged rows are put away only if a bucket is empty, whose runs go."""
        self._state.clear_gone_bits()
        if self._state.drained:
            self.bring_up_to_date()

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
        frozen = state.copies.freeze(bucket, state.limits)
        effect = StoreSnapshot(self.effects.new_id(), state.epoch, frozen, state.next_seal_number())
        self._stores[effect.effect_id] = bucket
        self.effects.append(effect)
        return frozen

    def snapshot_stored(
        self, effect_id: int, bucket_id: int, sealed: SealedIndexes, snapshot_bytes: int, now: Instant
    ) -> bool:
        """Switch a bucket from its copies in memory to its snapshot."""
        bucket = self._stores.pop(effect_id, None)
        if bucket is None:
            return False
        bucket.bits.end_loan()
        bucket.store_failures = 0
        state = self._state
        state.heap.drop_bucket(bucket.key)
        snapshot = self._new_snapshot(bucket_id, sealed, snapshot_bytes, now)
        state.enter_snapshot(bucket, snapshot, sealed.ledger_bytes)
        self._keep_near_rows(bucket, snapshot, sealed)
        return True

    def pieces_stored(self, effect_id: int, pieces: Sequence[StoredPiece], now: Instant) -> bool:
        """Switch from a bucket with copies in memory to a bucket for each of its snapshots. O(bitmaps of each piece)."""
        whole = self._stores.pop(effect_id, None)
        if whole is None:
            return False
        whole.bits.end_loan()
        state = self._state
        state.heap.drop_bucket(whole.key)
        state.unlist_bucket(whole)
        above = whole.bits.copy()
        for piece in pieces:
            bits = above.copy()
            above.remove_through(piece.sealed.last)
            bits.subtract(above)
            snapshot = self._new_snapshot(piece.bucket_id, piece.sealed, piece.snapshot_bytes, now)
            bucket = state.insert_sealed(bits, snapshot, piece.sealed.first, piece.sealed.last)
            self._keep_near_rows(bucket, snapshot, piece.sealed)
            self.loads.note_loaded()  # the next piece has the room that this one leaves
        return True

    def _new_snapshot(
        self, bucket_id: int, sealed: SealedIndexes, snapshot_bytes: int, now: Instant
    ) -> SnapshotSegments:
        """Return a snapshot, of which rows that are nearly due stay in memory instead of being read back."""
        groups = SegmentGroups.of(sealed.bounds, self._state.limits.segment_groups_max)
        snapshot = SnapshotSegments(bucket_id, PackedBounds(groups), snapshot_bytes)
        snapshot.next_group = self.loads.kept_groups(snapshot, now)
        return snapshot

    def _keep_near_rows(self, bucket: Bucket, snapshot: SnapshotSegments, sealed: SealedIndexes) -> None:
        near_segments = snapshot.bounds.segment_of(snapshot.next_group)
        near = sealed.indexes.take(slice(0, int(sealed.bounds.starts[near_segments])))
        # Usually nothing was consumed in the meantime. A search for a million rows would delay every add by 50 ms.
        self.loads.put(bucket, near.copy() if len(bucket.bits) == len(sealed.indexes) else _live_rows(bucket, near))
        self.retire_if_drained(bucket)

    def snapshot_failed(self, effect_id: int, now: Instant) -> bool:
        """Keep the bucket in memory and retry later, ever later up to some seconds, with the content that is left then."""
        bucket = self._stores.pop(effect_id, None)
        if bucket is None:
            return False
        bucket.bits.end_loan()
        self._state.counters.effects_failed += 1
        self._retry_later(bucket, now, doublings=min(bucket.store_failures, _STORE_DOUBLINGS_MAX))
        bucket.store_failures += 1
        self.retire_if_drained(bucket)
        return True

    @property
    def fallback_count(self) -> int:
        """Positions in memory because their snapshot could not be stored. O(seals that are not stored yet)."""
        if not self._stores and not self._retries:
            return 0
        return sum(len(bucket.bits) for bucket in self._storing() if bucket.store_failures)

    def _storing(self) -> list[Bucket]:
        """Return the buckets whose store is in flight or waits for a retry."""
        return [*self._stores.values(), *(what for what in self._retries.values() if isinstance(what, Bucket))]

    def _retry_later(self, what: Bucket | DeleteSnapshots, now: Instant, *, doublings: int = 0) -> None:
        backoff_ms = self._state.limits.retry_backoff_ms << min(doublings, _DOUBLINGS_MAX)
        self._retries[now.elapsed_ms + backoff_ms, self.effects.new_id()] = what

    def is_retry_due(self, now: Instant) -> bool:
        """Return True if :meth:`retry_due` has a store or a deletion to request again."""
        return bool(self._retries) and self._retries.first()[0][0] <= now.elapsed_ms

    def retry_due(self, now: Instant) -> None:
        """Request again every failed store and deletion whose back-off is over; ``loads`` retries loads."""
        state = self._state
        while self._retries and self._retries.first()[0][0] <= now.elapsed_ms:
            _, what = self._retries.pop_first()
            if isinstance(what, DeleteSnapshots):
                self.delete(what.bucket_ids, void_through=what.void_through, failure_count=what.failure_count)
            elif what.key in state.members.buckets:
                self._ask_to_store(what)

    def next_retry_ms(self) -> int | None:
        """Return the elapsed time at which the first failed store, deletion or load is tried again, or None."""
        retry_ms = self._retries.first()[0][0] if self._retries else None
        return earliest((retry_ms, self._state.segments.next_retry_ms()))

    # -- results of loads --------------------------------------------------------------------------------------------

    def segments_loaded(self, effect_id: int, indexes: IndexColumns, now: Instant) -> bool:
        """Put loaded rows on the heap. Rows that contradict the segment bounds mean a lost snapshot."""
        bucket = self.loads.bucket_of(effect_id)
        if bucket is None:
            return False
        if not self.loads.fits(effect_id, indexes):
            return self.segment_load_failed(effect_id, now, lost=True)
        self.loads.arrived(bucket, _live_rows(bucket, indexes))
        snapshot = bucket.snapshot
        if snapshot is not None and snapshot.is_foreign and snapshot.next_min_ms is None:
            # O(copies): a millisecond for a bucket of 50,000, once. Snapshots that are not foreign have the bits of
            # their segments.
            self.bring_up_to_date()
            self.drop_unless(bucket, self._state.copies.reachable(bucket))
            self.retire_if_drained(bucket)
        return True

    def segment_load_failed(self, effect_id: int, now: Instant, *, lost: bool) -> bool:
        """Retry later, or give up the rows that are only in a lost snapshot."""
        bucket = self.loads.bucket_of(effect_id)
        if bucket is None:
            return False
        self._state.counters.effects_failed += 1
        if lost:
            self.give_up_snapshot(bucket)
        else:
            self.loads.retry_later(bucket, now)
        return True

    def give_up_snapshot(self, bucket: Bucket) -> None:
        """Clear the bits of rows that are only in a lost snapshot, so that a replay can add them again."""
        state = self._state
        snapshot = self.loads.forget(bucket)
        self.bring_up_to_date()
        snapshot.next_group = len(snapshot.bounds)
        bucket.snapshot_lost = True
        self.drop_unless(bucket, state.copies.reachable(bucket))
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
            self.loads.forget(bucket)
            self.delete((bucket.snapshot.bucket_id,))
        self._state.remove_bucket(bucket)

    def _load_no_more(self, bucket: Bucket) -> None:
        """Drop the rows and the load of an empty bucket: its snapshot stays only because a merge reads it."""
        snapshot = self.loads.forget(bucket)
        self._state.heap.drop_bucket(bucket.key)
        snapshot.next_group = len(snapshot.bounds)
        self._state.segments.update(bucket)

    def delete(self, bucket_ids: tuple[int, ...], *, void_through: int | None = None, failure_count: int = 0) -> None:
        """Request that snapshots are removed from the catalogue and the storage.

        Without ids the effect only fences older epochs. With a number, all changes up to it are void.
        """
        effect = DeleteSnapshots(self.effects.new_id(), self._state.epoch, bucket_ids, void_through, failure_count)
        self._deletes[effect.effect_id] = effect
        self.effects.append(effect)

    def snapshots_deleted(self, effect_id: int) -> bool:
        """Forget a deletion that has succeeded."""
        return self._deletes.pop(effect_id, None) is not None

    def delete_failed(self, effect_id: int, now: Instant, *, is_dropped: bool) -> bool:
        """Request the deletion again later; ever later, up to minutes, if only objects are left that nothing names.

        A storage that never lets them be deleted would otherwise be asked every second for each drained bucket.
        """
        failed = self._deletes.pop(effect_id, None)
        if failed is None:
            return False
        self._state.counters.effects_failed += 1
        if is_dropped:
            self._retry_later(
                replace(failed, failure_count=failed.failure_count + 1), now, doublings=failed.failure_count
            )
        else:
            self._retry_later(failed, now)
        return True

    def undeleted(self) -> frozenset[int]:
        """Return the ids of buckets whose deletion is in flight or waits for a retry."""
        return frozenset(bucket_id for each in self._undone_deletions() for bucket_id in each.bucket_ids)

    def void_through(self) -> int | None:
        """Return the last change that a clear made void, if that is in flight or waits for a retry; else None."""
        numbers = [each.void_through for each in self._undone_deletions() if each.void_through is not None]
        return max(numbers, default=None)

    def _undone_deletions(self) -> list[DeleteSnapshots]:
        return [
            *self._deletes.values(),
            *(what for what in self._retries.values() if isinstance(what, DeleteSnapshots)),
        ]

    def contained_through(self) -> int:
        """Return the number of the last change whose rows are all in snapshots or gone, as are those of all before.

        O(buckets in memory). The tracker has a journal.
        """
        state = self._state
        assert state.journal is not None
        held = [
            bucket.memory.first_change
            for bucket in (state.mutable, state.late, *self._storing())
            if bucket.memory is not None and bucket.bits
        ]
        return min(held) - 1 if held else state.journal.last_number

    def stored_through(self, storing_id: int | None = None) -> Position:
        """Return the dispatcher's claim as far as snapshots cover it: it ends before the first position outside of them.

        Bits that wait to be cleared count, and make it lower. O(buckets).

        Args:
            storing_id: a store whose commit is about to be written, together with the answer.
        """
        storing = None if storing_id is None else self._stores.get(storing_id)
        outside = [
            first
            for bucket in self._state.members.buckets.values()
            if (bucket.snapshot is None or bucket.snapshot_lost) and bucket is not storing
            if (first := bucket.bits.first()) is not None
        ]
        claim = self._state.offered_through
        return min([claim, *(before(first) for first in outside)]) if claim != BEFORE_ALL else BEFORE_ALL

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
        self.loads.forget_all()
        self._deletes.clear()
        self._retries.clear()
        self.effects.keep_deletions()
        journal = self._state.journal
        self.delete(tuple(sorted(bucket_ids)), void_through=None if journal is None else journal.last_number)

    def check(self) -> None:
        """Raise InvariantViolation unless every bucket in transition has an effect in flight or a retry."""
        storing = self._storing()
        for bucket in self._state.members.buckets.values():
            waits = [stored is bucket for stored in storing].count(True)
            if (bucket.state is BucketState.SEALING) != (waits == 1) or waits > 1:
                raise InvariantViolation(
                    f"bucket {bucket.key} is {bucket.state.value} with {waits} attempts to store it"
                )
            waits_for_change = bucket in self._state.drained or bucket in self._stores.values()
            if not bucket.bits and not bucket.is_open and not bucket.merging and not waits_for_change:
                raise InvariantViolation(f"bucket {bucket.key} is drained but was not deleted")
        self.loads.check()

    def waiting_moments(self) -> list[int]:
        """Return the retry times of failed effects, read from the entries and not from the order that wakes them.

        For verification.
        """
        return [*(moment for moment, _ in self._retries), *self._state.segments.waiting_moments()]


def _live_rows(bucket: Bucket, indexes: IndexColumns) -> IndexColumns:
    """Return a copy of the rows whose positions the bucket still has."""
    return indexes.take(bucket.bits.contains(indexes.positions))
