"""Explanation of one position: its place, its state and its next delivery, as fields and as a sentence."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, IndexColumns, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.verb_results import Explanation, MessagePlace
from delayed_tracker.service.queries.segment_reader import SegmentReader
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.maintenance.verification import batch_end

_UNITS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
_ON_DISK = (MessagePlace.LOADING_SEGMENT, MessagePlace.UNLOADED_SEGMENT)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def in_two_units(duration_ms: int) -> str:
    """Return the duration in its two largest units, rounded down: "3 d 4 h"."""
    parts: list[str] = []
    for unit_ms, name in _UNITS_MS:
        count, duration_ms = divmod(duration_ms, unit_ms)
        if count or parts:
            parts.append(f"{count} {name}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 ")) or "0 ms"


@dataclass(frozen=True, slots=True)
class Explained:
    """Facts about a position, from memory and from its snapshot."""

    found: Explanation
    segment: int | None
    """Segment of the bucket that contains the position; None if its snapshot was not read or does not contain it."""
    sentence: str
    now_ms: int


def require_entry(position: Position) -> None:
    """Raise InvalidInput unless the position is that of an entry."""
    if position.ledger_id < 0:
        raise InvalidInput("position.ledger_id", position.ledger_id, "give 0 or more")
    if not 0 <= position.entry_id <= ENTRY_ID_MAX:
        raise InvalidInput("position.entry_id", position.entry_id, f"give 0 to {ENTRY_ID_MAX}")


async def explain(host: TrackerHost, access: StorageAccess, position: Position) -> Explained:
    """Explain a position. Read its segment if that is not in memory.

    Raises:
        StorageUnavailable: try again.
    """
    found = host.core_for_reading().explain(position, host.now())
    segment, damage = None, ""
    while found.place in _ON_DISK and found.bucket_id is not None:
        asked = found
        try:
            segment, deliver_at_ms = await _on_disk(host, access, found.bucket_id, position)
        except (SnapshotNotFound, SnapshotCorrupt) as error:
            damage = error.message
            deliver_at_ms = None
        found = host.core_for_reading().explain(position, host.now())
        if found != asked:
            segment, damage = None, ""
            continue  # the position moved while its segment was read
        if deliver_at_ms is not None:
            available_at_ms = host.core_for_reading().limits.due_from_ms(deliver_at_ms)
            found = replace(found, deliver_at_ms=deliver_at_ms, available_at_ms=available_at_ms)
        break
    now_ms = host.now_ms()
    return Explained(
        found, segment, _sentence(found, host.core_for_reading().mark_delete, now_ms, segment, damage), now_ms
    )


async def _on_disk(
    host: TrackerHost, access: StorageAccess, bucket_id: int, position: Position
) -> tuple[int | None, int | None]:
    """Return the segment that contains a position, and its deadline there. A value is None if it was not found."""
    reader = SegmentReader(access, bucket_id, host.counters)
    metadata = await reader.metadata()
    if metadata.segment_bits is None:
        return await _searched(reader, metadata, position)
    segment = next((number for number, bits in enumerate(metadata.segment_bits) if bits.has(position)), None)
    if segment is None:
        return None, None
    row = _row_of(await reader.rows(segment, segment), position)
    return segment, None if row is None else row[1]


async def _searched(
    reader: SegmentReader, metadata: SnapshotMetadata, position: Position
) -> tuple[int | None, int | None]:
    """Return what :func:`_on_disk` does from a snapshot whose metadata does not tell the segment: read it in order."""
    counts, first = metadata.bounds.count, 0
    if not metadata.positions().has(position):
        return None, None
    while first < len(counts):
        last = batch_end(counts, first)
        found = _row_of(await reader.rows(first, last), position)
        if found is not None:
            row, deliver_at_ms = found
            return first + int(np.searchsorted(np.cumsum(counts[first : last + 1]), row, side="right")), deliver_at_ms
        first = last + 1
    return None, None


def _row_of(rows: IndexColumns, position: Position) -> tuple[int, int] | None:
    """Return the row of a position, and its deadline; None if the rows have none."""
    at = np.flatnonzero((rows.ledger_id == position.ledger_id) & (rows.entry_id == position.entry_id))
    return (int(at[0]), int(rows.deliver_at_ms[at[0]])) if len(at) else None


def _sentence(found: Explanation, mark_delete: Position, now_ms: int, segment: int | None, damage: str) -> str:
    match found.place:
        case MessagePlace.NOT_TRACKED:
            return (
                "It is not tracked: it was never offered, was due when it was offered, was delivered and acknowledged, or "
                "was cancelled. If the cursor has not acknowledged it, the dispatcher's next replay offers it again."
            )
        case MessagePlace.ACKNOWLEDGED:
            return f"The cursor has acknowledged it: mark-delete is at {mark_delete}. It is not delivered again."
        case MessagePlace.LEASED:
            return (
                f"It was due at {_moment(found.deliver_at_ms)}, was delivered, and is held under lease {found.lease_id}. "
                f"Unless it is acknowledged before, polls hand it out again {_when(found.available_at_ms, now_ms)}."
            )
    where = {
        MessagePlace.MEMORY: "It waits in memory",
        MessagePlace.LOADED_SEGMENT: f"It waits in memory, read from bucket {found.bucket_id}",
        MessagePlace.LOADING_SEGMENT: f"It is on disk in bucket {found.bucket_id}, from which segments are being read",
        MessagePlace.UNLOADED_SEGMENT: f"It is on disk in bucket {found.bucket_id}",
    }[found.place]
    if segment is not None:
        where += f", segment {segment}"
    if damage:
        return (
            f"{where}, but its snapshot cannot be read: {damage} Once delivery needs it, the bucket is dropped and the "
            "dispatcher is asked to replay."
        )
    if found.deliver_at_ms is None or found.available_at_ms is None:
        return f"{where}, but the snapshot does not hold it: verify the snapshots."
    due = f"{where}; its deadline is {_moment(found.deliver_at_ms)}"
    if found.available_at_ms > now_ms:
        return f"{due}, and polls hand it out {_when(found.available_at_ms, now_ms)}."
    if found.place in _ON_DISK:
        return f"{due}. It is due: a poll hands it out as soon as its segment has been read."
    return f"{due}. It is due: the next poll with room hands it out, after those that were due earlier."


def _when(moment_ms: int | None, now_ms: int) -> str:
    assert moment_ms is not None
    return f"from {_moment(moment_ms)} on (in {in_two_units(max(moment_ms - now_ms, 0))})"


def _moment(moment_ms: int | None) -> str:
    """Return the time in UTC, or the number of milliseconds if the year is outside ``datetime``'s range."""
    assert moment_ms is not None
    try:
        moment = (_EPOCH + timedelta(milliseconds=moment_ms)).replace(tzinfo=None)
        return moment.isoformat(sep=" ", timespec="milliseconds") + "Z"
    except OverflowError:
        return f"{moment_ms} ms"
