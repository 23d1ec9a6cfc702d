"""Performs the effects of one tracker, with bounded concurrency and retries, and reports every result exactly once.

The order of steps inside an effect is the contract of ``delayed_tracker.core.engine.effects``: new object -> catalogue
-> report -> delete the old. Catalogue writes of one tracker hold ``catalogue_lock`` and make their report before they
release it. So after a barrier (clear) has been written, no older snapshot can stay in the catalogue unnoticed: its
write either conflicts with the epoch, or is undone before the lock is released.

If the storage fails, an undo may be incomplete: the catalogue may still name a snapshot that the core does not have.
Its bucket id is kept as debris, and the next catalogue write removes it in the same atomic step. After a failed merge,
that step also restores the entries of the sources. Objects without a catalogue entry are orphans: the next recovery
deletes and counts them.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Final, TypeVar

from delayed_tracker.core.engine.effect_results import (
    DeleteFailed,
    MergeFailed,
    SegmentLoadFailed,
    SegmentsLoaded,
    SnapshotFailed,
    SnapshotsDeleted,
    SnapshotsMerged,
)
from delayed_tracker.core.engine.effects import DeleteSnapshots, Effect, LoadSegments, MergeSnapshots, StoreSnapshot
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.instruments.bucket_operations import EffectAccount
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.merging import (
    MergedSnapshot,
    MergeSourceLost,
    MergeTooLarge,
    MergeUnfit,
    SnapshotMerge,
)
from delayed_tracker.service.storage.sealing import PreparedSnapshot, prepare, stored_result
from delayed_tracker.service.storage.snapshot_writer import EffectResults, SnapshotWriter
from delayed_tracker.service.telemetry.storage_log import (
    DELETE_FAILED,
    LOAD_FAILED,
    MERGE_FAILED,
    SNAPSHOT_LOST,
    STORE_FAILED,
)
from delayed_tracker.storage.codec.codec import decode_segments
from delayed_tracker.storage.errors import (
    SnapshotConflict,
    SnapshotCorrupt,
    SnapshotNotFound,
    SnapshotTooLarge,
    StorageError,
)
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.summary import encode_summary

Answer = TypeVar("Answer")

_NONE: Final[frozenset[int]] = frozenset()  # shared: a separate empty set would cost each tracker 216 bytes
DECODE_INLINE_BYTES_MAX = 16 * 2**10
"""Up to this size, decoding in the event loop is faster than handing the work to a thread."""


def _consumed(stored: PositionBitmap, tracked: PositionBitmap) -> bytes:
    consumed = stored.copy()
    consumed.subtract(tracked)
    return consumed.serialize() if consumed else b""


async def _each(segments: Sequence[bytes]) -> AsyncIterator[bytes]:
    for segment in segments:
        yield segment


class EffectRunner:
    """The effects of one tracker that are in flight."""

    __slots__ = (
        "_access",
        "_account",
        "_counters",
        "_deleted",
        "_key",
        "_limits",
        "_operations_max",
        "_results",
        "_slots",
        "_storage",
        "_tasks",
        "catalogue_lock",
        "writer",
    )

    def __init__(
        self,
        key: TrackerKey,
        access: StorageAccess,
        limits: ServiceLimits,
        *,
        results: EffectResults,
        account: EffectAccount,
    ) -> None:
        self.writer = SnapshotWriter(key, access, results=results, counters=account.counters)
        self.catalogue_lock = self.writer.catalogue_lock
        """Lock for every write to this tracker's catalogue, together with the steps that must follow it."""
        self._key = key
        self._access = access
        self._storage = access.storage
        self._operations_max = limits.tracker_operations_max
        self._limits = limits
        # Created on first use: an idle tracker performs no effects, and there are tens of thousands of idle trackers.
        self._slots: dict[type[Effect], asyncio.Semaphore] | None = None
        self._results = results
        self._counters = account.counters
        self._account = account
        self._tasks: dict[asyncio.Task[None], Effect] | None = None  # while there are any
        self._deleted = _NONE
        """Snapshots that are deleted already, of deletions that are not finished."""

    @property
    def in_flight_count(self) -> int:
        """Number of effects that were taken over and not reported yet."""
        return len(self._tasks or ())

    def in_flight(self) -> Collection[Effect]:
        """Return the effects that were taken over and not reported yet."""
        return self._tasks.values() if self._tasks else ()

    @property
    def stale_catalogue_ids(self) -> frozenset[int]:
        """Ids of buckets that the core does not have and the catalogue may still name."""
        return frozenset(bucket_id for bucket_id, entry in self.writer.undoing.items() if entry is None)

    def run(self, effects: Sequence[Effect]) -> None:
        """Take over effects, each of which will be reported. Never blocks."""
        for effect in effects:
            task = asyncio.get_running_loop().create_task(self._perform(effect))
            if self._tasks is None:
                self._tasks = {}
            self._tasks[task] = effect
            task.add_done_callback(self._ended)

    async def finish(self) -> None:
        """Return when every effect has been reported. No operation is retried from now on."""
        self.writer.finishing = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self.writer.undoing:
            async with self.catalogue_lock:
                with suppress(StorageError):  # Recovery copes with it: each of its snapshots is whole.
                    await self.writer.drop((), epoch=self._results.epoch)

    def abandon(self) -> list[asyncio.Task[None]]:
        """Cancel the effects in flight, and return their tasks, which may have something to undo.

        The storage keeps of each either nothing, or a whole snapshot that is catalogued or can be swept.
        """
        self.writer.finishing = True
        tasks = list(self._tasks or ())
        for task in tasks:
            task.cancel()
        return tasks

    def _ended(self, task: asyncio.Task[None]) -> None:
        assert self._tasks is not None
        del self._tasks[task]
        self._tasks = self._tasks or None
        if not task.cancelled() and (error := task.exception()) is not None:
            # A bug of the service: the effect was reported as failed, and the event loop's handler reports the bug.
            task.get_loop().call_exception_handler(
                {"message": f"an effect of the tracker of subscription {self._key} failed", "exception": error}
            )

    async def _perform(self, effect: Effect) -> None:
        begun_ms = self._account.begin()
        async with self._slots_of(type(effect)):
            if isinstance(effect, StoreSnapshot):
                await self._store_in_turn(effect, begun_ms)
                return
            if isinstance(effect, LoadSegments):
                async with self._access.load_slots:
                    await self._load(effect, begun_ms)
                return
            async with self._access.slots:
                match effect:
                    case DeleteSnapshots():
                        await self._delete(effect, begun_ms)
                    case MergeSnapshots():
                        await self._merge(effect, begun_ms)

    async def _store_in_turn(self, effect: StoreSnapshot, begun_ms: float) -> None:
        turns, work = self._access.store_turns, object()
        turns.join(work)
        try:
            await turns.until_turn(work)
            async with self._access.slots:
                await self._store(effect, begun_ms)
        finally:
            turns.leave(work)

    def _succeeded(self, kind: str, begun_ms: float, bucket_id: int, *, count: int = 1) -> None:
        labels = (("bucket_id", str(bucket_id)), ("subscription", self._key.subscription), ("topic", self._key.topic))
        self._account.succeeded(kind, begun_ms, labels, count=count)

    def _slots_of(self, kind: type[Effect]) -> asyncio.Semaphore:
        """Return the slots of one kind of effect.

        They are separate, so that stores that hang do not delay loads of due segments.
        """
        if self._slots is None:
            self._slots = {}
        slots = self._slots.get(kind)
        if slots is None:
            slots = self._slots[kind] = asyncio.Semaphore(self._operations_max)
        return slots

    def _note_forgotten(self, *, known: bool) -> None:
        if not known:
            self._counters.results_forgotten += 1

    def _note_lost(self, bucket_id: int, error: DelayedTrackerError, *, is_missing: bool) -> None:
        """Count and log a snapshot that the core relies on and that can never be read.

        The caller excludes effects that the core has forgotten: their snapshots may have been deleted on purpose.
        """
        if is_missing:
            self._counters.snapshots_missing += 1
        else:
            self._counters.snapshots_corrupt += 1
        self.writer.failed(SNAPSHOT_LOST, error, retried=False, bucket_id=bucket_id)

    async def _is_writable(self, epoch: int) -> bool:
        """Wait, if the add log fails, until the catalogue may be written: else each attempt would store a snapshot in vain.

        Returns: False if the tracker is not this process's any more.
        Raises:
            StorageError: try again later.
        """
        try:
            if self._results.log_fails:
                await self.writer.until_writable()
        except SnapshotConflict as error:
            self.writer.fenced(epoch, error)
            return False
        return True

    # -- store -------------------------------------------------------------------------------------------------------

    async def _store(self, effect: StoreSnapshot, begun_ms: float) -> None:
        settled = False
        try:
            settled = await self._store_and_report(effect, begun_ms)
        finally:
            if not settled:
                self._counters.snapshots_failed += 1
                self._note_forgotten(known=self._results.apply(SnapshotFailed(effect.effect_id)))

    async def _store_and_report(self, effect: StoreSnapshot, begun_ms: float) -> bool:
        try:
            if not await self._is_writable(effect.epoch):
                return False
            prepared = await self._access.offload(
                prepare, effect.frozen, self._limits.snapshot_codec, self._access.entry_bytes_max
            )
            ids = await self._create_all(prepared, effect.epoch)
        except StorageError as error:
            self.writer.failed(STORE_FAILED, error, position_count=len(effect.frozen))
            return False
        entries = [
            self.writer.entry(
                bucket_id, each.sealed.first, each.sealed.last, each.summary, seal_number=effect.seal_number
            )
            for bucket_id, each in zip(ids, prepared, strict=True)
        ]
        async with self.catalogue_lock:
            try:
                stored = self.writer.stored_through(effect.effect_id)
                await self.writer.publish(entries, epoch=effect.epoch, mark=stored)
            except SnapshotConflict:
                return False
            except StorageError as error:
                self.writer.failed(STORE_FAILED, error, bucket_id=ids[0], position_count=len(effect.frozen))
                return False
            # First, because the step that takes the result forgets failures that nothing is left of.
            self._access.failures.succeeded(self._key, STORE_FAILED)
            known = self._results.apply(stored_result(effect.effect_id, ids, prepared))
            self._note_forgotten(known=known)
            if known:
                self._counters.snapshots_stored += len(ids)
                self._counters.snapshots_split += len(ids) > 1
                self._succeeded("create", begun_ms, ids[0], count=len(ids))
            else:
                await self.writer.undo(ids)
        return True

    async def _create_all(self, prepared: Sequence[PreparedSnapshot], epoch: int) -> list[int]:
        """Store each content as a snapshot, all or none, and return their bucket ids."""
        ids: list[int] = []
        try:
            for each in prepared:
                bucket_id = await self.writer.attempt(partial(self._create, each, epoch))
                ids.append(bucket_id)
        except StorageError:
            await self.writer.delete(ids)
            raise
        return ids

    async def _create(self, prepared: PreparedSnapshot, epoch: int) -> int:
        sealed, encoded = prepared.sealed, prepared.encoded
        return await self.writer.create(
            encoded.metadata, _each(encoded.segments), sealed.first, sealed.last, epoch=epoch
        )

    # -- merge -------------------------------------------------------------------------------------------------------

    async def _merge(self, effect: MergeSnapshots, begun_ms: float) -> None:
        settled = False
        lost: MergeSourceLost | None = None
        too_large = False
        try:
            settled = await self._merge_and_report(effect, begun_ms)
        except MergeSourceLost as error:
            lost = error
        except (MergeTooLarge, MergeUnfit):
            too_large = True
        finally:
            if not settled:
                self._counters.merges_failed += 1
                lost_ids = () if lost is None else (lost.bucket_id,)
                known = self._results.apply(MergeFailed(effect.effect_id, lost_ids, too_large))
                self._note_forgotten(known=known)
                if known and lost is not None:
                    self._note_lost(lost.bucket_id, lost, is_missing=lost.is_missing)

    async def _merge_and_report(self, effect: MergeSnapshots, begun_ms: float) -> bool:
        source_ids = tuple(source.bucket_id for source in effect.sources)
        try:
            if not await self._is_writable(effect.epoch):
                return False
            merged = await self._write_merged(effect)
        except SnapshotTooLarge as error:
            raise MergeTooLarge(error.message) from error
        except StorageError as error:
            self.writer.failed(MERGE_FAILED, error, bucket_ids=source_ids)
            return False
        async with self.catalogue_lock:
            try:
                state = await self.writer.attempt(lambda: self._storage.list(*self._key))
            except StorageError as error:
                self.writer.failed(MERGE_FAILED, error, bucket_ids=source_ids)
                await self.writer.delete((merged.bucket_id,))
                return False
            sources = [source for source in state.entries if source.bucket_id in source_ids]
            try:
                await self._publish_merged(effect, merged, sources)
            except SnapshotConflict:
                return False
            except StorageError as error:
                self.writer.failed(MERGE_FAILED, error, bucket_ids=source_ids)
                return False
            plan = merged.plan
            known = self._results.apply(
                SnapshotsMerged(effect.effect_id, merged.bucket_id, plan.bounds, merged.length, plan.stored)
            )
            self._note_forgotten(known=known)
            if known:
                self._counters.snapshots_merged += 1
                self._succeeded("merge", begun_ms, merged.bucket_id)
                self._access.failures.succeeded(self._key, MERGE_FAILED)
            else:
                await self.writer.undo((merged.bucket_id,), sources)
        return True

    async def _write_merged(self, effect: MergeSnapshots) -> MergedSnapshot:
        """Store the merged snapshot.

        Raises:
            MergeSourceLost, MergeUnfit, MergeTooLarge: it cannot be made.
            SnapshotTooLarge, StorageUnavailable: it was not stored.
        """
        largest = self._access.entry_bytes_max
        limits = self._limits
        merge = SnapshotMerge(
            effect,
            self._access,
            self._read_entries,
            codec=limits.snapshot_codec,
            metadata_bytes_max=min(limits.snapshot_metadata_bytes_max, largest or limits.snapshot_metadata_bytes_max),
        )
        plan = await merge.plan()

        async def create() -> int:
            async with aclosing(merge.segments()) as segments:
                return await self.writer.create(plan.metadata, segments, effect.first, effect.last, epoch=effect.epoch)

        bucket_id = await self.writer.attempt(create)
        length = len(plan.metadata) + merge.segment_bytes
        summary = await self._access.offload(encode_summary, plan.bounds, plan.stored, length)
        return MergedSnapshot(bucket_id, plan, length, summary)

    async def _publish_merged(
        self, effect: MergeSnapshots, merged: MergedSnapshot, sources: Sequence[CatalogueEntry]
    ) -> None:
        """Put the merged snapshot in the place of its sources in the catalogue. Raises the errors of ``publish``."""
        # What was acknowledged or cancelled since the bits were read need not come back after a crash.
        consumed = await self._access.offload(_consumed, merged.plan.stored, self._results.still_tracked(effect))
        entry = self.writer.entry(
            merged.bucket_id,
            effect.first,
            effect.last,
            merged.summary,
            seal_number=effect.seal_number,
            consumed=consumed,
        )
        source_ids = tuple(source.bucket_id for source in effect.sources)
        await self.writer.publish((entry,), remove=source_ids, replaced=sources, epoch=effect.epoch)

    async def _read_entries(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        return await self.writer.attempt(lambda: self._storage.get_bucket_snapshot_segments(bucket_id, first, last))

    # -- load --------------------------------------------------------------------------------------------------------

    async def _load(self, effect: LoadSegments, begun_ms: float) -> None:
        settled = False
        lost: SnapshotNotFound | SnapshotCorrupt | None = None
        try:
            indexes = await self._read(effect)
            settled = True
            self._counters.segment_loads += 1
            self._access.load_succeeded(begun_ms)
            self._succeeded("load", begun_ms, effect.bucket_id)
            self._access.failures.succeeded(self._key, LOAD_FAILED)
            self._note_forgotten(known=self._results.apply(SegmentsLoaded(effect.effect_id, indexes)))
        except (SnapshotNotFound, SnapshotCorrupt) as error:
            lost = error
        except StorageError as error:
            self.writer.failed(LOAD_FAILED, error, bucket_id=effect.bucket_id)
        finally:
            if not settled:
                self._counters.segment_loads_failed += 1
                known = self._results.apply(SegmentLoadFailed(effect.effect_id, lost=lost is not None))
                self._note_forgotten(known=known)
                if known and lost is not None:
                    self._note_lost(effect.bucket_id, lost, is_missing=isinstance(lost, SnapshotNotFound))

    async def _read(self, effect: LoadSegments) -> IndexColumns:
        entries = await self.writer.attempt(
            lambda: self._storage.get_bucket_snapshot_segments(effect.bucket_id, effect.first + 1, effect.last + 1)
        )
        if sum(map(len, entries)) <= DECODE_INLINE_BYTES_MAX:
            return decode_segments(entries)
        return await self._access.offload(decode_segments, entries)

    # -- delete ------------------------------------------------------------------------------------------------------

    async def _delete(self, effect: DeleteSnapshots, begun_ms: float) -> None:
        settled = is_dropped = False
        try:
            async with self.catalogue_lock:
                await self.writer.drop(effect.bucket_ids, epoch=effect.epoch, void_through=effect.void_through)
            if effect.void_through is not None:
                await self._results.cut_log(effect.void_through)
            # A clear ends here: 200 objects, one after the other, may take longer than its caller waits.
            self._results.catalogue_written(effect)
            is_dropped = True
            # Try each bucket even if another fails, and skip those that are deleted already.
            for bucket_id in effect.bucket_ids:
                if bucket_id not in self._deleted and await self._try_to_delete(bucket_id):
                    self._deleted |= {bucket_id}
            if self._deleted.issuperset(effect.bucket_ids):
                settled = True
                self._deleted = self._deleted.difference(effect.bucket_ids) or _NONE
                self._counters.snapshots_deleted += len(effect.bucket_ids)
                if effect.bucket_ids:
                    self._succeeded("delete", begun_ms, effect.bucket_ids[0], count=len(effect.bucket_ids))
                self._access.failures.succeeded(self._key, DELETE_FAILED)
                self._note_forgotten(known=self._results.apply(SnapshotsDeleted(effect.effect_id)))
        except SnapshotConflict as error:
            self.writer.fenced(effect.epoch, error)
        except StorageError as error:
            self.writer.failed(DELETE_FAILED, error, bucket_ids=effect.bucket_ids)
        finally:
            if not settled:
                self._counters.deletes_failed += 1
                self._note_forgotten(known=self._results.apply(DeleteFailed(effect.effect_id, is_dropped)))

    async def _try_to_delete(self, bucket_id: int) -> bool:
        try:
            await self.writer.attempt(partial(self._storage.delete_bucket_snapshot, bucket_id))
        except StorageError as error:
            self.writer.failed(DELETE_FAILED, error, bucket_id=bucket_id)
            return False
        return True
