"""One open tracker: its core, owner, wake-up, waiting polls and effects.

Every verb goes through the gate (``gate``), and so do effect results (``host_results``). This module has the verbs, and
the opening and closing of a tracker.

    RECOVERING --ready()--> READY --begin_close()--> CLOSED
"""

from collections.abc import AsyncIterator, Callable, Sequence
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
from delayed_tracker.service.storage.in_flight import SnapshotsInFlight, storing_epochs
from delayed_tracker.service.telemetry.failures import CHECKPOINT_FAILED
from delayed_tracker.service.trackers.gate import HostState
from delayed_tracker.service.trackers.host_results import HostResults
from delayed_tracker.storage.errors import SnapshotConflict, StorageError
from delayed_tracker.storage.protocol import CatalogueEntry


@dataclass(frozen=True, slots=True)
class Opened:
    """Result of an open: the epoch to send with calls, and the position to replay from."""

    epoch: int
    mark_delete: Position
    recovered_count: int
    """Positions recovered from snapshots by this open; 0 if the tracker was loaded."""
    bucket_count: int


@dataclass(frozen=True, slots=True)
class Cleared:
    """Result of a clear: the epoch to send from now on, and the number of positions dropped."""

    epoch: int
    cleared_count: int


@dataclass(frozen=True, slots=True)
class Adopted:
    """Result of an import: epoch, mark-delete position, and the number of positions tracked now and before."""

    epoch: int
    mark_delete: Position
    bucket_count: int
    tracked_count: int
    replaced_count: int


class TrackerHost(HostResults):
    """A tracker that is open, being recovered or closing."""

    __slots__ = ()

    # -- opening and closing -----------------------------------------------------------------------------------------

    def ready(self, core: TrackerCore) -> None:
        """Take over a recovered core. From here on, verbs are answered."""
        assert self.state is HostState.RECOVERING
        self.state = HostState.READY
        self._core = core
        with self._step() as (ready, now):
            ready.load_within(self._load_share, now)

    async def claim(self, owner: str, mark_delete: Position | None) -> Opened:
        """Set the owner, under a new epoch.

        Raises:
            StorageUnavailable: the new epoch could not be recorded. The old owner is fenced all the same, because the
                storage may have taken the new epoch.
            TrackerNotOpen: it was closed meanwhile; recover it again.
        """
        recovered_count = 0
        if self._unclaimed:
            # The recovery has recorded an epoch that no owner has yet.
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
                # Once, or again if the last owner has cleared the tracker meanwhile, which also takes an epoch.
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
                # Also if the storage did not answer: it may have taken the epoch, and then effects of the old epoch
                # conflict.
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
        """Replace every tracked position, also those in memory, by stored snapshots; return when that is durable.

        Waiting polls and leases end, and the old epoch is fenced. On any error, the snapshots are deleted.

        Args:
            epoch: the epoch under which the snapshots were stored.
            entries: of the snapshots, which no catalogue names yet. They get seal numbers here, in this order.
            plan: the recovery plan of the snapshots.
            owner: the importer, who becomes the owner.
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
            # Above the seal numbers of the content that the entries replace.
            numbered = [replace(entry, seal_number=core.next_seal_number()) for entry in entries]
            replaced = await writer.exchange(numbered, epoch)
            try:
                self._require_core(epoch)
            except ServiceError:
                # The tracker was closed before the switch, and its close records consumed positions of the old buckets.
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

    async def create_object(
        self, metadata: bytes, segments: AsyncIterator[bytes], first: Position, last: Position, *, epoch: int
    ) -> int:
        """Store a snapshot that no catalogue entry names yet, without a retry, and return its bucket id."""
        return await self._runner.writer.create(metadata, segments, first, last, epoch=epoch)

    async def delete_objects(self, bucket_ids: Sequence[int]) -> None:
        """Delete snapshots that no catalogue names, in any state. The next recovery sweeps those that remain."""
        await self._runner.writer.delete(bucket_ids)

    @property
    def is_unclaimed(self) -> bool:
        """True if the tracker has had no owner since it was recovered."""
        return self._unclaimed

    def begin_close(self, reason: str) -> None:
        """Stop answering verbs and end all waits. Effects in flight continue until :meth:`finish_close`."""
        if self.state is HostState.CLOSED:
            return
        self.state = HostState.CLOSED
        self._shared.timers.disarm(self)

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
        """Release the tracker's parts of the shared memory bounds. The host is not used afterwards."""
        self._load_share.close()
        self._shared.load_room.notice(self._load_share, self)
        self.unstored.close()

    async def finish_close(self) -> None:
        """Return when every effect has ended and the consumed positions are recorded.

        If the core was given up, nothing is recorded.
        """
        await self._runner.finish()
        if self._core is not None and not self._broken:
            gone = self._core.undeleted() | self._runner.debris
            await self._record_consumed(self._core.remaining(), gone, self._core.epoch)

    def abandon(self) -> None:
        """Cancel the effects in flight, at the end of the grace period."""
        self._runner.abandon()

    async def _record_consumed(self, remaining: dict[int, PositionBitmap], gone: frozenset[int], epoch: int) -> None:
        """Record the consumed positions of each bucket, and remove deleted buckets from the catalogue.

        Without this record, they return after a restart.
        """
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
            access.failures.failed(self.key, CHECKPOINT_FAILED, error, retried=False)
            # Nothing is lost: these positions are tracked and delivered again.
            self.counters.checkpoints_failed += 1

    def in_flight(self) -> SnapshotsInFlight:
        """Return the snapshots of this tracker that are in flight, in any state."""
        if self._core is None:
            return SnapshotsInFlight(sweeping=True)
        return SnapshotsInFlight(storing_epochs(self._runner.in_flight()), self._core.undeleted() | self._runner.debris)

    # -- verbs -------------------------------------------------------------------------------------------------------

    def add(self, epoch: int, indexes: IndexColumns) -> AddOutcome:
        """Add indexes, in order, in one step.

        Raises:
            Overloaded: some would be new, and too many indexes are not stored yet; nothing was added.
        """
        with self._step(epoch) as (core, now):
            if not self.unstored.has_room and core.would_track(indexes, now):
                raise self.unstored.refusal(self.key)
            return core.add(indexes, now)

    def has_room_for(self, epoch: int, indexes: IndexColumns) -> bool:
        """Return True if :meth:`add` would accept the indexes: there is room, or none of them would be new."""
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
        """Take positions that are due. Wait for the first of them, or for the first news that a replay is required.

        Args:
            epoch: the owner's.
            max_count: 1 or more.
            wait_ms: 0 answers at once.
            lease_ms: 0 hands off without a lease.
            abandoned: called right before positions are taken. If it returns True or raises, nothing is taken.
        Raises:
            Overloaded, LeasesExhausted: a limit is reached; nothing was taken.
            PollEnded, ShuttingDown: the wait ended.
        """
        self._require_core(epoch)
        # Earlier polls that wait come first.
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
        """Split the delivery that a poll has just taken into several, each under its own lease.

        See ``TrackerCore.divide``.
        """
        with self._whole():
            return self._require_core(epoch).divide(delivery, counts)

    def _pop(self, epoch: int, max_count: int, lease_ms: int, abandoned: Callable[[], bool]) -> tuple[Delivery, bool]:
        """Take due positions. Return them, and True if they answer the poll.

        There is no await, so a cancellation cannot come between the take and the answer.
        """
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
            # Not all of _settle: a poll that took nothing must not cause its own next call.
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
        """Acknowledge positions of several leases, in order, in one step."""
        with self._step(epoch) as (core, now):
            return core.ack_leases(acks, now)

    def nack(self, epoch: int, lease_id: int, positions: PositionColumns, *, deliver_at_ms: int | None) -> LeaseOutcome:
        """Return leased positions, to be delivered at once or at a new deadline.

        Raises:
            Overloaded: the new deadline would move positions from a snapshot into memory, and there is no room; they
                stay leased.
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
        """Set a new expiry of leased positions, counted from now; None means all positions of the lease."""
        with self._step(epoch) as (core, now):
            return core.extend(lease_id, positions, now, lease_ms=lease_ms)

    def cancel(self, epoch: int, positions: PositionColumns) -> CancelOutcome:
        """Remove positions that are not leased."""
        with self._step(epoch) as (core, now):
            return core.cancel(positions, now)

    def seal(self, epoch: int) -> int:
        """Seal the mutable bucket; return the number of positions in it."""
        with self._step(epoch) as (core, now):
            return core.seal_now(now)

    def seal_open(self) -> None:
        """Seal the mutable bucket and the late positions at any size, because memory is full of them."""
        if self.state is HostState.READY and not self._broken:
            with suppress(TrackerBroken), self._step() as (core, now):
                core.seal_open(now)

    def to_read(self) -> TrackerCore:
        """The tracker, to be looked at before the next await.

        Raises:
            Recovering, TrackerNotOpen: there is no tracker to query.
        """
        with self._whole():
            return self._require_core()

    def contains(self, positions: PositionColumns) -> BoolArray:
        """Return a mask of the positions: True if the position is tracked."""
        with self._whole():
            return self._require_core().contains(positions)

    def next_delivery_ms(self) -> int | None:
        """Return the time at which the next poll would succeed, in milliseconds since 1970, UTC."""
        return self._require_core().next_delivery_ms()

    @property
    def replay_required(self) -> bool:
        """True if positions were lost with a snapshot since the tracker was opened."""
        return self._require_core().replay_required

    @property
    def pause_reading(self) -> bool:
        """True if the dispatcher may stop reading ahead until the next delivery."""
        return self._require_core().pause_reading(self.now_ms())

    def advance_mark_delete(self, epoch: int, position: Position) -> TrimOutcome:
        """Drop all positions up to ``position``, inclusive. A position below the present one changes nothing."""
        with self._step(epoch) as (core, now):
            if position == BEFORE_ALL:
                return TrimOutcome(core.mark_delete, 0)
            return core.advance_mark_delete(position, now)

    async def clear(self, epoch: int, *, reset_to: Position | None = None) -> Cleared:
        """Drop every position and end the waiting polls; return when that is durable.

        Args:
            epoch: the owner's.
            reset_to: the new mark-delete position if the cursor was moved.
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
        """Return sizes and counters. O(1)."""
        with self._whole():
            return self._require_core().stats()

    def buckets(self) -> list[BucketView]:
        """Return one row for each bucket."""
        with self._whole():
            return self._require_core().buckets()
