"""Owners of one tracker: an open raises the epoch, and an import replaces all that is tracked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from delayed_tracker.core.rules.recovery import RecoveryPlan
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.clock import pause
from delayed_tracker.service.errors import PollEnded, ServiceError
from delayed_tracker.service.telemetry.storage_log import CURSOR_NOT_RECORDED
from delayed_tracker.service.trackers.components import HostState, SharedComponents
from delayed_tracker.service.trackers.gate import TrackerGate
from delayed_tracker.service.trackers.results import Adopted, Cleared, Opened
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueEntry


class Ownership:
    """Changes of the owner, each under a new epoch that is durable before it is answered."""

    __slots__ = (
        "_gate",
        "_is_epoch_used",
        "_is_moving_cursor",
        "_shared",
        "add_log_missing",
        "is_adopting",
        "is_unclaimed",
    )

    def __init__(self, gate: TrackerGate, shared: SharedComponents) -> None:
        self.is_unclaimed = True
        """True if the tracker has had no owner since it was recovered."""
        self.add_log_missing = False
        """True if the tracker was recovered without the add log of its last owner."""
        self.is_adopting = False
        """True while an import replaces the buckets in the catalogue."""
        self._is_epoch_used = False
        self._is_moving_cursor = False
        self._gate = gate
        self._shared = shared

    async def claim(self, owner: str, mark_delete: Position | None) -> Opened:
        """Set the owner, under a new epoch.

        Raises:
            StorageUnavailable: the new epoch could not be recorded. The old owner is fenced all the same, because the
                storage may have taken the new epoch.
            TrackerNotOpen: it was closed meanwhile; recover it again.
        """
        recovered_count = 0
        if self._is_moving_cursor:
            async with self._gate.runner.catalogue_lock:  # an owner must not be told a position that a crash undoes
                self._gate.require_core()
        is_first, self.is_unclaimed = self.is_unclaimed, False
        if is_first:
            recovered_count = self._gate.require_core().recovered_count
        # The first owner takes the epoch that the recovery has recorded, unless an import uses it, or an operator's clear has
        # still to be recorded.
        if self._is_epoch_used or not is_first or self._gate.require_core().void_through() is not None:
            with self._gate.held():
                await self._raise_epoch(owner)
        self._gate.owner = owner
        with self._gate.step() as (core, now):
            if mark_delete is not None:
                core.advance_mark_delete(mark_delete, now)
        return Opened(
            epoch=core.epoch,
            mark_delete=core.mark_delete,
            offered_through=core.offered_through,
            recovered_count=recovered_count,
            bucket_count=sum(tracked_count > 0 for tracked_count, _ in core.stored_counts().values()),
            add_log_missing=self.add_log_missing,
        )

    def use_epoch(self) -> int:
        """Return the epoch for an operation of a caller who need not own the tracker; the next open fences it."""
        self._is_epoch_used = True
        return self._gate.epoch

    async def _raise_epoch(self, owner: str) -> None:
        async with self._gate.runner.catalogue_lock:
            access = self._shared.access
            epoch, deleted = 0, frozenset[int]()
            try:
                # Once, or again if the last owner has cleared the tracker meanwhile, which also takes an epoch.
                while epoch <= (core := self._gate.require_core()).epoch:
                    epoch, deleted, void_through = core.epoch + 1, core.undeleted(), core.void_through()
                    if deleted or void_through is not None:
                        # What a clear has dropped, too: else the owner is told a state that a crash undoes, and what is added
                        # then is void.
                        await self._gate.runner.writer.drop(sorted(deleted), epoch=epoch, void_through=void_through)
                    else:
                        fence = partial(
                            access.storage.replace,
                            *self._gate.key,
                            remove=(),
                            add=(),
                            epoch=epoch,
                            writer=access.writer,
                        )
                        await access.attempt(fence, self._gate.counters)
            except SnapshotConflict:
                if self._gate.state is HostState.READY:
                    self._shared.fenced(self._gate.key)
                raise
            finally:
                # Also if the storage did not answer: it may have taken the epoch, and then effects of the old epoch
                # conflict.
                if self._gate.state is HostState.READY:
                    with self._gate.step() as (core, now):
                        core.begin_epoch(max(epoch, core.epoch + 1), now)
                        self._gate.owner = owner
                        self._gate.end_waits(lambda: PollEnded(self._gate.key, "FENCED"))
            self._gate.catalogue_waits.note_written(epoch, deleted)

    async def move_cursor(self, epoch: int, mark_delete: Position) -> Cleared:
        """Take a new mark-delete position, and keep what is tracked above it; return when that is durable.

        Leases and waiting polls end, and the epoch rises. No other write to the catalogue comes between the step and its
        record: one with the new position alone would bring back what was trimmed under the old one.

        Args:
            epoch: the owner's.
            mark_delete: the position, which may be lower than the present one; BEFORE_ALL is before the first entry.
        Raises:
            Fenced, TrackerNotOpen, InvalidInput: nothing was changed.
            StorageUnavailable, LogBroken: it may take effect or not; the epoch may have risen.
            PollEnded, ShuttingDown, TrackerBroken: likewise; the tracker was closed meanwhile.
            SnapshotConflict: another process owns the tracker.
        """
        writer = self._gate.runner.writer
        self._is_moving_cursor = True
        try:
            async with self._gate.runner.catalogue_lock:
                self._gate.require_core(epoch)
                await writer.complete_undo(epoch)
                with self._gate.step(epoch) as (core, now):
                    dropped_count = core.move_cursor(mark_delete, now)
                    self._gate.end_waits(lambda: PollEnded(self._gate.key, "CLEARED"))
                    moved = Cleared(core.epoch, dropped_count)
                await self._record_cursor()
        finally:
            self._is_moving_cursor = False
        return moved

    async def _record_cursor(self) -> None:
        """Record the position that the core has taken; try again until the storage answers or the tracker is closed."""
        gate, access = self._gate, self._shared.access
        with gate.histories.follow() as history:

            def remaining() -> Mapping[int, PositionBitmap]:
                history.require()
                return gate.require_core().remaining()

            while True:
                try:
                    await gate.runner.writer.record_cursor(remaining)
                except SnapshotConflict:
                    if gate.state is HostState.READY:
                        self._shared.fenced(gate.key)
                    raise
                except StorageUnavailable as error:
                    gate.runner.writer.failed(CURSOR_NOT_RECORDED, error)
                    history.require()
                    await pause(self._shared.clock, access.retry_ms)
                    history.require()
                else:
                    access.failures.succeeded(gate.key, CURSOR_NOT_RECORDED)
                    return

    async def adopt(
        self,
        epoch: int,
        entries: Sequence[CatalogueEntry],
        plan: RecoveryPlan,
        *,
        owner: str,
        mark_delete: Position,
        offered_through: Position = BEFORE_ALL,
    ) -> Adopted:
        """Replace every tracked position, also those in memory, by stored snapshots; return when that is durable.

        Waiting polls and leases end, and the old epoch is fenced. On any error, the snapshots are deleted.

        Args:
            epoch: the epoch under which the snapshots were stored.
            entries: of the snapshots, which no catalogue names yet. They get seal numbers here, in this order.
            plan: the recovery plan of the snapshots.
            owner: the importer, who becomes the owner.
            mark_delete: the cursor's when the snapshots were made.
            offered_through: the claim from now on; ignored without an add log, which would keep it.
        Raises:
            Fenced, TrackerNotOpen, StorageError: nothing was changed.
        """
        writer = self._gate.runner.writer
        async with self._gate.runner.catalogue_lock:
            try:
                core = self._gate.require_core(epoch)
            except ServiceError:
                await writer.delete([entry.bucket_id for entry in entries])
                raise
            # Above the seal numbers of the content that the entries replace.
            numbered = [replace(entry, seal_number=core.next_seal_number()) for entry in entries]
            void_through = None if self._gate.log is None else core.last_change
            self.is_adopting = True
            try:
                replaced = await writer.exchange(numbered, epoch, void_through=void_through)
            finally:
                self.is_adopting = False
            try:
                self._gate.require_core(epoch)
            except ServiceError:
                # The tracker was closed before the switch, and its close records consumed positions of the old buckets.
                mark = None if void_through is None else replaced.log_mark
                await writer.undo([entry.bucket_id for entry in entries], replaced.entries, mark)
                raise
            self._gate.owner = owner
            with self._gate.step(epoch) as (core, now):
                claim = BEFORE_ALL if self._gate.log is None else offered_through
                replaced_count = core.adopt(plan, mark_delete=mark_delete, now=now, offered_through=claim)
                self._gate.end_waits(lambda: PollEnded(self._gate.key, "FENCED"))
                stats, deleting, claim = core.stats(), core.undeleted(), core.offered_through
        await self._gate.catalogue_waits.until_written(stats.epoch, deleting)
        return Adopted(
            epoch=stats.epoch,
            mark_delete=stats.mark_delete,
            offered_through=claim,
            bucket_count=len(plan.keep),
            tracked_count=stats.pending_count,
            replaced_count=replaced_count,
        )
