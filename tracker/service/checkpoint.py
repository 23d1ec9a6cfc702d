"""What a close records: for each catalogued bucket, which positions were consumed since it was sealed. Pure.

It bounds the duplicates after a restart, and nothing else: a position that is missing here is tracked once more, a
position that is here and was not consumed is brought back by the dispatcher's replay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from snapshot_storage.protocol import CatalogueEntry
from snapshot_storage.summary import decode_summary
from tracker.core.position_bitmap import PositionBitmap


def checkpointed(entries: Sequence[CatalogueEntry], remaining: Mapping[int, PositionBitmap]) -> list[CatalogueEntry]:
    """The entries that say something new, with ``consumed`` brought up to date.

    Args:
        entries: the catalogue as it stands. Foreign entries without a summary are left alone.
        remaining: for each bucket id, the positions still tracked.
    Raises:
        SnapshotCorrupt: a summary does not decode.
    """
    moved = []
    for entry in entries:
        tracked = remaining.get(entry.bucket_id)
        if tracked is None or not entry.summary:
            continue
        consumed = decode_summary(entry.summary).bits.copy()
        consumed.subtract(tracked)
        stored = consumed.serialize() if consumed else b""
        if stored != entry.consumed:
            moved.append(replace(entry, consumed=stored))
    return moved
