"""Makes the snapshot of a range of ledgers from stored buckets, a few segments at a time.

The snapshots are merged twice: once for the metadata, which come first in a ledger, and once for the segments. Memory is
bounded by the metadata and one read of each bucket, never by a bucket.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from delayed_tracker.cluster.publication.ledger_ranges import LedgerRange, SourceBucket, within
from delayed_tracker.core.rules.merge_streams import StreamMerge
from delayed_tracker.core.rules.segment_cutter import WholeSegments
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.codec.codec import decode_segments
from delayed_tracker.storage.codec.pulsar import encode_metadata, encode_segments
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotTooLarge
from delayed_tracker.storage.maintenance.verification import batch_end
from delayed_tracker.storage.protocol import BucketSnapshotStorage

SEGMENT_INDEXES_MAX: Final = 200_000
"""Indexes of a segment, at most: its entry has some 20 bytes for each, and bookies take 5 MiB."""
_WIDER: Final = (1, 8, 64)
"""Factors of the time span of a segment that are tried: sparse indexes have a segment each, of 50 bytes of metadata."""


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """Limits of segments and entries."""

    step_ms: int
    """A segment spans less than this."""
    count_max: int
    """A segment holds at most so many; -1 for as many as an entry takes."""
    entry_bytes_max: int
    """Largest entry of a ledger."""


@dataclass(frozen=True, slots=True, eq=False)
class RangeSnapshot:
    """A snapshot whose metadata are made, and whose segments are made as they are read."""

    range: LedgerRange
    metadata: bytes
    """Entry 0."""
    step_ms: int
    """Time span that its segments were cut by."""


async def make_snapshots(
    storage: BucketSnapshotStorage, sources: Sequence[SourceBucket], wanted: LedgerRange, limits: SegmentLimits
) -> list[RangeSnapshot]:
    """Return the snapshot of a range, or those of its parts: it is cut again if its metadata are too large for an entry.

    Args:
        storage: has the snapshots; is started.
        sources: of one subscription.
        wanted: one of its ranges.
        limits: of segments and entries.
    Raises:
        SnapshotTooLarge: one ledger has so many indexes that their metadata fit no entry.
        SnapshotCorrupt, SnapshotNotFound, StorageUnavailable: a snapshot cannot be read.
    Cost: reads the snapshots that have positions of the range.
    """
    for factor in _WIDER if len(wanted.ledger_counts) == 1 else _WIDER[:1]:
        step_ms = limits.step_ms * factor
        metadata = bytearray()
        async for whole in _merged(storage, sources, wanted, step_ms, limits.count_max):
            metadata += encode_metadata(whole.indexes, whole.bounds)
            if len(metadata) > limits.entry_bytes_max:
                break
        else:
            return [RangeSnapshot(wanted, bytes(metadata), step_ms)]
    if len(wanted.ledger_counts) == 1:
        raise SnapshotTooLarge(
            f"ledger {wanted.first_ledger}: its {wanted.index_count} delayed messages need metadata above "
            f"{limits.entry_bytes_max} bytes, more than an entry of a bookie; leave the topic out, or raise "
            "delayedDeliveryMaxIndexesPerBucketSnapshotSegment"
        )
    made = []
    for half in wanted.halves():
        made += await make_snapshots(storage, sources, half, limits)
    return made


async def entries_of(
    storage: BucketSnapshotStorage, sources: Sequence[SourceBucket], snapshot: RangeSnapshot, limits: SegmentLimits
) -> AsyncIterator[bytes]:
    """Yield the entries of a snapshot's ledger: metadata, then segments.

    Raises:
        SnapshotTooLarge: a segment fits no entry.
        SnapshotCorrupt, SnapshotNotFound, StorageUnavailable: a snapshot cannot be read, or changed meanwhile.
    """
    yield snapshot.metadata
    async for whole in _merged(storage, sources, snapshot.range, snapshot.step_ms, limits.count_max):
        for segment in encode_segments(whole.indexes, whole.bounds):
            if len(segment) > limits.entry_bytes_max:
                raise SnapshotTooLarge(
                    f"a segment has {len(segment)} bytes, and bookies take {limits.entry_bytes_max}; lower "
                    "delayedDeliveryMaxIndexesPerBucketSnapshotSegment"
                )
            yield segment


async def _merged(
    storage: BucketSnapshotStorage, sources: Sequence[SourceBucket], wanted: LedgerRange, step_ms: int, count_max: int
) -> AsyncIterator[WholeSegments]:
    """Yield the segments of a range, in order."""
    live = [within(source.bits, wanted) for source in sources]
    chosen = [source for source, bits in zip(sources, live, strict=True) if bits]
    merge = StreamMerge(
        [bits for bits in live if bits],
        step_ms=step_ms,
        count_max=SEGMENT_INDEXES_MAX if count_max < 0 else min(count_max, SEGMENT_INDEXES_MAX),
    )
    places = [0] * len(chosen)
    while (found := merge.advance()) is not None:
        if isinstance(found, WholeSegments):
            yield found
            continue
        for number in found.sources:
            places[number] = await _feed(storage, merge, number, chosen[number], places[number])


async def _feed(
    storage: BucketSnapshotStorage, merge: StreamMerge, number: int, source: SourceBucket, first: int
) -> int:
    """Feed the next groups of segments of a source, or its end; return the group behind them."""
    groups, counts = source.groups, source.groups.bounds.count
    try:
        if first == len(counts):
            merge.end(number)
            return first
        last = batch_end(counts, first)
        stored = await storage.get_bucket_snapshot_segments(
            source.bucket_id, groups.segment_of(first) + 1, groups.segment_of(last + 1)
        )
        merge.feed(number, decode_segments(stored))
    except InvalidInput as error:
        raise SnapshotCorrupt(
            f"bucket {source.bucket_id}: its segments are not those of its metadata ({error.remedy}); run `delayed-tracker "
            "storage check --repair` on the storage"
        ) from error
    return last + 1
