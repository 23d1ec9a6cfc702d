"""A mark-delete position that falls, in the catalogue: what was trimmed under the old one must not come back.

A bucket's entry tells which of its positions are consumed, but not those at or below mark-delete, which a recovery drops
anyway. Before the position falls, they count as consumed. So all entries change together with the position, in one write.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.consumed_positions import (
    READS_AT_ONCE_MAX,
    snapshot_positions,
    summary_positions,
    without,
)
from delayed_tracker.storage.concurrent import all_answers
from delayed_tracker.storage.protocol import CatalogueEntry


async def fallen_entries(
    entries: Sequence[CatalogueEntry],
    remaining: Mapping[int, PositionBitmap],
    mark_delete: Position,
    *,
    access: StorageAccess,
    counters: EffectCounters,
) -> list[CatalogueEntry]:
    """Return the entries with everything consumed that is not tracked any more, and under a lower mark-delete position.

    Args:
        entries: all of the catalogue. Those without a readable summary, such as foreign ones, need a read of their snapshots.
        remaining: for each bucket id, the positions that are still tracked; none of a bucket that is left out.
        mark_delete: the position from now on; BEFORE_ALL if the cursor stands before the first entry.
        access: to the snapshots.
        counters: count retries.
    Raises:
        StorageUnavailable: a snapshot could not be read; try again.
    """

    async def fallen(entry: CatalogueEntry) -> CatalogueEntry:
        stored = summary_positions(entry) or await snapshot_positions(entry.bucket_id, access, counters)
        known = None if mark_delete == BEFORE_ALL else mark_delete
        if stored is None:  # a recovery drops the bucket, and has the dispatcher replay what it had
            return replace(entry, mark_delete=known)
        consumed = await access.offload(without, stored, remaining.get(entry.bucket_id))
        return replace(entry, mark_delete=known, consumed=consumed)

    return await all_answers([partial(fallen, entry) for entry in entries], at_once=READS_AT_ONCE_MAX)
