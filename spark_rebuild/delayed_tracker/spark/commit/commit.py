"""Commits rebuilt buckets: the protocol of a commit target, and the target for the storage of a URL.

The commit first claims a new epoch in the catalogue, so that it may sweep what carries an older one. It stores all
snapshots of a subscription under that epoch. Then one catalogue update, fenced by it, replaces the old entries. Last, the
commit deletes the replaced snapshots. A reader sees either all old buckets or all new ones.

A storage that processes share may have an owner of the tracker: the claim fences it.
"""

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self
from uuid import uuid4

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.spark.commit.owned_storage import OwnedStorage
from delayed_tracker.spark.commit.rebuilt_bucket import RebuiltBucket
from delayed_tracker.storage.add_log import AddLog
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.capabilities import entry_bytes_max
from delayed_tracker.storage.errors import AddLogMissing, SnapshotConflict, SnapshotNotFound, StorageError
from delayed_tracker.storage.protocol import NO_LOG, CatalogueEntry, CatalogueState, LogMark
from delayed_tracker.storage.publication import FixedClaim, Publication, catalogue_entry


@dataclass(frozen=True, slots=True)
class RebuiltTracker:
    """All buckets of one subscription, ascending."""

    topic: str
    subscription: str
    mark_delete: Position
    """Mark-delete position of the cursor that the rebuild applied; BEFORE_ALL if nothing is acknowledged."""
    buckets: Sequence[RebuiltBucket]
    offered_through: Position = BEFORE_ALL
    """Every delayed message at or below has ended for the cursor, or is in the buckets; BEFORE_ALL claims nothing."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Result of a commit."""

    epoch: int
    replaced_count: int
    """Number of buckets that were stored before."""
    unchanged: bool
    """True if the same buckets were stored already and nothing in them is consumed; then nothing was written."""


class CommitTarget(Protocol):
    """Destination of rebuilt trackers; a context manager.

    The job enters it before it reads anything, so that a refusal costs nothing.
    """

    def __enter__(self) -> Self:
        """Open the target.

        Raises:
            StorageInUse: another process has it open.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def entry_bytes_max(self) -> int | None:
        """Bytes of the largest entry of a snapshot that the open target takes; None if it does not say."""

    def begin(self, trackers: Sequence[tuple[str, str]]) -> None:
        """Record the catalogue state of the (topic, subscription) pairs to replace; a commit fails if it changes."""

    def commit(self, tracker: RebuiltTracker) -> Committed:
        """Replace all stored buckets of a tracker by the rebuilt ones, in one step.

        Raises:
            SnapshotConflict: another process wrote to the catalogue since :meth:`begin`; nothing was changed.
            StagedWorkInvalid: a bucket differs from what was staged; the old buckets stay.
            StorageError: the catalogue could not be written; a write whose answer was lost is undone.
        """


class StorageCommit(OwnedStorage):
    """Commit target for a snapshot storage URL: ``sqlite:PATH``, which no other process has open, or a shared storage.

    The add log beside the storage is opened with the first commit that needs it, and closed with the storage.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._url = url
        self._writer = f"rebuild-{uuid4().hex}"
        self._epochs: dict[tuple[str, str], int] = {}
        self._log: AddLog | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the add log and the storage."""
        log, self._log = self._log, None
        try:
            if log is not None:
                self._run(log.close())
        finally:
            super().__exit__(kind, error, trace)

    @property
    def entry_bytes_max(self) -> int | None:
        """See :class:`CommitTarget`."""
        return entry_bytes_max(self._storage)

    def begin(self, trackers: Sequence[tuple[str, str]]) -> None:
        """See :class:`CommitTarget`."""
        for topic, subscription in trackers:
            state = self._run(self._storage.list(topic, subscription))
            self._epochs[topic, subscription] = state.epoch

    def commit(self, tracker: RebuiltTracker) -> Committed:
        """See :class:`CommitTarget`."""
        return self._run(self._commit(tracker))

    async def _commit(self, tracker: RebuiltTracker) -> Committed:
        claimed = await self._claim(tracker)
        if isinstance(claimed, Committed):
            return claimed
        return await self._publish(claimed, await self._create_all(claimed))

    async def _claim(self, tracker: RebuiltTracker) -> "ClaimedTracker | Committed":
        """Claim the next epoch and delete what carries an older one; or return that the buckets are stored already.

        Raises:
            SnapshotConflict: another process wrote to the catalogue since :meth:`begin`.
        """
        storage, key = self._storage, (tracker.topic, tracker.subscription)
        state = await storage.list(*key)
        if state.epoch != self._epochs[key]:
            raise SnapshotConflict(
                f"the catalogue of {key} is at epoch {state.epoch}, and was at {self._epochs[key]} when this job began: "
                "another job has committed, or another owner has opened the tracker; verify the index, and run again if it is not complete"
            )
        if not state.corrupt and await self._is_there(tracker, state.entries):
            return Committed(state.epoch, len(state.entries), unchanged=True)
        # Before anything is created or deleted: an owner of the present epoch may still restore what it has replaced,
        # and one that opens the tracker from now on sweeps what this job has created.
        epoch = state.epoch + 1
        await storage.replace(*key, remove=(), add=(), epoch=epoch, writer=self._writer)
        self._epochs[key] = epoch
        state = await storage.list(*key)
        if state.epoch != epoch:
            raise SnapshotConflict(f"the catalogue of {key} is at epoch {state.epoch}, not {epoch}; run again")
        old = {entry.bucket_id for entry in state.entries} | set(state.corrupt)
        # A killed run leaves snapshots that the catalogue does not name.
        stored = await storage.list_bucket_snapshots(*key)
        await self._delete({snapshot.bucket_id for snapshot in stored if snapshot.epoch < epoch} - old)
        claim = FixedClaim(epoch, tracker.mark_delete)
        return ClaimedTracker(tracker, epoch, state, old, Publication(storage, key, writer=self._writer, claim=claim))

    async def _publish(self, claimed: "ClaimedTracker", entries: Sequence[CatalogueEntry]) -> Committed:
        """Replace the old entries by those of stored snapshots, in one step, and delete the old snapshots.

        Raises:
            SnapshotConflict: another process claimed a newer epoch.
            StorageError: the new snapshots are deleted now or swept later.
        """
        try:
            mark = await self._void_log(claimed.tracker, claimed.epoch)
        except StorageError:
            await self._delete(entry.bucket_id for entry in entries)
            raise
        await claimed.publication.publish(
            entries,
            remove=sorted(claimed.old),
            replaced=claimed.state.entries,
            epoch=claimed.epoch,
            mark=mark,
            replaced_mark=claimed.state.log_mark,
        )
        await self._cut_log(claimed.tracker, mark)
        await self._delete(claimed.old)
        return Committed(claimed.epoch, len(claimed.old), unchanged=False)

    async def _void_log(self, tracker: RebuiltTracker, epoch: int) -> LogMark:
        """Return the mark under which the tracker's records in any add log are void, with the rebuild's claim.

        A recovery would apply them on top of the rebuilt buckets, which alone cover the claim.
        """
        claim = None if tracker.offered_through == BEFORE_ALL else tracker.offered_through
        log = await self._started_log()
        if log is None:
            return LogMark(0, claim, NO_LOG, claim)
        # Anonymous: if this job is killed before it publishes, another one takes the same epoch.
        extent = await log.take_over(tracker.topic, tracker.subscription, epoch=epoch, writer="")
        return LogMark(extent.last_number, claim, stored_through=claim)

    async def _started_log(self) -> AddLog | None:
        if self._log is None:
            log = self._open_log()
            if log is not None:
                await log.start()
            self._log = log
        return self._log

    def _open_log(self) -> AddLog | None:
        try:
            return open_add_log(self._url)
        except AddLogMissing:
            return None

    async def _cut_log(self, tracker: RebuiltTracker, mark: LogMark) -> None:
        """Delete the records that are void. What cannot be deleted now is cut by the next owner."""
        if self._log is not None:
            with contextlib.suppress(StorageError):
                await self._log.cut([(tracker.topic, tracker.subscription, mark.number)])

    async def _create_all(self, claimed: "ClaimedTracker") -> list[CatalogueEntry]:
        """Store all buckets, or none."""
        entries: list[CatalogueEntry] = []
        try:
            for number, bucket in enumerate(claimed.tracker.buckets):
                content = bucket.open()
                bucket_id = await claimed.publication.create(
                    content.metadata, each(content.segments()), bucket.first, bucket.last, epoch=claimed.epoch
                )
                entries.append(claimed.entry(number, bucket_id, content.summary))
        except BaseException:
            await self._delete(entry.bucket_id for entry in entries)
            raise
        return entries

    async def _is_there(self, tracker: RebuiltTracker, entries: Sequence[CatalogueEntry]) -> bool:
        """Return True if the catalogue has exactly these buckets, stored whole, and nothing in them is consumed."""
        if len(entries) != len(tracker.buckets):
            return False
        for entry, bucket in zip(entries, tracker.buckets, strict=True):
            expected = catalogue_entry(
                entry.bucket_id,
                bucket.first,
                bucket.last,
                bucket.open().summary,
                seal_number=entry.seal_number,
                mark_delete=tracker.mark_delete,
            )
            if entry != expected or not await self._has(entry.bucket_id, bucket.snapshot_bytes):
                return False
        return True

    async def _has(self, bucket_id: int, snapshot_bytes: int) -> bool:
        try:
            return await self._storage.get_bucket_snapshot_length(bucket_id) == snapshot_bytes
        except SnapshotNotFound:
            return False

    async def _delete(self, bucket_ids: Iterable[int]) -> None:
        for bucket_id in sorted(bucket_ids):
            await self._storage.delete_bucket_snapshot(bucket_id)


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedTracker:
    """A tracker whose epoch a commit has claimed."""

    tracker: RebuiltTracker
    epoch: int
    state: CatalogueState
    """The catalogue under that epoch."""
    old: set[int]
    """Bucket ids that the catalogue names."""
    publication: Publication

    def entry(self, number: int, bucket_id: int, summary: bytes) -> CatalogueEntry:
        """Return the catalogue entry of the tracker's bucket ``number``; seal numbers follow the last one, in order."""
        bucket = self.tracker.buckets[number]
        return catalogue_entry(
            bucket_id,
            bucket.first,
            bucket.last,
            summary,
            seal_number=self.state.last_seal_number + 1 + number,
            mark_delete=self.tracker.mark_delete,
        )


async def each(segments: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield segments in the form that a create takes."""
    for segment in segments:
        yield segment
