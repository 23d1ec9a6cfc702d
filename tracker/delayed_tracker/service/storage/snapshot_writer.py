"""Writes snapshots of one tracker and undoes the writes: the common part of stores, merges and deletions.

Catalogue writes of a tracker run one at a time. An undo that the storage did not complete is repeated with the next
catalogue write.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.effect_results import EffectResults
from delayed_tracker.service.telemetry.failures import FENCED
from delayed_tracker.storage.errors import SnapshotConflict, StorageError
from delayed_tracker.storage.protocol import CatalogueEntry

Answer = TypeVar("Answer")


def bucket_key(first: Position, last: Position) -> str:
    """Return the key of a bucket with these positions, in Pulsar's format."""
    return f"#pulsar.internal.delayed.bucket_{first.ledger_id}_{last.ledger_id}"


class SnapshotWriter:
    """Writer to the storage of one tracker. It keeps the undo steps that are not complete."""

    __slots__ = (
        "_access",
        "_counters",
        "_key",
        "_results",
        "_storage",
        "debris",
        "finishing",
        "restorable",
        "turn",
    )

    def __init__(
        self, key: TrackerKey, access: StorageAccess, *, results: EffectResults, counters: EffectCounters
    ) -> None:
        self.turn = asyncio.Lock()
        """Lock for every write to this tracker's catalogue, together with the steps that must follow it."""
        self.finishing = False
        """True if no operation is retried from now on."""
        # A dictionary without values: an empty set takes three times the memory of an empty dictionary.
        self.debris: dict[int, None] = {}
        """Ids of buckets that the core does not have and the catalogue may still name."""
        self.restorable: dict[int, CatalogueEntry] = {}
        """Entries, by bucket id, that an undone write may have removed from the catalogue."""
        self._key = key
        self._access = access
        self._storage = access.storage
        self._results = results
        self._counters = counters

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

    async def create(
        self, metadata: bytes, segments: AsyncIterator[bytes], first: Position, last: Position, epoch: int
    ) -> int:
        """Store a snapshot; return its bucket id."""
        return await self._storage.create_bucket_snapshot(
            metadata,
            segments,
            bucket_key=bucket_key(first, last),
            topic=self._key.topic,
            cursor=self._key.subscription,
            epoch=epoch,
        )

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
        """Return the catalogue entry of a new bucket."""
        mark_delete = self._results.mark_delete
        return CatalogueEntry(
            bucket_id=bucket_id,
            first=first,
            last=last,
            summary=summary,
            consumed=consumed,
            mark_delete=None if mark_delete == BEFORE_ALL else mark_delete,
            seal_number=seal_number,
        )

    async def exchange(self, entries: Sequence[CatalogueEntry], epoch: int) -> Sequence[CatalogueEntry]:
        """Replace all buckets in the catalogue by these entries, in one step; return the entries replaced.

        The caller holds ``turn``.

        Raises:
            StorageError: nothing was replaced. The snapshots of the entries are deleted, or will be.
        """
        ids = [entry.bucket_id for entry in entries]
        try:
            state = await self.attempt(lambda: self._storage.list(*self._key))
        except StorageError:
            await self.delete_objects(ids)
            raise
        replaced = [*(entry.bucket_id for entry in state.entries), *state.corrupt]
        try:
            await self.replace(remove=[*replaced, *ids], add=entries, epoch=epoch)
        except SnapshotConflict as error:
            self.fenced(epoch, error)
            await self.delete_objects(ids)
            raise
        except StorageError:
            # The write may have been applied despite the error.
            await self.undo(ids, state.entries)
            raise
        return state.entries

    async def undo(self, bucket_ids: Sequence[int], replaced: Sequence[CatalogueEntry] = ()) -> None:
        """Remove snapshots from the catalogue, restore the entries that they replaced, and delete the snapshots.

        The caller holds ``turn``.
        """
        self.debris.update(dict.fromkeys(bucket_ids))
        self.restorable.update((entry.bucket_id, entry) for entry in replaced)
        try:
            await self.replace(remove=(), add=(), epoch=self._results.epoch)
        except StorageError:
            return  # they stay in the debris, which the next catalogue write removes
        await self.delete_objects(bucket_ids)

    async def replace(self, *, remove: Sequence[int], add: Sequence[CatalogueEntry], epoch: int) -> None:
        """Write to the catalogue, and complete the undo steps that are left.

        A repetition is harmless: the buckets to add are removed first.
        """
        debris = sorted(self.debris)
        restored = [entry for bucket_id, entry in self.restorable.items() if bucket_id not in remove]
        await self.attempt(
            lambda: self._storage.replace(
                *self._key,
                remove=[*remove, *debris],
                add=[*restored, *add],
                epoch=epoch,
                writer=self._access.writer,
                mark_delete=self._results.mark_delete,
            )
        )
        for bucket_id in debris:
            self.debris.pop(bucket_id, None)
        self.restorable.clear()

    async def delete_objects(self, bucket_ids: Sequence[int]) -> None:
        """Delete snapshots that no catalogue entry names. The next recovery sweeps those that remain."""
        for bucket_id in bucket_ids:
            try:
                await self.attempt(partial(self._storage.delete_bucket_snapshot, bucket_id))
            except StorageError:
                self._counters.orphans_left += 1
