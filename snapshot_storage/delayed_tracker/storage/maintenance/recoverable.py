"""Recoverable buckets: what a catalogue entry, and if need be its snapshot's metadata, tell a recovery. Pure."""

from collections.abc import Sequence

from delayed_tracker.core.rules.recovery import RecoverableBucket
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.summary import BucketSummary, decode_summary


def summaries_of(entries: Sequence[CatalogueEntry]) -> list[BucketSummary | None]:
    """Return the summary of each entry; None if the entry has none or it is not readable."""
    found: list[BucketSummary | None] = []
    for entry in entries:
        try:
            found.append(decode_summary(entry.summary) if entry.summary else None)
        except (SnapshotCorrupt, StorageFormatUnsupported):
            found.append(None)  # the snapshot's metadata has the same content
    return found


def consumed_in(entry: CatalogueEntry) -> PositionBitmap:
    """Return the positions that the entry names as consumed; the caller owns them."""
    try:
        return PositionBitmap.deserialize(entry.consumed)
    except InvalidInput:
        # Unreadable: these positions are tracked again, which gives duplicates but loses nothing.
        return PositionBitmap()


def from_summary(entry: CatalogueEntry, summary: BucketSummary) -> RecoverableBucket:
    """Return a bucket whose snapshot need not be read."""
    return RecoverableBucket(
        bucket_id=entry.bucket_id,
        first=entry.first,
        last=entry.last,
        groups=summary.groups,
        bits=summary.bits,
        consumed=consumed_in(entry),
        snapshot_bytes=summary.snapshot_bytes,
        seal_number=entry.seal_number,
    )


def from_metadata(
    entry: CatalogueEntry,
    metadata: SnapshotMetadata,
    groups: SegmentGroups,
    due_bits: PositionBitmap | None,
    snapshot_bytes: int,
) -> RecoverableBucket:
    """Return a bucket whose metadata was read.

    Args:
        entry: of the catalogue.
        metadata: of its snapshot.
        groups: of its segments.
        due_bits: of ``read_due_bits``.
        snapshot_bytes: size of the snapshot.
    """
    return RecoverableBucket(
        bucket_id=entry.bucket_id,
        first=entry.first,
        last=entry.last,
        groups=groups,
        bits=metadata.union,
        segment_bits=metadata.segment_bits,
        due_bits=due_bits,
        consumed=consumed_in(entry),
        snapshot_bytes=snapshot_bytes,
        seal_number=entry.seal_number,
        is_foreign=not entry.summary,
    )
