"""Live buckets of a tracker as pieces to read, planned from its catalogue without reading a segment.

The rules are those of a recovery (``delayed_tracker.core.rules.recovery``): of several buckets with one position, the one
with the highest seal number has it; consumed positions and those at or below mark-delete are gone. A piece names the
segments to read, and what is gone of their bucket, so that tasks need no catalogue and no other bucket.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.rules.recovery import KeptBucket, RecoverableBucket, plan_recovery
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.maintenance.recoverable import consumed_in, from_summary, summaries_of
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore
from delayed_tracker.storage.shared.document_store import NamesSnapshots

ROWS_AT_ONCE: Final = 1 << 18
"""Rows that one request reads, about: 5 MB stored, 6 MB decoded. A segment is never divided."""
_ROW_BYTES: Final = 20
"""Assumed stored bytes of a row, for a bucket whose size the catalogue does not have."""


@dataclass(frozen=True, slots=True)
class BucketPiece:
    """Consecutive segments of one live bucket."""

    topic: str
    subscription: str
    bucket_id: int
    seal_number: int | None
    pointer: bytes
    """Place of the snapshot in the storage, if the bucket id does not say it: ``NamesSnapshots.pointer_of``."""
    reads: tuple[tuple[int, int], ...]
    """First and last segment of each request, from 1, both included."""
    index_count: int
    """Rows of the segments, those that are gone included."""
    size_bytes: int
    """Stored bytes, about."""
    gone: bytes
    """Positions of the bucket that are not pending (``PositionBitmap.serialize``); empty means none."""


@dataclass(frozen=True, slots=True)
class LostBucket:
    """A bucket, or a whole catalogue, that cannot be read."""

    topic: str
    subscription: str
    bucket_id: int | None
    """None for a whole catalogue."""
    error: str


@dataclass(frozen=True, slots=True)
class TrackerBuckets:
    """The live buckets of one tracker."""

    pieces: tuple[BucketPiece, ...] = ()
    lost: tuple[LostBucket, ...] = ()


async def live_buckets(storage: SnapshotStore, topic: str, subscription: str, *, piece_bytes: int) -> TrackerBuckets:
    """Return the live buckets of a tracker; none if there is no such tracker.

    Args:
        storage: is started.
        topic: its name.
        subscription: its name.
        piece_bytes: stored bytes of a piece, about.
    Raises:
        StorageUnavailable, StorageFormatUnsupported: the catalogue cannot be read.
    Cost: reads the catalogue, and the metadata of buckets without a summary; O(bitmaps).
    """
    try:
        state = await storage.list(topic, subscription)
    except SnapshotCorrupt as error:
        return TrackerBuckets(lost=(LostBucket(topic, subscription, None, f"its catalogue: {error.message}"),))
    lost = [
        LostBucket(topic, subscription, bucket_id, f"bucket {bucket_id}: its catalogue entry is damaged")
        for bucket_id in state.corrupt
    ]
    buckets: dict[int, RecoverableBucket] = {}
    for entry in state.entries:
        try:
            buckets[entry.bucket_id] = await _recoverable(storage, entry)
        except (SnapshotNotFound, SnapshotCorrupt) as error:
            lost.append(lost_bucket(topic, subscription, entry.bucket_id, error))
    plan = plan_recovery(list(buckets.values()), mark_delete=state.mark_delete_in_force, cutoff_ms=None)
    pieces: list[BucketPiece] = []
    for kept in plan.keep:
        bucket = buckets[kept.bucket_id]
        pointer = storage.pointer_of(kept.bucket_id) if isinstance(storage, NamesSnapshots) else b""
        gone = _gone(bucket, kept)
        pieces += (
            BucketPiece(topic, subscription, kept.bucket_id, bucket.seal_number, pointer, reads, count, size, gone)
            for reads, count, size in _divided(kept.groups, kept.snapshot_bytes, piece_bytes)
        )
    return TrackerBuckets(tuple(pieces), tuple(lost))


async def read_rows(
    storage: SnapshotStore, piece: BucketPiece, gone: PositionBitmap, first: int, last: int
) -> IndexColumns:
    """Return what is pending in segments ``first`` to ``last`` of a piece, one of its ``reads``.

    Args:
        storage: is started.
        piece: of one of its buckets.
        gone: ``piece.gone``, decoded.
        first: number of a segment, from 1.
        last: number of a segment, included.
    Raises:
        SnapshotNotFound, SnapshotCorrupt, StorageUnavailable: as the storage does.
    """
    if isinstance(storage, NamesSnapshots):
        storage.learn(piece.topic, piece.subscription, piece.bucket_id, piece.pointer)
    rows = decode_segments(await storage.get_bucket_snapshot_segments(piece.bucket_id, first, last))
    return rows.take(~gone.contains(rows.positions)) if gone else rows


def lost_bucket(topic: str, subscription: str, bucket_id: int, error: SnapshotNotFound | SnapshotCorrupt) -> LostBucket:
    """Return what is reported of a bucket whose snapshot cannot be read."""
    hint = "; if a service has replaced it meanwhile, run again" if isinstance(error, SnapshotNotFound) else ""
    return LostBucket(topic, subscription, bucket_id, f"bucket {bucket_id}: {error.message}{hint}")


async def _recoverable(storage: SnapshotStore, entry: CatalogueEntry) -> RecoverableBucket:
    """Return a bucket from its summary, or from the metadata of its snapshot if it has no summary that can be read."""
    (summary,) = summaries_of([entry])
    if summary is not None:
        return from_summary(entry, summary)
    metadata = decode_metadata(await storage.get_bucket_snapshot_metadata(entry.bucket_id))
    bits = metadata.positions()
    return RecoverableBucket(
        entry.bucket_id,
        entry.first,
        entry.last,
        SegmentGroups.of(metadata.bounds),
        bits=bits,
        consumed=consumed_in(entry),
        snapshot_bytes=_ROW_BYTES * int(metadata.bounds.count.sum()),
        seal_number=entry.seal_number,
        is_foreign=not entry.summary,
    )


def _gone(bucket: RecoverableBucket, kept: KeptBucket) -> bytes:
    assert bucket.bits is not None
    gone = bucket.bits.copy()
    gone.subtract(kept.bits)
    return gone.serialize() if gone else b""


def _divided(
    groups: SegmentGroups, snapshot_bytes: int, piece_bytes: int
) -> Iterator[tuple[tuple[tuple[int, int], ...], int, int]]:
    """Yield the requests, rows and bytes of each piece of a bucket.

    Args:
        groups: of its segments.
        snapshot_bytes: of all segments.
        piece_bytes: of a piece, about; one request at least.
    """
    ends = np.cumsum(groups.bounds.count)
    total = int(ends[-1]) if len(ends) else 0
    rows_max = piece_bytes * total // max(1, snapshot_bytes)
    reads: list[tuple[int, int]] = []
    first, begin = 0, 0
    while first < len(ends):
        base = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, base + min(ROWS_AT_ONCE, rows_max), side="right")))
        reads.append((groups.segment_of(first) + 1, groups.segment_of(stop)))
        end = int(ends[stop - 1])
        if stop == len(ends) or end - begin >= rows_max:
            yield tuple(reads), end - begin, snapshot_bytes * (end - begin) // max(1, total)
            reads, begin = [], end
        first = stop
