"""TrackerCore: the verbs of one tracker. Calls in, outcomes and effects out; no waiting, no clock, no randomness.

After each call the owner drains :meth:`TrackerCore.take_effects` and looks at :meth:`TrackerCore.next_wakeup_ms`. An error
applies nothing. Times are wall-clock milliseconds; before ``now_ms`` steps back, :meth:`TrackerCore.set_clock_back` is told.
"""

from collections.abc import Sequence

import numpy as np

from tracker.core.columns import BEFORE_ALL, INT63_MAX, BoolArray, IndexColumns, Position, PositionColumns
from tracker.core.errors import InvalidInput
from tracker.core.homes import SnapshotSegments
from tracker.core.invariants import check_invariants
from tracker.core.limits import TrackerKind, TrackerLimits
from tracker.core.outcomes import (
    AddOutcome,
    CancelOutcome,
    Delivery,
    ExtendOutcome,
    LeaseOutcome,
    TrimOutcome,
)
from tracker.core.placement import SealTarget, Stop, first_stop
from tracker.core.position_bitmap import PositionBitmap
from tracker.core.recovery import RecoveryPlan
from tracker.core.results import EffectResults, TrackerClosed
from tracker.core.state import TrackerState

_LEASE_ID_BITS = 32
"""Leases of one epoch have ids of their own, as long as there are fewer than 2^32."""


class TrackerCore(EffectResults):
    """One subscription's delayed positions: which are tracked, which are due, which are in somebody's hands.

    Membership is the only truth: one bit in exactly one home for each tracked position (design 3.3). Copies in queues
    and snapshots count only under their own home's bit.

    Args:
        limits: bounds and durations.
        epoch: the owner's epoch, carried by effects.
        mark_delete: everything at or below is acknowledged.
    """

    def __init__(self, limits: TrackerLimits, *, epoch: int = 0, mark_delete: Position = BEFORE_ALL) -> None:
        super().__init__(TrackerState(limits, epoch=epoch, mark_delete=mark_delete))

    @classmethod
    def recovered(
        cls,
        limits: TrackerLimits,
        plan: RecoveryPlan,
        *,
        epoch: int,
        mark_delete: Position,
        now_ms: int,
        lost_bucket_ids: Sequence[int] = (),
    ) -> "TrackerCore":
        """A tracker with the buckets that a plan keeps; effects delete the others and load what is nearly due."""
        core = cls(limits, epoch=epoch, mark_delete=mark_delete)
        state = core._state
        # Answers of before a restart may still be acknowledged: their lease ids are known, have ended, and mean nobody else.
        state.leases.number_after((epoch - 1) << _LEASE_ID_BITS)
        for bucket in plan.keep:
            snapshot = SnapshotSegments(
                bucket.bucket_id, bucket.bounds, bucket.snapshot_bytes, bucket.first_segment, bucket.is_foreign
            )
            state.insert_sealed(bucket.bits, snapshot, bucket.first, bucket.last)
            state.counters.tracked += len(bucket.bits)
            state.counters.recovered += len(bucket.bits)
        gone = (*plan.delete, *lost_bucket_ids)
        if gone:
            core._lifecycle.delete(gone)
        core._finish(now_ms)
        return core

    # -- adding --------------------------------------------------------------------------------------------------------

    def add(self, indexes: IndexColumns, now_ms: int) -> AddOutcome:
        """Track indexes, in order, in one step; any order of ledgers is legal.

        Of a position repeated in the batch the first wins. A leased position stays as it is; otherwise due is checked
        before duplicate, and refusing a tracked position as due clears its bit, because the dispatcher sends it now.

        Returns: what became of each; offsets ascend.
        Raises: TrackerClosed.
        Cost: O(n) and a bitmap operation per ledger; sealing is O(1) here.
        Source: ``BucketDelayedDeliveryTracker.addMessage``, which checks duplicates first (apache/pulsar #26230).
        """
        self._require_open()
        state, limits = self._state, self._state.limits
        positions = indexes.positions
        below = positions.at_or_below(state.mark_delete)
        undecided = ~below
        duplicate = undecided & (positions.repeats() | state.leases.bits.contains(positions))
        undecided &= ~duplicate
        due = undecided & (indexes.deliver_at_ms <= limits.cutoff_ms(now_ms))
        tracked = state.members.contains(positions)
        refused = due & tracked
        duplicate |= undecided & ~due & tracked
        undecided &= ~(due | tracked)
        beyond = np.zeros(len(indexes), np.bool_)
        if limits.max_delay_ms:
            beyond = undecided & (indexes.deliver_at_ms > now_ms + limits.max_delay_ms)
            undecided &= ~beyond
        accepted = indexes if undecided.all() else indexes.take(undecided)
        if refused.any():
            changing = refused | undecided
            self._refuse_and_place(indexes.take(changing), refused[changing])
        else:
            self._place(accepted)
        state.counters.added += len(accepted)
        state.counters.due_on_offer += int(due.sum())
        state.counters.duplicate += int(duplicate.sum())
        self._finish(now_ms)
        if state.fixed_delay is not None:
            state.fixed_delay.note_offered(accepted, any_due=bool(due.any()))
        return AddOutcome(
            added_count=len(accepted),
            due=due.nonzero()[0],
            duplicate=duplicate.nonzero()[0],
            beyond_max_delay=beyond.nonzero()[0],
            below_mark_delete=below.nonzero()[0],
        )

    def _refuse_and_place(self, indexes: IndexColumns, refused: BoolArray) -> None:
        """Forget tracked rows that are refused as due and place the others, as if row by row.

        All at once where the order cannot show; else in halves, so that a seal sees what was refused before it.
        """
        state = self._state
        fresh = indexes.take(~refused)
        if not refused.all() and refused.any() and self._order_shows(fresh, indexes.positions.take(refused)):
            half = len(indexes) // 2
            self._refuse_and_place(indexes.take(slice(0, half)), refused[:half])
            self._refuse_and_place(indexes.take(slice(half, None)), refused[half:])
            return
        if refused.any():
            dropped, homes = state.drop(indexes.positions.take(refused))
            state.counters.refused_as_due += dropped
            self._retire(homes)
        self._place(fresh)

    def _order_shows(self, fresh: IndexColumns, refused: PositionColumns) -> bool:
        """Whether placing may seal a bucket, or refusing may drain a sealed one, which moves the sealed frontier."""
        if self._next_stop(fresh)[0].seal is not SealTarget.NOTHING:
            return True
        counts: dict[int, int] = {}
        for home, rows in self._state.members.locate(refused):
            counts[home.key] = counts.get(home.key, 0) + len(rows)
        homes = self._state.members.homes
        return any(not homes[key].is_open and len(homes[key].bits) == count for key, count in counts.items())

    def _next_stop(self, indexes: IndexColumns) -> tuple[Stop, BoolArray]:
        """Where placing rows must stop to seal, and which of them are late until then."""
        state = self._state
        memory = state.mutable.memory
        assert memory is not None
        late = indexes.positions.at_or_below(state.members.frontier())
        stop = first_stop(
            indexes.ledger_id,
            late,
            mutable_count=len(state.mutable.bits),
            late_count=len(state.late.bits),
            last_ledger_id=memory.last_ledger_id,
            limits=state.limits,
        )
        return stop, late

    def _place(self, indexes: IndexColumns) -> None:
        """Put untracked, distinct rows into the open homes, sealing where the rules say so."""
        state = self._state
        while len(indexes):
            stop, late = self._next_stop(indexes)
            here, late = indexes.take(slice(0, stop.row_count)), late[: stop.row_count]
            if late.any():
                state.put(state.mutable, here.take(~late))
                state.put(state.late, here.take(late))
            else:
                state.put(state.mutable, here)
            if stop.seal is not SealTarget.NOTHING:
                self._lifecycle.seal(state.mutable if stop.seal is SealTarget.MUTABLE else state.late)
            indexes = indexes.take(slice(stop.row_count, None))

    def seal_now(self, now_ms: int) -> int:
        """Seal the mutable bucket, whatever it holds; returns how many positions that are, 0 in memory-only trackers."""
        self._require_open()
        count = 0 if self._state.limits.kind is TrackerKind.IN_MEMORY else len(self._state.mutable.bits)
        if count:
            self._lifecycle.seal(self._state.mutable)
            self._finish(now_ms)
        return count

    def cancel(self, positions: PositionColumns, now_ms: int) -> CancelOutcome:
        """Forget positions that nobody holds. A replay adds them again unless the cursor acknowledges them too."""
        self._require_open()
        state = self._state
        leased = state.leases.bits.contains(positions)
        tracked = state.members.contains(positions) & ~leased
        cancelled = 0
        if tracked.any():
            cancelled, homes = state.drop(positions.take(tracked))
            state.counters.cancelled += cancelled
            self._retire(homes)
        self._finish(now_ms)
        return CancelOutcome(cancelled, np.flatnonzero(leased), np.flatnonzero(~tracked & ~leased))

    # -- handing out ---------------------------------------------------------------------------------------------------

    def pop_due(self, max_count: int, now_ms: int, *, lease_ms: int) -> Delivery:
        """Hand out the earliest due indexes that are in memory; what is loading is not waited for.

        Args:
            max_count: at most this many, >= 1.
            now_ms: leases that have run out by now return first.
            lease_ms: how long they are leased; 0 hands off and forgets them (PIP-195's behaviour).
        Returns: rows ascending by (deliver_at_ms, ledger_id, entry_id), each position once.
        Raises: InvalidInput, TrackerClosed.
        Cost: O(n log n) for n rows handed out, plus the dead copies passed over.
        """
        self._require_open()
        if max_count < 1:
            raise InvalidInput("max_messages", max_count, "give 1 or more")
        if not 0 <= lease_ms <= INT63_MAX - now_ms:
            raise InvalidInput("lease_ms", lease_ms, "give 0 or more milliseconds")
        self._expire(now_ms)
        parts: list[IndexColumns] = []
        missing = max_count
        cutoff_ms = self._state.limits.cutoff_ms(now_ms)
        while missing:
            block = self._pop_block(cutoff_ms, missing, hand_off=lease_ms == 0, taken=parts)
            if block is None:
                break
            if len(block):
                parts.append(block)
                missing -= len(block)
            if missing:
                # Leap over the dead copies at the head: in blocks of what is missing, half a million take a minute.
                self._state.settle()
        indexes = IndexColumns.concat(parts)
        delivery = Delivery(indexes)
        if len(indexes) and lease_ms:
            expires_at_ms = now_ms + lease_ms
            delivery = Delivery(indexes, self._state.leases.grant(indexes, expires_at_ms), expires_at_ms)
        self._finish(now_ms)
        return delivery

    def _pop_block(
        self, cutoff_ms: int, count: int, *, hand_off: bool, taken: Sequence[IndexColumns]
    ) -> IndexColumns | None:
        """The live ones among the next due copies, or None if no copy is due."""
        state = self._state
        runs = state.heap.due_runs(cutoff_ms, count)
        if not runs:
            return None
        for run in runs:
            state.sort_run(run)
        block = state.heap.take(runs, cutoff_ms, count)
        home_keys = np.array([run.home_key for run in runs], np.int64)[block.run]
        alive = state.live_of(block.indexes, home_keys)
        live = block.indexes.take(alive)
        if taken and len(live) and not hand_off:
            # A second copy of a position that this very call has taken is not leased yet: it is no longer live.
            live = live.take(~PositionBitmap.of(IndexColumns.concat(taken).positions).contains(live.positions))
        if hand_off and len(live):
            count, homes = state.take_bits_of(live.positions, home_keys[alive])
            state.counters.handed_off += count
            self._retire(homes)
        return live

    # -- leases --------------------------------------------------------------------------------------------------------

    def ack(self, lease_id: int, positions: PositionColumns, now_ms: int) -> LeaseOutcome:
        """Forget positions that were dealt with.

        An ended lease is good enough, unless the position was leased again meanwhile: then it is ``stale``.

        Raises: InvalidInput for a lease id never given out, TrackerClosed.
        """
        self._require_open()
        held, stale, free = self._sort_out(lease_id, positions)
        state = self._state
        acked = 0
        if held.any():
            state.leases.release(lease_id, positions.take(held))
            count, homes = state.take_bits(positions.take(held))
            acked += count
            self._retire(homes)
        unknown = free
        if free.any():
            tracked = free & state.members.contains(positions)
            unknown = free & ~tracked
            if tracked.any():
                count, homes = state.drop(positions.take(tracked))
                acked += count
                self._retire(homes)
        state.counters.acked += acked
        self._finish(now_ms)
        return LeaseOutcome(acked, np.flatnonzero(stale), np.flatnonzero(unknown))

    def nack(
        self, lease_id: int, positions: PositionColumns, now_ms: int, *, deliver_at_ms: int | None = None
    ) -> LeaseOutcome:
        """Give leased positions back: due again at once, or at a new deadline that replaces the old one.

        Raises: InvalidInput for a lease id never given out or a deadline out of range, TrackerClosed.
        """
        self._require_open()
        if deliver_at_ms is not None and not 0 <= deliver_at_ms <= INT63_MAX:
            raise InvalidInput("deliver_at_ms", deliver_at_ms, f"give milliseconds from 0 to {INT63_MAX}")
        held, stale, free = self._sort_out(lease_id, positions)
        state = self._state
        if free.any():
            tracked = free & state.members.contains(positions)
            stale |= tracked
            free &= ~tracked
        returned = IndexColumns.empty()
        if held.any():
            returned = state.leases.release(lease_id, positions.take(held))
            if deliver_at_ms is None:
                state.give_back(returned)
            else:
                # A new deadline is not what the snapshot says: the position moves to a home in memory.
                _, homes = state.take_bits(returned.positions)
                again = np.full(len(returned), deliver_at_ms, np.int64)
                dated_anew = IndexColumns(again, returned.ledger_id, returned.entry_id)
                self._place(dated_anew)
                self._retire(homes)
                if state.fixed_delay is not None:
                    state.fixed_delay.note_offered(dated_anew, any_due=False)
        self._finish(now_ms)
        return LeaseOutcome(len(returned), np.flatnonzero(stale), np.flatnonzero(free))

    def extend(self, lease_id: int, positions: PositionColumns | None, now_ms: int, *, lease_ms: int) -> ExtendOutcome:
        """Set a new expiry, counted from now, for positions that a lease holds.

        Args:
            lease_id: as a poll answered it.
            positions: None is everything the lease still holds.
            now_ms: what has run out by now returns first, and is stale.
            lease_ms: 1 or more.
        Raises: InvalidInput for a lease id never given out or a lease time out of range, TrackerClosed.
        """
        self._require_open()
        if not 1 <= lease_ms <= INT63_MAX - now_ms:
            raise InvalidInput("lease_ms", lease_ms, "give 1 or more milliseconds")
        self._state.leases.require_issued(lease_id)
        self._expire(now_ms)
        if positions is None:
            positions = self._state.leases.of(lease_id).positions
        held, stale, free = self._sort_out(lease_id, positions)
        tracked = free & self._state.members.contains(positions)
        expires_at_ms = now_ms + lease_ms
        if held.any():
            self._state.leases.extend(lease_id, positions.take(held), expires_at_ms)
        self._finish(now_ms)
        return ExtendOutcome(
            int(held.sum()), expires_at_ms, np.flatnonzero(stale | tracked), np.flatnonzero(free & ~tracked)
        )

    def _sort_out(self, lease_id: int, positions: PositionColumns) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Masks: held by this lease, held by another, held by none; a repeat of a held position is in none of them."""
        leases = self._state.leases
        leases.require_issued(lease_id)
        first = ~positions.repeats()
        held = leases.held_by(lease_id, positions)
        stale = leases.bits.contains(positions) & ~held
        return held & first, stale, ~held & ~stale

    def expire_leases(self, now_ms: int) -> int:
        """Take back every position whose lease has run out; returns how many."""
        self._require_open()
        count = self._expire(now_ms)
        self._finish(now_ms)
        return count

    def _expire(self, now_ms: int) -> int:
        # Together: one by one, 100 leases that run out at once are sorted and joined 100 times.
        expired = IndexColumns.concat(self._state.leases.expire(now_ms))
        self._state.give_back(expired)
        self._state.counters.lease_expired += len(expired)
        return len(expired)

    def _release_all(self) -> None:
        self._state.give_back(IndexColumns.concat(self._state.leases.release_all()))

    # -- the cursor and the owner --------------------------------------------------------------------------------------

    def advance_mark_delete(self, position: Position, now_ms: int) -> TrimOutcome:
        """Drop everything at or below a position, leased or not; a position below the current one changes nothing.

        Raises: InvalidInput for a ledger below 0 or an entry below -1, TrackerClosed.
        Cost: O(homes + ledgers + leases).
        """
        self._require_open()
        if position.ledger_id < 0 or position.entry_id < -1:
            raise InvalidInput("mark_delete", str(position), "give a ledger from 0 and an entry from -1")
        state = self._state
        if position <= state.mark_delete:
            return TrimOutcome(state.mark_delete, 0)
        state.mark_delete = position
        trimmed, homes = state.trim(position)
        state.counters.trimmed += trimmed
        self._retire(homes)
        self._finish(now_ms)
        return TrimOutcome(position, trimmed)

    def begin_epoch(self, epoch: int, now_ms: int) -> None:
        """A new owner: all leases return at once. Effects in flight stay valid; the old epoch may fail to commit."""
        self._require_open()
        if epoch <= self._state.epoch:
            raise InvalidInput("epoch", epoch, f"give more than {self._state.epoch}")
        self._state.epoch = epoch
        self._release_all()
        self._lifecycle.replay_required = False
        self._finish(now_ms)

    def clear(self, now_ms: int) -> int:
        """Forget every position and delete every snapshot; returns how many positions there were.

        A barrier: the epoch rises, leases are void, and results of effects asked for earlier are ignored.
        """
        self._require_open()
        state = self._state
        cleared = state.counters.tracked
        state.epoch += 1
        self._merger.forget()
        self._lifecycle.forget_all()
        self._lifecycle.replay_required = False  # nothing is missing any more
        state.reset_homes()
        state.counters.cleared += cleared
        self._finish(now_ms)
        return cleared

    def reset_cursor(self, mark_delete: Position, now_ms: int) -> int:
        """The cursor was moved, forward or back: clear, and take its new position. The replay brings everything again.

        Raises: InvalidInput for a position that is neither BEFORE_ALL nor a ledger from 0 and an entry from -1.
        """
        self._require_open()
        if mark_delete != BEFORE_ALL and (mark_delete.ledger_id < 0 or mark_delete.entry_id < -1):
            raise InvalidInput("mark_delete", str(mark_delete), "give a ledger from 0 and an entry from -1")
        self._state.mark_delete = mark_delete
        return self.clear(now_ms)

    def delete(self, now_ms: int) -> int:
        """Clear, and refuse everything from now on: the subscription is gone."""
        cleared = self.clear(now_ms)
        self._closed = True
        return cleared

    def close(self, now_ms: int) -> None:
        """Void all leases and refuse verbs; snapshots stay, the mutable bucket is not sealed (a replay covers it).

        Results of effects in flight are still taken. Closing twice is harmless.
        """
        if not self._closed:
            self._release_all()
            self._finish(now_ms)
            self._closed = True

    def set_clock_back(self, by_ms: int) -> None:
        """The wall clock was set back by so much: deadlines stay, but leases and retries last no longer for it."""
        self._state.leases.set_back(by_ms)
        self._lifecycle.set_back(by_ms)
        self._merger.set_back(by_ms)

    def wake(self, now_ms: int) -> None:
        """Do everything that time alone causes: expire leases, retry failed effects, load what is nearly due."""
        if not self._closed:
            self._expire(now_ms)
            self._finish(now_ms)

    def check(self) -> None:
        """Verify every invariant of design 3.3 that can be seen from inside. Raises InvariantViolation. O(everything)."""
        self._merger.check(planning=not self._closed)
        check_invariants(self._state, self._lifecycle, self.next_delivery_ms(), self.next_wakeup_ms())


__all__ = ["TrackerClosed", "TrackerCore"]
