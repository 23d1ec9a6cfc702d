"""The storage protocol: PIP-195's seven operations, the listing that a sweep needs, and the catalogue.

Storage moves opaque entries; codecs are above it. A snapshot is immutable: entry 0 is its metadata, entries 1..n are
its segments. The catalogue is the durable list of live snapshots of one (topic, cursor), fenced by an epoch.

Common mistakes in backends: a create must be all or nothing (a snapshot whose creation did not return is invisible and
is swept), deleting a missing snapshot succeeds, a short range is an error and never a short list, and returned bytes
belong to the caller.
"""

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import SnapshotConflict


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """One snapshot object of a listing, referenced by the catalogue or not."""

    bucket_id: int
    epoch: int
    """Epoch of the tracker when the snapshot was created."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """Data about one live bucket that recovery needs without reading its snapshot."""

    bucket_id: int
    first: Position
    """Lowest position the bucket was sealed with, inclusive."""
    last: Position
    """Highest position the bucket was sealed with, inclusive."""
    summary: bytes = b""
    """Segment bounds, counts and the union of the bitmaps (``delayed_tracker.storage.summary``).

    Empty in foreign catalogues.
    """
    consumed: bytes = b""
    """Positions known to be consumed since the seal (``PositionBitmap.serialize``); empty means none."""
    mark_delete: Position | None = None
    """Mark-delete position of the cursor when the entry was written, if it was known."""
    seal_number: int | None = None
    """Number from 1 to 2^63 - 1, taken from one counter of the tracker when the bucket's content was frozen.

    If two buckets contain a position, the highest number is right. None in foreign catalogues: lower than any number.
    """


@dataclass(frozen=True, slots=True)
class LogMark:
    """Part of a tracker's add log that the catalogue contains (``delayed_tracker.storage.add_log``)."""

    number: int = 0
    """Every log record with this number or a lower one is contained in the catalogue, or void; 0 for none."""
    offered_through: Position | None = None
    """Position up to which the dispatcher had offered everything as of that record; None if it claimed nothing."""
    log: str = ""
    """Id of the log that has the records (``AddLog.log_id``), 64 ASCII characters at most.

    Empty for the storage's own log, ``NO_LOG`` if no record of any log counts.
    """
    stored_through: Position | None = None
    """The part of the dispatcher's claim that holds without any log record; None if none does.

    Everything delayed at or below it that the dispatcher has offered is in a catalogued snapshot, or consumed. Who has
    another log than ``log`` begins with this claim.
    """

    def without_claims(self) -> "LogMark":
        """Return the mark of a tracker whose positions are gone: its records stay void."""
        return LogMark(self.number, log=self.log)


@dataclass(frozen=True, slots=True)
class StoredThrough:
    """A new ``LogMark.stored_through``, for a write that leaves the rest of the recorded mark as it is."""

    position: Position | None


Mark: TypeAlias = LogMark | StoredThrough
"""Part of a catalogue write that concerns the add log."""

NO_LOG: Final = "none"
"""``LogMark.log`` of a tracker whose owner has no add log: the records that logs have of it are void."""


def marked(recorded: LogMark, mark: Mark | None) -> LogMark:
    """Return the mark on record after a write with this one. For backends, inside the atomic step."""
    if isinstance(mark, StoredThrough):
        return replace(recorded, stored_through=mark.position)
    return recorded if mark is None else mark


@dataclass(frozen=True, slots=True)
class CatalogueState:
    """Catalogue of one (topic, cursor); empty, at epoch 0, if it was never written."""

    epoch: int = 0
    entries: tuple[CatalogueEntry, ...] = field(default=())
    """In ascending order of (first, last, bucket_id)."""
    corrupt: tuple[int, ...] = ()
    """Bucket ids of entries whose stored bytes fail their checksum.

    Count them, remove them, replay from the ledgers.
    """
    mark_delete: Position | None = None
    """Mark-delete position of the cursor, recorded by the last write that had one."""
    log_mark: LogMark = LogMark()
    """Part of the add log that the entries contain, recorded by the last write that had one."""
    writer: str = field(default="", compare=False)
    """Writer that recorded the epoch; empty for an anonymous one, and in backends that do not tell."""

    @property
    def last_seal_number(self) -> int:
        """Highest seal number of the entries, 0 if there is none; new numbers are above it."""
        return max((entry.seal_number or 0 for entry in self.entries), default=0)

    @property
    def mark_delete_in_force(self) -> Position:
        """Highest mark-delete position on record; BEFORE_ALL if there is none.

        An entry has the position of the time when it was written, and that may be lower than the recorded one.
        """
        known = [entry.mark_delete for entry in self.entries if entry.mark_delete is not None]
        return max([*known, self.mark_delete or BEFORE_ALL])


def require_entry_range(first: int, last: int) -> None:
    """Raise InvalidInput unless ``first`` to ``last`` is a range of segment entries, which count from 1."""
    if first < 1:
        raise InvalidInput("first", first, "segments are entries 1 and up; entry 0 is the metadata")
    if last < first:
        raise InvalidInput("last", last, f"give {first} or more, both ends are included")


def require_epoch(catalogue: str, epoch_now: int, writer_now: str, epoch: int, writer: str) -> None:
    """Raise SnapshotConflict unless a writer may write under an epoch. For backends, inside the atomic step.

    Args:
        catalogue: name of the catalogue, for the message.
        epoch_now: recorded epoch.
        writer_now: writer that recorded it; empty for an anonymous one.
        epoch: epoch to be written.
        writer: the present writer.
    """
    if epoch < epoch_now:
        raise SnapshotConflict(
            f"{catalogue} is at epoch {epoch_now}, not {epoch}; open the tracker again", epoch=epoch_now
        )
    if epoch == epoch_now and writer and writer_now and writer != writer_now:
        raise SnapshotConflict(
            f"epoch {epoch} of {catalogue} belongs to another writer; open the tracker again", epoch=epoch_now
        )


class BucketSnapshotStorage(Protocol):
    """Stores immutable bucket snapshots.

    All operations may run concurrently. Each may raise StorageUnavailable, and does so before ``start`` and after
    ``close``.

    Source: PIP-195 ``BucketSnapshotStorage``; ``list_bucket_snapshots`` is an addition, to find snapshots that a crash
    left without a reference.
    """

    async def start(self) -> None:
        """Open the storage and verify that it is usable; called once, before any other operation.

        Raises:
            StorageInUse: another process has it open.
            StorageFormatUnsupported: it was written by a newer version, or by another program.
        """
        ...

    async def close(self) -> None:
        """Finish the accepted operations and release all resources; closing twice is harmless."""
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
        """Return entry 0. Raises SnapshotNotFound or SnapshotCorrupt."""
        ...

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Return entries ``first`` to ``last``, both inclusive, 1-based, in order.

        Raises:
            InvalidInput: first < 1 or last < first.
            SnapshotNotFound: no such snapshot, or it has fewer entries.
            SnapshotCorrupt: an entry of the range fails its checksum.
        """
        ...

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Return the payload bytes of all entries, with metadata, without checksums. Raises SnapshotNotFound."""
        ...

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """Delete the snapshot; deleting a missing one succeeds."""
        ...

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """Return every completely created snapshot of the tracker, ascending by bucket id."""
        ...


class SnapshotCatalogue(Protocol):
    """Durable list of live buckets for each (topic, cursor)."""

    async def trackers(self) -> list[tuple[str, str]]:
        """Return every (topic, cursor) that has a catalogue, even an empty one, and was not forgotten; ascending."""
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
        mark: Mark | None = None,
    ) -> CatalogueState | None:
        """Remove and add entries and record ``epoch`` and ``writer``, atomically and durably.

        ``remove`` contains bucket ids; removing a missing one is harmless, so a retry is, too. Removal comes before
        addition, and adding a present id replaces its entry. With nothing to remove or add, the call only fences.

        An epoch belongs to the writer that recorded it first: two processes that open a tracker at the same time choose
        the same next epoch, and only one of them may have it. The same writer may repeat its call.

        Args:
            topic: any text.
            cursor: any text.
            remove: bucket ids.
            add: entries, each id once.
            epoch: 1 or more; the recorded one or a newer one.
            writer: unique name of the writing process. Empty for an anonymous writer, whose writes conflict with no
                writer of the same epoch.
            mark_delete: the cursor's position, to be recorded; None leaves the recorded one.
            mark: the part of the add log that the catalogue contains after this write, or only the claim that its
                snapshots cover (:func:`marked`); None leaves the recorded one.
        Returns: the catalogue after this write, from a backend that knows it without a read; else None, and ``list``
            tells. A backend over a network should know it after a fence that follows a ``list``: a recovery asks.
        Raises:
            SnapshotConflict: the catalogue has a newer epoch, or this one by another writer; nothing was changed.
        """
        ...

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """Remove all entries of a deleted subscription, its mark-delete position and the claims of its log mark.

        Its epoch stays recorded, so that a late writer is fenced, and so do the number and the log of its mark, so that
        log records of the time before stay void.

        Raises:
            SnapshotConflict: the catalogue has a newer epoch, or this one by another writer; nothing was changed.
        """
        ...

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """Return the entries and the epoch that wrote them last; an unknown tracker has an empty catalogue at epoch 0.

        A damaged entry does not hide the others: its bucket id is in ``corrupt``.
        """
        ...


class SnapshotStore(BucketSnapshotStorage, SnapshotCatalogue, Protocol):
    """A backend that keeps snapshots and catalogue in one place; ``open_storage`` returns one."""
