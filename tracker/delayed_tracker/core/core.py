"""TrackerCore: the verbs of one tracker. Calls in, outcomes and effects out; no waiting, no clock, no randomness.

After each call the owner drains :meth:`TrackerCore.take_effects` and looks at :meth:`TrackerCore.next_wakeup`. An error
applies nothing. Time enters with each verb: the wall clock for deadlines, which may step, and elapsed time for durations.
"""

import copy
from collections.abc import Sequence

from delayed_tracker.core.engine.load_budget import LoadBudget, LoadShare
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.handing_out import HandingOutVerbs
from delayed_tracker.core.index.buckets import SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.inspect.invariants import check_invariants
from delayed_tracker.core.results import TrackerClosed
from delayed_tracker.core.rules.recovery import RecoveryPlan
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.errors import InvalidInput, InvariantViolation
from delayed_tracker.core.values.instant import Instant, Wakeup
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.verb_results import TrimOutcome

_LEASE_ID_BITS = 32
"""Leases of one epoch have ids of their own, as long as there are fewer than 2^32."""


class TrackerCore(HandingOutVerbs):
    """One subscription's delayed positions: which are tracked, which are due, which are in somebody's hands.

    Membership is the only truth: one bit in exactly one home for each tracked position (design 3.3). Copies in queues
    and snapshots count only under their own home's bit.

    Args:
        limits: bounds and durations.
        epoch: the owner's epoch, carried by effects.
        mark_delete: everything at or below is acknowledged.
    """

    def __init__(self, limits: TrackerLimits, *, epoch: int = 0, mark_delete: Position = BEFORE_ALL) -> None:
        alone = LoadBudget(limits.loaded_indexes_max).share()
        super().__init__(TrackerState(limits, epoch=epoch, mark_delete=mark_delete), alone)

    @classmethod
    def recovered(
        cls,
        limits: TrackerLimits,
        plan: RecoveryPlan,
        *,
        epoch: int,
        mark_delete: Position,
        now: Instant,
        lost_bucket_ids: Sequence[int] = (),
        last_seal_number: int = 0,
        loads: bool = True,
    ) -> "TrackerCore":
        """A tracker with the buckets that a plan keeps; effects delete the others and load what is nearly due.

        Seal numbers go on above ``last_seal_number``, the highest in the catalogue. Without ``loads`` it loads nothing
        before :meth:`load_within`.
        """
        core = cls(limits, epoch=epoch, mark_delete=mark_delete)
        state = core._state
        state.last_seal_number = last_seal_number
        # Acks of leases from before a restart are no errors: their ids are known, and what they handed out is not.
        state.leases.number_after((epoch - 1) << _LEASE_ID_BITS)
        core._insert(plan)
        gone = (*plan.delete, *lost_bucket_ids)
        if gone:
            core._lifecycle.delete(gone)
        if loads:
            core._finish(now)
        return core

    def load_within(self, share: LoadShare, now: Instant) -> None:
        """Load only what a budget leaves that is shared with others; before anything was loaded."""
        self._require_open()
        assert not self._lifecycle.load_share.held_count
        self._lifecycle.load_share = share
        self._finish(now)

    def _insert(self, plan: RecoveryPlan) -> None:
        state = self._state
        for bucket in plan.keep:
            snapshot = SnapshotSegments(
                bucket.bucket_id,
                PackedBounds(bucket.bounds),
                bucket.snapshot_bytes,
                bucket.first_segment,
                bucket.is_foreign,
            )
            state.insert_sealed(bucket.bits, snapshot, bucket.first, bucket.last)
            state.counters.tracked += len(bucket.bits)
            state.counters.recovered += len(bucket.bits)

    # -- the cursor and the owner --------------------------------------------------------------------------------------

    def advance_mark_delete(self, position: Position, now: Instant) -> TrimOutcome:
        """Drop everything at or below a position, leased or not; a position below the current one changes nothing.

        Raises: InvalidInput for a ledger below 0 or an entry below -1, TrackerClosed.
        Cost: O(homes + ledgers + leases).
        """
        self._require_open()
        if position.ledger_id < 0 or position.entry_id < -1:
            raise InvalidInput("mark_delete", str(position), "give a ledger from 0 and an entry from -1")
        if position <= self._state.mark_delete:
            return TrimOutcome(self._state.mark_delete, 0)
        state = self._settled()
        state.mark_delete = position
        trimmed, homes = state.trim(position)
        state.counters.trimmed += trimmed
        self._retire(homes)
        self._finish(now)
        return TrimOutcome(position, trimmed)

    def begin_epoch(self, epoch: int, now: Instant) -> None:
        """A new owner: all leases return at once. Effects in flight stay valid; the old epoch may fail to commit."""
        self._require_open()
        if epoch <= self._state.epoch:
            raise InvalidInput("epoch", epoch, f"give more than {self._state.epoch}")
        self._settled().epoch = epoch
        self._release_all()
        self._lifecycle.replay_required = False
        self._finish(now)

    def clear(self, now: Instant) -> int:
        """Forget every position and delete every snapshot; returns how many positions there were.

        A barrier: the epoch rises, leases are void, and results of effects asked for earlier are ignored.
        """
        self._require_open()
        cleared = self._forget_everything()
        self._finish(now)
        return cleared

    def _forget_everything(self, unwanted: Sequence[int] = ()) -> int:
        state = self._settled()
        cleared = state.counters.tracked
        state.epoch += 1
        self._merger.forget()
        self._lifecycle.forget_all(unwanted)
        self._lifecycle.replay_required = False  # nothing is missing any more
        state.reset_homes()
        state.counters.cleared += cleared
        return cleared

    def adopt(self, plan: RecoveryPlan, *, mark_delete: Position, now: Instant) -> int:
        """Put the buckets that a plan keeps in the place of every position; returns how many positions there were.

        A barrier, as :meth:`clear`. The higher of the two mark-delete positions is in force from now on. Whoever opens the
        tracker next replays from there, which brings back what was only in memory.
        """
        self._require_open()
        replaced = self._forget_everything(plan.delete)
        self._insert(plan)
        state = self._state
        state.mark_delete = max(state.mark_delete, mark_delete)
        trimmed, homes = state.trim(state.mark_delete)
        state.counters.trimmed += trimmed
        self._retire(homes)
        self._finish(now)
        return replaced

    def next_seal_number(self) -> int:
        """Take the seal number of a bucket that others froze and that is about to stand above all there are."""
        self._require_open()
        return self._state.next_seal_number()

    def reset_cursor(self, mark_delete: Position, now: Instant) -> int:
        """The cursor was moved, forward or back: clear, and take its new position. The replay brings everything again.

        Raises: InvalidInput for a position that is neither BEFORE_ALL nor a ledger from 0 and an entry from -1.
        """
        self._require_open()
        if mark_delete != BEFORE_ALL and (mark_delete.ledger_id < 0 or mark_delete.entry_id < -1):
            raise InvalidInput("mark_delete", str(mark_delete), "give a ledger from 0 and an entry from -1")
        self._state.mark_delete = mark_delete
        return self.clear(now)

    def delete(self, now: Instant) -> int:
        """Clear, and refuse everything from now on: the subscription is gone."""
        cleared = self.clear(now)
        self.load_share.stop_waiting()
        self._closed = True
        return cleared

    def close(self, now: Instant) -> None:
        """Void all leases and refuse verbs; snapshots stay, the mutable bucket is not sealed (a replay covers it).

        Results of effects in flight are still taken. Closing twice is harmless.
        """
        if not self._closed:
            self._settled()
            self._release_all()
            self._finish(now)
            self.load_share.stop_waiting()
            self._closed = True

    def wake(self, now: Instant) -> None:
        """Do everything that time alone causes: expire leases, retry failed effects, load what is nearly due."""
        if not self._closed:
            if self._settle_at_ms is not None and self._settle_at_ms <= now.elapsed_ms:
                self._settled()
            self._expire(now)
            self._state.leases.ended.sweep(now.elapsed_ms)
            self._finish(now)

    def check(self) -> None:
        """Verify every invariant of design 3.3 that can be seen from inside. Raises InvariantViolation. O(everything)."""
        # Before anything is settled: a bucket that this finds drained lets merges be planned only when it is.
        self._merger.check(planning=not self._closed)
        # Looking at bits would settle them: a tracker that defers goes on as if nobody had.
        twin = copy.deepcopy(self) if self._state.defers else self
        wakeup = self.next_wakeup()
        for moment, settled in zip(wakeup, twin.settle_and_check(), strict=True):
            if settled is not None and (moment is None or moment > settled):
                raise InvariantViolation(f"nobody wakes up at {settled}; before bits were settled, at {moment}")

    def settle_and_check(self) -> Wakeup:
        """Verify everything after putting bits and runs in their places; returns the next wake-up."""
        state = self._settled()
        state.settle()
        check_invariants(state, self._lifecycle, self.next_delivery_ms(), self.next_wakeup())
        return self.next_wakeup()


__all__ = ["TrackerClosed", "TrackerCore"]
