"""Copies the buckets of one tracker into a storage, reads each copy back, and publishes them in one step."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

from delayed_tracker.cluster.adopted import GONE_OR_DAMAGED, AdoptedSubscription, AdoptionOptions, BucketSource, LeftOut
from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.maintenance.checking import StoredSnapshotReader
from delayed_tracker.storage.maintenance.claiming import Attempt, Claimed
from delayed_tracker.storage.maintenance.entry_digest import EntryDigest
from delayed_tracker.storage.maintenance.verification import Verdict, batch_end, verify_snapshot
from delayed_tracker.storage.protocol import LogMark, SnapshotStore
from delayed_tracker.storage.publication import Claim, FixedClaim, Publication

Answer = TypeVar("Answer")


class AdoptionCopy:
    """Copies of the buckets of one tracker that was claimed, none of which the catalogue names yet."""

    def __init__(
        self,
        target: SnapshotStore,
        found: AdoptedSubscription,
        claimed: Claimed,
        *,
        writer: str,
        mark_delete: Position,
        options: AdoptionOptions,
    ) -> None:
        self.claimed = claimed
        self._target = target
        self._found = found
        self._mark_delete = mark_delete
        self._options = options
        key = (str(found.topic), found.subscription)
        claim = FixedClaim(claimed.epoch, mark_delete)
        self._publication = _RetriedPublication(target, key, writer, claim, options.attempt)
        self._created: dict[int, BucketSource] = {}

    async def copy(self, source: BucketSource) -> None:
        """Copy one bucket and read it back, or leave it out."""

        async def create() -> tuple[int, EntryDigest]:
            read = EntryDigest()
            read.add([source.metadata])

            async def segments() -> AsyncIterator[bytes]:
                first = 0
                while first < len(source.counts):
                    last = batch_end(source.counts, first)
                    stored = await source.ledger.entries(first, last)
                    read.add(stored)
                    for segment in stored:
                        yield segment
                    first = last + 1

            bucket_id = await self._publication.create(
                source.metadata, segments(), source.first, source.last, epoch=self.claimed.epoch
            )
            return bucket_id, read

        try:
            # What an attempt without an answer has stored is swept by the next owner.
            bucket_id, read = await self._options.attempt(create)
        except GONE_OR_DAMAGED as error:
            self._leave_out(source, f"{error.message}.")
            return
        self._created[bucket_id] = source
        self._options.at_point("snapshot.created")
        written = _ReadBack(self._target, bucket_id, self._options.attempt)
        verdict = Verdict(bucket_id)
        await verify_snapshot(source.entry(bucket_id, None, self._mark_delete), written, verdict)
        verdict.expect(written.digest.digest() == read.digest(), "It reads back differently than it was written.")
        if verdict.problems:
            del self._created[bucket_id]
            await self._publication.delete([bucket_id])
            self._leave_out(source, verdict.problems[0])
            return
        self._options.copied(1)

    async def publish(self, mark: LogMark) -> None:
        """Name all copies in the catalogue, in one step, and note the sums.

        Raises:
            SnapshotConflict: another process has claimed the tracker.
        """
        copies = sorted(self._created.items(), key=lambda copy: (copy[1].first, copy[1].last, copy[0]))
        first_number = self.claimed.state.last_seal_number + 1
        entries = [
            source.entry(bucket_id, number, self._mark_delete)
            for number, (bucket_id, source) in enumerate(copies, start=first_number)
        ]
        await self._publication.publish(
            entries, epoch=self.claimed.epoch, mark=mark, replaced_mark=self.claimed.state.log_mark
        )
        self._found.note(self._created.values())

    async def discard(self) -> None:
        """Delete the copies, which are not published. What cannot be deleted now is swept by the next owner."""
        await self._publication.delete(list(self._created))

    def _leave_out(self, source: BucketSource, reason: str) -> None:
        self._found.left_out.append(LeftOut(source.property, reason))
        self._options.copied(1)


class _RetriedPublication(Publication):
    """Publication whose writes are repeated while the storage is unavailable."""

    __slots__ = ("_repeat",)

    def __init__(
        self, storage: SnapshotStore, tracker: tuple[str, str], writer: str, claim: Claim, repeat: Attempt
    ) -> None:
        super().__init__(storage, tracker, writer=writer, claim=claim)
        self._repeat = repeat

    async def attempt(self, operation: Callable[[], Awaitable[Answer]]) -> Answer:
        return await self._repeat(operation)


class _ReadBack(StoredSnapshotReader):
    """Reads a stored copy once, and computes its digest meanwhile."""

    def __init__(self, storage: SnapshotStore, bucket_id: int, attempt: Attempt) -> None:
        super().__init__(storage, bucket_id, attempt)
        self._read = partial(attempt, partial(storage.get_bucket_snapshot_metadata, bucket_id))
        self.digest = EntryDigest()

    async def metadata(self) -> SnapshotMetadata:
        stored = await self._read()
        self.digest.add([stored])
        return await asyncio.to_thread(decode_metadata, stored)

    async def entries(self, first: int, last: int) -> list[bytes]:
        stored = await super().entries(first, last)
        self.digest.add(stored)
        return stored
