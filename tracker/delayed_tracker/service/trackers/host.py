"""One open tracker: its core, who owns it, its wake-up, its waiting polls and its effects.

Every verb goes through the gate (``host_gate``), and results of effects do, too (``host_results``); here are the verbs,
and how a tracker begins and ends.

    RECOVERING --ready()--> READY --begin_close()--> CLOSED
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.leases import LeaseAck
from delayed_tracker.core.rules.recovery import RecoveryPlan
from delayed_tracker.core.values.columns import BEFORE_ALL, BoolArray, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import (
    AddOutcome,
    BucketView,
    CancelOutcome,
    Delivery,
    ExtendOutcome,
    LeaseOutcome,
    TrackerStats,
    TrimOutcome,
)
from delayed_tracker.service.errors import (
    LeasesExhausted,
    PollEnded,
    ServiceError,
    ShuttingDown,
    TrackerBroken,
)
from delayed_tracker.service.storage.checkpoint import checkpointed
from delayed_tracker.service.storage.in_flight import UnderWay, storing_epochs
from delayed_tracker.service.telemetry.failures import CHECKPOINT_FAILED
from delayed_tracker.service.trackers.gate import HostState
from delayed_tracker.service.trackers.host_results import HostResults
from delayed_tracker.storage.errors import SnapshotConflict, StorageError
from delayed_tracker.storage.protocol import CatalogueEntry


@dataclass(frozen=True, slots=True)
class Opened:
    """What an open gives: the epoch to carry, and where to replay from."""

    epoch: int
    mark_delete: Position
    recovered_count: int
    """Positions recovered from snapshots by this open; 0 if the tracker was loaded."""
    bucket_count: int


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a clear gives: the epoch to carry from now on, and how many positions were dropped."""

    epoch: int
    cleared_count: int


@dataclass(frozen=True, slots=True)
class Adopted:
    """What an import gives: the epoch and the position in force, what is tracked now and what was before."""

    epoch: int
    mark_delete: Position
    bucket_count: int
    tracked_count: int
    replaced_count: int


class TrackerHost(HostResults):
    """A tracker that is open, or on its way to be."""

    __slots__ = ()

    # -- opening and closing -----------------------------------------------------------------------------------------

    def ready(self, core: TrackerCore) -> None:
        """Take over a recovered core; from here on verbs are answered."""
        assert self.state is HostState.RECOVERING
        self.state = HostState.READY
        self._core = core
        with self._step() as (ready, now):
            ready.load_within(self._load_share, now)

    async def claim(self, owner: str, mark_delete: Position | None) -> Opened:
        """Make somebody the owner, under an epoch nobody had.

        Raises:
            StorageUnavailable: the new epoch could not be recorded. The old owner is fenced all the same: it is not
                known whether the storage took the new epoch.
            TrackerNotOpen: it was closed meanwhile; recover it anew.
        """
        recovered_count = 0
        if self._unclaimed:
            # Recovery has recorded an epoch that nobody carries yet.
            self._unclaimed = False
            recovered_count = self._require_core().stats().recovered_count
        else:
            await self._raise_epoch(owner)
        self.owner = owner
        with self._step() as (core, now):
            if mark_delete is not None:
                core.advance_mark_delete(mark_delete, now)
        return Opened(
            epoch=core.epoch,
            mark_delete=core.mark_delete,
            recovered_count=recovered_count,
            bucket_count=sum(view.bucket_id is not None for view in core.buckets()),
        )

    async def _raise_epoch(self, owner: str) -> None:
        async with self._runner.catalogue_turn:
            access = self._shared.access
            epoch = 0
            try:
                # Once, or again if the last owner has cleared meanwhile: that takes an epoch too.
                while epoch <= (core := self._require_core()).epoch:
                    epoch = core.epoch + 1
                    fence = partial(
                        access.storage.replace, *self.key, remove=(), add=(), epoch=epoch, writer=access.writer
                    )
                    await access.attempt(fence, self.counters)
            except SnapshotConflict:
                if self.state is HostState.READY:
                    self._shared.fenced(self.key)
                raise
            finally:
                # Also if the storage did not answer: it may have taken the epoch, and effects of the old one conflict.
                if self.state is HostState.READY:
                    with self._step() as (core, now):
                        core.begin_epoch(max(epoch, core.epoch + 1), now)
                        self.owner = owner
                        self._polls.end_all(lambda: PollEnded(self.key, "FENCED"))
                        self.unstored.call_all()
            self._note_durable(epoch, ())

    async def adopt(
        self,
        epoch: int,
        entries: Sequence[CatalogueEntry],
        plan: RecoveryPlan,
        *,
        owner: str,
        mark_delete: Position,
    ) -> Adopted:
        """Put stored snapshots in the place of everything tracked, in memory too; returns when that is durable.

        Waiting polls end, and so do leases; the old epoch is fenced. On any error the snapshots are deleted.

        Args:
            epoch: the one that the snapshots were stored under.
            entries: of the snapshots, which no catalogue names yet; seal numbers are given to them here, in this order.
            plan: what to take over of them.
            owner: who imports.
            mark_delete: the cursor's when the snapshots were made.
        Raises:
            Fenced, TrackerNotOpen, StorageError: nothing was changed.
        """
        writer = self._runner.writer
        async with self._runner.catalogue_turn:
            try:
                core = self._require_core(epoch)
            except ServiceError:
                await self.delete_objects([entry.bucket_id for entry in entries])
                raise
            # Above everything that the tracker has frozen until now, which they take the place of.
            numbered = [replace(entry, seal_number=core.next_seal_number()) for entry in entries]
            replaced = await writer.exchange(numbered, epoch)
            try:
                self._require_core(epoch)
            except ServiceError:
                # Closed meanwhile, before the switch: what it still records is about the old buckets.
                await writer.undo([entry.bucket_id for entry in entries], replaced)
                raise
            self.owner = owner
            with self._step(epoch) as (core, now):
                replaced_count = core.adopt(plan, mark_delete=mark_delete, now=now)
                self._polls.end_all(lambda: PollEnded(self.key, "FENCED"))
                self.unstored.call_all()
                stats, deleting = core.stats(), core.undeleted()
        await self._durable(stats.epoch, deleting)
        return Adopted(
            epoch=stats.epoch,
            mark_delete=stats.mark_delete,
            bucket_count=len(plan.keep),
            tracked_count=stats.pending_count,
            replaced_count=replaced_count,
        )

    async def delete_objects(self, bucket_ids: Sequence[int]) -> None:
        """Delete snapshots that no catalogue names, in any state; what remains the next recovery sweeps."""
        await self._runner.writer.delete_objects(bucket_ids)

    @property
    def is_unclaimed(self) -> bool:
        """Whether nobody has opened it since it was recovered."""
        return self._unclaimed

    def begin_close(self, reason: str) -> None:
        """Answer no more verbs and end what waits; effects under way go on until :meth:`finish_close`."""
        if self.state is HostState.CLOSED:
            return
        self.state = HostState.CLOSED
        self._shared.wakeups.disarm(self)

        def error() -> ServiceError:
            if reason == ShuttingDown.reason:
                return ShuttingDown("the service is stopping", retry_after_ms=self._shared.limits.retry_after_ms)
            if reason == TrackerBroken.reason:
                return TrackerBroken(self.key)
            return PollEnded(self.key, reason)

        self._polls.end_all(error)
        self.unstored.call_all()
        for _, _, future in self._awaiting_durable:
            if not future.done():
                future.set_exception(error())
        if self._core is not None and not self._broken:
            with suppress(TrackerBroken), self._whole():
                self._core.close(self._begin_step())

    def forget_memory(self) -> None:
        """Count nothing of it any more: nobody will ask it for anything."""
        self._load_share.close()
        self._shared.load_room.notice(self._load_share, self)
        self.unstored.close()

    async def finish_close(self) -> None:
        """Return when every effect has ended and what was consumed is on record; of a broken core nothing is."""
        await self._runner.finish()
        if self._core is not None and not self._broken:
            gone = self._core.undeleted() | self._runner.debris
            await self._record_consumed(self._core.remaining(), gone, self._core.epoch)

    def abandon(self) -> None:
        """Cancel the effects under way: the grace period is over."""
        self._runner.abandon()

    async def _record_consumed(self, remaining: dict[int, PositionBitmap], gone: frozenset[int], epoch: int) -> None:
        """Write to the catalogue which positions of each bucket, and which buckets, need not come back after a restart."""
        if not remaining and not gone:
            return
        access = self._shared.access
        try:
            async with self._runner.catalogue_turn:
                known = await access.storage.list(*self.key)
                checkpoint = await access.offload(checkpointed, known.entries, remaining)
                self.counters.summaries_unreadable += len(checkpoint.unreadable)
                moved = checkpoint.moved
                ids = [entry.bucket_id for entry in known.entries if entry.bucket_id in gone]
                if moved or ids:
                    ids += [entry.bucket_id for entry in moved]
                    await access.storage.replace(
                        *self.key,
                        remove=ids,
                        add=moved,
                        epoch=epoch,
                        writer=access.writer,
                        mark_delete=self.mark_delete,
                    )
        except StorageError as error:
            access.trouble.failed(self.key, CHECKPOINT_FAILED, error, retried=False)
            # Nothing is lost: these positions are answered as tracked, and delivered, once more.
            self.counters.checkpoints_failed += 1

    def under_way(self) -> UnderWay:
        """What is being done to this tracker's snapshots; also while it is closing."""
        if self._core is None:
            return UnderWay(sweeping=True)
        return UnderWay(storing_epochs(self._runner.in_flight()), self._core.undeleted() | self._runner.debris)

    # -- verbs -------------------------------------------------------------------------------------------------------

    def add(self, epoch: int, indexes: IndexColumns) -> AddOutcome:
        """Offer indexes, in order, in one step.

        Raises:
            Overloaded: some would have to be tracked, and too many are not stored yet; nothing was added.
        """
        with self._step(epoch) as (core, now):
            if not self.unstored.has_room and core.would_track(indexes, now):
                raise self.unstored.refusal(self.key)
            return core.add(indexes, now)

    def has_room_for(self, epoch: int, indexes: IndexColumns) -> bool:
        """Whether :meth:`add` would not be refused: there is room, or all of it is due or tracked already."""
        with self._whole():
            core = self._require_core(epoch)
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
        """Take what is due, waiting for the first of it, or for the first news that a replay is required.

        Args:
            epoch: the owner's.
            max_count: 1 or more.
            wait_ms: 0 answers at once.
            lease_ms: 0 hands off without a lease.
            abandoned: asked right before anything is taken; if it is true, or raises, nothing is taken.
        Raises:
            Overloaded, LeasesExhausted: a limit is reached; nothing was taken.
            PollEnded, ShuttingDown: while it waited.
        """
        self._require_core(epoch)
        # Nobody overtakes those who wait already.
        if not self._polls:
            delivery, answers = self._pop(epoch, max_count, lease_ms, abandoned)
            if answers:
                return delivery
        if not wait_ms:
            return Delivery(IndexColumns.empty())
        with self._polls.join(wait_ms) as waiting:
            self._arm(self._require_core(epoch))
            while await waiting.called():
                delivery, answers = self._pop(epoch, max_count, lease_ms, abandoned)
                if answers:
                    return delivery
        return Delivery(IndexColumns.empty())

    def divide(self, epoch: int, delivery: Delivery, counts: Sequence[int]) -> list[Delivery]:
        """Make what a poll has just taken several deliveries, each under a lease of its own; see the core's verb."""
        with self._whole():
            return self._require_core(epoch).divide(delivery, counts)

    def _pop(self, epoch: int, max_count: int, lease_ms: int, abandoned: Callable[[], bool]) -> tuple[Delivery, bool]:
        """Take without an await, so that no cancellation can come between; tells whether that answers the poll."""
        with self._whole():
            core = self._require_core(epoch)
            if abandoned():
                raise PollEnded(self.key, "CANCELLED")
            now = self._begin_step()
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
            answers = len(delivery.indexes) > 0 or self._has_news(core)
            if core.replay_required:
                self._replay_told_epoch = core.epoch
            # Not the whole of _settle: a poll that took nothing must not be called again by its own attempt.
            if effects := core.take_effects():
                self._runner.run(effects)
            self._arm(core)
            if len(delivery.indexes):
                self.counters.handed_out += len(delivery.indexes)
                self._shared.instruments.note_handed_out(
                    self.key, delivery.indexes, core.limits.cutoff_ms(now.wall_ms), now.wall_ms
                )
            return delivery, answers

    def ack(self, epoch: int, lease_id: int, positions: PositionColumns) -> LeaseOutcome:
        """Acknowledge leased positions."""
        with self._step(epoch) as (core, now):
            return core.ack(lease_id, positions, now)

    def ack_leases(self, epoch: int, acks: Sequence[LeaseAck]) -> list[LeaseOutcome]:
        """Acknowledge what several leases hold, in order, in one step."""
        with self._step(epoch) as (core, now):
            return core.ack_leases(acks, now)

    def nack(self, epoch: int, lease_id: int, positions: PositionColumns, *, deliver_at_ms: int | None) -> LeaseOutcome:
        """Give leased positions back, at once or for a new deadline.

        Raises:
            Overloaded: they would go from a snapshot to memory for their new deadline, and there is no room; they stay
                leased.
        """
        with self._step(epoch) as (core, now):
            if (
                deliver_at_ms is not None
                and core.limits.kind is TrackerKind.BUCKET
                and len(positions)
                and not self.unstored.has_room
            ):
                raise self.unstored.refusal(self.key)
            return core.nack(lease_id, positions, now, deliver_at_ms=deliver_at_ms)

    def extend(self, epoch: int, lease_id: int, positions: PositionColumns | None, *, lease_ms: int) -> ExtendOutcome:
        """Set a new expiry, counted from now, for leased positions; None is everything the lease still holds."""
        with self._step(epoch) as (core, now):
            return core.extend(lease_id, positions, now, lease_ms=lease_ms)

    def cancel(self, epoch: int, positions: PositionColumns) -> CancelOutcome:
        """Forget positions that nobody holds."""
        with self._step(epoch) as (core, now):
            return core.cancel(positions, now)

    def seal(self, epoch: int) -> int:
        """Seal what the mutable bucket holds; returns how many positions that are."""
        with self._step(epoch) as (core, now):
            return core.seal_now(now)

    def seal_open(self) -> None:
        """Seal what is filling, however little: memory is full of it."""
        if self.state is HostState.READY and not self._broken:
            with suppress(TrackerBroken), self._step() as (core, now):
                core.seal_open(now)

    def to_read(self) -> TrackerCore:
        """The tracker, to be looked at before the next await.

        Raises:
            Recovering, TrackerNotOpen: there is nothing to look at.
        """
        with self._whole():
            return self._require_core()

    def contains(self, positions: PositionColumns) -> BoolArray:
        """For each position, whether it is tracked."""
        with self._whole():
            return self._require_core().contains(positions)

    def next_delivery_ms(self) -> int | None:
        """When a poll would next succeed."""
        return self._require_core().next_delivery_ms()

    @property
    def replay_required(self) -> bool:
        """Whether positions were lost with a snapshot since the tracker was opened."""
        return self._require_core().replay_required

    @property
    def pause_reading(self) -> bool:
        """Whether the dispatcher may stop reading ahead until the next delivery."""
        return self._require_core().pause_reading(self.now_ms())

    def advance_mark_delete(self, epoch: int, position: Position) -> TrimOutcome:
        """Drop everything up to and including a position; one below the position in force changes nothing."""
        with self._step(epoch) as (core, now):
            if position == BEFORE_ALL:
                return TrimOutcome(core.mark_delete, 0)
            return core.advance_mark_delete(position, now)

    async def clear(self, epoch: int, *, reset_to: Position | None = None) -> Cleared:
        """Forget every position; returns when that is durable. Waiting polls end.

        Args:
            epoch: the owner's.
            reset_to: the cursor was moved, and this is its new mark-delete position.
        """
        with self._step(epoch) as (core, now):
            cleared_count = core.clear(now) if reset_to is None else core.reset_cursor(reset_to, now)
            self._polls.end_all(lambda: PollEnded(self.key, "CLEARED"))
            self.unstored.call_all()
            cleared = Cleared(core.epoch, cleared_count)
            deleting = core.undeleted()
        await self._durable(cleared.epoch, deleting)
        return cleared

    def stats(self) -> TrackerStats:
        """Sizes and counters, O(1)."""
        with self._whole():
            return self._require_core().stats()

    def buckets(self) -> list[BucketView]:
        """The buckets, one row each."""
        with self._whole():
            return self._require_core().buckets()
