"""Positions of the segments that a recovery skips, of a snapshot whose metadata does not tell positions by segment."""

from collections.abc import Awaitable, Callable

from delayed_tracker.core.rules.recovery import leading_due_groups, needs_metadata
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.storage.codec.codec import decode_segments
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.maintenance.verification import batch_end

ReadSegments = Callable[[int, int], Awaitable[list[bytes]]]
"""Reads entries of the snapshot. Arguments: first entry, last entry (inclusive)."""


async def read_due_bits(
    metadata: SnapshotMetadata,
    groups: SegmentGroups,
    cutoff_ms: int | None,
    access: StorageAccess,
    read: ReadSegments,
) -> PositionBitmap | None:
    """Return the positions of the leading groups of segments that are wholly due; None if the metadata is enough.

    Reads these segments, some at a time. Raises the errors of ``read``, and SnapshotCorrupt.
    """
    if metadata.segment_bits is not None or not needs_metadata(groups, cutoff_ms):
        return None
    counts, first = metadata.bounds.count[: groups.segment_of(leading_due_groups(groups, cutoff_ms))], 0
    due = PositionBitmap()
    while first < len(counts):
        last = batch_end(counts, first)
        rows = await access.offload(decode_segments, await read(first + 1, last + 1))
        due.add(rows.positions)
        first = last + 1
    return due
