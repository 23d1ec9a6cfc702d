"""Consumed positions in catalogue entries: what a bucket was sealed with, without what is still tracked.

A summary has the positions of its bucket. Those of an entry without one that can be read, such as a foreign one, come from
the metadata of the snapshot: records of the add log are cut once the catalogue has what they say, so it must have all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.concurrent import all_answers
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageFormatUnsupported
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.summary import decode_summary

READS_AT_ONCE_MAX = 8
"""Snapshots that are read at the same time because their entries have no summary."""


async def consumed_entries(
    entries: Sequence[CatalogueEntry],
    remaining: Mapping[int, PositionBitmap],
    *,
    access: StorageAccess,
    counters: EffectCounters,
) -> list[CatalogueEntry]:
    """Return the entries whose ``consumed`` has changed, with the new value.

    Args:
        entries: the present catalogue.
        remaining: for each bucket id, the positions that are still tracked. Other entries are not looked at.
        access: to the snapshots.
        counters: count retries, and summaries that do not decode.
    Raises:
        StorageUnavailable: a snapshot could not be read; try again.
    """
    compared = await access.offload(_compared, entries, remaining)
    counters.summaries_unreadable += sum(bool(entry.summary) for entry in compared.unsummarized)

    async def read(entry: CatalogueEntry) -> CatalogueEntry:
        stored = await snapshot_positions(entry.bucket_id, access, counters)
        if stored is None:  # a recovery drops the bucket, and has the dispatcher replay what it had
            return entry
        return replace(entry, consumed=await access.offload(without, stored, remaining[entry.bucket_id]))

    found = await all_answers([partial(read, entry) for entry in compared.unsummarized], at_once=READS_AT_ONCE_MAX)
    changed = [new for old, new in zip(compared.unsummarized, found, strict=True) if new != old]
    return compared.changed + changed


@dataclass(frozen=True, slots=True)
class _Compared:
    changed: list[CatalogueEntry]
    unsummarized: list[CatalogueEntry]
    """Entries without a summary that decodes."""


def _compared(entries: Sequence[CatalogueEntry], remaining: Mapping[int, PositionBitmap]) -> _Compared:
    compared = _Compared([], [])
    for entry in entries:
        if (tracked := remaining.get(entry.bucket_id)) is None:
            continue
        if (stored := summary_positions(entry)) is None:
            compared.unsummarized.append(entry)
        elif (consumed := without(stored, tracked)) != entry.consumed:
            compared.changed.append(replace(entry, consumed=consumed))
    return compared


def summary_positions(entry: CatalogueEntry) -> PositionBitmap | None:
    """Return the positions that a bucket was sealed with, by its summary; None if it has none that can be read."""
    try:
        return decode_summary(entry.summary).bits.copy() if entry.summary else None
    except (SnapshotCorrupt, StorageFormatUnsupported):
        return None  # the snapshot's metadata has the same content


async def snapshot_positions(bucket_id: int, access: StorageAccess, counters: EffectCounters) -> PositionBitmap | None:
    """Return the positions that a snapshot's metadata names; None if it is missing or corrupt.

    Raises:
        StorageUnavailable: it could not be read; try again.
    """
    try:
        stored = await access.attempt(partial(access.storage.get_bucket_snapshot_metadata, bucket_id), counters)
        metadata = await access.offload(decode_metadata, stored)
    except (SnapshotNotFound, SnapshotCorrupt):
        return None
    return metadata.positions()


def without(stored: PositionBitmap, tracked: PositionBitmap | None) -> bytes:
    """Take the tracked positions out of ``stored``, and return the rest as an entry has it."""
    if tracked is not None:
        stored.subtract(tracked)
    return stored.serialize() if stored else b""
