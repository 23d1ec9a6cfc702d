"""The life of buckets: sealing, loading, deleting, and what the results of those effects change.

The order is always: new durable object, commit in the catalogue, switch, delete the old (design: invariant 6). A failed
step leaves the state before it, fully usable, and a wake-up to try again.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from delayed_tracker.core.engine.effects import DeleteSnapshots, Effect, LoadSegments, StoreSnapshot
from delayed_tracker.core.engine.load_budget import LoadShare
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Home, SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.rules.seal import FrozenIndexes, SealedIndexes
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Instant, Wakeup, earliest
from delayed_tracker.core.values.ordered_map import OrderedMap
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketState


class BucketLifecycle:
    """Effects asked for, in flight, and to be tried again; one for each tracker."""

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
        """Its part of the rows that all trackers may hold."""
        self._effects: list[Effect] = []
        self._next_effect_id = 1
        self._stores: dict[int, Home] = {}
        self._loads: dict[int, tuple[LoadSegments, Home]] = {}
        self._loading_count = 0
        self._deletes: dict[int, tuple[int, ...]] = {}
        # (moment, number) -> the home to store again, or the bucket ids to delete again
        self._retries: OrderedMap[tuple[int, int], Home | tuple[int, ...]] = OrderedMap()
        self.replay_required = False
        """Positions were lost with their snapshot since this was last set to False."""

    def take_effects(self) -> list[Effect]:
        """Effects asked for since the last call, in order; the caller performs them."""
        effects, self._effects = self._effects, []
        return effects

    def new_effect_id(self) -> int:
        """An id that no effect and no retry had."""
        self._next_effect_id += 1
        return self._next_effect_id - 1

    def emit(self, effect: Effect) -> None:
        """Ask for an effect."""
        self._effects.append(effect)

    def settle_bits(self) -> None:
        """Clear the bits that wait for it, and retire the homes that this has drained."""
        state = self._state
        state.settle_bits()
        if state.drained:
            drained, state.drained = state.drained, ()
            self.retire(drained)
        self.note_loaded()

    def retire(self, homes: Sequence[Home]) -> None:
        """Retire each bucket that has no bits left."""
        for home in homes:
            self.retire_if_drained(home)

    # -- sealing -----------------------------------------------------------------------------------------------------

    def seal(self, home: Home) -> None:
        """Freeze an open home that is not empty and put an empty one in its place. O(runs) for the caller."""
        state = self._state
        frozen = self._ask_to_store(home)
        if home is state.mutable:
            state.mutable = state.members.open_home(BucketState.MUTABLE)
        else:
            assert home is state.late
            state.late = state.members.open_home(BucketState.LATE)
        home.state = BucketState.SEALING
        home.first, home.last, home.sealed_count = frozen.first, frozen.last, len(frozen)
        state.members.note_range(home)
        state.account(home)

    def _ask_to_store(self, home: Home) -> FrozenIndexes:
        """Freeze what a home in memory holds now, and ask for it to be stored."""
        state = self._state
        frozen = state.freeze(home)
        effect = StoreSnapshot(self.new_effect_id(), state.epoch, frozen, state.next_seal_number())
        self._stores[effect.effect_id] = home
        self._effects.append(effect)
        return frozen

    def snapshot_stored(
        self, effect_id: int, bucket_id: int, sealed: SealedIndexes, snapshot_bytes: int, now: Instant
    ) -> bool:
        """Switch a home from its copies in memory to its snapshot."""
        home = self._stores.pop(effect_id, None)
        if home is None:
            return False
        home.bits.end_loan()
        home.store_failed = False
        state = self._state
        state.forget_copies(home)
        snapshot = SnapshotSegments(bucket_id, PackedBounds(sealed.bounds), snapshot_bytes)
        # What is nearly due is at hand: keep it instead of reading it back, as far as there is room.
        if room := self.load_share.room(snapshot.bounds.earliest_ms(0)):
            snapshot.next_segment = self._near_segments(snapshot, 0, now, rows_max=room)
        state.enter_snapshot(home, snapshot, sealed.ledger_bytes)
        near = sealed.indexes.take(slice(0, int(sealed.bounds.starts[snapshot.next_segment])))
        # As a rule nothing was consumed while it was stored; looking up a million rows would hold up every add for 50 ms.
        self._put_loaded(home, near.copy() if len(home.bits) == len(sealed.indexes) else _live_rows(home, near))
        self.retire_if_drained(home)
        return True

    def snapshot_failed(self, effect_id: int, now: Instant) -> bool:
        """Keep the home in memory and try again later, with what is left of it then."""
        home = self._stores.pop(effect_id, None)
        if home is None:
            return False
        home.bits.end_loan()
        home.store_failed = True
        self._state.counters.effects_failed += 1
        self._retry_later(home, now)
        self.retire_if_drained(home)
        return True

    @property
    def fallback_count(self) -> int:
        """Positions that stay in memory because their snapshot could not be stored. O(seals that are not stored yet)."""
        if not self._stores and not self._retries:
            return 0
        waiting = [what for what in self._retries.values() if isinstance(what, Home)]
        return sum(len(home.bits) for home in (*self._stores.values(), *waiting) if home.store_failed)

    def _retry_later(self, what: Home | tuple[int, ...], now: Instant) -> None:
        self._retries[now.elapsed_ms + self._state.limits.retry_backoff_ms, self.new_effect_id()] = what

    def is_retry_due(self, now: Instant) -> bool:
        """Whether :meth:`retry_due` has a store or a deletion to ask for again."""
        return bool(self._retries) and self._retries.first()[0][0] <= now.elapsed_ms

    def retry_due(self, now: Instant) -> None:
        """Ask again for every failed store and deletion whose waiting time is over; :meth:`prefetch` does for loads."""
        state = self._state
        while self._retries and self._retries.first()[0][0] <= now.elapsed_ms:
            _, what = self._retries.pop_first()
            if isinstance(what, tuple):
                self.delete(what)
            elif what.key in state.members.homes:
                self._ask_to_store(what)

    # -- loading -----------------------------------------------------------------------------------------------------

    def _near_segments(self, snapshot: SnapshotSegments, first: int, now: Instant, *, rows_max: int) -> int:
        """One past the last segment worth loading together with ``first`` (or ``first``, if that is not near).

        They have about ``rows_max`` rows at most, at least one segment.
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
        """Ask for every segment that is nearly due while there is room for its rows, else for one if it is due."""
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
            home = state.members.homes[key]
            snapshot = home.snapshot
            assert snapshot is not None
            first = snapshot.next_segment
            end = max(first + 1, self._near_segments(snapshot, first, now, rows_max=room))
            effect = LoadSegments(self.new_effect_id(), state.epoch, snapshot.bucket_id, first, end - 1)
            snapshot.load_effect_id, snapshot.load_first, snapshot.next_segment = effect.effect_id, first, end
            self._loads[effect.effect_id] = (effect, home)
            self._loading_count += snapshot.bounds.row_count(first, end)
            state.segments.update(home)
            self._effects.append(effect)
            share.stop_waiting()
            self.note_loaded()

    def note_loaded(self) -> None:
        """Tell the budget how many rows of snapshots are in memory or asked for. O(1)."""
        count = self._state.heap.stored_count + self._loading_count
        if count != self.load_share.held_count:
            self.load_share.hold(count)

    def _comes_sooner(self, min_ms: int) -> bool:
        """Whether a row in memory, or one that is being loaded, is handed out before one with this deadline.

        The head of the heap leaves a wake-up for the rest, and so does a load under way.
        """
        head_ms = self._state.heap.head_ms
        if head_ms is not None and head_ms <= min_ms:
            return True
        return any(
            home.snapshot is not None and home.snapshot.bounds.earliest_ms(load.first) <= min_ms
            for load, home in self._loads.values()
        )

    def _next_load_ms(self, min_ms: int) -> int | None:
        """When the idle segment with this first deadline is to be loaded; None: when polls have made room."""
        limits = self._state.limits
        due_ms = limits.due_from_ms(min_ms)
        if self.load_share.place is None:
            return due_ms - limits.prefetch_window_ms
        return None if self._comes_sooner(min_ms) else due_ms

    def settling_may_make_room(self) -> bool:
        """Whether some tracker waits for room that a bucket takes here which the bits to be cleared may drain.

        Its copies and its load in flight count until it is known to be drained. O(1) as long as nobody waits, else
        O(runs + loads).
        """
        state = self._state
        if not self.load_share.is_room_missing:
            return False
        if state.drained:
            return True
        if not (gone_count := state.gone_count):
            return False
        holding = (state.members.homes[run.home_key] for run in state.heap)
        loading = (home for _, home in self._loads.values())
        return any(home.snapshot is not None and len(home.bits) <= gone_count for home in chain(holding, loading))

    def next_wakeup(self) -> Wakeup:
        """The next prefetch, which deadlines decide, and the next retry."""
        wanted = self._state.segments.first_idle()
        retry_ms = self._retries.first()[0][0] if self._retries else None
        return Wakeup(
            None if wanted is None else self._next_load_ms(wanted[0]),
            earliest((retry_ms, self._state.segments.next_retry_ms())),
        )

    def _forget_load(self, load: LoadSegments, home: Home) -> SnapshotSegments:
        snapshot = home.snapshot
        assert snapshot is not None
        self._loading_count -= snapshot.bounds.row_count(load.first, load.last + 1)
        snapshot.load_effect_id = None
        return snapshot

    def segments_loaded(self, effect_id: int, indexes: IndexColumns, now: Instant) -> bool:
        """Put loaded rows on the heap; rows that contradict the segment bounds are a lost snapshot."""
        if effect_id not in self._loads:
            return False
        load, home = self._loads[effect_id]
        snapshot = home.snapshot
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
        self._forget_load(load, home)
        self._put_loaded(home, _live_rows(home, indexes))
        self._state.segments.update(home)
        if snapshot.is_foreign and snapshot.next_min_ms is None:
            # O(copies): a millisecond for a bucket of 50,000, once, and not for our own, whose bitmaps are the segments'.
            self.settle_bits()
            self.drop_unless(home, self._state.reachable_in_memory(home))
            self.retire_if_drained(home)
        return True

    def _put_loaded(self, home: Home, rows: IndexColumns) -> None:
        """Put rows that count, with memory of their own, on the heap."""
        if len(rows):
            self._state.heap.new_run(home.key, rows if rows.ascend() else rows.sorted(), is_stored=True)

    def segment_load_failed(self, effect_id: int, now: Instant, *, lost: bool) -> bool:
        """Try again later, or give up what is only in a lost snapshot."""
        if effect_id not in self._loads:
            return False
        load, home = self._loads.pop(effect_id)
        state = self._state
        state.counters.effects_failed += 1
        snapshot = self._forget_load(load, home)
        if not lost:
            snapshot.next_segment = load.first
            state.segments.retry_later(home, now.elapsed_ms + state.limits.retry_backoff_ms)
            return True
        self.give_up_snapshot(home)
        return True

    def forget_load_of(self, home: Home) -> None:
        """Ignore the load that a home waits for, if there is one."""
        if home.snapshot is not None and home.snapshot.load_effect_id is not None:
            load, _ = self._loads.pop(home.snapshot.load_effect_id)
            self._forget_load(load, home)

    def give_up_snapshot(self, home: Home) -> None:
        """A snapshot is lost: the bits of what is not in memory go, so that a replay can bring them again."""
        state = self._state
        self.forget_load_of(home)
        self.settle_bits()
        assert home.snapshot is not None
        home.snapshot.next_segment = len(home.snapshot.bounds)
        home.snapshot_lost = True
        self.drop_unless(home, state.reachable_in_memory(home))
        self.replay_required = True
        state.segments.update(home)
        self.retire_if_drained(home)

    def drop_unless(self, home: Home, reachable: PositionBitmap) -> None:
        """Drop the bits that nothing reaches, count them, and ask for a replay; nothing happens if there are none."""
        unreachable = home.bits.copy()
        unreachable.subtract(reachable)
        if not unreachable:
            return
        self._state.members.subtract(home, unreachable)
        self._state.counters.tracked -= len(unreachable)
        self._state.counters.dropped_as_corrupt += len(unreachable)
        self._state.account(home)
        self.replay_required = True

    # -- deleting ----------------------------------------------------------------------------------------------------

    def retire_if_drained(self, home: Home) -> None:
        """Forget a sealed home without bits, and ask for its snapshot to be deleted; one being stored waits.

        To be called for every home that has lost bits.
        """
        if home.key in self._state.members.homes:
            self._state.account(home)
        if home.bits or home.is_open or home.key not in self._state.members.homes:
            return
        if home in self._stores.values():
            return
        if home.merging:
            self._load_no_more(home)
            return
        if home.snapshot is not None:
            self.forget_load_of(home)
            self.delete((home.snapshot.bucket_id,))
        self._state.remove_home(home)

    def _load_no_more(self, home: Home) -> None:
        """Drop what a drained home holds in memory or is about to load: its snapshot stays only to be read by a merge."""
        assert home.snapshot is not None
        self.forget_load_of(home)
        self._state.forget_copies(home)
        home.snapshot.next_segment = len(home.snapshot.bounds)
        self._state.segments.update(home)

    def delete(self, bucket_ids: tuple[int, ...]) -> None:
        """Ask for snapshots to be removed from the catalogue and the storage; with none, only for the epoch's fence."""
        effect = DeleteSnapshots(self.new_effect_id(), self._state.epoch, bucket_ids)
        self._deletes[effect.effect_id] = bucket_ids
        self._effects.append(effect)

    def snapshots_deleted(self, effect_id: int) -> bool:
        """Forget a deletion that has happened."""
        return self._deletes.pop(effect_id, None) is not None

    def delete_failed(self, effect_id: int, now: Instant) -> bool:
        """Ask again later."""
        bucket_ids = self._deletes.pop(effect_id, None)
        if bucket_ids is None:
            return False
        self._state.counters.effects_failed += 1
        self._retry_later(bucket_ids, now)
        return True

    def undeleted(self) -> frozenset[int]:
        """Buckets that are being deleted, or wait for the next try."""
        waiting = [what for what in self._retries.values() if isinstance(what, tuple)]
        return frozenset(bucket_id for ids in (*self._deletes.values(), *waiting) for bucket_id in ids)

    def forget_all(self, unwanted: Sequence[int] = ()) -> None:
        """A barrier has passed: results of effects asked for before it are ignored, snapshots of before it deleted.

        Args:
            unwanted: bucket ids to be deleted as well, in the same step.
        """
        bucket_ids = {
            home.snapshot.bucket_id for home in self._state.members.homes.values() if home.snapshot is not None
        }
        bucket_ids |= self.undeleted().union(unwanted)
        self._stores.clear()
        self._loads.clear()
        self._loading_count = 0
        self._deletes.clear()
        self._retries.clear()
        self._effects = [effect for effect in self._effects if isinstance(effect, DeleteSnapshots)]
        self.delete(tuple(sorted(bucket_ids)))

    def check(self) -> None:
        """Raise InvariantViolation unless every home that is not at rest has an effect in flight or a retry."""
        retrying = [what for what in self._retries.values() if isinstance(what, Home)]
        for home in self._state.members.homes.values():
            waits = [stored is home for stored in self._stores.values()].count(True)
            waits += [other is home for other in retrying].count(True)
            if (home.state is BucketState.SEALING) != (waits == 1) or waits > 1:
                raise InvariantViolation(f"home {home.key} is {home.state.value} with {waits} attempts to store it")
            waits_for_change = home in self._state.drained or home in self._stores.values()
            if not home.bits and not home.is_open and not home.merging and not waits_for_change:
                raise InvariantViolation(f"home {home.key} is drained but was not deleted")
            effect_id = home.snapshot.load_effect_id if home.snapshot is not None else None
            if effect_id is not None and effect_id not in self._loads:
                raise InvariantViolation(f"home {home.key} waits for a load that nobody knows")
        for effect_id, (load, home) in self._loads.items():
            snapshot = home.snapshot
            waiting = (snapshot.load_effect_id, snapshot.load_first, snapshot.next_segment) if snapshot else None
            if waiting != (effect_id, load.first, load.last + 1):
                raise InvariantViolation(f"load {effect_id} is in flight and home {home.key} does not wait for it")
        loading = sum(
            home.snapshot.bounds.row_count(load.first, load.last + 1)
            for load, home in self._loads.values()
            if home.snapshot is not None
        )
        if loading != self._loading_count:
            raise InvariantViolation(f"{self._loading_count} rows are counted as loading, {loading} are")
        self.load_share.check(self._state.heap.stored_count + self._loading_count)
        self._state.segments.check(self._state.members.homes)

    def waiting_moments(self) -> list[int]:
        """When each failed effect is to be tried again, found without the order that wakes it. For verification."""
        return [*(moment for moment, _ in self._retries), *self._state.segments.waiting_moments()]


def _live_rows(home: Home, indexes: IndexColumns) -> IndexColumns:
    """A copy of the rows whose positions the home still has."""
    return indexes.take(home.bits.contains(indexes.positions))
