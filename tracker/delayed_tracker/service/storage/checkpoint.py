"""Consumed positions of each catalogued bucket, which a close records. Pure.

They only reduce the duplicates after a restart. A consumed position that is not recorded is tracked again. A recorded
position that was not consumed returns with the dispatcher's replay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.summary import decode_summary


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Catalogue entries to write, and the buckets that are left out."""

    moved: list[CatalogueEntry]
    """Entries whose ``consumed`` has changed, with the new value."""
    unreadable: list[int]
    """Ids of buckets whose summary does not decode. Their consumed positions return as duplicates."""


def checkpointed(entries: Sequence[CatalogueEntry], remaining: Mapping[int, PositionBitmap]) -> Checkpoint:
    """Return the changes that a close must record.

    Args:
        entries: the present catalogue. Foreign entries, which have no summary, are not changed.
        remaining: for each bucket id, the positions that are still tracked.
    """
    moved, unreadable = [], []
    for entry in entries:
        tracked = remaining.get(entry.bucket_id)
        if tracked is None or not entry.summary:
            continue
        try:
            consumed = decode_summary(entry.summary).bits.copy()
        except (SnapshotCorrupt, StorageFormatUnsupported):
            unreadable.append(entry.bucket_id)
            continue
        consumed.subtract(tracked)
        stored = consumed.serialize() if consumed else b""
        if stored != entry.consumed:
            moved.append(replace(entry, consumed=stored))
    return Checkpoint(moved, unreadable)
