"""Commit target for storages that processes share: tasks write the snapshots, the driver commits the catalogues.

The driver claims the epochs of some trackers, tasks create their snapshots under these epochs, and the driver replaces the
old entries of each tracker in one fenced step. A task that runs twice leaves a snapshot that no catalogue names: this job
deletes it, or the sweep of a later epoch does.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from delayed_tracker.spark.commit.commit import ClaimedTracker, Committed, RebuiltTracker, StorageCommit, each
from delayed_tracker.spark.commit.owned_storage import OwnedStorage
from delayed_tracker.spark.commit.rebuilt_bucket import StagedBucket, metadata_of, segments_of
from delayed_tracker.storage.errors import StorageError
from delayed_tracker.storage.publication import bucket_key
from delayed_tracker.storage.shared.document_store import NamesSnapshots


@dataclass(frozen=True, slots=True)
class SnapshotToWrite:
    """A staged bucket, and the tracker and the epoch of its snapshot."""

    topic: str
    subscription: str
    epoch: int
    bucket: StagedBucket


@dataclass(frozen=True, slots=True)
class WrittenSnapshot:
    """A snapshot that a task has created."""

    bucket_id: int
    pointer: bytes
    """Place in the storage, if the bucket id does not say it: ``NamesSnapshots.pointer_of``."""


class TaskWriter(Protocol):
    """Creates snapshots in a task; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, snapshot: SnapshotToWrite) -> WrittenSnapshot:
        """Create one snapshot, whole or not at all."""
        ...


OpenWriter = Callable[[], TaskWriter]
"""Makes the writer of a task; can be pickled."""
WriteSnapshots = Callable[[Sequence[SnapshotToWrite]], Sequence[WrittenSnapshot]]
"""Creates snapshots in tasks and returns them in order; some may exist if it raises."""


class TaskSnapshotWriter(OwnedStorage):
    """Creates snapshots in the storage of a URL, in a task."""

    def write(self, snapshot: SnapshotToWrite) -> WrittenSnapshot:
        """Create one snapshot, whole or not at all.

        Raises:
            StagedWorkInvalid, StagingUnavailable: its parts cannot be read.
            StorageUnavailable: try again.
        """
        bucket, storage = snapshot.bucket, self._storage
        parts = bucket.open()
        bucket_id = self._run(
            storage.create_bucket_snapshot(
                metadata_of(parts),
                each(segments_of(parts)),
                bucket_key=bucket_key(bucket.first, bucket.last),
                topic=snapshot.topic,
                cursor=snapshot.subscription,
                epoch=snapshot.epoch,
            )
        )
        return WrittenSnapshot(bucket_id, storage.pointer_of(bucket_id) if isinstance(storage, NamesSnapshots) else b"")


class SharedCommit(StorageCommit):
    """Commit target for the URL of a storage that processes share."""

    @property
    def open_writer(self) -> OpenWriter:
        """Opens the storage in a task; can be pickled."""
        return partial(TaskSnapshotWriter, self._url)

    def commit_all(
        self, trackers: Sequence[RebuiltTracker], write: WriteSnapshots, *, buckets_at_once: int
    ) -> list[Committed]:
        """Commit trackers, some at a time: an owner is fenced as briefly as possible.

        Args:
            trackers: those of :meth:`begin`.
            write: runs tasks.
            buckets_at_once: so many buckets are written together, and all of the last tracker among them.
        Raises:
            SnapshotConflict: another process wrote to a tracker meanwhile. That tracker is unchanged; trackers
                committed before it stay committed.
            StagedWorkInvalid, StorageError: as :meth:`commit`.
        """
        committed: list[Committed] = []
        for some in tracker_groups(trackers, buckets_at_once):
            committed += self._commit_together(some, write)
        return committed

    def _commit_together(self, trackers: Sequence[RebuiltTracker], write: WriteSnapshots) -> list[Committed]:
        found = [self._run(self._claim(tracker)) for tracker in trackers]
        waiting = [one for one in found if isinstance(one, ClaimedTracker)]
        committed: list[Committed] = []
        try:
            written = iter(write([snapshot for claimed in waiting for snapshot in _snapshots(claimed)]))
            for one in found:
                if isinstance(one, Committed):
                    committed.append(one)
                    continue
                entries = [
                    one.entry(number, self._learned(one, next(written)), bucket.open().summary)
                    for number, bucket in enumerate(one.tracker.buckets)
                ]
                # From here on its snapshots may be in the catalogue, even if the answer is lost.
                waiting.remove(one)
                committed.append(self._run(self._publish(one, entries)))
                self._run(self._sweep(one))
        finally:
            for left in waiting:
                self._run(self._sweep(left))
        return committed

    def _learned(self, claimed: ClaimedTracker, written: WrittenSnapshot) -> int:
        """Pass on to the storage where a task has created a snapshot; return its bucket id."""
        if isinstance(self._storage, NamesSnapshots):
            key = claimed.tracker.topic, claimed.tracker.subscription
            self._storage.learn(*key, written.bucket_id, written.pointer)
        return written.bucket_id

    async def _sweep(self, claimed: ClaimedTracker) -> None:
        """Delete the snapshots of the claimed epoch that the catalogue does not name.

        What cannot be deleted now, or is created by a task that is still running, goes with the sweep of a later epoch.
        """
        key = claimed.tracker.topic, claimed.tracker.subscription
        with contextlib.suppress(StorageError):
            state = await self._storage.list(*key)
            named = {entry.bucket_id for entry in state.entries} | set(state.corrupt)
            stored = await self._storage.list_bucket_snapshots(*key)
            await self._delete({one.bucket_id for one in stored if one.epoch == claimed.epoch} - named)


def tracker_groups(trackers: Sequence[RebuiltTracker], buckets_at_once: int) -> Iterator[list[RebuiltTracker]]:
    """Yield trackers in groups of about ``buckets_at_once`` buckets, in order."""
    group: list[RebuiltTracker] = []
    count = 0
    for tracker in trackers:
        group.append(tracker)
        count += len(tracker.buckets)
        if count >= buckets_at_once:
            yield group
            group, count = [], 0
    if group:
        yield group


def _snapshots(claimed: ClaimedTracker) -> Iterator[SnapshotToWrite]:
    tracker = claimed.tracker
    for bucket in tracker.buckets:
        yield SnapshotToWrite(tracker.topic, tracker.subscription, claimed.epoch, bucket.staged)
