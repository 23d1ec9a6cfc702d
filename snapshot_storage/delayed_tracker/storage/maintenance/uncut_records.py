"""Reads what the add log has of a tracker and its catalogue does not contain."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from delayed_tracker.core.values.changes import CursorMoved, OfferedThrough
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.storage.add_log import AddLog, LogExtent, LoggedRecord
from delayed_tracker.storage.codec.log_records import decode_change
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.maintenance.claiming import Attempt
from delayed_tracker.storage.protocol import LogMark

PAGE_BYTES: Final = 2**20
"""Size of a page, which bounds the memory."""


async def uncut_pages(
    log: AddLog, extent: LogExtent, mark: LogMark, attempt: Attempt
) -> AsyncIterator[Sequence[LoggedRecord]]:
    """Yield the records above a mark in pages, in order.

    Args:
        log: is taken over.
        extent: what it has of the tracker.
        mark: what the catalogue contains of it.
        attempt: performs each read.
    Raises:
        SnapshotCorrupt: records are damaged or gone, or a newer program's catalogue knows of more than there are.
        StorageUnavailable: try again.
    """
    after = mark.number
    if after > extent.last_number:
        raise _lost(extent, f"it ends at record {extent.last_number}, and the catalogue contains {after}")
    while after < extent.last_number:
        read = partial(log.read, extent.topic, extent.cursor, after=after, bytes_max=PAGE_BYTES)
        page = await attempt(read)
        numbers = [each.number for each in page.records]
        if page.corrupt or numbers != list(range(after + 1, after + 1 + len(numbers))) or not numbers:
            raise _lost(extent, f"records above {after} are damaged or gone")
        yield page.records
        after = numbers[-1]


async def claim_in_force(log: AddLog, extent: LogExtent, mark: LogMark, attempt: Attempt) -> Position:
    """Return the dispatcher's claim as a recovery would find it; BEFORE_ALL for none. Raises as :func:`uncut_pages`."""
    claim = mark.offered_through or BEFORE_ALL
    async for records in uncut_pages(log, extent, mark, attempt):
        for each in records:
            change = decode_change(each.record)
            if isinstance(change, OfferedThrough) and each.number > extent.claims_void_through:
                claim = change.position
            elif isinstance(change, CursorMoved):
                claim = min(claim, change.mark_delete)
    return claim


def without_void_claims(records: Sequence[LoggedRecord], extent: LogExtent) -> list[bytes]:
    """Return the records' bytes, except claims that are void since the storage was restored from a backup."""
    return [
        each.record
        for each in records
        if each.number > extent.claims_void_through or not isinstance(decode_change(each.record), OfferedThrough)
    ]


def _lost(extent: LogExtent, fault: str) -> SnapshotCorrupt:
    return SnapshotCorrupt(
        f"the add log of {extent.cursor!r} of {extent.topic!r} lacks records: {fault}; open the tracker with a service, "
        "which has the dispatcher offer again what is lost, then seal it and stop the service"
    )
