"""Writes the records of one commit: of trackers whose ids are known all at once, of the others one by one.

Each statement gives up the interpreter's lock and waits for it again, behind an event loop that is busy with the next
requests. So a commit takes as few statements as it can: one for the trackers of a group, one for their rows.
"""

import sqlite3
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

from delayed_tracker.storage.add_log import LogAppend, require_no_gap
from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.sqlite.log_rows import checksum, own

T = TypeVar("T")

ROW_BYTES: Final = 1024 * 1024
"""Size of a row's records, except of a row with a single larger one."""
_GROUP_MAX: Final = 64
"""Most rows of a statement. Its text depends on their number, so that groups are powers of two."""
_KNOWN_MAX: Final = 4096
"""Trackers whose ids are kept, in order of use."""


class NotContinued(Exception):
    """A tracker is not known, or its records are not continued by their owner: the transaction is to be rolled back."""


class TrackerIds:
    """The ids of the trackers that appended last, which are the same as long as the file is open."""

    def __init__(self) -> None:
        self._ids: OrderedDict[tuple[str, str], int] = OrderedDict()

    def of(self, part: LogAppend) -> int | None:
        """Return the id of a part's tracker, or None if it is not known."""
        key = (part.topic, part.cursor)
        if (tracker_id := self._ids.get(key)) is not None:
            self._ids.move_to_end(key)
        return tracker_id

    def keep(self, part: LogAppend, tracker_id: int) -> None:
        """Keep the id of a part's tracker instead of the one that was not used for longest."""
        self._ids[part.topic, part.cursor] = tracker_id
        if len(self._ids) > _KNOWN_MAX:
            self._ids.popitem(last=False)


def append_known(connection: sqlite3.Connection, parts: Sequence[LogAppend], *, writer: str, ids: TrackerIds) -> None:
    """Add the records of all parts, each of which continues its tracker's records as their owner.

    Runs in the caller's transaction.

    Raises:
        NotContinued: some part does not: it is the first of an owner, is repeated, or is refused.
    """
    known = [(tracker_id, part) for part in parts if (tracker_id := ids.of(part)) is not None]
    if len(known) < len(parts):
        raise NotContinued
    for group in _groups(known):
        values = chain.from_iterable(
            (tracker_id, part.epoch, part.first_number - 1, len(part.records), sum(map(len, part.records)))
            for tracker_id, part in group
        )
        advanced = connection.execute(
            "UPDATE trackers SET last_number = column3 + column4, record_bytes = record_bytes + column5 "  # noqa: S608  # placeholders
            f"FROM (VALUES {_placeholders(5, len(group))}) "
            "WHERE tracker_id = column1 AND epoch = column2 AND last_number = column3 AND ? IN (writer, '')",
            (*values, writer),
        )
        if advanced.rowcount != len(group):
            raise NotContinued
    _insert(
        connection, [row for tracker_id, part in known for row in _rows(tracker_id, part.first_number, part.records)]
    )


def append_each(
    connection: sqlite3.Connection, parts: Sequence[LogAppend], *, writer: str, ids: TrackerIds
) -> list[tuple[str, str]]:
    """Add the records that are not on record, and return the trackers whose parts are refused.

    Runs in the caller's transaction.

    Raises:
        InvalidInput: a part begins above the next number.
    """
    refused: list[tuple[str, str]] = []
    for part in parts:
        try:
            tracker_id, last_number = own(
                connection, part.topic, part.cursor, epoch=part.epoch, writer=writer, after=part.first_number - 1
            )
        except SnapshotConflict:  # it is raised before anything of the part is written
            refused.append((part.topic, part.cursor))
            continue
        require_no_gap(part, last_number)
        ids.keep(part, tracker_id)
        records = part.records[last_number + 1 - part.first_number :]
        connection.execute(
            "UPDATE trackers SET last_number = last_number + ?, record_bytes = record_bytes + ? WHERE tracker_id = ?",
            (len(records), sum(map(len, records)), tracker_id),
        )
        _insert(connection, list(_rows(tracker_id, last_number + 1, records)))
    return refused


def _insert(connection: sqlite3.Connection, rows: Sequence[tuple[int, int, int, int, bytes]]) -> None:
    for group in _groups(rows):
        connection.execute(
            "INSERT INTO records (tracker_id, first_number, count, crc32c, payload) "  # noqa: S608  # placeholders
            f"VALUES {_placeholders(5, len(group))}",
            tuple(chain.from_iterable(group)),
        )


def _placeholders(columns: int, rows: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def _groups(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in groups whose sizes are powers of two, the largest first."""
    start = 0
    while (left := len(items) - start) > 0:
        size = min(_GROUP_MAX, 1 << (left.bit_length() - 1))
        yield items[start : start + size]
        start += size


def _rows(tracker_id: int, first_number: int, records: Sequence[bytes]) -> Iterator[tuple[int, int, int, int, bytes]]:
    """Yield rows of consecutive records: tracker, first number, count, checksum, payload."""
    start = 0
    while start < len(records):
        end, size = start + 1, len(records[start])
        while end < len(records) and (size := size + len(records[end])) <= ROW_BYTES:
            end += 1
        block = records[start:end]
        payload = b"".join((struct.pack(f"<{len(block)}I", *map(len, block)), *block))
        key = (tracker_id, first_number + start, len(block))
        yield *key, checksum(key, payload), payload
        start = end
