"""Copies one tracker: takes it over at the source, copies what the target lacks, verifies it, and commits it.

Progress is in the target's catalogue and nowhere else:

- Each snapshot is named by the catalogue as soon as it was read back, so the next run does not copy it again.
- Until the tracker is complete, its epoch is one below that of the source, and its log mark claims nothing. The last write
  records the mark, the claim and the source's own epoch. So a tracker with equal epochs has had that write, and has not
  changed since: whoever opens it at the source raises the epoch there. It is complete if it reads back as it was written.

Whoever had the tracker open at the source is fenced, in the catalogue and in the add log. If it opens the tracker again
before the copy is complete, the epochs differ, and the copy fails.
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from delayed_tracker.core.values.columns import BEFORE_ALL, Int64Array, Position
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.concurrent import for_each
from delayed_tracker.storage.errors import AddLogMissing, SnapshotConflict, SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.maintenance.claiming import Attempt, Claimed, claim_tracker
from delayed_tracker.storage.maintenance.copy_marker import UnfinishedCopy
from delayed_tracker.storage.maintenance.entry_digest import EntryDigest
from delayed_tracker.storage.maintenance.opening import WholeStorage
from delayed_tracker.storage.maintenance.uncut_records import uncut_pages, without_void_claims
from delayed_tracker.storage.maintenance.verification import batch_end
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, LogMark, SnapshotStore
from delayed_tracker.storage.publication import FixedClaim, Publication

Answer = TypeVar("Answer")

SNAPSHOTS_AT_ONCE: Final = 4
"""Snapshots of one tracker that are copied at a time. Each has one read in memory, about 1 MB."""


@dataclass(slots=True)
class CopyCounts:
    """Counts of one run of a copy, so far."""

    tracker_count: int = 0
    complete_before_count: int = 0
    """Trackers of these that an earlier run had completed."""
    snapshot_count: int = 0
    """Snapshots that were copied and read back."""
    kept_snapshot_count: int = 0
    """Snapshots that an earlier run had copied."""
    byte_count: int = 0
    """Bytes of the copied snapshots."""
    record_count: int = 0
    """Records of the add log that were copied."""


@dataclass(frozen=True, slots=True)
class CopyRun:
    """Parts that all trackers of one run share."""

    source: WholeStorage
    target: WholeStorage
    copy: UnfinishedCopy
    attempt: Attempt
    counts: CopyCounts
    copied: Callable[[int], None]
    """Called with the number of snapshots that were copied, or found."""
    at_point: Callable[[str], None]
    """Called with the name of a point that has been reached; tests stop there."""


class _CopiedPublication(Publication):
    """Publication whose writes are repeated while the target is unavailable."""

    __slots__ = ("_repeat",)

    def __init__(self, storage: SnapshotStore, tracker: tuple[str, str], claim: FixedClaim, run: CopyRun) -> None:
        super().__init__(storage, tracker, writer=run.copy.writer, claim=claim)
        self._repeat = run.attempt

    async def attempt(self, operation: Callable[[], Awaitable[Answer]]) -> Answer:
        return await self._repeat(operation)


class TrackerCopy:
    """The copy of one tracker in one run.

    Args:
        run: what it shares with the others.
        key: topic and cursor.
    """

    def __init__(self, run: CopyRun, key: tuple[str, str]) -> None:
        self._run = run
        self._key = key
        self._attempt = run.attempt
        self._source = run.source.snapshots
        self._target = run.target.snapshots
        self._name = f"{key[1]!r} of {key[0]!r}"

    async def copy(self) -> None:
        """Copy the tracker, unless an earlier run has completed it.

        Raises:
            SnapshotConflict: another process writes to the tracker, at the source or at the target.
            SnapshotNotFound, SnapshotCorrupt: something of the source cannot be read, or reads back differently.
            AddLogMissing: the source's log has records that no snapshot contains, and the target has no log.
            StorageUnavailable: try again.
        """
        before, found = await self._list(self._source), await self._list(self._target)
        counts = self._run.counts
        self._require_ours(found)
        if self._is_complete(before, found):
            counts.tracker_count += 1
            counts.complete_before_count += 1
            counts.kept_snapshot_count += len(found.entries)
            self._run.copied(len(found.entries))
            return
        claimed = await self._claim_source(found)
        state, epoch = claimed.state, claimed.epoch - 1
        found = await self._claim_target(epoch)
        entries = await self._copy_snapshots(state, found, epoch)
        self._run.at_point("tracker.snapshots")
        mark = await self._copy_log(claimed, found, epoch)
        self._run.at_point("tracker.log")
        await self._commit(state, entries, claimed.epoch, mark)
        self._run.at_point("tracker.committed")
        counts.tracker_count += 1

    async def require_unchanged(self) -> None:
        """Raise SnapshotConflict if another process has opened the tracker, at the source or the target, since the copy."""
        before, found = await self._list(self._source), await self._list(self._target)
        self._require_ours(found)
        if before.epoch != found.epoch:
            raise self._conflict("source", before.epoch)

    async def _list(self, storage: SnapshotStore) -> CatalogueState:
        return await self._attempt(partial(storage.list, *self._key))

    def _require_ours(self, found: CatalogueState) -> None:
        """Refuse a tracker of the target that another process has opened. A deleted one may have had any writer."""
        if (found.entries or found.corrupt) and found.writer not in {"", self._run.copy.writer}:
            raise self._conflict("target", found.epoch)

    def _is_complete(self, before: CatalogueState, found: CatalogueState) -> bool:
        """Return whether an earlier run has committed the tracker, and the catalogue is the one that it wrote.

        That run may have ended before it read it back, or because of what it read.
        """
        return (
            before.epoch == found.epoch
            and found.writer == self._run.copy.writer
            and _catalogued(before) == _catalogued(found)
            and before.log_mark.stored_through == found.log_mark.stored_through
        )

    def _conflict(self, side: str, epoch: int) -> SnapshotConflict:
        return SnapshotConflict(
            f"another process has opened {self._name} at the {side} during the copy, under epoch {epoch}; stop the services "
            "that use it, and run the same command again"
        )

    async def _claim_source(self, found: CatalogueState) -> Claimed:
        # Above the target's epoch by two: a tracker that was deleted there has left an epoch behind.
        claimed = await claim_tracker(
            self._source,
            self._run.source.log,
            self._key,
            writer=self._run.copy.run,
            attempt=self._attempt,
            above=found.epoch + 1,
        )
        if claimed.state.epoch != claimed.epoch:
            raise self._conflict("source", claimed.state.epoch)
        if claimed.state.corrupt:
            raise SnapshotCorrupt(
                f"the catalogue of {self._name} has damaged entries; run `delayed-tracker storage check --repair` on the source"
            )
        return claimed

    async def _claim_target(self, epoch: int) -> CatalogueState:
        """Record the epoch of this run, and sweep what an earlier run has not named."""
        writer = self._run.copy.writer
        await self._attempt(partial(self._target.replace, *self._key, remove=(), add=(), epoch=epoch, writer=writer))
        # After the claim: of two runs with one epoch, the earlier one sees here that it is fenced.
        await self._run.copy.require_own(self._target, self._attempt)
        found = await self._list(self._target)
        named = {entry.bucket_id for entry in found.entries}.union(found.corrupt)
        for stored in await self._attempt(partial(self._target.list_bucket_snapshots, *self._key)):
            if stored.epoch < epoch and stored.bucket_id not in named:
                await self._attempt(partial(self._target.delete_bucket_snapshot, stored.bucket_id))
        return found

    # -- snapshots ---------------------------------------------------------------------------------------------------

    async def _copy_snapshots(
        self, state: CatalogueState, found: CatalogueState, epoch: int
    ) -> tuple[list[CatalogueEntry], list[int]]:
        """Copy what the target lacks; return the entries of all buckets there, and the ids that do not belong."""
        kept = _kept(state.entries, found.entries)
        strangers = sorted({entry.bucket_id for entry in found.entries}.union(found.corrupt) - {own for _, own in kept})
        claim = FixedClaim(epoch, state.mark_delete or BEFORE_ALL)
        publication = _CopiedPublication(self._target, self._key, claim, self._run)
        entries = [dataclasses.replace(entry, bucket_id=own) for entry, own in kept]
        self._run.counts.kept_snapshot_count += len(kept)
        self._run.copied(len(kept))
        known = {entry.bucket_id for entry, _ in kept}

        async def copy(entry: CatalogueEntry) -> None:
            entries.append(await self._copy_snapshot(entry, publication, epoch))
            self._run.copied(1)

        missing = [entry for entry in state.entries if entry.bucket_id not in known]
        await for_each(missing, copy, at_once=SNAPSHOTS_AT_ONCE)
        return entries, strangers

    async def _copy_snapshot(self, entry: CatalogueEntry, publication: Publication, epoch: int) -> CatalogueEntry:
        """Copy one snapshot a few segments at a time, read it back, and name it in the target's catalogue."""
        metadata, counts = await self._metadata(entry)

        async def create() -> tuple[int, EntryDigest]:
            read = EntryDigest()
            read.add([metadata])

            async def segments() -> AsyncIterator[bytes]:
                async for stored in self._segments(self._source, entry.bucket_id, counts):
                    read.add(stored)
                    for segment in stored:
                        yield segment

            return await publication.create(metadata, segments(), entry.first, entry.last, epoch=epoch), read

        try:
            # What an attempt without an answer has stored is swept by the next owner.
            bucket_id, read = await self._attempt(create)
        except (SnapshotNotFound, SnapshotCorrupt) as error:
            raise self._unreadable(entry, error) from error
        self._run.at_point("snapshot.created")
        written = EntryDigest()
        written.add([await self._attempt(partial(self._target.get_bucket_snapshot_metadata, bucket_id))])
        async for stored in self._segments(self._target, bucket_id, counts):
            written.add(stored)
        lengths = [
            await self._attempt(partial(storage.get_bucket_snapshot_length, of))
            for storage, of in ((self._source, entry.bucket_id), (self._target, bucket_id))
        ]
        if written.digest() != read.digest() or lengths != [read.byte_count] * 2:
            await publication.delete([bucket_id])
            raise SnapshotCorrupt(
                f"bucket {entry.bucket_id} of {self._name} reads back from the target differently than it was written, or has "
                f"segments that its metadata does not name ({read.byte_count} bytes copied, {lengths[0]} at the source, "
                f"{lengths[1]} at the target); run `delayed-tracker storage check` on the source"
            )
        copied = dataclasses.replace(entry, bucket_id=bucket_id)
        await publication.publish([copied], epoch=epoch)
        self._run.counts.snapshot_count += 1
        self._run.counts.byte_count += read.byte_count
        self._run.at_point("snapshot.published")
        return copied

    async def _metadata(self, entry: CatalogueEntry) -> tuple[bytes, Int64Array]:
        try:
            metadata = await self._attempt(partial(self._source.get_bucket_snapshot_metadata, entry.bucket_id))
            decoded = await asyncio.to_thread(decode_metadata, metadata)
        except (SnapshotNotFound, SnapshotCorrupt) as error:
            raise self._unreadable(entry, error) from error
        return metadata, decoded.bounds.count

    def _unreadable(self, entry: CatalogueEntry, error: SnapshotNotFound | SnapshotCorrupt) -> SnapshotCorrupt:
        return SnapshotCorrupt(
            f"bucket {entry.bucket_id} of {self._name} cannot be read from the source ({error.message}); run "
            "`delayed-tracker storage check --repair` on it, and then this again"
        )

    async def _segments(self, storage: SnapshotStore, bucket_id: int, counts: Int64Array) -> AsyncIterator[list[bytes]]:
        first = 0
        while first < len(counts):
            last = batch_end(counts, first)
            yield await self._attempt(partial(storage.get_bucket_snapshot_segments, bucket_id, first + 1, last + 1))
            first = last + 1

    # -- the add log -------------------------------------------------------------------------------------------------

    async def _copy_log(self, claimed: Claimed, found: CatalogueState, epoch: int) -> LogMark:
        """Copy the records that no snapshot contains, and return the mark below them in the target's log.

        The target numbers them anew. What an earlier run has copied is void: the records of one tracker are few.
        """
        source, target, writer = self._run.source.log, self._run.target.log, self._run.copy.writer
        mark = claimed.state.log_mark
        through = found.log_mark.number
        if target is not None:
            extent = await self._attempt(partial(target.take_over, *self._key, epoch=epoch, writer=writer))
            through = extent.last_number
        if mark.log:
            # Of a log on an instance's disk, or void: only the claim that the snapshots cover goes with them.
            return LogMark(through, mark.stored_through, stored_through=mark.stored_through)
        copied = LogMark(through, mark.offered_through, stored_through=mark.stored_through)
        if source is None or claimed.extent is None:
            return copied
        if target is None:
            require_nothing_uncut(self._key, claimed.extent.last_number, mark)
            return copied
        number = through + 1
        async for page in uncut_pages(source, claimed.extent, mark, self._attempt):
            records = without_void_claims(page, claimed.extent)
            if not records:
                continue
            part = LogAppend(*self._key, epoch, number, records)
            if await self._attempt(partial(target.append, [part], writer=writer)):
                raise self._conflict("target", epoch)
            number += len(records)
            self._run.counts.record_count += len(records)
            self._run.at_point("log.page")
        return copied

    # -- the catalogue -----------------------------------------------------------------------------------------------

    async def _commit(
        self, state: CatalogueState, entries: tuple[list[CatalogueEntry], list[int]], epoch: int, mark: LogMark
    ) -> None:
        """Write all entries, the mark and the source's epoch in one step, read them back, and delete what is void."""
        present, strangers = entries
        writer = self._run.copy.writer
        commit = partial(
            self._target.replace,
            *self._key,
            remove=strangers,
            add=present,
            epoch=epoch,
            writer=writer,
            mark_delete=state.mark_delete,
            mark=mark,
        )
        await self._attempt(commit)
        found = await self._list(self._target)
        if found.epoch != epoch or found.writer not in {"", writer}:
            raise self._conflict("target", found.epoch)
        if (_catalogued(found), found.log_mark) != (_catalogued(state), mark):
            raise SnapshotCorrupt(
                f"the catalogue of {self._name} reads back from the target differently than it was written; run the same command "
                "again, which copies what is missing, and check the target's disks if that fails, too"
            )
        if (await self._list(self._source)).epoch != epoch:
            raise self._conflict("source", epoch)
        for bucket_id in strangers:
            await self._attempt(partial(self._target.delete_bucket_snapshot, bucket_id))
        log = self._run.target.log
        if log is not None and mark.number:
            await self._attempt(partial(log.cut, [(*self._key, mark.number)]))


def require_nothing_uncut(key: tuple[str, str], last_number: int, mark: LogMark) -> None:
    """Raise AddLogMissing if a log has records above the mark of the catalogue, for which the target has no place.

    Records of another log than the storage's own stay where they are, and those of a tracker without a log are void.
    """
    if not mark.log and last_number > mark.number:
        raise AddLogMissing(
            f"the add log of {key[1]!r} of {key[0]!r} has {last_number - mark.number} records that no snapshot contains, and the "
            "target has no add log: stop its dispatcher, run `delayed-tracker seal` for it, and when `delayed-tracker stats` shows no "
            "log bytes (or after an open with trackerDurableAdds=false) stop the service and run this again; or give a target "
            "that has a log: sqlite:, bookkeeper:"
        )


def _kept(entries: Sequence[CatalogueEntry], found: Sequence[CatalogueEntry]) -> list[tuple[CatalogueEntry, int]]:
    """Return the entries of the source whose snapshots the target has, with their bucket ids there.

    Snapshots do not change, so a bucket is known by its range, its summary and its seal number. Where these are not unique,
    which only foreign entries can be, nothing is taken for known.
    """
    here = Counter(map(_identity, entries))
    there = Counter(map(_identity, found))
    own = {_identity(entry): entry.bucket_id for entry in found}
    return [
        (entry, own[identity]) for entry in entries if here[identity := _identity(entry)] == 1 and there[identity] == 1
    ]


def _identity(entry: CatalogueEntry) -> tuple[Position, Position, bytes, int | None]:
    return entry.first, entry.last, entry.summary, entry.seal_number


def _catalogued(state: CatalogueState) -> tuple[Counter[CatalogueEntry], tuple[int, ...], Position]:
    """Return what source and target must have in common; of the source nothing is corrupt."""
    return Counter(map(_content, state.entries)), state.corrupt, state.mark_delete or BEFORE_ALL


def _content(entry: CatalogueEntry) -> CatalogueEntry:
    """Return an entry without its bucket id, which is another one in each storage."""
    return dataclasses.replace(entry, bucket_id=0)
