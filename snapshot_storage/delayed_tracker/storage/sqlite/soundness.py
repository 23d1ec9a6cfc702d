"""Finds what is damaged in the two files of a storage although SQLite reads them: it keeps no checksums of its own.

What a recovery would read is read: the catalogues, the snapshots that they name, and the records that they do not contain.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final

from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.sqlite import catalogue, log_rows
from delayed_tracker.storage.sqlite.snapshots import read_entries, read_entry_count

_ENTRIES_AT_ONCE: Final = 64
"""A segment has some 100 KB at most, by default: a read stays far below 100 MB."""
_LOG_PAGE_BYTES: Final = 8 * 2**20


def damage_in(snapshots: sqlite3.Connection, log: sqlite3.Connection | None) -> Iterator[str]:
    """Yield a sentence for each damaged or missing snapshot, catalogue entry and range of records. O(bytes).

    Args:
        snapshots: of the snapshots' file, in the current format.
        log: of the add log's file, in the current format, if there is one.
    Raises:
        sqlite3.Error: a file cannot be read.
    """
    logged = [] if log is None else [(extent.topic, extent.cursor) for extent in log_rows.extents(log)]
    for topic, cursor in sorted({*catalogue.trackers(snapshots), *logged}):
        state = catalogue.read(snapshots, topic, cursor)
        name = f"subscription {cursor!r} of {topic!r}"
        for bucket_id in state.corrupt:
            yield f"{name}: the catalogue entry of bucket {bucket_id} is damaged"
        for entry in state.entries:
            try:
                _read_snapshot(snapshots, entry.bucket_id)
            except (SnapshotCorrupt, SnapshotNotFound) as error:
                yield f"{name}: {error.message}"
        if log is not None and not state.log_mark.log:
            for first, last in _damaged_records(log, topic, cursor, state.log_mark.number):
                yield f"{name}: records {first} to {last} of the add log are damaged or missing"


def _read_snapshot(connection: sqlite3.Connection, bucket_id: int) -> None:
    count = read_entry_count(connection, bucket_id)
    for first in range(0, count, _ENTRIES_AT_ONCE):
        read_entries(connection, bucket_id, first, min(first + _ENTRIES_AT_ONCE, count) - 1)


def _damaged_records(connection: sqlite3.Connection, topic: str, cursor: str, after: int) -> Iterator[tuple[int, int]]:
    while True:
        page = log_rows.read(connection, topic, cursor, after, _LOG_PAGE_BYTES)
        yield from page.corrupt
        if page.is_last:
            return
        after = page.records[-1].number
