"""Compares the service's snapshots with Pulsar's for the same ledgers: ranges, segments, rows, bitmaps, bytes.

The demo adds the messages with all deadlines shifted by a constant. Rows of the service's snapshots shifted back must
be Pulsar's rows, and encoding them again must give exactly Pulsar's bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from delayed_tracker.cli.tracker.offering import shifted
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.snapshot.v1.snapshot_pb2 import SnapshotMetadata
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore


class ForeignSnapshot(Protocol):
    """Snapshot of these ledgers that another program made."""

    @property
    def first_ledger_id(self) -> int:
        """First ledger of its bucket."""

    @property
    def last_ledger_id(self) -> int:
        """Last ledger of its bucket."""

    @property
    def metadata(self) -> bytes:
        """Encoded metadata: a ``SnapshotMetadata``."""

    @property
    def segments(self) -> tuple[bytes, ...]:
        """Encoded segments, in the order of their deadlines."""


@dataclass(frozen=True, slots=True)
class BucketComparison:
    """One of Pulsar's stored buckets, compared with the service's bucket over the same ledgers."""

    first_ledger_id: int
    last_ledger_id: int
    index_count: int
    segment_count: int
    range_equal: bool
    """True if the service has a bucket over exactly these ledgers."""
    segments_equal: bool
    """True if both have the same segments: count, first and last deadline of each."""
    indexes_equal: bool
    """True if both have the same rows in the same order."""
    bitmaps_equal: bool
    """True if both have the same positions in each segment's metadata."""
    bytes_equal: bool
    """True if all segments and all metadata, encoded, are the bytes that Pulsar wrote.

    The order of a segment's ledgers in the metadata is not compared: it is a protobuf map, in hash order for Pulsar and
    ascending for the service.
    """

    @property
    def equal(self) -> bool:
        """True if everything is equal."""
        contents = self.segments_equal and self.indexes_equal and self.bitmaps_equal and self.bytes_equal
        return self.range_equal and contents


async def compare_snapshots(
    theirs: Sequence[ForeignSnapshot], store: SnapshotStore, entries: Sequence[CatalogueEntry], *, shift_ms: int
) -> list[BucketComparison]:
    """Compare each snapshot of another program with the service's snapshot over the same ledgers.

    Args:
        theirs: snapshots of the other program.
        store: the service's storage, started.
        entries: the service's catalogue.
        shift_ms: shift of the service's deadlines.
    Returns: one comparison for each of ``theirs``, in their order.
    Raises:
        SnapshotCorrupt: stored bytes do not decode.
    """
    ours = {(entry.first.ledger_id, entry.last.ledger_id): entry for entry in entries}
    return [
        await _compare(snapshot, store, ours.get((snapshot.first_ledger_id, snapshot.last_ledger_id)), shift_ms)
        for snapshot in theirs
    ]


async def _compare(
    theirs: ForeignSnapshot, store: SnapshotStore, ours: CatalogueEntry | None, shift_ms: int
) -> BucketComparison:
    their_metadata = decode_metadata(theirs.metadata)
    their_segments = [decode_segments([segment]) for segment in theirs.segments]
    their_rows = IndexColumns.concat(their_segments)
    our_segments = [] if ours is None else await _read_segments(store, ours, shift_ms)
    our_rows = IndexColumns.concat(our_segments)
    our_bounds = _bounds(our_segments)
    bounds = their_metadata.bounds
    segments_equal = (
        len(our_segments) == len(their_segments)
        and all(len(our) == len(their) for our, their in zip(our_segments, their_segments, strict=True))
        and np.array_equal(our_bounds.min_deliver_at_ms, bounds.min_deliver_at_ms)
        and np.array_equal(our_bounds.max_deliver_at_ms, bounds.max_deliver_at_ms)
    )
    bytes_equal = bitmaps_equal = False
    if ours is not None:
        encoded = encode_snapshot(SealedIndexes(our_rows, our_bounds, ours.first, ours.last))
        same_metadata = _maps_ordered(encoded.metadata) == _maps_ordered(theirs.metadata)
        bytes_equal = same_metadata and list(encoded.segments) == list(theirs.segments)
        bitmaps_equal = decode_metadata(encoded.metadata).segment_bits == their_metadata.segment_bits
    return BucketComparison(
        first_ledger_id=theirs.first_ledger_id,
        last_ledger_id=theirs.last_ledger_id,
        index_count=len(their_rows),
        segment_count=len(their_segments),
        range_equal=ours is not None,
        segments_equal=segments_equal,
        indexes_equal=list(our_rows) == list(their_rows),
        bitmaps_equal=bitmaps_equal,
        bytes_equal=bytes_equal,
    )


async def _read_segments(store: SnapshotStore, ours: CatalogueEntry, shift_ms: int) -> list[IndexColumns]:
    metadata = decode_metadata(await store.get_bucket_snapshot_metadata(ours.bucket_id))
    stored = await store.get_bucket_snapshot_segments(ours.bucket_id, 1, len(metadata.bounds))
    return [shifted(decode_segments([segment]), -shift_ms) for segment in stored]


def _maps_ordered(metadata: bytes) -> bytes:
    """Return the same message with the entries of its maps in ascending order; everything else keeps its bytes."""
    return SnapshotMetadata.FromString(metadata).SerializeToString(deterministic=True)


def _bounds(segments: Sequence[IndexColumns]) -> SegmentBounds:
    return SegmentBounds(
        count=np.array([len(rows) for rows in segments], np.int64),
        min_deliver_at_ms=np.array([rows.deliver_at_ms[0] for rows in segments], np.int64),
        max_deliver_at_ms=np.array([rows.deliver_at_ms[-1] for rows in segments], np.int64),
    )
