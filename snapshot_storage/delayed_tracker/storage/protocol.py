"""The storage protocol: PIP-195's seven operations, the listing that a sweep needs, and the catalogue.

Storage moves opaque entries; codecs live above it. A snapshot is immutable: entry 0 is its metadata, entries 1..n are
its segments. The catalogue is the durable list of live snapshots of one (topic, cursor), fenced by an epoch.

What implementers get wrong most often: a create must be all or nothing (a snapshot whose creation did not return is
invisible and is swept), deleting what is gone succeeds, a short range is an error and never a short list, and bytes
handed out belong to the caller.
"""

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import SnapshotConflict


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """One snapshot object as a listing shows it, referenced by the catalogue or not."""

    bucket_id: int
    epoch: int
    """The tracker's epoch when the snapshot was created."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """What recovery needs of one live bucket without opening its snapshot."""

    bucket_id: int
    first: Position
    """Lowest position the bucket was sealed with, inclusive."""
    last: Position
    """Highest position the bucket was sealed with, inclusive."""
    summary: bytes = b""
    """Segment bounds, counts and the union of the bitmaps (``delayed_tracker.storage.summary``); empty in foreign catalogues."""
    consumed: bytes = b""
    """Positions known to be consumed since the seal (``PositionBitmap.serialize``); empty means none."""
    mark_delete: Position | None = None
    """The cursor's mark-delete position when the entry was written, if it was known."""
    seal_number: int | None = None
    """From 1 to 2^63 - 1, by one counter for each tracker, taken when the bucket's content was frozen: where two buckets
    hold a position, the highest is right. None in foreign catalogues: those are below all that have one."""


@dataclass(frozen=True, slots=True)
class CatalogueState:
    """The catalogue of one (topic, cursor): empty, at epoch 0, if nothing was ever written."""

    epoch: int = 0
    entries: tuple[CatalogueEntry, ...] = field(default=())
    """Ascending by (first, last, bucket_id)."""
    corrupt: tuple[int, ...] = ()
    """Bucket ids of entries whose stored bytes fail their checksum: count them, remove them, replay from the ledgers."""
    mark_delete: Position | None = None
    """The cursor's mark-delete position as the last write that knew one recorded it."""

    @property
    def last_seal_number(self) -> int:
        """The highest seal number of the entries, 0 if there is none: new ones are given out above it."""
        return max((entry.seal_number or 0 for entry in self.entries), default=0)


def require_entry_range(first: int, last: int) -> None:
    """Raise InvalidInput unless ``first`` to ``last`` is a range of segment entries, which count from 1."""
    if first < 1:
        raise InvalidInput("first", first, "segments are entries 1 and up; entry 0 is the metadata")
    if last < first:
        raise InvalidInput("last", last, f"give {first} or more, both ends are included")


def require_epoch(catalogue: str, epoch_now: int, writer_now: str, epoch: int, writer: str) -> None:
    """Raise SnapshotConflict unless a writer may write under an epoch. For backends, inside the atomic step.

    Args:
        catalogue: for the message.
        epoch_now: on record.
        writer_now: who recorded it; empty is nobody in particular.
        epoch: to be written.
        writer: who writes.
    """
    if epoch < epoch_now:
        raise SnapshotConflict(f"{catalogue} is at epoch {epoch_now}, not {epoch}; open the tracker again")
    if epoch == epoch_now and writer and writer_now and writer != writer_now:
        raise SnapshotConflict(f"epoch {epoch} of {catalogue} belongs to another writer; open the tracker again")


@dataclass(frozen=True, slots=True)
class StorageSpace:
    """What a storage takes of the place where it lies, in bytes."""

    used_bytes: int
    """All of its files, whatever of them is in use."""
    free_bytes: int
    """What it may still take."""


@runtime_checkable
class ReportsSpace(Protocol):
    """A backend that lies where there is an end to the space; others need not have this."""

    async def space(self) -> StorageSpace:
        """What it takes now, and what is left. Raises StorageUnavailable."""
        ...


class BucketSnapshotStorage(Protocol):
    """Stores immutable bucket snapshots. All operations may run concurrently; each may raise StorageUnavailable, and
    does so before ``start`` and after ``close``.

    Source: PIP-195 ``BucketSnapshotStorage``; ``list_bucket_snapshots`` is an addition, so that what a crash left
    unreferenced can be found.
    """

    async def start(self) -> None:
        """Open the storage and verify that it is usable; called once, before anything else.

        Raises:
            StorageInUse: another process has it open.
            StorageFormatUnsupported: it was written by a newer version, or is something else.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted and release everything; closing twice is harmless."""
        ...

    async def create_bucket_snapshot(
        self,
        metadata: bytes,
        segments: AsyncIterable[bytes],
        *,
        bucket_key: str,
        topic: str,
        cursor: str,
        epoch: int,
    ) -> int:
        """Store a snapshot durably and return its bucket id, which is never used again.

        All or nothing: on any error, cancellation or crash nothing becomes visible. The iterable is consumed once.
        """
        ...

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """Entry 0. Raises SnapshotNotFound or SnapshotCorrupt."""
        ...

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Entries ``first`` to ``last``, both inclusive, 1-based, in order.

        Raises:
            InvalidInput: first < 1 or last < first.
            SnapshotNotFound: no such snapshot, or it has fewer entries.
            SnapshotCorrupt: an entry of the range fails its checksum.
        """
        ...

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Payload bytes of all entries, metadata included, checksums excluded. Raises SnapshotNotFound."""
        ...

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """Delete the snapshot; deleting what is gone succeeds."""
        ...

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """Every completely created snapshot of the tracker, ascending by bucket id."""
        ...


class SnapshotCatalogue(Protocol):
    """The durable list of live buckets for each (topic, cursor)."""

    async def trackers(self) -> list[tuple[str, str]]:
        """Every (topic, cursor) that has a catalogue, also an empty one, and was not forgotten; ascending."""
        ...

    async def replace(
        self,
        topic: str,
        cursor: str,
        *,
        remove: Sequence[int],
        add: Sequence[CatalogueEntry],
        epoch: int,
        writer: str = "",
        mark_delete: Position | None = None,
    ) -> None:
        """Remove and add entries and record ``epoch`` and ``writer``, atomically and durably.

        ``remove`` names bucket ids; removing what is not there is harmless, so a retry is. Removal comes before
        addition, and adding an id that is there replaces its entry. With nothing to remove or add, it only fences.

        An epoch belongs to the writer that recorded it first: two processes that open a tracker at the same time choose
        the same next epoch, and only one of them may have it. The same writer may repeat itself.

        Args:
            topic: any text.
            cursor: any text.
            remove: bucket ids.
            add: entries, each id once.
            epoch: 1 or more; the one on record or a newer one.
            writer: who writes, a name that no other process has. Empty is nobody in particular, whose writes are not
                told apart from anybody's.
            mark_delete: the cursor's position, to be recorded; None leaves what is on record.
        Raises:
            SnapshotConflict: the catalogue carries a newer epoch, or this one by another writer; nothing was changed.
        """
        ...

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """Remove all entries of a deleted subscription, and its mark-delete position. Its epoch stays on record, so that
        a late writer is fenced.

        Raises:
            SnapshotConflict: the catalogue carries a newer epoch, or this one by another writer; nothing was changed.
        """
        ...

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """The entries and the epoch that wrote them last; an unknown tracker has an empty catalogue at epoch 0.

        An entry that is damaged does not hide the others: it is named in ``corrupt``.
        """
        ...


class SnapshotStore(BucketSnapshotStorage, SnapshotCatalogue, Protocol):
    """A backend that keeps snapshots and catalogue in one place; what ``open_storage`` returns."""
