"""One open tracker: its core, owner, wake-up, waiting polls and effects.

Every verb goes through the tracker's gate (``gate``), and so do the results of effects. This module has the verbs, and
the opening and closing of a tracker.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, suppress

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.leases import LeaseAck
from delayed_tracker.core.inspect.membership_parts import MembershipReading
from delayed_tracker.core.values.columns import BEFORE_ALL, BoolArray, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.verb_results import (
    AddOutcome,
    BucketView,
    CancelOutcome,
    Delivery,
    ExtendOutcome,
    LeaseOutcome,
    RescheduleOutcome,
    TrackerStats,
    TrimOutcome,
)
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import (
    LeasesExhausted,
    PollEnded,
    ServiceError,
    ShuttingDown,
    TrackerBroken,
    TrackerKey,
)
from delayed_tracker.service.storage.in_flight import SnapshotsInFlight, storing_epochs
from delayed_tracker.service.trackers.checkpoints import Checkpoints
from delayed_tracker.service.trackers.components import HostState, SharedComponents
from delayed_tracker.service.trackers.gate import TrackerGate
from delayed_tracker.service.trackers.histories import History
from delayed_tracker.service.trackers.ownership import Ownership
from delayed_tracker.service.trackers.results import Cleared
from delayed_tracker.service.trackers.unstored import UnstoredShare


class TrackerHost:
    """A tracker that is open, being recovered or closing."""

    __slots__ = ("_checkpoints", "_gate", "_shared", "ownership")

    def __init__(self, key: TrackerKey, shared: SharedComponents) -> None:
        self._gate = TrackerGate(key, shared)
        self._shared = shared
        self.ownership = Ownership(self._gate, shared)
        """Opens and imports."""
        self._checkpoints = Checkpoints(self._gate, shared.access.log_id)

    @property
    def key(self) -> TrackerKey:
        """Topic and subscription."""
        return self._gate.key

    @property
    def state(self) -> HostState:
        """State of the tracker."""
        return self._gate.state

    @property
    def owner(self) -> str:
        """Name of the owner; empty before the first open."""
        return self._gate.owner

    @property
    def counters(self) -> EffectCounters:
        """Counters of the tracker's effects, which may be shared with others."""
        return self._gate.counters

    @property
    def unstored(self) -> UnstoredShare:
        """The tracker's part of the bound on indexes that are not stored."""
        return self._gate.unstored

    @property
    def epoch(self) -> int:
        """Epoch of the core."""
        return self._gate.epoch

    @property
    def mark_delete(self) -> Position:
        """Mark-delete position of the core."""
        return self._gate.mark_delete

    def now(self) -> Instant:
        """Return the present time by both clocks, which every verb of the core takes."""
        return self._gate.now()

    def now_ms(self) -> int:
        """Return the wall clock's time. It may have been set forward or back since the last call."""
        return self._gate.now_ms()

    def require_owner(self, epoch: int) -> None:
        """Raise Fenced, Recovering or TrackerNotOpen unless this is the owner's epoch; the core may be unloaded."""
        if self.state is HostState.UNLOADED:
            self._gate.require_epoch(epoch)
        else:
            self._gate.require_core(epoch)

    # -- opening and closing -----------------------------------------------------------------------------------------

    def attach_core(self, core: TrackerCore, log_bytes: int) -> None:
        """Take over a recovered core, which needs so many bytes of the add log. From here on, verbs are answered."""
        self._gate.open(core, log_bytes)

    def is_idle(self, idle_ms: int) -> bool:
        """Return True if the tracker has an owner, is unused and recoverable, and nothing falls due soon."""
        return not self.ownership.is_unclaimed and self._gate.is_idle(idle_ms)

    def is_abandoned(self, idle_ms: int) -> bool:
        """Return True if nobody has opened the tracker since it was recovered, or used it for so long."""
        return self.ownership.is_unclaimed and self._gate.is_unused(idle_ms)

    @property
    def is_logged(self) -> bool:
        """True if the add log has every change."""
        return self._gate.log is not None and self._gate.log.is_written

    def unload(self) -> None:
        """Drop the core of an idle tracker whose checkpoint is recorded. The tracker stays open."""
        self._checkpoints.forget()
        self._gate.unload()

    def bring_back(self, core: TrackerCore, log_bytes: int, *, lost: bool) -> None:
        """Take over a core recovered in the place of the one that was dropped; see ``TrackerCore.resume``."""
        self._gate.bring_back(core, log_bytes, lost=lost)

    def arm_return(self, *, retry_ms: int) -> None:
        """Arm the time at which an unloaded tracker is needed; one that is needed already, after ``retry_ms``."""
        self._gate.arm_return(retry_ms=retry_ms)

    @property
    def falls_due_ms(self) -> int | None:
        """Time at which an unloaded tracker is needed, in milliseconds since 1970, UTC; None if never."""
        return None if self._gate.resting is None else self._gate.resting.falls_due_ms

    def touch(self) -> None:
        """Note that the tracker is being used."""
        self._gate.touch()

    async def create_object(
        self, metadata: bytes, segments: AsyncIterator[bytes], first: Position, last: Position, *, epoch: int
    ) -> int:
        """Store a snapshot that no catalogue entry names yet, without a retry, and return its bucket id."""
        return await self._gate.runner.writer.create(metadata, segments, first, last, epoch=epoch)

    async def delete_objects(self, bucket_ids: Sequence[int]) -> None:
        """Delete snapshots that no catalogue names, in any state. The next recovery sweeps those that remain."""
        await self._gate.runner.writer.delete(bucket_ids)

    def begin_close(self, reason: str) -> None:
        """Stop answering verbs and end all waits. Effects in flight continue until :meth:`finish_close`."""
        if self.state is HostState.CLOSED:
            return

        def error() -> ServiceError:
            if reason == ShuttingDown.reason:
                return ShuttingDown("the service is stopping", retry_after_ms=self._shared.limits.retry_after_ms)
            if reason == TrackerBroken.reason:
                return TrackerBroken(self.key)
            return PollEnded(self.key, reason)

        self._gate.close(error)

    def retire(self) -> None:
        """Release the tracker's row and its parts of the shared memory bounds. The host is not used afterwards."""
        self._gate.retire()

    async def finish_close(self) -> None:
        """Return when every effect has ended and the consumed positions are recorded.

        If the core was given up, nothing is recorded.
        """
        await self._gate.runner.finish()
        await self._checkpoints.record_last()

    async def checkpoint(self) -> bool:
        """Record the consumed positions, and cut the add log; see ``Checkpoints.record``."""
        return await self._checkpoints.record()

    def cuttable_log_bytes(self) -> int:
        """Return the bytes that a checkpoint would free in the add log; 0 unless the tracker answers verbs."""
        return self._checkpoints.cuttable_log_bytes()

    @property
    def has_core(self) -> bool:
        """True if the tracker was recovered and is not unloaded."""
        return self._gate.core is not None

    @property
    def tracked_count(self) -> int:
        """Positions tracked, leased ones included. Raises Recovering, TrackerNotOpen."""
        if self.state is HostState.UNLOADED:
            return self.stats().pending_count
        return len(self._gate.require_core())  # reading a count changes nothing that metrics would have to read again

    @property
    def log_bytes(self) -> int:
        """Bytes that the add log has of this tracker."""
        return 0 if self._gate.log is None else self._gate.log.log_bytes

    @property
    def unwritten_consumed_count(self) -> int:
        """Consumed positions that the add log does not have yet: a crash now would hand them out again."""
        return 0 if self._gate.log is None else self._gate.log.unwritten_removed_count

    def abandon(self) -> list[asyncio.Task[None]]:
        """Cancel the effects in flight, at the end of the grace period, and return their tasks."""
        return self._gate.runner.abandon()

    def in_flight(self) -> SnapshotsInFlight:
        """Return the snapshots of this tracker that are in flight, in any state."""
        runner, core = self._gate.runner, self._gate.core
        if self._gate.resting is not None:
            # A tracker is unloaded when no effect is under way, and its return sweeps nothing.
            return SnapshotsInFlight()
        if core is None:
            return SnapshotsInFlight(sweeping=True)
        return SnapshotsInFlight(storing_epochs(runner.in_flight()), core.undeleted() | runner.stale_catalogue_ids)

    # -- verbs -------------------------------------------------------------------------------------------------------

    @property
    def waited_number(self) -> int:
        """Number of the last change whose call may be answered only when it is durable; 0 without an add log."""
        return 0 if self._gate.log is None else self._gate.log.waited_number

    async def until_durable(self, number: int | None = None) -> None:
        """Return when no crash can undo the adds, cancels and new deadlines of before; at once without an add log.

        Args:
            number: those up to the change with this number; None for all.
        Raises:
            StorageUnavailable, LogBroken: each of them may have an effect or not; repeat it.
            SnapshotConflict: another process owns the tracker.
        """
        if self._gate.log is not None:
            await self._gate.log.until_durable(self._gate.log.waited_number if number is None else number)

    async def wait_for_window(self) -> None:
        """Wait while a crash would hand out as many consumed positions again as it may.

        Raises:
            LogBroken: nothing can be consumed until the service was restarted.
        """
        if self._gate.log is not None:
            with self._gate.held():
                await self._gate.log.wait_for_window()

    def add(self, epoch: int, indexes: IndexColumns, *, offered_through: Position | None = None) -> AddOutcome:
        """Add indexes, in order, in one step. They are durable after :meth:`until_durable`.

        Args:
            epoch: the owner's.
            indexes: to track.
            offered_through: the dispatcher's claim, which covers these indexes or ends before them; in range.
        Raises:
            Overloaded: some would be new, and too many indexes are not stored yet; nothing was added.
        """
        with self._gate.step(epoch) as (core, now):
            self._require_room(core, indexes, now)
            outcome = core.add(indexes, now)
            # A claim made without the knowledge that snapshots were lost would cover what they had. The next owner is
            # told to replay from before them.
            # Neither may it cover what an import is about to replace.
            blind = core.replay_required or self.ownership.is_adopting
            if offered_through is not None and self._gate.log is not None and not blind:
                core.advance_offered_through(offered_through)
        if len(outcome.due):
            # Some may have been tracked until now. They are the dispatcher's when it has the answer.
            self._gate.require_logged()
        return outcome

    def _require_room(self, core: TrackerCore, indexes: IndexColumns, now: Instant) -> None:
        if not self.unstored.has_room and core.would_track(indexes, now):
            raise self.unstored.refusal(self.key)
        if len(indexes):
            self._require_log_room()

    def _require_log_room(self) -> None:
        if self._gate.log is not None:
            self._gate.log.require_room()

    @property
    def offered_through(self) -> Position:
        """The dispatcher's claim in force; BEFORE_ALL if there is none. The core may be unloaded."""
        if self._gate.resting is not None:
            return self._gate.resting.offered_through
        return self._gate.require_core().offered_through

    def has_room_for(self, epoch: int, indexes: IndexColumns) -> bool:
        """Return True if :meth:`add` would accept the indexes: there is room, or none of them would be new."""
        with self._gate.guarded():
            core = self._gate.require_core(epoch)
            return self.unstored.has_room or not core.would_track(indexes, self.now())

    async def poll(
        self,
        epoch: int,
        *,
        max_count: int,
        wait_ms: int,
        lease_ms: int,
        abandoned: Callable[[], bool] = lambda: False,
    ) -> Delivery:
        """Take positions that are due. Wait for the first of them, or for the first news that a replay is required.

        Args:
            epoch: the owner's.
            max_count: 1 or more.
            wait_ms: 0 answers at once.
            lease_ms: 0 hands off without a lease.
            abandoned: called right before positions are taken. If it returns True or raises, nothing is taken.
        Raises:
            Overloaded, LeasesExhausted: a limit is reached; nothing was taken.
            LogBroken: nothing can be handed off until the service was restarted.
            PollEnded, ShuttingDown: the wait ended.
        """
        ends_ms, left_ms = self._shared.clock.elapsed_ms() + wait_ms, None
        while True:
            # Right before each attempt: what is handed off is consumed. Again after each wait, since one commit wakes all polls
            # that wait for room, and the first of them may fill the window.
            while not lease_ms and self._gate.window_is_full:
                if not await self._window_opened(left_ms):
                    return Delivery(IndexColumns.empty())
                if left_ms is not None:
                    left_ms = max(ends_ms - self._shared.clock.elapsed_ms(), 0)
            self._gate.require_core(epoch)
            # Earlier polls that wait come first.
            if not self._gate.polls:
                delivery, answers = self._pop(epoch, max_count, lease_ms, abandoned)
                if answers:
                    return delivery
            left_ms = ends_ms - self._shared.clock.elapsed_ms()
            if left_ms <= 0:
                return Delivery(IndexColumns.empty())
            with self._gate.polls.join(left_ms) as waiting:
                self._gate.arm(self._gate.require_core(epoch))
                while await waiting.notified():
                    if not lease_ms and self._gate.window_is_full:
                        left_ms = max(ends_ms - self._shared.clock.elapsed_ms(), 0)
                        break  # out of the queue, so that the next poll may take what is due under a lease
                    delivery, answers = self._pop(epoch, max_count, lease_ms, abandoned)
                    if answers:
                        return delivery
                else:
                    return Delivery(IndexColumns.empty())

    async def _window_opened(self, left_ms: float | None) -> bool:
        """Wait until positions may be consumed. Return False if the time is over before; None waits without a limit.

        Raises:
            Overloaded, LogBroken, PollEnded, ShuttingDown: as of a poll.
        """
        with self._gate.polls.aside(left_ms) as waiting:
            opening = asyncio.ensure_future(self.wait_for_window())
            opening.add_done_callback(lambda _: waiting.notify())
            try:
                if not await waiting.notified():
                    return False
                await opening
            finally:
                opening.cancel()
                await asyncio.wait([opening])
            return True

    def divide(self, epoch: int, delivery: Delivery, counts: Sequence[int]) -> list[Delivery]:
        """Split the delivery that a poll has just taken into several, each under its own lease.

        See ``TrackerCore.divide``.
        """
        with self._gate.guarded():
            return self._gate.require_core(epoch).divide(delivery, counts)

    def _pop(self, epoch: int, max_count: int, lease_ms: int, abandoned: Callable[[], bool]) -> tuple[Delivery, bool]:
        """Take due positions. Return them, and True if they answer the poll.

        There is no await, so a cancellation cannot come between the take and the answer.
        """
        with self._gate.guarded():
            core = self._gate.require_core(epoch)
            if abandoned():
                raise PollEnded(self.key, "CANCELLED")
            now = self._gate.begin_step()
            if lease_ms:
                core.expire_leases(now)
                leased_max = self._shared.limits.leased_positions_max
                room = leased_max - core.leased_count
                if room <= 0:
                    raise LeasesExhausted(
                        f"{leased_max} positions of subscription {self.key} are leased, which is the limit",
                        retry_after_ms=self._shared.limits.retry_after_ms,
                    )
                max_count = min(max_count, room)
            delivery = core.pop_due(max_count, now, lease_ms=lease_ms)
            answers = self._gate.report_replay(core) or len(delivery.indexes) > 0
            # Not all that follows a step: a poll that took nothing must not cause its own next call.
            self._gate.run_effects(core)
            self._gate.arm(core)
            if len(delivery.indexes):
                self.counters.handed_out += len(delivery.indexes)
                self._shared.instruments.note_handed_out(
                    self.key, delivery.indexes, core.limits.cutoff_ms(now.wall_ms), now.wall_ms
                )
            return delivery, answers

    def ack(self, epoch: int, lease_id: int, positions: PositionColumns) -> LeaseOutcome:
        """Acknowledge leased positions."""
        with self._gate.step(epoch) as (core, now):
            return core.ack(lease_id, positions, now)

    def ack_leases(self, epoch: int, acks: Sequence[LeaseAck]) -> list[LeaseOutcome]:
        """Acknowledge positions of several leases, in order, in one step."""
        with self._gate.step(epoch) as (core, now):
            return core.ack_leases(acks, now)

    def nack(self, epoch: int, lease_id: int, positions: PositionColumns, *, deliver_at_ms: int | None) -> LeaseOutcome:
        """Return leased positions, to be delivered at once or at a new deadline.

        Raises:
            Overloaded: the new deadline would move positions from a snapshot into memory, and there is no room; they
                stay leased.
        """
        with self._gate.step(epoch) as (core, now):
            if deliver_at_ms is not None:
                self._require_room_to_move(core, len(positions))
            return core.nack(lease_id, positions, now, deliver_at_ms=deliver_at_ms)

    def extend(self, epoch: int, lease_id: int, positions: PositionColumns | None, *, lease_ms: int) -> ExtendOutcome:
        """Set a new expiry of leased positions, counted from now; None means all positions of the lease."""
        with self._gate.step(epoch) as (core, now):
            return core.extend(lease_id, positions, now, lease_ms=lease_ms)

    def cancel(self, epoch: int, positions: PositionColumns) -> CancelOutcome:
        """Remove positions that are not leased. The removal is durable after :meth:`until_durable`."""
        with self._gate.step(epoch) as (core, now):
            outcome = core.cancel(positions, now)
        self._gate.require_logged()
        return outcome

    def reschedule(self, epoch: int, indexes: IndexColumns) -> RescheduleOutcome:
        """Give positions that are not leased another deadline, in one step.

        Raises:
            Overloaded: the call would move positions from a snapshot into memory, and there is no room; nothing was
                changed.
        """
        with self._gate.step(epoch) as (core, now):
            self._require_room_to_move(core, len(indexes))
            return core.reschedule(indexes, now)

    def _require_room_to_move(self, core: TrackerCore, count: int) -> None:
        """Raise Overloaded if new deadlines of ``count`` positions may need memory for which there is no room."""
        if core.limits.kind is TrackerKind.BUCKET and count:
            if not self.unstored.has_room:
                raise self.unstored.refusal(self.key)
            self._require_log_room()

    def seal(self, epoch: int) -> int:
        """Seal the mutable bucket and the late positions; return their number. The add log is emptied when they are stored."""
        with self._gate.step(epoch) as (core, now):
            count = core.seal_open_buckets(now)
        self._shared.empty_log(self.key)
        return count

    @property
    def sealing_count(self) -> int:
        """Positions that are being stored, or wait for another attempt; 0 unless the core is in memory."""
        core = self._gate.sound_core
        return 0 if core is None else core.unstored_counts()[1]

    def seal_open_buckets(self) -> int:
        """Seal the mutable bucket and the late positions at any size, because memory or the log is full of them.

        Returns: the number of these positions.
        """
        count = 0
        if self.state is HostState.READY and self._gate.sound_core is not None:
            with suppress(TrackerBroken), self._gate.step() as (core, now):
                count = core.seal_open_buckets(now)
        return count

    def core_for_reading(self) -> TrackerCore:
        """Return the core for reading. The caller must use it before its next await.

        Raises:
            Recovering, TrackerNotOpen: there is no tracker to query.
        """
        with self._gate.guarded():
            return self._gate.require_core()

    def follow_history(self) -> AbstractContextManager[History]:
        """Return a context that yields the present history of the tracker, which the next barrier ends."""
        return self._gate.histories.follow()

    def begin_membership(self) -> MembershipReading:
        """Return the beginning of a reading of all tracked positions; raises as :meth:`core_for_reading`."""
        with self._gate.guarded():
            return self._gate.require_core().begin_membership()

    def membership_part(self, reading: MembershipReading) -> list[tuple[int, bytes]]:
        """Return the next part of a reading, as (ledger id, portable bitmap); raises as :meth:`core_for_reading`."""
        with self._gate.guarded():
            return self._gate.require_core().membership_part(reading)

    def contains(self, positions: PositionColumns) -> BoolArray:
        """Return a mask of the positions: True if the position is tracked."""
        with self._gate.guarded():
            return self._gate.require_core().contains(positions)

    def next_delivery_ms(self) -> int | None:
        """Return the time at which the next poll would succeed, in milliseconds since 1970, UTC."""
        return self._gate.require_core().next_delivery_ms()

    @property
    def replay_required(self) -> bool:
        """True if positions were lost with a snapshot since the tracker was opened."""
        return self._gate.require_core().replay_required

    @property
    def pause_reading(self) -> bool:
        """True if the dispatcher may stop reading ahead until the next delivery. The core may be unloaded."""
        if self.state is HostState.UNLOADED:
            return False
        return self._gate.require_core().pause_reading(self.now_ms())

    def advance_mark_delete(self, epoch: int, position: Position) -> TrimOutcome:
        """Drop all positions up to ``position``, inclusive. A position below the present one changes nothing."""
        with self._gate.step(epoch) as (core, now):
            if position == BEFORE_ALL:
                return TrimOutcome(core.mark_delete, 0)
            return core.advance_mark_delete(position, now)

    async def clear(self, epoch: int, *, reset_to: Position | None = None) -> Cleared:
        """Drop every position and end the waiting polls; return when that is durable.

        Args:
            epoch: the owner's.
            reset_to: the new mark-delete position if the cursor was moved.
        """
        with self._gate.step(epoch) as (core, now):
            cleared_count = core.clear(now) if reset_to is None else core.reset_cursor(reset_to, now)
            self._gate.end_waits(lambda: PollEnded(self.key, "CLEARED"))
            cleared = Cleared(core.epoch, cleared_count)
            deleting = core.undeleted()
        await self._gate.catalogue_waits.until_written(cleared.epoch, deleting)
        return cleared

    def stats(self) -> TrackerStats:
        """Return sizes and counters. O(1). The core may be unloaded, and then stays so."""
        if self.state is HostState.UNLOADED and self._gate.resting is not None:
            return self._gate.resting.stats
        with self._gate.guarded():
            return self._gate.require_core().stats()

    def buckets(self) -> list[BucketView]:
        """Return one row for each bucket."""
        with self._gate.guarded():
            return self._gate.require_core().buckets()
