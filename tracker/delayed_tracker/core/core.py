"""TrackerCore: the verbs of one tracker. Calls in, results of verbs and effects out; no waiting, no clock, no randomness.

After each call the owner drains :meth:`TrackerCore.take_effects` and reads :meth:`TrackerCore.next_wakeup`. An error
applies nothing. Time is an argument of each verb: the wall clock for deadlines, which may step, and elapsed time for
durations.
"""

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise

import numpy as np

from delayed_tracker.core.engine import adding
from delayed_tracker.core.engine.effect_results import (
    DeleteFailed,
    EffectResult,
    MergeFailed,
    SegmentLoadFailed,
    SegmentsLoaded,
    SnapshotFailed,
    SnapshotsDeleted,
    SnapshotsMerged,
    SnapshotStored,
)
from delayed_tracker.core.engine.effects import Effect
from delayed_tracker.core.engine.handing_out import take_due
from delayed_tracker.core.engine.journal import Journal
from delayed_tracker.core.engine.leases import LeaseAck
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.load_budget import LoadBudget, LoadShare
from delayed_tracker.core.engine.merger import BucketMerger
from delayed_tracker.core.engine.replaying import replay
from delayed_tracker.core.engine.rescheduling import decide_reschedule
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Bucket, SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.inspect import inspection
from delayed_tracker.core.inspect.invariants import check_invariants
from delayed_tracker.core.inspect.numbers import event_counts, tracker_numbers
from delayed_tracker.core.inspect.resting import RestingTracker, numbers_without_memory, without_memory
from delayed_tracker.core.inspect.stats import bucket_views, tracker_stats
from delayed_tracker.core.rules.recovery import RecoveryPlan
from delayed_tracker.core.values.changes import (
    Added,
    Change,
    MarkDeleteAdvanced,
    OfferedThrough,
    Removed,
    Rescheduled,
)
from delayed_tracker.core.values.columns import (
    BEFORE_ALL,
    INT63_MAX,
    BoolArray,
    IndexColumns,
    Position,
    PositionColumns,
)
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput, InvariantViolation
from delayed_tracker.core.values.instant import Instant, Wakeup, earliest
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import (
    AddOutcome,
    BucketView,
    CancelOutcome,
    Delivery,
    Explanation,
    ExtendOutcome,
    LeaseOutcome,
    RescheduleOutcome,
    TrackerStats,
    TrimOutcome,
)

_LEASE_ID_BITS = 32
"""Leases of one epoch have ids of their own, as long as there are fewer than 2^32."""
_SETTLE_AFTER_MS = 1_000
"""Consumed positions keep their bits for at most this long."""
_GONE_MAX = 65_536
"""More consumed positions than this are cleared at once."""
_RETURN_AHEAD_MS = 5_000
"""A core that was dropped is needed at least this long before its next delivery."""


class TrackerClosed(DelayedTrackerError):
    """The tracker was closed or deleted; open it again."""

    reason = "TRACKER_CLOSED"


class TrackerCore:
    """The delayed positions of one subscription: tracked, due, or leased.

    Membership is the only truth: one bit in exactly one bucket for each tracked position. Copies in runs and snapshots
    count only under the bit of their own bucket. Reading changes nothing that a caller can see and asks for no effect.

    Args:
        limits: bounds and durations.
        epoch: the owner's epoch, carried by effects.
        mark_delete: everything at or below is acknowledged.
    """

    def __init__(self, limits: TrackerLimits, *, epoch: int = 0, mark_delete: Position = BEFORE_ALL) -> None:
        self._state = TrackerState(limits, epoch=epoch, mark_delete=mark_delete)
        self._lifecycle = BucketLifecycle(self._state, LoadBudget(limits.loaded_indexes_max).share())
        self._merger = BucketMerger(self._state, self._lifecycle)
        self._settle_at_ms: int | None = None
        self._closed = False

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
        """Return a tracker with the buckets that a plan keeps; effects delete the others and load what is nearly due.

        Seal numbers go on above ``last_seal_number``, the highest in the catalogue. Without ``loads`` it loads nothing
        before :meth:`load_within`.
        """
        core = cls(limits, epoch=epoch, mark_delete=mark_delete)
        state = core._state
        state.last_seal_number = last_seal_number
        # Acks of leases from before a restart are no errors: their ids were given out, and what they returned is unknown.
        state.leases.number_after((epoch - 1) << _LEASE_ID_BITS)
        core._insert(plan)
        gone = (*plan.delete, *lost_bucket_ids)
        if gone:
            core._lifecycle.delete(gone)
        if loads:
            core._finish(now)
        return core

    # -- changes for an add log ------------------------------------------------------------------------------------------

    def begin_journal(self, last_number: int, offered_through: Position) -> None:
        """Note all changes from now on, numbered from ``last_number`` + 1; called once, right after the recovery.

        Args:
            last_number: of the last change that the recovered buckets contain.
            offered_through: the dispatcher's claim as of then.
        """
        assert self._state.journal is None
        self._state.journal = Journal(last_number)
        self._state.offered_through = offered_through

    def replay(self, number: int, change: Change) -> None:
        """Apply a change that was logged; the numbers ascend, and none comes after the first call of another verb."""
        journal = self._state.journal
        assert journal is not None
        assert number > journal.last_number
        # Rows of the change are pinned under its number: the journal gives them the number after its last.
        journal.last_number = number - 1
        replay(self._settled(), self._lifecycle, change)
        journal.last_number = number
        self._state.settle()

    def skip_changes(self, last_number: int) -> None:
        """Number the next change above ``last_number``, if it would have a lower number."""
        journal = self._state.journal
        assert journal is not None
        journal.last_number = max(journal.last_number, last_number)

    def end_journal(self) -> int:
        """Note no more changes; return the number of the last one. Claims end with it: nothing would keep them."""
        last_number = self.last_change
        self._state.journal, self._state.offered_through = None, BEFORE_ALL
        return last_number

    def take_changes(self) -> list[Change]:
        """Return the changes since the last call, in order; the last one has the number ``last_change``.

        They may share memory with the columns of the calls.
        """
        return [] if self._state.journal is None else self._state.journal.take()

    @property
    def taken_change(self) -> int:
        """Number of the last change that was replayed, or returned by :meth:`take_changes`; 0 without a journal."""
        return 0 if self._state.journal is None else self._state.journal.taken_number

    @property
    def last_change(self) -> int:
        """Number of the last change; 0 without a journal."""
        return 0 if self._state.journal is None else self._state.journal.last_number

    def contained_through(self) -> int:
        """Return the last change that needs no log any more once the consumed positions of now are in the catalogue."""
        self._settled()
        return self._lifecycle.contained_through()

    @property
    def offered_through(self) -> Position:
        """Position up to which the dispatcher has offered everything; BEFORE_ALL if it has claimed nothing."""
        return self._state.offered_through

    def advance_offered_through(self, position: Position) -> Position:
        """Take a claim of the dispatcher, if it is higher than the present one, and return the claim in force.

        Raises: InvalidInput for a ledger below 0 or an entry below -1, TrackerClosed.
        """
        self._require_open()
        if position.ledger_id < 0 or position.entry_id < -1:
            raise InvalidInput("offered_through", str(position), "give a ledger from 0 and an entry from -1")
        if position > self._state.offered_through:
            self._state.offered_through = position
            self._state.note(OfferedThrough(position))
        return self._state.offered_through

    def offer_again_from(self, position: Position) -> None:
        """Take the claim back to before a position that was lost; BEFORE_ALL ends it."""
        self._state.offer_again_from(position)

    def load_within(self, share: LoadShare, now: Instant) -> None:
        """Load only what a budget leaves that is shared with other trackers; called before anything was loaded."""
        self._require_open()
        assert not self._lifecycle.load_share.held_count
        self._lifecycle.load_share = share
        self._finish(now)

    # -- resting -------------------------------------------------------------------------------------------------------

    @property
    def can_rest(self) -> bool:
        """True if a recovery from catalogue and log would lose nothing, once both are written.

        There are no leases, also no ended ones, nothing is retried, and no replay is asked for. O(1).
        """
        state = self._state
        return (
            state.journal is not None
            and not state.leases.leased_count
            and self.next_timer().elapsed_ms is None
            and self.load_share.place is None
            and not self._lifecycle.replay_required
            and not self._lifecycle.undeleted()
        )

    def falls_due_ms(self) -> int | None:
        """Return the time from which the core is needed in memory without a call; None if nothing is tracked.

        It is a prefetch window, or five seconds, before the next delivery, and no later than the next prefetch.
        """
        delivery_ms = self.next_delivery_ms()
        if delivery_ms is not None:
            delivery_ms -= max(self.limits.prefetch_window_ms, _RETURN_AHEAD_MS)
        return earliest((delivery_ms, self.next_timer().wall_ms))

    def rest(self, now_ms: int) -> RestingTracker:
        """Return what a later :meth:`resume` and readers of numbers need; the core is not used afterwards."""
        return RestingTracker(
            stats=without_memory(self.stats()),
            numbers=numbers_without_memory(self.numbers(now_ms)),
            counters=self._state.counters,
            last_lease_id=self._state.leases.last_id,
            offered_through=self.offered_through,
            falls_due_ms=self.falls_due_ms(),
        )

    def resume(self, before: RestingTracker, *, lost: bool) -> None:
        """Go on with the counters and lease ids of a core that has rested; called once, right after the recovery.

        Args:
            before: as :meth:`rest` returned it.
            lost: True if snapshots or records of the log were lost meanwhile: the dispatcher has to replay.
        """
        state = self._state
        state.leases.number_after(before.last_lease_id)
        counters, tracked = before.counters, state.counters.tracked
        # Lost positions leave; consumed ones come back if the catalogue cannot tell them any more.
        counters.dropped_as_corrupt += max(0, counters.tracked - tracked)
        counters.recovered += max(0, tracked - counters.tracked)
        counters.tracked = tracked
        state.counters = counters
        self._lifecycle.replay_required |= lost

    # -- adding --------------------------------------------------------------------------------------------------------

    def add(self, indexes: IndexColumns, now: Instant) -> AddOutcome:
        """Track indexes, in order, in one step; any order of ledgers is legal.

        If a position is repeated in the batch, the first one wins. A leased position stays as it is. Otherwise due is
        checked before duplicate; a tracked position that is due is no longer tracked, because the dispatcher sends it now.

        Returns: the outcome of each; offsets ascend.
        Raises: TrackerClosed.
        Cost: O(n) and a bitmap operation per ledger; sealing is O(1) here.
        """
        self._require_open()
        state = self._state
        accepted, outcome = indexes, AddOutcome.all_added(len(indexes))
        if not adding.put_if_above(state, indexes, now.wall_ms):
            accepted, outcome = self._add_any(indexes, now)
        state.counters.added += len(accepted)
        if len(accepted):
            state.note(Added(accepted))
        self._finish(now)
        if state.fixed_delay is not None:
            state.fixed_delay.note_offered(accepted, any_due=bool(len(outcome.due)))
        return outcome

    def _add_any(self, indexes: IndexColumns, now: Instant) -> tuple[IndexColumns, AddOutcome]:
        decision = adding.decide_add(self._settled(), indexes, now.wall_ms)
        fresh, refused = decision.fresh, decision.refused
        accepted = indexes if fresh.all() else indexes.take(fresh)
        if refused.any():
            self._state.note(Removed(indexes.take(refused).positions))
            changing = refused | fresh
            adding.refuse_and_place(self._state, self._lifecycle, indexes.take(changing), refused[changing])
        else:
            adding.place(self._state, self._lifecycle, accepted)
        outcome = decision.outcome()
        counters = self._state.counters
        counters.due_on_offer += len(outcome.due)
        counters.duplicate += len(outcome.duplicate)
        counters.beyond_max_delay += len(outcome.beyond_max_delay)
        counters.below_mark_delete += len(outcome.below_mark_delete)
        return accepted, outcome

    def would_track(self, indexes: IndexColumns, now: Instant) -> bool:
        """Return True if adding a batch would track a position that is not tracked yet. O(n), changes nothing."""
        self._require_open()
        return adding.would_track(self._state_for_reading(), indexes, now.wall_ms)

    def cancel(self, positions: PositionColumns, now: Instant) -> CancelOutcome:
        """Forget positions that are not leased. A replay adds them again unless the cursor acknowledges them too."""
        self._require_open()
        state = self._settled()
        leased = state.leases.bits.contains(positions)
        tracked = state.members.contains(positions) & ~leased
        cancelled = 0
        if tracked.any():
            state.note(Removed(positions.take(tracked)))
            state.leases.ended.forget(positions.take(tracked))
            cancelled, buckets = state.drop(positions.take(tracked))
            state.counters.cancelled += cancelled
            self._lifecycle.retire(buckets)
        self._finish(now)
        return CancelOutcome(cancelled, np.flatnonzero(leased), np.flatnonzero(~tracked & ~leased))

    def reschedule(self, indexes: IndexColumns, now: Instant) -> RescheduleOutcome:
        """Give tracked positions that are not leased another deadline, sooner or later, in one step.

        The new deadline counts from the return on: copies with the old one, in memory or in a snapshot, never come out.
        A new deadline that is due is handed out by the next poll. A repetition of the call gives the same result.

        Args:
            indexes: the positions, each with its new deadline. If a position is repeated, the first row decides.
            now: decides which deadlines are due, and which are further away than ``max_delay_ms``.
        Returns: the outcome of each; offsets ascend.
        Raises: TrackerClosed.
        Cost: O(n) and a bitmap operation per ledger and bucket; sealing is O(1) here.
        """
        self._require_open()
        state = self._settled()
        decision = decide_reschedule(state, indexes, now.wall_ms)
        if decision.moved.any():
            moved = indexes.take(decision.moved)
            _, buckets = state.drop(moved.positions)
            self._place_again(moved, buckets)
        self._finish(now)
        return decision.outcome()

    # -- sealing -------------------------------------------------------------------------------------------------------

    def seal_mutable_bucket(self, now: Instant) -> int:
        """Seal the mutable bucket and return the number of its positions; 0 in a tracker in memory."""
        self._require_open()
        self._settled()
        count = 0 if self._state.limits.kind is TrackerKind.IN_MEMORY else len(self._state.mutable.bits)
        if count:
            self._lifecycle.seal(self._state.mutable)
            self._finish(now)
        return count

    def seal_open_buckets(self, now: Instant) -> int:
        """Seal the mutable and the late bucket, however small, and return the number of their positions.

        A tracker in memory seals nothing.
        """
        self._require_open()
        state = self._settled()
        if state.limits.kind is TrackerKind.IN_MEMORY:
            return 0
        filled = [bucket for bucket in (state.mutable, state.late) if bucket.bits]
        count = sum(len(bucket.bits) for bucket in filled)
        for bucket in filled:
            self._lifecycle.seal(bucket)
        self._finish(now)
        return count

    def next_seal_number(self) -> int:
        """Take the seal number of a bucket that was frozen elsewhere and is about to rank above all others."""
        self._require_open()
        return self._state.next_seal_number()

    # -- handing out ---------------------------------------------------------------------------------------------------

    def pop_due(self, max_count: int, now: Instant, *, lease_ms: int) -> Delivery:
        """Hand out the earliest due indexes that are in memory, without waiting for segments that are loading.

        Args:
            max_count: at most this many, >= 1.
            now: leases that have expired by now return first.
            lease_ms: the duration of the lease; 0 hands off and forgets them (PIP-195's behaviour).
        Returns: rows ascending by (deliver_at_ms, ledger_id, entry_id), each position once.
        Raises: InvalidInput, TrackerClosed.
        Cost: O(n log n) for n rows handed out, plus the copies passed over that do not count.
        """
        self._require_open()
        if max_count < 1:
            raise InvalidInput("max_messages", max_count, "give 1 or more")
        if not 0 <= lease_ms <= INT63_MAX - max(now):
            raise InvalidInput("lease_ms", lease_ms, "give 0 or more milliseconds")
        self._expire(now)
        state = self._state
        cutoff_ms = state.limits.cutoff_ms(now.wall_ms)
        indexes = IndexColumns.concat(take_due(state, self._lifecycle, cutoff_ms, max_count, forget=lease_ms == 0))
        delivery = Delivery(indexes)
        if lease_ms == 0:
            state.counters.handed_off += len(indexes)
            if len(indexes):
                state.note(Removed(indexes.positions))
        elif len(indexes):
            lease_id = state.leases.grant(indexes, now.elapsed_ms + lease_ms)
            delivery = Delivery(indexes, lease_id, now.wall_ms + lease_ms)
        self._settle_soon(now)
        self._finish(now)
        return delivery

    def divide(self, delivery: Delivery, counts: Sequence[int]) -> list[Delivery]:
        """Divide a delivery into several, each under a lease of its own, before anything else is done with its lease.

        Args:
            delivery: as :meth:`pop_due` just returned it.
            counts: the most rows that each part takes, 1 or more; together no fewer than there are.
        Returns: the parts in order, without those that took nothing; at least one.
        """
        indexes = delivery.indexes
        firsts = [0, *(first for first in accumulate(counts[:-1]) if first < len(indexes))]
        if len(firsts) == 1:
            return [delivery]
        parts = [indexes.take(slice(first, end)) for first, end in pairwise([*firsts, len(indexes)])]
        leases = self._state.leases.divide(delivery.lease_id, parts)
        return [Delivery(part, lease_id, delivery.expires_at_ms) for part, lease_id in zip(parts, leases, strict=True)]

    # -- leases --------------------------------------------------------------------------------------------------------

    def ack(self, lease_id: int, positions: PositionColumns, now: Instant) -> LeaseOutcome:
        """Forget positions that were delivered.

        A lease that has expired still acknowledges the positions that it returned, as long as it is remembered and the
        position was not leased again, given back or rescheduled. Any other tracked position is ``stale`` and unchanged.

        Raises: InvalidInput for a lease id never given out, TrackerClosed.
        """
        self._require_open()
        outcome = self._ack(lease_id, positions, now)
        self._finish(now)
        return outcome

    def ack_leases(self, acks: Sequence[LeaseAck], now: Instant) -> list[LeaseOutcome]:
        """Acknowledge positions of several leases, in order.

        Returns: the outcome of each; a lease that holds another number of positions than the ack says is unchanged.
        Raises: InvalidInput for a lease id never given out, TrackerClosed; nothing was changed.
        """
        self._require_open()
        leases = self._state.leases
        for ack in acks:
            leases.require_issued(ack.lease_id)
        outcomes = []
        for ack in acks:
            positions = leases.of(ack.lease_id).positions if ack.positions is None else ack.positions
            if ack.positions is None and len(positions) != ack.held_count:
                outcomes.append(LeaseOutcome.all_done(0))
            else:
                outcomes.append(self._ack(ack.lease_id, positions, now))
        self._finish(now)
        return outcomes

    def _ack(self, lease_id: int, positions: PositionColumns, now: Instant) -> LeaseOutcome:
        if self._state.leases.end_whole(lease_id, positions):
            self._state.note(Removed(positions))
            self._state.forget_soon(positions)
            self._state.counters.acked += len(positions)
            self._settle_soon(now)
            return LeaseOutcome.all_done(len(positions))
        state = self._settled()
        held, stale, free = state.leases.classify(lease_id, positions)
        acked = 0
        if held.any():
            state.note(Removed(positions.take(held)))
            state.leases.release(lease_id, positions.take(held))
            count, buckets = state.take_bits(positions.take(held))
            acked += count
            self._lifecycle.retire(buckets)
        unknown = free
        if free.any():
            tracked = free & state.members.contains(positions)
            unknown = free & ~tracked
            late = tracked & state.leases.ended.handed_out_by(lease_id, positions, now.elapsed_ms)
            stale |= tracked & ~late
            if late.any():
                state.note(Removed(positions.take(late)))
                state.leases.ended.forget(positions.take(late))
                count, buckets = state.drop(positions.take(late))
                acked += count
                self._lifecycle.retire(buckets)
        state.counters.acked += acked
        return LeaseOutcome(acked, np.flatnonzero(stale), np.flatnonzero(unknown))

    def nack(
        self, lease_id: int, positions: PositionColumns, now: Instant, *, deliver_at_ms: int | None = None
    ) -> LeaseOutcome:
        """Give leased positions back: due again at once, or rescheduled to a new deadline.

        Raises: InvalidInput for a lease id never given out or a deadline out of range, TrackerClosed.
        """
        self._require_open()
        if deliver_at_ms is not None and not 0 <= deliver_at_ms <= INT63_MAX:
            raise InvalidInput("deliver_at_ms", deliver_at_ms, f"give milliseconds from 0 to {INT63_MAX}")
        state = self._settled()
        held, stale, free = state.leases.classify(lease_id, positions)
        if free.any():
            tracked = free & state.members.contains(positions)
            # The position was given back, even if too late to matter: a later ack of this lease is not accepted.
            late = tracked & state.leases.ended.handed_out_by(lease_id, positions, now.elapsed_ms)
            state.leases.ended.forget(positions.take(late))
            stale |= tracked
            free &= ~tracked
        returned = IndexColumns.empty()
        if held.any():
            returned = state.leases.release(lease_id, positions.take(held))
            if deliver_at_ms is None:
                state.requeue(returned)
            else:
                deadlines = np.full(len(returned), deliver_at_ms, np.int64)
                _, buckets = state.take_bits(returned.positions)
                moved = IndexColumns(deadlines, returned.ledger_id, returned.entry_id)
                self._place_again(moved, buckets)
        self._finish(now)
        return LeaseOutcome(len(returned), np.flatnonzero(stale), np.flatnonzero(free))

    def _place_again(self, moved: IndexColumns, buckets: Sequence[Bucket]) -> None:
        """Track positions under new deadlines, after their bits were cleared in the buckets that had them."""
        # A snapshot keeps the old deadline: the position moves to a bucket in memory.
        state = self._state
        adding.place(state, self._lifecycle, moved)
        state.note(Rescheduled(moved))
        self._lifecycle.retire(buckets)
        state.counters.rescheduled += len(moved)
        if state.fixed_delay is not None:
            state.fixed_delay.note_offered(moved, any_due=False)

    def extend(self, lease_id: int, positions: PositionColumns | None, now: Instant, *, lease_ms: int) -> ExtendOutcome:
        """Set a new expiry, counted from now, for positions that a lease holds.

        Args:
            lease_id: as a poll returned it.
            positions: None for everything that the lease still holds.
            now: leases that have expired by now return first, and are stale.
            lease_ms: 1 or more.
        Raises: InvalidInput for a lease id never given out or a lease time out of range, TrackerClosed.
        """
        self._require_open()
        if not 1 <= lease_ms <= INT63_MAX - max(now):
            raise InvalidInput("lease_ms", lease_ms, "give 1 or more milliseconds")
        self._settled().leases.require_issued(lease_id)
        self._expire(now)
        leases = self._state.leases
        if positions is None:
            positions = leases.of(lease_id).positions
        held, stale, free = leases.classify(lease_id, positions)
        tracked = free & self._state.members.contains(positions)
        if held.any():
            leases.extend(lease_id, positions.take(held), now.elapsed_ms + lease_ms)
        self._finish(now)
        return ExtendOutcome(
            int(held.sum()), now.wall_ms + lease_ms, np.flatnonzero(stale | tracked), np.flatnonzero(free & ~tracked)
        )

    def expire_leases(self, now: Instant) -> int:
        """Make the positions of expired leases due again. Returns the number of positions."""
        self._require_open()
        count = self._expire(now)
        self._finish(now)
        return count

    def _expire(self, now: Instant) -> int:
        first_ms = self._state.leases.next_expiry_ms()
        if first_ms is None or first_ms > now.elapsed_ms:
            return 0
        # Together: one by one, 100 leases that expire at once are sorted and joined 100 times.
        expired = IndexColumns.concat(self._state.leases.expire(now.elapsed_ms))
        self._state.requeue(expired)
        self._state.counters.lease_expired += len(expired)
        return len(expired)

    def _release_all(self) -> None:
        self._state.requeue(IndexColumns.concat(self._state.leases.release_all()))

    # -- the cursor and the owner --------------------------------------------------------------------------------------

    def advance_mark_delete(self, position: Position, now: Instant) -> TrimOutcome:
        """Drop everything at or below a position, leased or not; a position below the current one changes nothing.

        Raises: InvalidInput for a ledger below 0 or an entry below -1, TrackerClosed.
        Cost: O(buckets + ledgers + leases).
        """
        self._require_open()
        if position.ledger_id < 0 or position.entry_id < -1:
            raise InvalidInput("mark_delete", str(position), "give a ledger from 0 and an entry from -1")
        if position <= self._state.mark_delete:
            return TrimOutcome(self._state.mark_delete, 0)
        self._settled()
        trimmed = self._trim(position)
        self._finish(now)
        return TrimOutcome(position, trimmed)

    def _trim(self, position: Position) -> int:
        state = self._state
        state.mark_delete = position
        state.note(MarkDeleteAdvanced(position))
        trimmed, buckets = state.trim(position)
        state.counters.trimmed += trimmed
        self._lifecycle.retire(buckets)
        return trimmed

    def reset_cursor(self, mark_delete: Position, now: Instant) -> int:
        """Clear the tracker and take a new mark-delete position, higher or lower. The replay adds everything again.

        Raises: InvalidInput for a position that is neither BEFORE_ALL nor a ledger from 0 and an entry from -1.
        """
        self._require_open()
        if mark_delete != BEFORE_ALL and (mark_delete.ledger_id < 0 or mark_delete.entry_id < -1):
            raise InvalidInput("mark_delete", str(mark_delete), "give a ledger from 0 and an entry from -1")
        self._state.mark_delete = mark_delete
        return self.clear(now)

    def begin_epoch(self, epoch: int, now: Instant) -> None:
        """Begin the epoch of a new owner: all leases return. Effects in flight stay valid; the old epoch may fail to commit."""
        self._require_open()
        if epoch <= self._state.epoch:
            raise InvalidInput("epoch", epoch, f"give more than {self._state.epoch}")
        self._settled().epoch = epoch
        self._release_all()
        self._lifecycle.replay_required = False
        self._finish(now)

    def clear(self, now: Instant) -> int:
        """Forget every position, delete every snapshot, and return the number of positions.

        A barrier: the epoch rises, leases are void, and results of effects of before are ignored.
        """
        self._require_open()
        cleared = self._forget_everything()
        self._finish(now)
        return cleared

    def adopt(
        self, plan: RecoveryPlan, *, mark_delete: Position, now: Instant, offered_through: Position = BEFORE_ALL
    ) -> int:
        """Replace every position by the buckets that a plan keeps, and return the number of positions replaced.

        A barrier, as :meth:`clear`. The higher of the two mark-delete positions is in force from now on. The next owner
        replays from there, which adds what was only in memory.
        """
        self._require_open()
        replaced = self._forget_everything(plan.delete)
        self._insert(plan)
        self._trim(max(self._state.mark_delete, mark_delete))
        if offered_through != BEFORE_ALL:
            self.advance_offered_through(offered_through)
        self._finish(now)
        return replaced

    def delete(self, now: Instant) -> int:
        """Clear the tracker and refuse every later call: the subscription is gone. Returns the number of positions."""
        cleared = self.clear(now)
        self.load_share.stop_waiting()
        self._closed = True
        return cleared

    def close(self, now: Instant) -> None:
        """Void all leases and refuse later verbs. Snapshots stay; the mutable bucket is not sealed, a replay covers it.

        Results of effects in flight are still applied. Closing twice is harmless.
        """
        if not self._closed:
            self._settled()
            self._release_all()
            self._finish(now)
            self.load_share.stop_waiting()
            self._closed = True

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

    def _forget_everything(self, unwanted: Sequence[int] = ()) -> int:
        state = self._settled()
        cleared = state.counters.tracked
        state.epoch += 1
        self._merger.forget()
        self._lifecycle.forget_all(unwanted)
        self._lifecycle.replay_required = False  # nothing is missing any more
        state.reset_buckets()
        state.offered_through = BEFORE_ALL
        state.counters.cleared += cleared
        return cleared

    # -- effects and time ----------------------------------------------------------------------------------------------

    def take_effects(self) -> list[Effect]:
        """Return the effects asked for since the last call, in order; each needs exactly one result."""
        return self._lifecycle.take_effects()

    def apply(self, result: EffectResult, now: Instant) -> bool:
        """Apply the result of an effect. Returns False if the effect is forgotten: then nothing was changed."""
        lifecycle, merger = self._lifecycle, self._merger
        match result:
            case SegmentsLoaded():
                known = lifecycle.segments_loaded(result.effect_id, result.indexes, now)
            case SnapshotsDeleted():
                return lifecycle.snapshots_deleted(result.effect_id)
            case DeleteFailed():
                return lifecycle.delete_failed(result.effect_id, now)
            case SnapshotStored():
                self._settled()
                known = lifecycle.snapshot_stored(
                    result.effect_id, result.bucket_id, result.sealed, result.snapshot_bytes, now
                )
            case SnapshotFailed():
                self._settled()
                known = lifecycle.snapshot_failed(result.effect_id, now)
            case SegmentLoadFailed():
                self._settled()
                known = lifecycle.segment_load_failed(result.effect_id, now, lost=result.lost)
            case SnapshotsMerged():
                self._settled()
                known = merger.merged(
                    result.effect_id,
                    result.bucket_id,
                    result.bounds,
                    snapshot_bytes=result.snapshot_bytes,
                    stored=result.stored,
                )
            case MergeFailed():
                self._settled()
                known = merger.failed(
                    result.effect_id, now, lost_bucket_ids=result.lost_bucket_ids, too_large=result.too_large
                )
        self._finish(now)
        return known

    def wake(self, now: Instant) -> None:
        """Do everything that time alone causes: expire leases, retry failed effects, load what is nearly due."""
        if not self._closed:
            if self._settle_at_ms is not None and self._settle_at_ms <= now.elapsed_ms:
                self._settled()
            self._expire(now)
            self._state.leases.ended.sweep(now.elapsed_ms)
            self._finish(now)

    def _finish(self, now: Instant) -> None:
        """End a change: make the next deadline exact, begin retries and merges, load segments that are nearly due."""
        self._state.settle()
        if self._state.fixed_delay is not None:
            self._state.fixed_delay.note_tracked(self._state.counters.tracked)
        if not self._closed:
            if (
                self._lifecycle.is_retry_due(now)
                or self._merger.is_wanted(now)
                or self._lifecycle.settling_may_make_room()
            ):
                self._settled()
                self._lifecycle.retry_due(now)
                self._merger.merge_if_needed(now)
            self._lifecycle.note_loaded()
            self._lifecycle.prefetch(now)
        else:
            self._lifecycle.note_loaded()

    def _settled(self) -> TrackerState:
        """Clear the bits of consumed positions, retire drained buckets, and return the state; for changes."""
        self._lifecycle.settle_bits()
        self._settle_at_ms = None
        return self._state

    def _state_for_reading(self) -> TrackerState:
        """Return the state with the bits of consumed positions cleared; for reading. Drained buckets stay until a change."""
        self._state.settle_bits()
        self._lifecycle.note_loaded()
        return self._state

    def _settle_soon(self, now: Instant) -> None:
        """Put merged rows away once they are used up, and arrange that bits are cleared soon, if not at once."""
        state = self._state
        if not state.heap.ready:
            state.heap.put_ready_away()
            if state.gone_count and (not state.leases.leased_count or state.gone_count >= _GONE_MAX):
                self._settled()
        if self._settle_at_ms is None and not state.is_settled:
            self._settle_at_ms = now.elapsed_ms + _SETTLE_AFTER_MS

    def _require_open(self) -> None:
        if self._closed:
            raise TrackerClosed("the tracker is closed; open it again")

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def limits(self) -> TrackerLimits:
        """The bounds and durations of the tracker."""
        return self._state.limits

    @property
    def epoch(self) -> int:
        """The epoch in force."""
        return self._state.epoch

    @property
    def mark_delete(self) -> Position:
        """Position up to which everything is acknowledged."""
        return self._state.mark_delete

    @property
    def replay_required(self) -> bool:
        """True if positions were lost with a snapshot: the dispatcher must replay from mark-delete + 1."""
        return self._lifecycle.replay_required

    @property
    def leased_count(self) -> int:
        """Positions leased now. O(1)."""
        return self._state.leases.leased_count

    @property
    def load_share(self) -> LoadShare:
        """The tracker's part of the rows of snapshots that all trackers may hold in memory together."""
        return self._lifecycle.load_share

    def __len__(self) -> int:
        """Positions tracked, leased ones included."""
        return self._state.counters.tracked

    def unstored_counts(self) -> tuple[int, int]:
        """Return the positions in memory that no snapshot has, and the part of them that is being stored or retried.

        O(1). Positions consumed in the last second may still count.
        """
        state = self._state
        return len(state.mutable.bits) + len(state.late.bits) + state.sealing_count, state.sealing_count

    def contains(self, positions: PositionColumns) -> BoolArray:
        """Return for each position True if it is tracked; leased ones are. O(n), mostly without a step for each ledger."""
        return self._state_for_reading().members.contains(positions)

    def next_delivery_ms(self) -> int | None:
        """Return the time from which a poll succeeds, or None. Unloaded segments count from their first deadline."""
        state = self._state
        deadline = earliest((state.heap.head_ms, state.segments.first_min_ms()))
        return None if deadline is None else state.limits.due_from_ms(deadline)

    def next_wakeup(self) -> Wakeup:
        """Return the next delivery or prefetch by the wall clock, and the next lease expiry or retry in elapsed time."""
        timer = self.next_timer()
        return Wakeup(earliest((self.next_delivery_ms(), timer.wall_ms)), timer.elapsed_ms)

    def next_timer(self) -> Wakeup:
        """Return the times at which :meth:`wake` has something to do even if no poll comes."""
        prefetch_ms, retry_ms = self._lifecycle.next_wakeup()
        durations = (
            retry_ms,
            self._merger.next_retry_ms(),
            self._state.leases.next_expiry_ms(),
            self._state.leases.ended.next_sweep_ms(),
            self._settle_at_ms,
        )
        return Wakeup(prefetch_ms, earliest(durations))

    def pause_reading(self, now_ms: int) -> bool:
        """Return True if the dispatcher may stop reading ahead until the next delivery; a hint of the in-memory tracker.

        Enough positions wait, all seem to have the same delay, and none of them is due.
        """
        state = self._state
        if state.fixed_delay is None:
            return False
        next_ms = self.next_delivery_ms()
        waiting_count = state.counters.tracked - state.leases.leased_count
        return next_ms is not None and next_ms > now_ms and state.fixed_delay.enough_wait(waiting_count)

    def stats(self) -> TrackerStats:
        """Return sizes and counters."""
        return tracker_stats(
            self._state_for_reading(), self.next_delivery_ms(), replay_required=self._lifecycle.replay_required
        )

    def numbers(self, now_ms: int) -> tuple[int, ...]:
        """Return the columns of :data:`delayed_tracker.core.inspect.numbers.NUMBERS`, without clearing bits first."""
        return tracker_numbers(
            self._state,
            now_ms,
            fallback_count=self._lifecycle.fallback_count,
            merge_backlog=self._merger.backlog,
        )

    def events(self) -> tuple[int, ...]:
        """Return the columns of :data:`delayed_tracker.core.inspect.numbers.EVENTS`, valid even for a core that failed."""
        return event_counts(self._state.counters)

    def buckets(self) -> list[BucketView]:
        """Return every bucket that holds something, by first position. O(buckets), and chunks added since the last look."""
        return bucket_views(self._state_for_reading())

    def stored_counts(self) -> dict[int, tuple[int, int]]:
        """Return for each stored bucket the positions still tracked, and those that its snapshot has. O(buckets)."""
        return {
            bucket.snapshot.bucket_id: (len(bucket.bits), bucket.sealed_count)
            for bucket in self._state_for_reading().members.buckets.values()
            if bucket.snapshot is not None
        }

    def remaining(self, bucket_ids: Collection[int] | None = None) -> dict[int, PositionBitmap]:
        """Return copies of the positions still tracked of each stored bucket, or of each of these."""
        return {
            bucket.snapshot.bucket_id: bucket.bits.copy()
            for bucket in self._state_for_reading().members.buckets.values()
            if bucket.snapshot is not None and (bucket_ids is None or bucket.snapshot.bucket_id in bucket_ids)
        }

    def undeleted(self) -> frozenset[int]:
        """Return the buckets whose deletion was asked for and has no result yet: the catalogue may still name them."""
        return self._lifecycle.undeleted()

    def explain(self, position: Position, now: Instant) -> Explanation:
        """Return the place of a position and the time of its delivery. O(copies in memory of its bucket)."""
        return inspection.explain(self._state_for_reading(), position, now)

    def loaded_between(self, from_ms: int, until_ms: int | None = None) -> tuple[IndexColumns, BoolArray]:
        """Return the tracked rows in memory with a deadline in [from_ms, until_ms), sorted, and a mask of leased ones."""
        return inspection.loaded_between(self._state_for_reading(), from_ms, until_ms)

    def unloaded(self) -> list[inspection.UnloadedSegments]:
        """Return the segments that are not in memory, by bucket. O(buckets + bitmaps)."""
        return inspection.unloaded(self._state_for_reading())

    def filter_range(self, ledger_id: int, first_entry: int, last_entry: int) -> list[tuple[int, int]]:
        """Return the parts of an entry range, both ends inclusive, that a cursor should read now: those not tracked."""
        return inspection.filter_range(self._state_for_reading(), ledger_id, first_entry, last_entry)

    def check(self) -> None:
        """Verify every invariant that can be seen from inside. O(everything).

        Raises:
            InvariantViolation: the state contradicts itself; this is a bug.
        """
        # Before bits are cleared: a bucket that this drains may make a merge unnecessary.
        self._merger.check(planning=not self._closed)
        before = self.next_wakeup()
        state = self._state_for_reading()
        state.settle()
        # Second copies of positions whose bits were just cleared are passed only now.
        self._lifecycle.note_loaded()
        after = self.next_wakeup()
        check_invariants(state, self._lifecycle, self.next_delivery_ms(), after)
        for moment, settled in zip(before, after, strict=True):
            if settled is not None and (moment is None or moment > settled):
                raise InvariantViolation(f"no wake-up at {settled}; before bits were cleared it was at {moment}")


__all__ = ["TrackerClosed", "TrackerCore"]
