"""Measures a storage by its catalogues, listings and log extents; no snapshot is read, except where no summary tells."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.concurrent import for_each
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageFormatUnsupported
from delayed_tracker.storage.maintenance.claiming import Attempt
from delayed_tracker.storage.maintenance.copy_marker import MARKER
from delayed_tracker.storage.maintenance.opening import WholeStorage
from delayed_tracker.storage.maintenance.working import Progress, Retries
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, SnapshotStore
from delayed_tracker.storage.summary import decode_summary

TRACKERS_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class TrackerSize:
    """Sizes of one tracker in a storage."""

    topic: str
    cursor: str
    epoch: int = 0
    writer: str = ""
    """Process that recorded the epoch; empty if it is not known."""
    bucket_count: int = 0
    """Entries of the catalogue."""
    snapshot_count: int = 0
    """Snapshots, catalogued or not."""
    snapshot_bytes: int = 0
    """Bytes of the catalogued snapshots, missing ones not counted."""
    remaining_count: int | None = 0
    """Positions that are neither consumed nor at or below mark-delete; None if a bucket has no readable summary."""
    mark_delete: Position | None = None
    log_bytes: int | None = None
    """Bytes of its records in the add log; None without a log."""
    problem: str = ""
    """Reason why its catalogue cannot be read; empty if it can."""


async def measure_storage(
    storage: WholeStorage, *, progress: Progress, attempt: Attempt | None = None
) -> list[TrackerSize]:
    """Return the sizes of all trackers that a catalogue knows, or the add log has records of, ascending.

    Costs one read of each catalogue and one listing of each tracker.

    Args:
        storage: is started.
        progress: called with trackers.
        attempt: performs each operation; repeats it by default.
    Raises:
        StorageUnavailable: try again.
    """
    attempt = attempt or Retries()
    log_bytes: Mapping[tuple[str, str], int] | None = None
    if storage.log is not None:
        extents = await attempt(storage.log.extents)
        log_bytes = {(extent.topic, extent.cursor): extent.record_bytes for extent in extents}
    keys = sorted({*await attempt(storage.snapshots.trackers), *(log_bytes or ())} - {MARKER})
    found: list[TrackerSize] = []

    async def measure(key: tuple[str, str]) -> None:
        bytes_of_log = None if log_bytes is None else log_bytes.get(key, 0)
        found.append(await _measure(storage.snapshots, key, bytes_of_log, attempt))
        progress(len(found), len(keys))

    await for_each(keys, measure, at_once=TRACKERS_AT_ONCE)
    return sorted(found, key=lambda tracker: (tracker.topic, tracker.cursor))


async def _measure(
    snapshots: SnapshotStore, key: tuple[str, str], log_bytes: int | None, attempt: Attempt
) -> TrackerSize:
    try:
        state = await attempt(partial(snapshots.list, *key))
    except (SnapshotCorrupt, StorageFormatUnsupported) as error:
        return TrackerSize(*key, remaining_count=None, log_bytes=log_bytes, problem=error.message)
    stored = await attempt(partial(snapshots.list_bucket_snapshots, *key))
    measured = await asyncio.to_thread(_measured, state)
    byte_count, remaining = 0, 0
    is_known = not state.corrupt
    for entry, sizes in zip(state.entries, measured, strict=True):
        if sizes is None:
            is_known = False
            byte_count += await _length(snapshots, entry.bucket_id, attempt)
        else:
            byte_count += sizes[0]
            remaining += sizes[1]
    return TrackerSize(
        *key,
        epoch=state.epoch,
        writer=state.writer,
        bucket_count=len(state.entries) + len(state.corrupt),
        snapshot_count=len(stored),
        snapshot_bytes=byte_count,
        remaining_count=remaining if is_known else None,
        mark_delete=None if state.mark_delete_in_force == BEFORE_ALL else state.mark_delete_in_force,
        log_bytes=log_bytes,
    )


def _measured(state: CatalogueState) -> list[tuple[int, int] | None]:
    """Return bytes and remaining positions of each entry; None if it has no readable summary."""
    return [_of_summary(entry, state.mark_delete_in_force) for entry in state.entries]


def _of_summary(entry: CatalogueEntry, mark_delete: Position) -> tuple[int, int] | None:
    try:
        summary = decode_summary(entry.summary)
    except (SnapshotCorrupt, StorageFormatUnsupported):
        return None
    bits = summary.bits
    with contextlib.suppress(InvalidInput):  # then none counts as consumed, as in a recovery
        bits.subtract(PositionBitmap.deserialize(entry.consumed))
    bits.remove_through(mark_delete)
    return summary.snapshot_bytes, len(bits)


async def _length(snapshots: SnapshotStore, bucket_id: int, attempt: Attempt) -> int:
    try:
        return await attempt(partial(snapshots.get_bucket_snapshot_length, bucket_id))
    except (SnapshotNotFound, SnapshotCorrupt):
        return 0
