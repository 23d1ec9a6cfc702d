"""Recovery of one tracker: fence, read the catalogue, read the metadata that the plan needs, sweep, build the core.

The plan itself is pure (``delayed_tracker.core.rules.recovery``). A bucket whose catalogue summary is sufficient needs
no read. Any other bucket needs one read, of its snapshot's metadata. Missing and corrupt snapshots are counted and
dropped; the others are recovered.
"""

from collections.abc import Sequence
from functools import partial

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.rules.recovery import RecoverableBucket, RecoveryPlan, needs_metadata, plan_recovery
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.cursor_fall import fallen_entries
from delayed_tracker.service.storage.due_bits import read_due_bits
from delayed_tracker.service.storage.log_replay import LogReplay
from delayed_tracker.service.storage.stored_tracker import OPERATIONS_AT_ONCE_MAX, StoredTracker
from delayed_tracker.service.telemetry.storage_log import LOG_MISSING, SNAPSHOT_LOST
from delayed_tracker.storage.add_log import LogExtent
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.concurrent import all_answers
from delayed_tracker.storage.errors import (
    AddLogMissing,
    SnapshotConflict,
    SnapshotCorrupt,
    SnapshotNotFound,
    StorageError,
)
from delayed_tracker.storage.maintenance.claiming import claim_tracker
from delayed_tracker.storage.maintenance.recoverable import from_metadata, from_summary, summaries_of
from delayed_tracker.storage.protocol import NO_LOG, CatalogueEntry, CatalogueState, LogMark, StoredThrough
from delayed_tracker.storage.summary import BucketSummary


class TrackerRecovery:
    """One recovery of a tracker that is not loaded.

    The caller ensures that nothing else in this process writes to the tracker meanwhile.
    """

    def __init__(self, key: TrackerKey, access: StorageAccess, counters: EffectCounters) -> None:
        self._key = key
        self._access = access
        self._storage = access.storage
        self._counters = counters
        self._stored = StoredTracker(key, access, counters)
        self.missing_count = 0
        """Catalogued snapshots of this tracker that are missing."""
        self.corrupt_count = 0
        """Catalogued snapshots of this tracker that cannot be read."""
        self.log_bytes = 0
        """Bytes of the records that the recovered core still needs in the add log."""
        self.lost_record_count = 0
        """Records of the add log that are missing or cannot be read."""
        self.is_log_missing = False
        """True if the catalogue belongs to a log that this instance has not got."""

    @property
    def has_losses(self) -> bool:
        """True if snapshots or records of the add log are lost."""
        return bool(self.missing_count or self.corrupt_count or self.lost_record_count or self.is_log_missing)

    async def run(self, limits: TrackerLimits, *, mark_delete: Position | None, now: Instant) -> TrackerCore:
        """Return a core with the positions of all catalogued snapshots, under a new epoch.

        If the tracker kind is in-memory, delete all snapshots and return an empty core.

        Raises:
            StorageUnavailable: nothing was recovered; try again.
            SnapshotConflict: other processes keep writing newer epochs; one of them owns the tracker.
        """
        claimed = await claim_tracker(
            self._storage, self._access.log, self._key, writer=self._access.writer, attempt=self._stored.attempt
        )
        state, extent = claimed.state, claimed.extent
        await self._stored.sweep(state)
        in_force = max(state.mark_delete_in_force, mark_delete or BEFORE_ALL)
        if limits.kind is TrackerKind.IN_MEMORY:
            # The replay adds every position again. Snapshots that stayed would be stale at the next switch to buckets.
            await self._stored.delete_all(state, extent, epoch=state.epoch, mark_delete=in_force)
            return TrackerCore.recovered(
                limits, RecoveryPlan(), epoch=state.epoch, mark_delete=in_force, now=now, loads=False
            )
        return await self._core(limits, state, extent, mark_delete=in_force, now=now)

    async def resume(self, limits: TrackerLimits, *, epoch: int, mark_delete: Position, now: Instant) -> TrackerCore:
        """Return a core like the one that this process has dropped, under the same epoch.

        Raises:
            Fenced: another process owns the tracker.
            StorageUnavailable: nothing was recovered; try again.
        """
        try:
            extent = await self._stored.take_over(epoch)
        except SnapshotConflict as error:
            state = await self._stored.state()
            raise self._stored.fenced(epoch, state) from error
        # After the log: a process that takes over later writes to the catalogue first.
        state = await self._stored.state()
        if state.epoch != epoch:
            raise self._stored.fenced(epoch, state)
        in_force = max(state.mark_delete_in_force, mark_delete)
        return await self._core(limits, state, extent, mark_delete=in_force, now=now)

    async def _core(
        self,
        limits: TrackerLimits,
        state: CatalogueState,
        extent: LogExtent | None,
        *,
        mark_delete: Position,
        now: Instant,
    ) -> TrackerCore:
        """Return a core with what catalogue and log have, both of which are fenced."""
        # Without an add log the dispatcher replays, and sends what is due by now at once.
        cutoff_ms = None if self._access.logs_changes else limits.cutoff_ms(now.wall_ms)
        buckets = await self.buckets(state.entries, cutoff_ms)
        lost = [entry.bucket_id for entry, found in zip(state.entries, buckets, strict=True) if found is None]
        lost += state.corrupt
        self._counters.snapshots_corrupt += len(state.corrupt)
        for bucket_id in state.corrupt:
            self._lost(bucket_id, SnapshotCorrupt("its catalogue entry fails its checksum"))
        build = partial(
            _build,
            limits,
            [found for found in buckets if found is not None],
            epoch=state.epoch,
            mark_delete=mark_delete,
            now=now,
            cutoff_ms=cutoff_ms,
            lost_bucket_ids=lost,
            last_seal_number=state.last_seal_number,
        )
        core = await self._access.offload(build) if buckets else build()
        if extent is not None:
            lost_from = [entry.first for entry, found in zip(state.entries, buckets, strict=True) if found is None] + [
                BEFORE_ALL
            ] * len(state.corrupt)
            mark = await self._own_mark(state, extent)
            lost_count = max(0, mark.number - extent.last_number)
            if lost_count:
                # Somebody has removed the log, or put an older one there. Numbers go on from what it has.
                mark = LogMark(extent.last_number, log=self._access.log_id)
                await self._stored.record_mark(state, mark)
            replay = LogReplay(self._key, self._access, self._counters)
            self.log_bytes = await replay.run(
                core, mark, extent, lost_from=min(lost_from, default=None), lost_count=lost_count
            )
            self.lost_record_count = replay.lost_count
            if core.mark_delete < state.mark_delete_in_force:
                await self._record_fall(state, core)
            if not self._access.logs_changes:
                await self._empty_log(core, state)
        elif (void := self._stored.void_mark(state, None)) != state.log_mark:
            # Nothing keeps a claim from now on, and what a log has of this tracker is older than what comes next.
            await self._stored.record_mark(state, void)
        return core

    async def _own_mark(self, state: CatalogueState, extent: LogExtent) -> LogMark:
        """Return the mark in the catalogue, as far as it holds for the log of this instance.

        If the catalogue belongs to another log, only its snapshots count, and the claim that they cover. This instance's
        log begins behind its last record: those of an earlier time, when it had the tracker, are void. That is on record
        before the first change can be logged.
        """
        mark = state.log_mark
        if mark.log == self._access.log_id:
            return mark
        if mark.log != NO_LOG and (mark.log or mark.number):
            self._note_missing_log(mark)
        claim = mark.stored_through
        own = LogMark(extent.last_number, claim, self._access.log_id, claim)
        await self._stored.record_mark(state, own)
        return own

    def _note_missing_log(self, mark: LogMark) -> None:
        self.is_log_missing = True
        self._counters.add_logs_missing += 1
        missing = AddLogMissing(f"the catalogue belongs to the add log {mark.log or 'of its storage'}, not to this one")
        replay_after = str(mark.stored_through or BEFORE_ALL)
        self._access.failures.failed(self._key, LOG_MISSING, missing, retried=False, replay_after=replay_after)

    async def _empty_log(self, core: TrackerCore, state: CatalogueState) -> None:
        """Make the log's records void: from now on the dispatcher replays what is in no snapshot."""
        log, through = self._access.log, core.end_journal()
        assert log is not None
        await self._stored.record_mark(state, LogMark(through, log=self._access.log_id))
        await self._stored.attempt(lambda: log.cut([(*self._key, through)]))
        self.log_bytes = 0

    async def _record_fall(self, state: CatalogueState, core: TrackerCore) -> None:
        """Record a mark-delete position that the log has lowered, before anything is added between it and the old one.

        A cut of the log would leave the old position, and the next recovery would drop what is added.
        """
        entries = await fallen_entries(
            state.entries, core.remaining(), core.mark_delete, access=self._access, counters=self._counters
        )
        stored = core.stored_through()
        record = partial(
            self._storage.replace,
            *self._key,
            remove=[entry.bucket_id for entry in entries],
            add=entries,
            epoch=state.epoch,
            writer=self._access.writer,
            mark_delete=core.mark_delete,
            mark=StoredThrough(None if stored == BEFORE_ALL else stored),
        )
        await self._stored.attempt(record)

    async def buckets(self, entries: Sequence[CatalogueEntry], cutoff_ms: int | None) -> list[RecoverableBucket | None]:
        """Return the recoverable bucket of each entry; None if its snapshot is missing or corrupt, which is counted.

        Raises:
            StorageUnavailable: try again.
        """
        if not entries:
            return []
        summaries = await self._access.offload(summaries_of, entries)
        self._counters.summaries_unreadable += sum(
            summary is None and bool(entry.summary) for entry, summary in zip(entries, summaries, strict=True)
        )

        async def bucket(entry: CatalogueEntry, summary: BucketSummary | None) -> RecoverableBucket | None:
            if summary is not None and not needs_metadata(summary.groups, cutoff_ms):
                return from_summary(entry, summary)
            return await self._from_metadata(entry, cutoff_ms)

        return await all_answers(
            [partial(bucket, entry, summary) for entry, summary in zip(entries, summaries, strict=True)],
            at_once=OPERATIONS_AT_ONCE_MAX,
        )

    def _lost(self, bucket_id: int, error: StorageError) -> None:
        if isinstance(error, SnapshotNotFound):
            self.missing_count += 1
        else:
            self.corrupt_count += 1
        self._access.failures.failed(self._key, SNAPSHOT_LOST, error, retried=False, bucket_id=bucket_id)

    async def _from_metadata(self, entry: CatalogueEntry, cutoff_ms: int | None) -> RecoverableBucket | None:
        """Return a bucket made from its snapshot's metadata; None if the snapshot is missing or corrupt."""

        async def read(first: int, last: int) -> list[bytes]:
            return await self._stored.attempt(
                lambda: self._storage.get_bucket_snapshot_segments(entry.bucket_id, first, last)
            )

        try:
            stored = await self._stored.attempt(lambda: self._storage.get_bucket_snapshot_metadata(entry.bucket_id))
            length = await self._stored.attempt(lambda: self._storage.get_bucket_snapshot_length(entry.bucket_id))
            metadata = await self._access.offload(decode_metadata, stored)
            groups = SegmentGroups.of(metadata.bounds)
            due_bits = await read_due_bits(metadata, groups, cutoff_ms, self._access, read)
        except SnapshotNotFound as error:
            self._counters.snapshots_missing += 1
            self._lost(entry.bucket_id, error)
            return None
        except SnapshotCorrupt as error:
            self._counters.snapshots_corrupt += 1
            self._lost(entry.bucket_id, error)
            return None
        return from_metadata(entry, metadata, groups, due_bits, length)


def _build(
    limits: TrackerLimits,
    buckets: Sequence[RecoverableBucket],
    *,
    epoch: int,
    mark_delete: Position,
    now: Instant,
    cutoff_ms: int | None,
    lost_bucket_ids: Sequence[int],
    last_seal_number: int,
) -> TrackerCore:
    plan = plan_recovery(buckets, mark_delete=mark_delete, cutoff_ms=cutoff_ms)
    return TrackerCore.recovered(
        limits,
        plan,
        epoch=epoch,
        mark_delete=mark_delete,
        now=now,
        lost_bucket_ids=lost_bucket_ids,
        last_seal_number=last_seal_number,
        loads=False,  # the load budget belongs to the event loop's thread
    )
