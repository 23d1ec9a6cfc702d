"""What a close records: for each catalogued bucket, which positions were consumed since it was sealed. Pure.

It bounds the duplicates after a restart, and nothing else: a position that is missing here is tracked once more, a
position that is here and was not consumed is brought back by the dispatcher's replay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.summary import decode_summary


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is to be written, and which buckets are left out of it."""

    moved: list[CatalogueEntry]
    """The entries that say something new, with ``consumed`` brought up to date."""
    unreadable: list[int]
    """Bucket ids whose summary does not decode: what was consumed of them comes back as duplicates."""


def checkpointed(entries: Sequence[CatalogueEntry], remaining: Mapping[int, PositionBitmap]) -> Checkpoint:
    """What a close has to record.

    Args:
        entries: the catalogue as it stands. Foreign entries without a summary are left alone.
        remaining: for each bucket id, the positions still tracked.
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
