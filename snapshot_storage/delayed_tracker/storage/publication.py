"""Publication of snapshots: created, named by the catalogue in one fenced step, deleted once they are replaced.

The order keeps every reader right: a snapshot is durable before the catalogue names it, and is deleted only after the
catalogue has dropped it. If the answer of a catalogue write is lost, the write may have been applied: its undo stays on
record and is completed by the next write.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.storage.errors import SnapshotConflict, StorageError
from delayed_tracker.storage.protocol import CatalogueEntry, LogMark, Mark, SnapshotStore, marked

Answer = TypeVar("Answer")


def bucket_key(first: Position, last: Position) -> str:
    """Return the key of a bucket with these positions, in Pulsar's format."""
    return f"#pulsar.internal.delayed.bucket_{first.ledger_id}_{last.ledger_id}"


def catalogue_entry(
    bucket_id: int,
    first: Position,
    last: Position,
    summary: bytes,
    *,
    seal_number: int | None,
    mark_delete: Position,
    consumed: bytes = b"",
) -> CatalogueEntry:
    """Return the entry of a new bucket; a mark-delete position of BEFORE_ALL is recorded as none.

    A bucket made elsewhere has no seal number until it is published.
    """
    return CatalogueEntry(
        bucket_id=bucket_id,
        first=first,
        last=last,
        summary=summary,
        consumed=consumed,
        mark_delete=None if mark_delete == BEFORE_ALL else mark_delete,
        seal_number=seal_number,
    )


class Claim(Protocol):
    """Facts that a writer records with each catalogue write. Every attempt reads them anew: both may have moved on."""

    @property
    def epoch(self) -> int:
        """Epoch of the writer now."""
        ...

    @property
    def mark_delete(self) -> Position:
        """Mark-delete position of the tracker now; BEFORE_ALL is recorded as none."""
        ...


@dataclass(frozen=True, slots=True)
class FixedClaim:
    """Claim of a writer whose tracker does not change while it writes."""

    epoch: int
    mark_delete: Position


class Publication:
    """The snapshots that one writer publishes for one tracker.

    Args:
        storage: keeps snapshots and catalogue.
        tracker: topic and cursor.
        writer: name of this process in the catalogue.
        claim: epoch and mark-delete position of now.
    """

    __slots__ = ("_claim", "_storage", "_tracker", "_undoing_mark", "_writer", "undoing")

    def __init__(self, storage: SnapshotStore, tracker: tuple[str, str], *, writer: str, claim: Claim) -> None:
        self._storage = storage
        self._tracker = tracker
        self._writer = writer
        self._claim = claim
        # A dictionary, which takes little memory while it is empty: there are tens of thousands of idle trackers.
        self.undoing: dict[int, CatalogueEntry | None] = {}
        """Buckets that the next catalogue write restores, by id; None for those that it removes.

        An undone write may have removed the former and added the latter.
        """
        self._undoing_mark: LogMark | None = None  # likewise; that of before the first write to be undone

    async def attempt(self, operation: Callable[[], Awaitable[Answer]]) -> Answer:
        """Perform a catalogue write or a deletion; a subclass may repeat it."""
        return await operation()

    async def create(
        self, metadata: bytes, segments: AsyncIterator[bytes], first: Position, last: Position, *, epoch: int
    ) -> int:
        """Store a snapshot that no catalogue entry names yet, without a retry, and return its bucket id."""
        topic, cursor = self._tracker
        return await self._storage.create_bucket_snapshot(
            metadata, segments, bucket_key=bucket_key(first, last), topic=topic, cursor=cursor, epoch=epoch
        )

    async def publish(
        self,
        entries: Sequence[CatalogueEntry],
        *,
        remove: Sequence[int] = (),
        replaced: Sequence[CatalogueEntry] = (),
        epoch: int,
        mark: Mark | None = None,
        replaced_mark: LogMark | None = None,
    ) -> None:
        """Name new snapshots in the catalogue, in the place of others, in one step.

        Args:
            entries: of the new snapshots.
            remove: bucket ids that leave the catalogue.
            replaced: the present entries of these, to be restored if the outcome is unknown.
            epoch: under which the snapshots were made; the write is refused if the catalogue has a newer one.
            mark: what the catalogue records of the add log with this write; None leaves the recorded one.
            replaced_mark: the present one, to be restored if the outcome is unknown.

        Raises:
            SnapshotConflict: the catalogue has a newer epoch; nothing changed, and the new snapshots are deleted. Or an
                attempt whose answer was lost was applied before that epoch: then they belong to the new owner.
            StorageError: the write failed or its answer was lost; it is undone now or with the next write. Or nothing
                could be written yet, and the new snapshots are deleted.
        """
        ids = [entry.bucket_id for entry in entries]
        mark = mark or self.default_mark()
        try:
            await self.until_writable()
        except StorageError as error:
            if isinstance(error, SnapshotConflict):
                self.fenced(epoch, error)
            await self.delete(ids)
            raise
        try:
            await self._write(remove=[*remove, *ids], add=entries, epoch=epoch, mark=mark)
        except SnapshotConflict as error:
            self.fenced(epoch, error)
            await self._delete_unnamed(ids)
            raise
        except StorageError:
            # The write may have been applied despite the error.
            await self.undo(ids, replaced, replaced_mark)
            raise

    async def _delete_unnamed(self, bucket_ids: Sequence[int]) -> None:
        """Delete snapshots of a fenced writer, but not those that the new owner found in the catalogue."""
        try:
            state = await self.attempt(lambda: self._storage.list(*self._tracker))
        except StorageError:
            return  # the next recovery sweeps those that are orphans
        named = {entry.bucket_id for entry in state.entries}.union(state.corrupt)
        await self.delete([bucket_id for bucket_id in bucket_ids if bucket_id not in named])

    def fenced(self, epoch: int, error: SnapshotConflict) -> None:
        """Note that the catalogue refused this epoch, before anything is deleted; a subclass may report it."""

    async def undo(
        self, bucket_ids: Sequence[int], replaced: Sequence[CatalogueEntry] = (), mark: LogMark | None = None
    ) -> None:
        """Remove snapshots from the catalogue, restore the entries that they replaced, and delete the snapshots.

        The epoch of now is recorded: that of the snapshots may be fenced meanwhile. If the storage fails again, the
        next catalogue write completes the undo.
        """
        self.undoing.update(dict.fromkeys(bucket_ids))
        self.undoing.update((entry.bucket_id, entry) for entry in replaced)
        if self._undoing_mark is None:  # else an earlier write is to be undone, too: its mark is the one of before both
            self._undoing_mark = mark
        try:
            await self.replace(remove=(), add=(), epoch=self._claim.epoch)
        except StorageError:
            return
        await self.delete(bucket_ids)

    def default_mark(self) -> Mark | None:
        """Return what a write records of the add log if its caller gives nothing; a subclass may know more."""
        return None

    async def until_writable(self) -> None:
        """Return when the catalogue may be written; a subclass may wait. Raises StorageError: nothing was written."""

    async def replace(
        self, *, remove: Sequence[int], add: Sequence[CatalogueEntry], epoch: int, mark: Mark | None = None
    ) -> None:
        """Write to the catalogue, and complete the undo steps that are left.

        A repetition is harmless: the buckets to add are removed first.
        """
        mark = mark or self.default_mark()
        await self.until_writable()
        await self._write(remove=remove, add=add, epoch=epoch, mark=mark)

    async def _write(
        self, *, remove: Sequence[int], add: Sequence[CatalogueEntry], epoch: int, mark: Mark | None
    ) -> None:
        undone = dict(self.undoing)
        removed = sorted(bucket_id for bucket_id, entry in undone.items() if entry is None)
        restored_mark = self._undoing_mark
        restored = [entry for entry in undone.values() if entry is not None and entry.bucket_id not in remove]
        await self.attempt(
            lambda: self._storage.replace(
                *self._tracker,
                remove=[*remove, *removed],
                add=[*restored, *add],
                epoch=epoch,
                writer=self._writer,
                mark_delete=self._claim.mark_delete,
                mark=mark if restored_mark is None else marked(restored_mark, mark),
            )
        )
        self._undoing_mark = None
        for bucket_id in undone:
            self.undoing.pop(bucket_id, None)

    async def delete(self, bucket_ids: Sequence[int]) -> int:
        """Delete snapshots that no catalogue entry names. Returns the number of those that remain, to be swept later."""
        left_count = 0
        for bucket_id in bucket_ids:
            try:
                await self.attempt(partial(self._storage.delete_bucket_snapshot, bucket_id))
            except StorageError:
                left_count += 1
        return left_count
