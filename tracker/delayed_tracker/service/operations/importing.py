"""Import of snapshots made elsewhere, which replace everything in a tracker: verify and stage first, then swap.

    stage      each bucket is verified as it arrives, and stored as an object that no catalogue names
    exchange   one catalogue write replaces the old buckets by the new ones (``SnapshotWriter.exchange``)
    switch     the core takes over the new buckets under a new epoch (``Ownership.adopt``), and
               requests the deletion of the old ones

A tracker that is not loaded is recovered first: then the sweep of its recovery cannot delete staged objects, and the
recorded epoch fences other processes. An open or a clear of the tracker before the exchange fences the import, which
then deletes the staged objects. After a crash, the next recovery sweeps them.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.rules.recovery import RecoveryPlan, plan_recovery
from delayed_tracker.core.rules.segment import SegmentBounds, join_segments
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.errors import ImportRejected, ImportUnderWay, TrackerInMemory, TrackerKey
from delayed_tracker.service.storage.recovery import TrackerRecovery
from delayed_tracker.service.storage.stored_tracker import StoredTracker
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.service.trackers.results import Adopted
from delayed_tracker.storage.codec import columnar
from delayed_tracker.storage.codec.codec import codec_of
from delayed_tracker.storage.codec.pulsar import decode_metadata, decode_segments, encode_metadata, encode_segments
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.publication import catalogue_entry
from delayed_tracker.storage.summary import encode_summary


@dataclass(frozen=True, slots=True)
class ImportTerms:
    """Conditions of an import, and its new owner."""

    owner: str
    expected_epoch: int | None = None
    """The import is refused at any other epoch; None accepts the epoch at its beginning."""
    mark_delete: Position = BEFORE_ALL
    """Mark-delete position of the cursor when the snapshots were made."""
    offered_through: Position = BEFORE_ALL
    """Claim that everything delayed and unacknowledged at or below is in the snapshots; BEFORE_ALL claims nothing."""


@dataclass(frozen=True, slots=True)
class IncomingBucket:
    """One bucket of an import."""

    number: int
    """Number of the bucket in the import, from 0, for messages."""
    first: Position
    last: Position
    entry_count: int
    entries: AsyncIterator[Sequence[bytes]]
    """The metadata, then the segments, in portions. Can be iterated once."""


class SnapshotImport:
    """One import into one tracker.

    Args:
        registry: has the tracker, which need not be loaded.
        key: of the tracker.
        terms: conditions of the import.
    """

    def __init__(self, registry: TrackerRegistry, key: TrackerKey, terms: ImportTerms) -> None:
        self._registry = registry
        self._key = key
        self._terms = terms
        self._access = registry.access
        self._staged: list[CatalogueEntry] = []

    async def run(self, buckets: AsyncGenerator[IncomingBucket, None]) -> Adopted:
        """Import everything, or nothing.

        Raises:
            InvalidInput, ImportRejected: the input is malformed, incomplete or contradicts itself.
            ImportUnderWay, TrackerInMemory: refused before anything was read.
            Fenced, TrackerNotOpen: another call opened, cleared or closed the tracker after the import began.
            StorageUnavailable, SnapshotConflict: nothing was imported; import again.
            ShuttingDown, Overloaded: the service cannot do it now.
        """
        registry, key = self._registry, self._key
        registry.require_serving()
        if registry.limits.kind is TrackerKind.IN_MEMORY:
            raise TrackerInMemory
        if key in registry.imports:
            raise ImportUnderWay(key)
        registry.imports[key] = None
        try:
            with registry.in_use(key):
                adopted = await self._replace_by(buckets)
        finally:
            del registry.imports[key]
        registry.events.imported(key, adopted)
        return adopted

    async def _replace_by(self, buckets: AsyncGenerator[IncomingBucket, None]) -> Adopted:
        """Stage the buckets, and put them in the place of everything that the tracker has."""
        registry, key, terms = self._registry, self._key, self._terms
        host = await self._load()
        epoch = registry.imports[key] = host.ownership.use_epoch()
        try:
            async with aclosing(buckets):
                await self._stage(buckets, host, epoch)
            plan = await self._plan(host)
            await registry.until_not_leaving(key)
        except BaseException:
            # In the background: if the caller was cancelled, it must not wait for the deletion.
            registry.in_background(self._discard(host))
            raise
        # From here on, the import continues even if the caller goes away.
        adopting = host.ownership.adopt(
            epoch,
            self._staged,
            plan,
            owner=terms.owner,
            mark_delete=terms.mark_delete,
            offered_through=terms.offered_through,
        )
        return await registry.run_exclusive(key, adopting)

    async def _load(self) -> TrackerHost:
        """Return the tracker's host, at the expected epoch."""
        registry, key, expected = self._registry, self._key, self._terms.expected_epoch
        if expected is not None and registry.find_host(key) is None:
            stored = StoredTracker(key, self._access, registry.unloaded_counters)
            if (state := await stored.state()).epoch != expected:
                raise stored.fenced(expected, state)
            if registry.find_host(key) is None:
                return await registry.load(key)
        host = await registry.load(key)
        if expected is not None:
            host.require_owner(expected)
        return host

    async def _stage(self, buckets: AsyncGenerator[IncomingBucket, None], host: TrackerHost, epoch: int) -> None:
        """Verify and store every bucket. A bucket is complete in the storage only after it was verified."""
        before: Position | None = None
        async for bucket in buckets:
            if before is not None and bucket.first <= before:
                raise ImportRejected(
                    f"bucket {bucket.number} begins at {bucket.first}, the one before ends at {before}"
                )
            before = bucket.last
            host.require_owner(epoch)
            contents = _BucketContents(bucket, self._registry)
            metadata = await contents.metadata()
            # No retry: the stream's entries can be read only once.
            bucket_id = await host.create_object(metadata, contents.segments(), bucket.first, bucket.last, epoch=epoch)
            self._staged.append(contents.entry(bucket_id, self._terms.mark_delete))

    async def _plan(self, host: TrackerHost) -> RecoveryPlan:
        """Return the plan of a recovery from the staged buckets."""
        # As in a recovery: with an add log, a later recovery would bring back what is due and is skipped now.
        cutoff_ms = None if self._access.logs_changes else self._registry.limits.cutoff_ms(host.now_ms())
        found = await TrackerRecovery(self._key, self._access, host.counters).buckets(self._staged, cutoff_ms)
        buckets = [bucket for bucket in found if bucket is not None]
        if len(buckets) < len(found):
            raise SnapshotCorrupt(
                f"{len(found) - len(buckets)} imported snapshots cannot be read back; import them again"
            )
        in_force = max(self._terms.mark_delete, host.mark_delete)
        return await self._access.offload(plan_recovery, buckets, mark_delete=in_force, cutoff_ms=cutoff_ms)

    async def _discard(self, host: TrackerHost) -> None:
        """Delete the staged snapshots. The next recovery sweeps those that remain."""
        await host.delete_objects([entry.bucket_id for entry in self._staged])


class _BucketContents:
    """Entries of one bucket, verified on their way to the storage.

    They come in Pulsar's codec. The check encodes the rows of the segments again and compares the bytes with those
    received, for the segments and for the metadata. So the service stores exactly what it would itself have stored for
    these rows: what it received or, with another codec, what it makes of it.
    """

    def __init__(self, bucket: IncomingBucket, registry: TrackerRegistry) -> None:
        self._bucket = bucket
        self._access = registry.access
        self._left: Sequence[bytes] = ()
        self._codec = registry.service_limits.snapshot_codec
        self._count_max = registry.limits.max_indexes_per_segment
        self._encoded = b""
        self._metadata = SnapshotMetadata(SegmentBounds.concat([]), [])
        self._stored_bounds = self._metadata.bounds
        self._stored_bytes = 0
        self._summary = b""

    async def metadata(self) -> bytes:
        """Return entry 0.

        Raises ImportRejected if it does not decode, or if its number of segments is not the announced one.
        """
        self._encoded, *self._left = await anext(self._bucket.entries)
        if codec_of(self._encoded) is not SnapshotCodec.PULSAR:
            raise self._rejected("its codec is not pulsar; send it as Pulsar encodes it, whatever snapshotCodec says")
        try:
            self._metadata = await self._access.offload(decode_metadata, self._encoded)
        except SnapshotCorrupt as error:
            raise self._rejected(error.message) from error
        counted = len(self._metadata.bounds)
        if counted + 1 != self._bucket.entry_count:
            raise self._rejected(
                f"its metadata counts {counted} segments, and {self._bucket.entry_count - 1} were announced"
            )
        stored = self._encoded
        self._stored_bounds = self._metadata.bounds
        if self._codec is SnapshotCodec.COLUMNAR:
            stored = await self._access.offload(self._converted_metadata)
        self._stored_bytes = len(stored)
        return stored

    async def segments(self) -> AsyncGenerator[bytes, None]:
        """Yield entries 1 and up. Raises ImportRejected if they contradict the metadata or the range."""
        known = bytearray()
        converted = _Converted(self._stored_bounds)
        first = 0
        last_row: tuple[int, int, int] | None = None
        while first < len(self._metadata.bounds):
            entries, self._left = self._left or await anext(self._bucket.entries), ()
            bounds = self._metadata.bounds.take(slice(first, first + len(entries)))
            found = await self._access.offload(_verified, entries, bounds, last_row)
            if isinstance(found, str):
                raise self._rejected(f"segments {first} to {first + len(entries) - 1}: {found}")
            known += found.metadata
            last_row = found.last_row
            if not self._encoded.startswith(found.metadata, len(known) - len(found.metadata)):
                raise self._rejected(f"segments {first} to {first + len(entries) - 1} are not those of its metadata")
            first += len(entries)
            if self._codec is SnapshotCodec.COLUMNAR:
                entries = await self._access.offload(converted.feed, found.rows)
            self._stored_bytes += sum(map(len, entries))
            for entry in entries:
                yield entry
        if len(known) != len(self._encoded):
            raise self._rejected("its metadata holds more than its segments")
        # Before the end of the iterator: the storage completes the snapshot there, and it must be verified by then.
        self._summary = await self._access.offload(self._summarized)

    def entry(self, bucket_id: int, mark_delete: Position) -> CatalogueEntry:
        """Return the catalogue entry of the stored bucket."""
        bucket = self._bucket
        return catalogue_entry(
            bucket_id, bucket.first, bucket.last, self._summary, seal_number=None, mark_delete=mark_delete
        )

    def _converted_metadata(self) -> bytes:
        """Return entry 0 in the codec of the service; of segments that are joined, if that codec joins them."""
        bounds, held = self._metadata.bounds, self._held()
        if bool((bounds.count < 1).any()) or bool((bounds.min_deliver_at_ms[1:] < bounds.max_deliver_at_ms[:-1]).any()):
            raise self._rejected("one of its segments is empty, or begins before the end of the one before")
        self._stored_bounds = join_segments(bounds, rows_min=self._codec.segment_rows_min, count_max=self._count_max)
        return columnar.encode_metadata(self._stored_bounds, held)

    def _held(self) -> PositionBitmap:
        held = self._metadata.positions()
        if len(held) != int(self._metadata.bounds.count.sum()):
            raise self._rejected("it holds a position twice")
        return held

    def _summarized(self) -> bytes:
        held, bucket = self._held(), self._bucket
        if (held.first(), held.last()) != (bucket.first, bucket.last):
            raise self._rejected(
                f"its positions are {held.first()} to {held.last()}, and {bucket.first} to {bucket.last} were announced"
            )
        return encode_summary(self._stored_bounds, held, self._stored_bytes)

    def _rejected(self, fault: str) -> ImportRejected:
        return ImportRejected(f"bucket {self._bucket.number}, {self._bucket.first} to {self._bucket.last}: {fault}")


class _Converted:
    """Segments in the columnar codec, made from rows that come a few at a time. Holds the rows of one segment."""

    def __init__(self, bounds: SegmentBounds) -> None:
        self._bounds = bounds
        self._rows = IndexColumns.empty()

    def feed(self, rows: IndexColumns) -> list[bytes]:
        """Add the next rows, and return the segments that are complete."""
        self._rows = IndexColumns.concat([self._rows, rows])
        ends = self._bounds.starts[1:]
        count = int(np.searchsorted(ends, len(self._rows), side="right"))
        if not count:
            return []
        end = int(ends[count - 1])
        whole, self._rows = self._rows.take(slice(0, end)), self._rows.take(slice(end, None)).copy()
        bounds, self._bounds = self._bounds.take(slice(0, count)), self._bounds.take(slice(count, None))
        return columnar.encode_segments(whole, bounds)


@dataclass(frozen=True, slots=True)
class _Verified:
    """Facts about segments that passed the check."""

    rows: IndexColumns
    metadata: bytes
    """Metadata of these segments, encoded again from the rows."""
    last_row: tuple[int, int, int]


def _verified(
    entries: Sequence[bytes], bounds: SegmentBounds, last_row: tuple[int, int, int] | None
) -> _Verified | str:
    """Decode segments and encode them and their metadata again; return a description of the fault if they differ."""
    try:
        rows = decode_segments(entries)
    except SnapshotCorrupt as error:
        return error.message
    if len(rows) != int(bounds.count.sum()) or not int(bounds.count.min()):
        return f"they have {len(rows)} rows where the metadata counts {int(bounds.count.sum())}"
    if not rows.ascend() or (last_row is not None and _row(rows, 0) <= last_row):
        return "their rows do not ascend by deadline and position"
    if encode_segments(rows, bounds) != list(entries):
        return "they are not encoded as this service encodes them"
    firsts, lasts = bounds.starts[:-1], bounds.starts[1:] - 1
    spans = SegmentBounds(bounds.count, rows.deliver_at_ms[firsts], rows.deliver_at_ms[lasts])
    return _Verified(rows, encode_metadata(rows, spans), _row(rows, -1))


def _row(rows: IndexColumns, number: int) -> tuple[int, int, int]:
    return int(rows.deliver_at_ms[number]), int(rows.ledger_id[number]), int(rows.entry_id[number])
