"""Making rebuilt buckets visible: what a target of a commit does, and the one for a storage on this machine.

All snapshots of a subscription are stored first; then one step of the catalogue, fenced by an epoch, puts them in the
place of what was there; then what they replaced is deleted. Whoever looks sees all the old or all the new ones.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self
from uuid import uuid4

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.spark.commit.owned_storage import OwnedStorage
from delayed_tracker.spark.commit.rebuilt_bucket import RebuiltBucket
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotNotFound
from delayed_tracker.storage.protocol import CatalogueEntry


@dataclass(frozen=True, slots=True)
class RebuiltTracker:
    """All buckets of one subscription, ascending."""

    topic: str
    subscription: str
    mark_delete: Position
    """Of the cursor that was honoured; BEFORE_ALL if nothing is acknowledged."""
    buckets: Sequence[RebuiltBucket]


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit has changed."""

    epoch: int
    replaced_count: int
    """Buckets that were there before."""
    unchanged: bool
    """The same buckets were there already, with nothing of them consumed: nothing was written."""


class CommitTarget(Protocol):
    """Where rebuilt trackers go. A context manager; opened before anything is read, so that a refusal costs nothing."""

    def __enter__(self) -> Self:
        """Take hold of the target.

        Raises:
            StorageInUse: somebody has it open.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def begin(self, trackers: Sequence[tuple[str, str]]) -> None:
        """Note the state of the (topic, subscription) pairs that are to be replaced: a commit refuses if it changes."""

    def commit(self, tracker: RebuiltTracker) -> Committed:
        """Put a tracker's buckets in the place of all that are there, in one step.

        Raises:
            SnapshotConflict: somebody else wrote to the catalogue since :meth:`begin`; nothing was changed.
            StagedWorkInvalid: a bucket is not what was staged; nothing was changed.
        """


class StorageCommit(OwnedStorage):
    """Commits into a snapshot storage by its URL, such as ``sqlite:PATH``, which nobody else has open meanwhile."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._writer = f"rebuild-{uuid4().hex}"
        self._epochs: dict[tuple[str, str], int] = {}

    def begin(self, trackers: Sequence[tuple[str, str]]) -> None:
        """See :class:`CommitTarget`."""
        for topic, subscription in trackers:
            state = self._run(self._storage.list(topic, subscription))
            self._epochs[topic, subscription] = state.epoch

    def commit(self, tracker: RebuiltTracker) -> Committed:
        """See :class:`CommitTarget`."""
        return self._run(self._commit(tracker))

    async def _commit(self, tracker: RebuiltTracker) -> Committed:
        storage, key = self._storage, (tracker.topic, tracker.subscription)
        state = await storage.list(*key)
        if state.epoch != self._epochs[key]:
            raise SnapshotConflict(
                f"the catalogue of {key} is at epoch {state.epoch}, and was at {self._epochs[key]} when this job began: "
                "somebody else has committed or opened the tracker; look at what is there, and run again if need be"
            )
        old = {entry.bucket_id for entry in state.entries} | set(state.corrupt)
        # What a run that was killed left without a pointer to it.
        await self._delete({stored.bucket_id for stored in await storage.list_bucket_snapshots(*key)} - old)
        if not state.corrupt and await self._is_there(tracker, state.entries):
            return Committed(state.epoch, len(old), unchanged=True)
        epoch = state.epoch + 1
        entries = await self._create_all(tracker, epoch, state.last_seal_number)
        # If this fails without a conflict, nobody knows whether it happened: snapshots without a pointer are swept later.
        try:
            await storage.replace(
                *key,
                remove=sorted(old),
                add=entries,
                epoch=epoch,
                writer=self._writer,
                mark_delete=tracker.mark_delete,
            )
        except SnapshotConflict:
            await self._delete(entry.bucket_id for entry in entries)
            raise
        self._epochs[key] = epoch
        await self._delete(old)
        return Committed(epoch, len(old), unchanged=False)

    async def _create_all(self, tracker: RebuiltTracker, epoch: int, last_seal_number: int) -> list[CatalogueEntry]:
        """Store all buckets, or none. Their seal numbers go on above the last one, in order."""
        entries: list[CatalogueEntry] = []
        try:
            for seal_number, bucket in enumerate(tracker.buckets, last_seal_number + 1):
                entry = await self._create(tracker, bucket, epoch, seal_number)
                entries.append(entry)
        except BaseException:
            await self._delete(entry.bucket_id for entry in entries)
            raise
        return entries

    async def _create(
        self, tracker: RebuiltTracker, bucket: RebuiltBucket, epoch: int, seal_number: int
    ) -> CatalogueEntry:
        content = bucket.open()
        bucket_id = await self._storage.create_bucket_snapshot(
            content.metadata,
            _each(content.segments()),
            bucket_key=f"#pulsar.internal.delayed.bucket_{bucket.first.ledger_id}_{bucket.last.ledger_id}",
            topic=tracker.topic,
            cursor=tracker.subscription,
            epoch=epoch,
        )
        return CatalogueEntry(
            bucket_id,
            bucket.first,
            bucket.last,
            content.summary,
            mark_delete=_known(tracker.mark_delete),
            seal_number=seal_number,
        )

    async def _is_there(self, tracker: RebuiltTracker, entries: Sequence[CatalogueEntry]) -> bool:
        """Whether the catalogue has these very buckets, whole, and nothing of them is consumed."""
        if len(entries) != len(tracker.buckets):
            return False
        for entry, bucket in zip(entries, tracker.buckets, strict=True):
            expected = CatalogueEntry(
                entry.bucket_id,
                bucket.first,
                bucket.last,
                bucket.open().summary,
                mark_delete=_known(tracker.mark_delete),
                seal_number=entry.seal_number,
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


def _known(mark_delete: Position) -> Position | None:
    return None if mark_delete == BEFORE_ALL else mark_delete


async def _each(segments: Iterator[bytes]) -> AsyncIterator[bytes]:
    for segment in segments:
        yield segment
