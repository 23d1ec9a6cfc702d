"""The add log's part of a recovery: read the records that the catalogue does not contain, and apply them in order.

Pages are read and applied one after the other, so that memory holds what is tracked and one page. Records that cannot
be read end the dispatcher's claim: it offers everything above mark-delete again, which adds what the records had.
"""

from functools import partial
from typing import Final

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.changes import Added, Change, OfferedThrough, Removed, Rescheduled
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.telemetry.storage_log import RECORDS_LOST
from delayed_tracker.storage.add_log import LogExtent, LogPage
from delayed_tracker.storage.codec.log_records import decode_change
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.protocol import LogMark

PAGE_BYTES: Final = 2**20
"""Size of a page: its changes are applied in one go, in a worker thread unless they are few."""
ROWS_AT_ONCE: Final = 2**20
"""Rows from which on the changes of a page are applied before more are decoded: a record of equal deadlines is tiny."""
_SMALL_BYTES: Final = 4_096
"""Size of a page that is applied sooner than a worker thread answers."""


class LogReplay:
    """One reading of a tracker's records."""

    def __init__(self, key: TrackerKey, access: StorageAccess, counters: EffectCounters) -> None:
        self._key = key
        self._access = access
        self._counters = counters
        self.lost_count = 0
        """Records that are missing or cannot be read."""

    async def run(
        self,
        core: TrackerCore,
        mark: LogMark,
        extent: LogExtent,
        *,
        lost_from: Position | None,
        lost_count: int,
    ) -> int:
        """Apply the records to a core that has the catalogue's buckets, and return the bytes of the records.

        Args:
            core: has been recovered; nothing else was done with it.
            mark: what the catalogue contains of the log.
            extent: what the log has; it was taken over.
            lost_from: lowest position of the buckets that cannot be read; None if all can.
            lost_count: records that are known to be lost.
        Raises:
            StorageUnavailable: the core is to be discarded; try again.
            StorageFormatUnsupported: a newer program wrote records.
        """
        log = self._access.log
        assert log is not None
        core.begin_journal(mark.number, mark.offered_through or BEFORE_ALL)
        after, read_bytes, found_count = mark.number, 0, 0
        is_last = after >= extent.last_number
        at_hand = None if extent.page is None else extent.page.above(after)
        while not is_last:
            if at_hand is None:
                read = partial(log.read, *self._key, after=after, bytes_max=PAGE_BYTES)
                page = await self._access.attempt(read, self._counters)
            else:
                page, at_hand = at_hand, None
            found_count += len(page.records) + sum(last - first + 1 for first, last in page.corrupt)
            page_bytes = sum(len(each.record) for each in page.records)
            apply = partial(_apply, core, page, extent.claims_void_through)
            lost_count += apply() if page_bytes <= _SMALL_BYTES else await self._access.offload(apply)
            read_bytes += page_bytes
            after, is_last = max([after, *(each.number for each in page.records)]), page.is_last
        core.skip_changes(extent.last_number)  # if the last records cannot be read
        # Records that were cut although this catalogue does not contain them: it is older than the log.
        lost_count += max(0, extent.last_number - mark.number - found_count)
        self.lost_count = lost_count
        if lost_count:
            self._counters.log_records_corrupt += lost_count
            lost = SnapshotCorrupt(f"{lost_count} records of the add log are missing or fail their checksum")
            self._access.failures.failed(self._key, RECORDS_LOST, lost, retried=False)
            core.offer_again_from(BEFORE_ALL)
        elif lost_from is not None:
            core.offer_again_from(lost_from)
        return read_bytes


def _apply(core: TrackerCore, page: LogPage, claims_void_through: int) -> int:
    """Apply a page, without void claims; return the number of its records that cannot be read."""
    lost_count = sum(last - first + 1 for first, last in page.corrupt)
    numbers: list[int] = []
    changes: list[Change] = []
    row_count = 0
    for each in page.records:
        try:
            change = decode_change(each.record)
        except SnapshotCorrupt:
            lost_count += 1
            continue
        if not isinstance(change, OfferedThrough) or each.number > claims_void_through:
            numbers.append(each.number)
            changes.append(change)
            row_count += _rows_of(change)
        if row_count >= ROWS_AT_ONCE:
            core.replay(numbers, changes)
            numbers, changes, row_count = [], [], 0
    if changes:
        core.replay(numbers, changes)
    return lost_count


def _rows_of(change: Change) -> int:
    match change:
        case Added(indexes) | Rescheduled(indexes):
            return len(indexes)
        case Removed(positions):
            return len(positions)
    return 0
