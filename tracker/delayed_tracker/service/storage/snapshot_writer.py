"""Snapshots of one tracker written and taken back: what stores, merges and deletions have in common.

All catalogue writes take turns. What could not be undone because the storage went away goes along with the next write.
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
    """The name of a bucket with these positions, as Pulsar gives it."""
    return f"#pulsar.internal.delayed.bucket_{first.ledger_id}_{last.ledger_id}"


class SnapshotWriter:
    """Writes to the storage of one tracker, and remembers what is still to be taken back."""

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
        """Held for every write to this tracker's catalogue, together with what must follow it."""
        self.finishing = False
        """Whether nothing is tried again from now on."""
        # A dictionary without values: an empty set takes three times the memory of an empty dictionary.
        self.debris: dict[int, None] = {}
        """Buckets that nobody knows and the catalogue may name."""
        self.restorable: dict[int, CatalogueEntry] = {}
        """Entries that a merge may have removed though it failed."""
        self._key = key
        self._access = access
        self._storage = access.storage
        self._results = results
        self._counters = counters

    async def attempt(self, operation: Callable[[], Awaitable[Answer]]) -> Answer:
        """Perform an operation of the storage, again if it is unavailable and nobody waits for the end."""
        return await self._access.attempt(operation, self._counters, give_up=lambda: self.finishing)

    def failed(self, event: str, error: DelayedTrackerError, *, retried: bool = True, **fields: object) -> None:
        """Tell the log, with what else it should say."""
        self._access.trouble.failed(self._key, event, error, retried=retried and not self.finishing, **fields)

    def fenced(self, epoch: int, error: SnapshotConflict) -> None:
        """Tell the log and the core that a newer epoch is on record.

        An effect from before a clear or a new owner is fenced by this very process: that is what epochs are for, and no
        news. If the tracker is somebody else's all the same, the next effect of the epoch in force says so.
        """
        if epoch >= self._results.epoch:
            self.failed(FENCED, error, retried=False)
        self._results.catalogue_fenced(epoch)

    async def create(
        self, metadata: bytes, segments: AsyncIterator[bytes], first: Position, last: Position, epoch: int
    ) -> int:
        """Store a snapshot; returns its bucket id."""
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
        """What the catalogue is to say of a new bucket."""
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
        """Put entries in the place of all that the catalogue names, in one step; returns what they replaced. The turn is held.

        Raises:
            StorageError: everything is as before, and the snapshots of the entries are gone, or will be.
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
            # The write may have been applied all the same.
            await self.undo(ids, state.entries)
            raise
        return state.entries

    async def undo(self, bucket_ids: Sequence[int], replaced: Sequence[CatalogueEntry] = ()) -> None:
        """Take snapshots out of the catalogue, put back what they replaced, and delete them. The turn is held."""
        self.debris.update(dict.fromkeys(bucket_ids))
        self.restorable.update((entry.bucket_id, entry) for entry in replaced)
        try:
            await self.replace(remove=(), add=(), epoch=self._results.epoch)
        except StorageError:
            return  # It stays debris, and goes with the next catalogue write.
        await self.delete_objects(bucket_ids)

    async def replace(self, *, remove: Sequence[int], add: Sequence[CatalogueEntry], epoch: int) -> None:
        """Write to the catalogue, taking debris along. Repeating it is harmless: what is added is removed first."""
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
        """Delete snapshots that no catalogue names; those that remain are swept at the next recovery."""
        for bucket_id in bucket_ids:
            try:
                await self.attempt(partial(self._storage.delete_bucket_snapshot, bucket_id))
            except StorageError:
                self._counters.orphans_left += 1
