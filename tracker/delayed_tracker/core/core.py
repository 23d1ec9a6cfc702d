"""TrackerCore: the verbs of one tracker. Calls in, results of verbs and effects out; no waiting, no clock, no randomness.

Each verb checks its arguments, lets a module of ``engine`` decide and change the rows, and ends with ``Upkeep.finish``.
After each call the owner drains :meth:`TrackerCore.take_effects` and reads :meth:`TrackerCore.next_wakeup`. An error
applies nothing. Time is an argument: the wall clock for deadlines, which may step, and elapsed time for durations.
"""

from collections.abc import Collection, Sequence

from delayed_tracker.core.engine import adding, barriers, handing_out, removing, replaying, rescheduling, returning
from delayed_tracker.core.engine.applying import apply_result
from delayed_tracker.core.engine.effect_results import DeleteFailed, EffectResult, SnapshotsDeleted
from delayed_tracker.core.engine.effects import Effect
from delayed_tracker.core.engine.journal import Journal
from delayed_tracker.core.engine.leases import LeaseAck
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.load_budget import LoadBudget, LoadShare
from delayed_tracker.core.engine.merger import BucketMerger
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.engine.upkeep import Upkeep
from delayed_tracker.core.inspect import inspection, resting
from delayed_tracker.core.inspect.invariants import check_tracker
from delayed_tracker.core.inspect.membership_parts import MembershipReading
from delayed_tracker.core.inspect.numbers import event_counts, tracker_numbers
from delayed_tracker.core.inspect.stats import bucket_views, tracker_stats
from delayed_tracker.core.rules.recovery import RecoveryPlan
from delayed_tracker.core.values.changes import Change
from delayed_tracker.core.values.columns import (
    BEFORE_ALL,
    INT63_MAX,
    BoolArray,
    IndexColumns,
    Position,
    PositionColumns,
    require_cursor_position,
)
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.instant import Instant, Wakeup
from delayed_tracker.core.values.limits import TrackerLimits
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


class TrackerCore:
    """The delayed positions of one subscription: tracked, due, or leased.

    Membership is the only truth: one bit in exactly one bucket for each tracked position. Copies in runs and snapshots
    count only under the bit of their own bucket. Reading changes nothing that a caller can see and asks for no effect.

    ``epoch`` is the owner's, carried by effects; everything at or below ``mark_delete`` is acknowledged.
    """

    __slots__ = ("__weakref__", "_lifecycle", "_merger", "_state", "_upkeep")

    def __init__(self, limits: TrackerLimits, *, epoch: int = 0, mark_delete: Position = BEFORE_ALL) -> None:
        self._state = TrackerState(limits, epoch=epoch, mark_delete=mark_delete)
        self._lifecycle = BucketLifecycle(self._state, LoadBudget(limits.loaded_indexes_max).share())
        self._merger = BucketMerger(self._state, self._lifecycle)
        self._upkeep = Upkeep(self._state, self._lifecycle, self._merger)

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

        ``last_seal_number`` is the highest in the catalogue. Without ``loads`` nothing is loaded before :meth:`load_within`.
        """
        core = cls(limits, epoch=epoch, mark_delete=mark_delete)
        state = core._state
        state.last_seal_number = last_seal_number
        # Acks of leases from before a restart are no errors: their ids were given out, and what they returned is unknown.
        state.leases.number_after((epoch - 1) << _LEASE_ID_BITS)
        barriers.insert_recovered(state, plan)
        if gone := (*plan.delete, *lost_bucket_ids):
            core._lifecycle.delete(gone)
        if loads:
            core._upkeep.finish(now)
        return core

    def load_within(self, share: LoadShare, now: Instant) -> None:
        """Load only what a budget leaves that is shared with other trackers; called before anything was loaded."""
        self._state.require_open()
        assert not self._lifecycle.loads.share.held_count
        self._lifecycle.loads.share = share
        self._upkeep.finish(now)

    # -- changes for an add log ------------------------------------------------------------------------------------------

    def begin_journal(self, last_number: int, offered_through: Position) -> None:
        """Note all changes from now on; called once, right after the recovery.

        ``last_number`` is the last change that the recovered buckets contain, ``offered_through`` the claim as of then.
        """
        assert self._state.journal is None
        self._state.journal = Journal(last_number)
        self._state.offered_through = offered_through

    def replay(self, numbers: Sequence[int], changes: Sequence[Change]) -> None:
        """Apply changes that were logged, at least one; their numbers ascend, and none comes after another verb."""
        replaying.replay(self._upkeep.bring_up_to_date(), self._lifecycle, numbers, changes)
        self._state.expose_live_head()

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
        """Return the changes since the last call, in order; they may share memory with the columns of the calls."""
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
        self._upkeep.bring_up_to_date()
        return self._lifecycle.contained_through()

    @property
    def offered_through(self) -> Position:
        """Position up to which the dispatcher has offered everything; BEFORE_ALL if it has claimed nothing."""
        return self._state.offered_through

    def stored_through(self, storing_id: int | None = None) -> Position:
        """Return the part of the claim that holds without the add log: all of it is in snapshots; BEFORE_ALL if none is.

        Take it at the same moment as the content of a catalogue write, or later. With the id of a ``StoreSnapshot`` whose
        commit is about to be written, its bucket counts as stored.
        """
        return self._lifecycle.stored_through(storing_id)

    def advance_offered_through(self, position: Position) -> Position:
        """Take a claim of the dispatcher, if it is higher than the present one, and return the claim in force.

        Raises: InvalidInput for a ledger below 0 or an entry below -1, TrackerClosed.
        """
        self._state.require_open()
        require_cursor_position("offered_through", position)
        self._state.offer_through(position)
        return self._state.offered_through

    def offer_again_from(self, position: Position) -> None:
        """Take the claim back to before a position that was lost; BEFORE_ALL ends it."""
        self._state.offer_again_from(position)

    # -- resting -------------------------------------------------------------------------------------------------------

    @property
    def can_rest(self) -> bool:
        """True if a recovery from catalogue and log would lose nothing, once both are written. O(1)."""
        return resting.can_rest(self._state, self._lifecycle, self.next_timer())

    def falls_due_ms(self) -> int | None:
        """Return the wall-clock time from which the core is needed in memory without a call; None if nothing is tracked."""
        return resting.falls_due_ms(self._state, self.next_timer(), lead_ms=self.load_share.lead_ms)

    def rest(self, now_ms: int) -> resting.RestingTracker:
        """Return what a later :meth:`resume` and readers of numbers need; the core is not used afterwards."""
        return resting.at_rest(self._state, self.stats(), self.numbers(now_ms), falls_due_ms=self.falls_due_ms())

    def resume(self, before: resting.RestingTracker, *, lost: bool) -> None:
        """Go on with the counters and lease ids of a core that has rested; called once, right after the recovery.

        ``lost`` is True if snapshots or records of the log were lost meanwhile: the dispatcher has to replay.
        """
        state = self._state
        state.leases.number_after(before.last_lease_id)
        state.counters = before.counters.going_on_with(state.counters.tracked)
        self._lifecycle.replay_required |= lost

    # -- adding --------------------------------------------------------------------------------------------------------

    def add(self, indexes: IndexColumns, now: Instant) -> AddOutcome:
        """Track indexes, in order, in one step; any order of ledgers is legal.

        If a position is repeated in the batch, the first one decides: the others are duplicates if it is tracked, and else
        have its outcome. A leased position stays as it is. Otherwise due is checked before duplicate; a tracked position
        that is due is no longer tracked, because the dispatcher sends it now. O(n) and a bitmap operation per ledger;
        sealing is O(1) here.
        """
        self._state.require_open()
        state = self._state
        if adding.put_if_above(state, indexes, now.wall_ms):
            accepted, outcome = indexes, AddOutcome.all_added(len(indexes))
        else:
            accepted, outcome = adding.add_any(self._upkeep.bring_up_to_date(), self._lifecycle, indexes, now.wall_ms)
        self._upkeep.finish(now)
        if state.fixed_delay is not None:
            state.fixed_delay.note_offered(accepted, any_due=bool(len(outcome.due)))
        return outcome

    def would_track(self, indexes: IndexColumns, now: Instant) -> bool:
        """Return True if adding a batch would track a position that is not tracked yet. O(n), changes nothing."""
        self._state.require_open()
        return adding.would_track(self._upkeep.for_reading(), indexes, now.wall_ms)

    def cancel(self, positions: PositionColumns, now: Instant) -> CancelOutcome:
        """Forget positions that are not leased. A replay adds them again unless the cursor acknowledges them too."""
        outcome = removing.cancel(self._upkeep.for_change(), self._lifecycle, positions)
        self._upkeep.finish(now)
        return outcome

    def reschedule(self, indexes: IndexColumns, now: Instant) -> RescheduleOutcome:
        """Give tracked positions that are not leased another deadline, sooner or later, in one step.

        The new deadline counts from the return on: copies with the old one, in memory or in a snapshot, never come out.
        A new deadline that is due is handed out by the next poll. If a position is repeated, the first row decides. A
        repetition of the call gives the same result. Amortised O(n log m), with m positions that were rescheduled before,
        and a bitmap operation per ledger and bucket.
        """
        outcome = rescheduling.reschedule(self._upkeep.for_change(), self._lifecycle, indexes, now.wall_ms)
        self._upkeep.finish(now)
        return outcome

    # -- sealing -------------------------------------------------------------------------------------------------------

    def seal_mutable_bucket(self, now: Instant) -> int:
        """Seal the mutable bucket and return the number of its positions; 0 in a tracker in memory."""
        count = self._lifecycle.seal_filled(self._upkeep.for_change().mutable)
        self._upkeep.finish(now)
        return count

    def seal_open_buckets(self, now: Instant) -> int:
        """Seal the mutable and the late bucket, however small, and return the number of positions; 0 as above."""
        state = self._upkeep.for_change()
        count = self._lifecycle.seal_filled(state.mutable, state.late)
        self._upkeep.finish(now)
        return count

    def next_seal_number(self) -> int:
        """Take the seal number of a bucket that was frozen elsewhere and is about to rank above all others."""
        self._state.require_open()
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
        Cost: O(n log n) for n rows, plus the copies passed over that do not count.
        """
        self._state.require_open()
        if max_count < 1:
            raise InvalidInput("max_messages", max_count, "give 1 or more")
        if not 0 <= lease_ms <= INT63_MAX - max(now):
            raise InvalidInput("lease_ms", lease_ms, "give 0 or more milliseconds")
        returning.expire(self._state, now.elapsed_ms)
        delivery = handing_out.hand_out(self._state, self._lifecycle, max_count, now, lease_ms=lease_ms)
        self._upkeep.clear_soon(now)
        self._upkeep.finish(now)
        return delivery

    def divide(self, delivery: Delivery, counts: Sequence[int]) -> list[Delivery]:
        """Divide a delivery that :meth:`pop_due` just returned into parts, each under a lease of its own.

        Each part takes at most its count, 1 or more; together the counts are no fewer than the rows. Parts without rows
        are left out, except the first.
        """
        return handing_out.divide(self._state.leases, delivery, counts)

    # -- leases --------------------------------------------------------------------------------------------------------

    def ack(self, lease_id: int, positions: PositionColumns, now: Instant) -> LeaseOutcome:
        """Forget positions that were delivered.

        A lease that has expired still acknowledges the positions that it returned, as long as it is remembered and the
        position was not leased again, given back or rescheduled. Any other tracked position is ``stale`` and unchanged.

        Raises: InvalidInput for a lease id never given out, TrackerClosed.
        """
        self._state.require_open()
        outcome = self._ack(lease_id, positions, now)
        self._upkeep.finish(now)
        return outcome

    def ack_leases(self, acks: Sequence[LeaseAck], now: Instant) -> list[LeaseOutcome]:
        """Acknowledge positions of several leases, in order.

        Returns: the outcome of each; a lease that holds another number of positions than the ack says is unchanged.
        Raises: InvalidInput for a lease id never given out, TrackerClosed; nothing was changed.
        """
        self._state.require_open()
        leases = self._state.leases
        for ack in acks:
            leases.require_issued(ack.lease_id)
        outcomes = []
        for ack in acks:
            positions = leases.positions_of(ack)
            outcomes.append(LeaseOutcome.all_done(0) if positions is None else self._ack(ack.lease_id, positions, now))
        self._upkeep.finish(now)
        return outcomes

    def _ack(self, lease_id: int, positions: PositionColumns, now: Instant) -> LeaseOutcome:
        if removing.acknowledge_whole(self._state, lease_id, positions):
            self._upkeep.clear_soon(now)
            return LeaseOutcome.all_done(len(positions))
        return removing.acknowledge(
            self._upkeep.bring_up_to_date(), self._lifecycle, lease_id, positions, now.elapsed_ms
        )

    def nack(
        self, lease_id: int, positions: PositionColumns, now: Instant, *, deliver_at_ms: int | None = None
    ) -> LeaseOutcome:
        """Give leased positions back: due again at once, or rescheduled to a new deadline.

        Raises: InvalidInput for a lease id never given out or a deadline out of range, TrackerClosed.
        """
        self._state.require_open()
        if deliver_at_ms is not None and not 0 <= deliver_at_ms <= INT63_MAX:
            raise InvalidInput("deliver_at_ms", deliver_at_ms, f"give milliseconds from 0 to {INT63_MAX}")
        state = self._upkeep.bring_up_to_date()
        outcome = returning.give_back(state, self._lifecycle, lease_id, positions, now, deliver_at_ms=deliver_at_ms)
        self._upkeep.finish(now)
        return outcome

    def extend(self, lease_id: int, positions: PositionColumns | None, now: Instant, *, lease_ms: int) -> ExtendOutcome:
        """Set a new expiry, ``lease_ms`` (1 or more) from now, for positions that a lease holds; None for all of them.

        Leases that have expired by now return first, and are stale.

        Raises: InvalidInput for a lease id never given out or a lease time out of range, TrackerClosed.
        """
        self._state.require_open()
        if not 1 <= lease_ms <= INT63_MAX - max(now):
            raise InvalidInput("lease_ms", lease_ms, "give 1 or more milliseconds")
        outcome = returning.extend(self._upkeep.bring_up_to_date(), lease_id, positions, now, lease_ms)
        self._upkeep.finish(now)
        return outcome

    def expire_leases(self, now: Instant) -> int:
        """Make the positions of expired leases due again. Returns the number of positions."""
        self._state.require_open()
        count = returning.expire(self._state, now.elapsed_ms)
        self._upkeep.finish(now)
        return count

    # -- the cursor and the owner --------------------------------------------------------------------------------------

    def advance_mark_delete(self, position: Position, now: Instant) -> TrimOutcome:
        """Drop everything at or below a position, leased or not; a position below the current one changes nothing.

        Raises: InvalidInput for a ledger below 0 or an entry below -1, TrackerClosed.
        Cost: O(buckets + ledgers + leases).
        """
        self._state.require_open()
        require_cursor_position("mark_delete", position)
        if position <= self._state.mark_delete:
            return TrimOutcome(self._state.mark_delete, 0)
        trimmed = removing.trim(self._upkeep.bring_up_to_date(), self._lifecycle, position)
        self._upkeep.finish(now)
        return TrimOutcome(position, trimmed)

    def reset_cursor(self, mark_delete: Position, now: Instant) -> int:
        """Clear the tracker and take a new mark-delete position, higher or lower. The replay adds everything again.

        Raises: InvalidInput for a position that is neither BEFORE_ALL nor a ledger from 0 and an entry from -1.
        """
        self._state.require_open()
        if mark_delete != BEFORE_ALL:
            require_cursor_position("mark_delete", mark_delete)
        self._state.mark_delete = mark_delete
        return self.clear(now)

    def move_cursor(self, mark_delete: Position, now: Instant) -> int:
        """Take a new mark-delete position, higher or lower, and keep what is tracked above; return the number dropped.

        Leases return, and the epoch rises. What was acknowledged or trimmed before is not tracked until it is added again,
        with the deadline that it then has. Effects in flight stay valid; the old epoch may fail to commit.

        Raises: InvalidInput as :meth:`reset_cursor`, TrackerClosed.
        """
        self._state.require_open()
        if mark_delete != BEFORE_ALL:
            require_cursor_position("mark_delete", mark_delete)
        state = self._upkeep.bring_up_to_date()
        state.epoch += 1
        returning.release_all(state)
        dropped = removing.move_cursor(state, self._lifecycle, mark_delete)
        self._lifecycle.replay_required = False  # the dispatcher replays all that may be missing
        self._upkeep.finish(now)
        return dropped

    def begin_epoch(self, epoch: int, now: Instant) -> None:
        """Begin the epoch of a new owner: all leases return. Effects in flight stay valid; the old epoch may fail to commit.

        Raises: InvalidInput for an epoch that is not above the present one, TrackerClosed.
        """
        self._state.require_open()
        if epoch <= self._state.epoch:
            raise InvalidInput("epoch", epoch, f"give more than {self._state.epoch}")
        state = self._upkeep.bring_up_to_date()
        state.epoch = epoch
        returning.release_all(state)
        self._lifecycle.replay_required = False
        self._upkeep.finish(now)

    def clear(self, now: Instant) -> int:
        """Forget every position, delete every snapshot, and return the number of positions.

        A barrier: the epoch rises, leases are void, and results of effects of before are ignored.
        """
        cleared = barriers.forget_everything(self._upkeep.for_change(), self._lifecycle, self._merger)
        self._upkeep.finish(now)
        return cleared

    def adopt(
        self, plan: RecoveryPlan, *, mark_delete: Position, now: Instant, offered_through: Position = BEFORE_ALL
    ) -> int:
        """Replace every position by the buckets that a plan keeps, and return the number of positions replaced.

        A barrier, as :meth:`clear`. The higher of the two mark-delete positions is in force from now on. The next owner
        replays from there, which adds what was only in memory.
        """
        state = self._upkeep.for_change()
        replaced = barriers.forget_everything(state, self._lifecycle, self._merger, plan.delete)
        barriers.insert_recovered(state, plan)
        removing.trim(state, self._lifecycle, max(state.mark_delete, mark_delete))
        if offered_through != BEFORE_ALL:
            self.advance_offered_through(offered_through)
        self._upkeep.finish(now)
        return replaced

    def delete(self, now: Instant) -> int:
        """Clear the tracker and refuse every later call: the subscription is gone. Returns the number of positions."""
        cleared = self.clear(now)
        self.load_share.stop_waiting()
        self._state.is_closed = True
        return cleared

    def close(self, now: Instant) -> None:
        """Void all leases and refuse later verbs. Snapshots stay; the mutable bucket is not sealed, a replay covers it.

        Results of effects in flight are still applied. Closing twice is harmless.
        """
        if not self._state.is_closed:
            returning.release_all(self._upkeep.bring_up_to_date())
            self._upkeep.finish(now)
            self.load_share.stop_waiting()
            self._state.is_closed = True

    # -- effects and time ----------------------------------------------------------------------------------------------

    def take_effects(self) -> list[Effect]:
        """Return the effects asked for since the last call, in order; each needs exactly one result."""
        return self._lifecycle.effects.take()

    def apply(self, result: EffectResult, now: Instant) -> bool:
        """Apply the result of an effect. Returns False if the effect is forgotten: then nothing was changed."""
        known = apply_result(result, self._lifecycle, self._merger, self._upkeep, now)
        if not isinstance(result, SnapshotsDeleted | DeleteFailed):  # they leave nothing to do before a retry
            self._upkeep.finish(now)
        return known

    def wake(self, now: Instant) -> None:
        """Do everything that time alone causes: expire leases, retry failed effects, load what is nearly due."""
        if not self._state.is_closed:
            self._upkeep.clear_if_due(now)
            returning.expire(self._state, now.elapsed_ms)
            self._state.leases.ended.sweep(now.elapsed_ms)
            self._upkeep.finish(now)

    def next_delivery_ms(self) -> int | None:
        """Return the time from which a poll succeeds, or None. Unloaded segments count from their first deadline."""
        return self._state.next_delivery_ms()

    def next_timer(self) -> Wakeup:
        """Return the times at which :meth:`wake` has something to do even if no poll comes."""
        return self._upkeep.next_timer()

    def next_wakeup(self) -> Wakeup:
        """Return the next delivery or prefetch by the wall clock, and the next lease expiry or retry in elapsed time."""
        return self._upkeep.next_wakeup()

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
        return self._lifecycle.loads.share

    def __len__(self) -> int:
        """Positions tracked, leased ones included."""
        return self._state.counters.tracked

    def unstored_counts(self) -> tuple[int, int]:
        """Return the positions that no snapshot has, up to a second after their use, and how many are being stored. O(1)."""
        return self._state.unstored_counts()

    def contains(self, positions: PositionColumns) -> BoolArray:
        """Return for each position True if it is tracked; leased ones are. O(n), mostly without a step for each ledger."""
        return self._upkeep.for_reading().members.contains(positions)

    def pause_reading(self, now_ms: int) -> bool:
        """Return True if enough positions wait, seemingly all with one delay, and none is due; only in the in-memory tracker.

        It is a hint: the dispatcher may stop reading ahead until the next delivery.
        """
        state = self._state
        if state.fixed_delay is None or (next_ms := state.next_delivery_ms()) is None or next_ms <= now_ms:
            return False
        return state.fixed_delay.enough_wait(state.counters.tracked - state.leases.leased_count)

    @property
    def recovered_count(self) -> int:
        """Positions that recovery has brought back, less those that it dropped."""
        return self._state.counters.recovered

    @property
    def has_failed_stores(self) -> bool:
        """True if a snapshot could not be stored, and is still to be. O(seals that are not stored yet)."""
        return self._lifecycle.fallback_count > 0

    @property
    def has_failed_loads(self) -> bool:
        """True if a load of segments failed and is to be repeated, or if one is in flight that may have failed before. O(1)."""
        return self._state.segments.next_retry_ms() is not None or self._lifecycle.loads.in_flight_count > 0

    def stats(self) -> TrackerStats:
        """Return sizes and counters."""
        return tracker_stats(self._upkeep.for_reading(), replay_required=self._lifecycle.replay_required)

    def numbers(self, now_ms: int) -> tuple[int, ...]:
        """Return the columns of :data:`delayed_tracker.core.inspect.numbers.NUMBERS`, without clearing bits first."""
        return tracker_numbers(
            self._state, now_ms, fallback_count=self._lifecycle.fallback_count, merge_backlog=self._merger.backlog
        )

    def events(self) -> tuple[int, ...]:
        """Return the columns of :data:`delayed_tracker.core.inspect.numbers.EVENTS`, valid even for a core that failed."""
        return event_counts(self._state.counters)

    def buckets(self) -> list[BucketView]:
        """Return every bucket that holds something, by first position. O(buckets), and chunks added since the last look."""
        return bucket_views(self._upkeep.for_reading())

    def stored_counts(self) -> dict[int, tuple[int, int]]:
        """Return for each stored bucket the positions still tracked, and those that its snapshot has. O(buckets)."""
        return inspection.stored_counts(self._upkeep.for_reading())

    def remaining(self, bucket_ids: Collection[int] | None = None) -> dict[int, PositionBitmap]:
        """Return copies of the positions still tracked of each stored bucket, or of each of these."""
        return inspection.remaining(self._upkeep.for_reading(), bucket_ids)

    def undeleted(self) -> frozenset[int]:
        """Return the buckets whose deletion was asked for and has no result yet: the catalogue may still name them."""
        return self._lifecycle.undeleted()

    def void_through(self) -> int | None:
        """Return the last change that a clear made void, if the catalogue may not know of it yet; else None."""
        return self._lifecycle.void_through()

    def explain(self, position: Position, now: Instant) -> Explanation:
        """Return the place of a position and the time of its delivery. O(copies in memory of its bucket)."""
        return inspection.explain(self._upkeep.for_reading(), position, now)

    def loaded_between(self, from_ms: int, until_ms: int | None = None) -> tuple[IndexColumns, BoolArray]:
        """Return the tracked rows in memory with a deadline in [from_ms, until_ms), sorted, and a mask of leased ones."""
        return inspection.loaded_between(self._upkeep.for_reading(), from_ms, until_ms)

    def unloaded(self) -> list[inspection.UnloadedSegments]:
        """Return the segments that are not in memory, by bucket. O(buckets + bitmaps)."""
        return inspection.unloaded(self._upkeep.for_reading())

    def begin_membership(self) -> MembershipReading:
        """Return the beginning of a reading of all tracked positions, leased ones included. O(ledgers)."""
        return MembershipReading(self._upkeep.for_reading().members.ledger_ids())

    def membership_part(self, reading: MembershipReading) -> list[tuple[int, bytes]]:
        """Return the next part of a reading, as tracked now; see ``MembershipReading.next_part``.

        The reading may have begun with another core of the same tracker, which has rested meanwhile.
        """
        return reading.next_part(self._upkeep.for_reading().members)

    def filter_range(self, ledger_id: int, first_entry: int, last_entry: int) -> list[tuple[int, int]]:
        """Return the parts of an entry range, both ends inclusive, that a cursor should read now: those not tracked."""
        return inspection.filter_range(self._upkeep.for_reading(), ledger_id, first_entry, last_entry)

    def check(self) -> None:
        """Raise InvariantViolation if the state contradicts itself, which is a bug. O(everything)."""
        check_tracker(self._lifecycle, self._merger, self._upkeep)
