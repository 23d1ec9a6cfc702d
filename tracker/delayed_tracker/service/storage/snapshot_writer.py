"""Writes snapshots of one tracker and undoes the writes: the common part of stores, merges and deletions.

Catalogue writes of a tracker run one at a time. An undo that the storage did not complete is repeated with the next
catalogue write.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from delayed_tracker.core.engine.effect_results import EffectResult
from delayed_tracker.core.engine.effects import DeleteSnapshots, MergeSnapshots
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.consumed_positions import consumed_entries
from delayed_tracker.service.storage.cursor_fall import fallen_entries
from delayed_tracker.service.telemetry.storage_log import CHECKPOINT_FAILED, FENCED
from delayed_tracker.storage.errors import SnapshotConflict, StorageError
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, LogMark, StoredThrough
from delayed_tracker.storage.publication import Claim, Publication, catalogue_entry

Answer = TypeVar("Answer")


class EffectResults(Claim, Protocol):
    """The open tracker, as its runner sees it. Epoch and mark-delete position are those of the core."""

    def apply(self, result: EffectResult) -> bool:
        """Apply a result. Returns False if the core has forgotten the effect: then the runner undoes what it made."""
        ...

    def still_tracked(self, effect: MergeSnapshots) -> PositionBitmap:
        """Return a copy of the positions that the sources of a merge track now; fewer than when it was asked for."""
        ...

    @property
    def log_fails(self) -> bool:
        """True if the last commit to the add log failed."""
        ...

    async def until_logged(self) -> None:
        """Return when every change made until now is in the add log. Raises StorageError."""
        ...

    def stored_through(self, storing_id: int | None = None) -> Position | None:
        """Return the dispatcher's claim as far as snapshots cover it, see ``TrackerCore.stored_through``; None without."""
        ...

    async def cut_log(self, through: int) -> bool:
        """Remove the records up to a number from the add log. Return False if that failed: the next cut removes them."""
        ...

    def catalogue_written(self, effect: DeleteSnapshots) -> None:
        """Note that the catalogue carries the effect's epoch and none of its buckets; objects may remain."""
        ...

    def catalogue_fenced(self, epoch: int) -> None:
        """Note that the catalogue refused this epoch, because it has a newer one."""
        ...


@dataclass(frozen=True, slots=True)
class Consumption:
    """State of a tracker at one moment, as far as the catalogue may have to learn of it."""

    remaining: Mapping[int, PositionBitmap]
    """For each bucket id, the positions that are still tracked; buckets that have not changed may be left out."""
    gone: Collection[int] = ()
    """Ids of buckets that the core has deleted."""
    mark: LogMark | None = None
    """Part of the add log that the catalogue contains, once it has learnt of this state."""

    @property
    def is_empty(self) -> bool:
        """True if the catalogue has nothing to learn."""
        return not self.remaining and not self.gone and self.mark is None


class SnapshotWriter(Publication):
    """Publication of an open tracker: with the retries, counters and log lines of the service."""

    __slots__ = ("_access", "_counters", "_key", "_marked_through", "_results", "catalogue_lock", "finishing")

    def __init__(
        self, key: TrackerKey, access: StorageAccess, *, results: EffectResults, counters: EffectCounters
    ) -> None:
        super().__init__(access.storage, key, writer=access.writer, claim=results)
        self.catalogue_lock = asyncio.Lock()
        """Lock for every write to this tracker's catalogue, together with the steps that must follow it."""
        self.finishing = False
        """True if no operation is retried from now on."""
        self._key = key
        self._access = access
        self._results = results
        self._counters = counters
        self._marked_through = 0
        """Number up to which the log may be cut: the highest mark of a checkpoint or a deletion."""

    async def attempt(self, operation: Callable[[], Awaitable[Answer]]) -> Answer:
        """Perform a storage operation. If the storage is unavailable, repeat it, unless ``finishing`` is set."""
        return await self._access.attempt(operation, self._counters, give_up=lambda: self.finishing)

    def failed(self, event: str, error: DelayedTrackerError, *, retried: bool = True, **fields: object) -> None:
        """Log a failure with these fields."""
        self._access.failures.failed(self._key, event, error, retried=retried and not self.finishing, **fields)

    def fenced(self, epoch: int, error: SnapshotConflict) -> None:
        """Report to the core, and log if necessary, that the catalogue has a newer epoch.

        An effect from before a clear or a new owner is fenced by this process itself, which is normal and not logged.
        If another process owns the tracker, the next effect of the present epoch is fenced and logged.
        """
        if epoch >= self._results.epoch:
            self.failed(FENCED, error, retried=False)
        self._results.catalogue_fenced(epoch)

    def entry(
        self,
        bucket_id: int,
        first: Position,
        last: Position,
        summary: bytes,
        *,
        seal_number: int,
        consumed: bytes = b"",
    ) -> CatalogueEntry:
        """Return the catalogue entry of a new bucket, with the mark-delete position of now."""
        return catalogue_entry(
            bucket_id,
            first,
            last,
            summary,
            seal_number=seal_number,
            mark_delete=self._results.mark_delete,
            consumed=consumed,
        )

    async def until_writable(self) -> None:
        """Return when the add log has every change: nothing else may be written to the catalogue.

        A position that has moved from a bucket to memory must not leave the catalogue before the log has it, nor before
        the catalogue knows that its snapshots lack it.
        """
        await self._results.until_logged()

    def default_mark(self) -> StoredThrough | None:
        """Return how far the dispatcher's claim is covered by snapshots: every write records it."""
        return self.stored_through()

    def stored_through(self, storing_id: int | None = None) -> StoredThrough | None:
        """Return what a commit records of the claim that its snapshots cover; None if there is no add log.

        The caller holds ``catalogue_lock`` and knows the content of the commit: what moves to memory later is in it.
        """
        return StoredThrough(self._results.stored_through(storing_id)) if self._access.logs_changes else None

    def void_mark(self, through: int, stored_through: Position | None = None) -> LogMark:
        """Return the mark under which all records up to a number are void, and so is the claim that they had."""
        return LogMark(through, log=self._access.log_id, stored_through=stored_through)

    async def drop(self, bucket_ids: Sequence[int], *, epoch: int, void_through: int | None = None) -> None:
        """Remove buckets from the catalogue; with none, record the epoch alone. The caller holds ``catalogue_lock``.

        Args:
            bucket_ids: of the buckets.
            epoch: under which they are removed.
            void_through: last change that the clear of these buckets made void; None if there was none.
        """
        mark = None
        # Else the deletion is late: a checkpoint has recorded a higher mark, and the log was cut.
        if void_through is not None and void_through >= self._marked_through:
            mark = self.void_mark(void_through, self._results.stored_through())
        await self.replace(remove=bucket_ids, add=(), epoch=epoch, mark=mark)
        if mark is not None:
            self._marked_through = mark.number

    async def exchange(
        self, entries: Sequence[CatalogueEntry], epoch: int, *, void_through: int | None
    ) -> CatalogueState:
        """Replace all buckets in the catalogue by these entries, in one step; return the catalogue of before.

        The caller holds ``catalogue_lock``.

        Args:
            entries: of the snapshots, which no catalogue names yet.
            epoch: under which they were stored.
            void_through: last record of the add log that concerns the buckets replaced; None without a log.
        Raises:
            StorageError: nothing was replaced. The snapshots of the entries are deleted, or will be.
        """
        try:
            # What an earlier write has left to undo would be restored beside these entries.
            await self.complete_undo(epoch)
            state = await self.attempt(lambda: self._storage.list(*self._tracker))
        except StorageError:
            await self.delete([entry.bucket_id for entry in entries])
            raise
        present = [*(entry.bucket_id for entry in state.entries), *state.corrupt]
        await self.publish(
            entries,
            remove=present,
            replaced=state.entries,
            epoch=epoch,
            # What the snapshots cover is known when the core has adopted them.
            mark=None if void_through is None else self.void_mark(void_through),
            replaced_mark=None if void_through is None else state.log_mark,
        )
        return state

    async def complete_undo(self, epoch: int) -> None:
        """Complete the undo steps that are left; the caller holds ``catalogue_lock``. Raises StorageError."""
        if self.undoing:
            await self.replace(remove=(), add=(), epoch=epoch)

    async def record_cursor(self, look: Callable[[], Mapping[int, PositionBitmap]]) -> None:
        """Record the mark-delete position of now, which may have fallen, and all that is consumed, in one write.

        The caller holds ``catalogue_lock`` since before the position changed, and no undo step was left then: no other
        write may record the position, or restore an entry of before.

        Args:
            look: returns the positions that each stored bucket tracks now.
        Raises:
            SnapshotConflict: another process owns the tracker.
            StorageUnavailable: the write may have been applied; repeat it.
            LogBroken: nothing is written any more.
        """
        known = await self.attempt(lambda: self._storage.list(*self._tracker))
        entries = await fallen_entries(
            known.entries, look(), self._results.mark_delete, access=self._access, counters=self._counters
        )
        await self.replace(remove=[entry.bucket_id for entry in entries], add=entries, epoch=self._results.epoch)

    async def record_consumed(self, look: Callable[[], Consumption]) -> Consumption | None:
        """Record the consumed positions of each bucket, and remove deleted buckets from the catalogue, in one write.

        It is tried once, after what an earlier write has left to undo. A failure is logged and counted: without an add
        log, these positions are delivered again.

        Args:
            look: returns the state to record. It is called when no other write to the catalogue is under way.
        Returns: the recorded state; None if that failed.
        """
        epoch = self._results.epoch
        try:
            async with self.catalogue_lock:
                # A catalogue that still names what is to be undone does not contain what the mark says.
                epoch = self._results.epoch
                await self.complete_undo(epoch)
                consumption = look()
                gone, mark = consumption.gone, consumption.mark
                await self._results.until_logged()
                # A catalogue of thousands of buckets has megabytes of summaries. Most checkpoints while messages are
                # added record only how far the log may be cut.
                moved: list[CatalogueEntry] = []
                ids: list[int] = []
                if consumption.remaining or gone:
                    known = await self._storage.list(*self._tracker)
                    moved = await consumed_entries(
                        known.entries, consumption.remaining, access=self._access, counters=self._counters
                    )
                    ids = [entry.bucket_id for entry in known.entries if entry.bucket_id in gone]
                if moved or ids or mark is not None:
                    epoch = self._results.epoch
                    await self._storage.replace(
                        *self._tracker,
                        remove=ids + [entry.bucket_id for entry in moved],
                        add=moved,
                        epoch=epoch,
                        writer=self._writer,
                        mark_delete=self._results.mark_delete,
                        mark=mark,
                    )
                if mark is not None:
                    self._marked_through = max(self._marked_through, mark.number)
        except SnapshotConflict as error:
            self.fenced(epoch, error)
            return None
        except StorageError as error:
            self._access.failures.failed(self._key, CHECKPOINT_FAILED, error, retried=False)
            self._counters.checkpoints_failed += 1
            return None
        self._access.failures.succeeded(self._key, CHECKPOINT_FAILED)
        return consumption

    async def delete(self, bucket_ids: Sequence[int]) -> int:
        """Delete snapshots that no catalogue entry names, and count those that remain."""
        left_count = await super().delete(bucket_ids)
        self._counters.orphans_left += left_count
        return left_count
