"""Writes the records of one commit: by one statement if each part continues what is on record, else part by part.

Each statement gives up the interpreter's lock and waits for it again, behind an event loop that is busy with the next
requests. So a commit of many trackers is one INSERT into a view, whose trigger does the rest for each row.
"""

import contextlib
import sqlite3
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

from delayed_tracker.storage.add_log import LogAppend, require_no_gap
from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.sqlite.log_rows import checksum, own
from delayed_tracker.storage.sqlite.threads import transaction

ROW_BYTES: Final = 1024 * 1024
"""Size of a row's records, except of a row with a single larger one."""
_STATEMENT_ROWS_MAX: Final = 64
"""Most rows of one statement: their number is a part of its text, and the module keeps 128 prepared statements."""
_KNOWN_MAX: Final = 4096
"""Trackers whose ids are kept."""
_Row: TypeAlias = tuple[int, int, int, int, bytes, int, int, str]
"""Values of the view's columns, below."""
_APPENDING: Final = """
    CREATE TEMP VIEW appended (tracker_id, first_number, count, crc32c, payload, record_bytes, epoch, writer)
        AS SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL;
    CREATE TEMP TRIGGER append INSTEAD OF INSERT ON appended BEGIN
        UPDATE trackers SET last_number = last_number + NEW.count, record_bytes = record_bytes + NEW.record_bytes
            WHERE tracker_id = NEW.tracker_id AND last_number = NEW.first_number - 1 AND epoch = NEW.epoch
            AND NEW.writer IN (writer, '');
        SELECT RAISE(ROLLBACK, 'not continued') WHERE changes() <> 1;
        INSERT INTO records (tracker_id, first_number, count, crc32c, payload)
            VALUES (NEW.tracker_id, NEW.first_number, NEW.count, NEW.crc32c, NEW.payload);
    END;
"""
"""They belong to the connection, and are not in the file."""


class NotContinued(Exception):
    """A part does not continue its tracker's records as their owner: it is the first, is repeated, or is refused."""


class TrackerIds:
    """The ids of the trackers that appended last, which are the same as long as the file is open."""

    def __init__(self) -> None:
        self._ids: OrderedDict[tuple[str, str], int] = OrderedDict()

    def of(self, part: LogAppend) -> int:
        """Return the id of a part's tracker. Raises NotContinued if it is not kept."""
        key = (part.topic, part.cursor)
        if (tracker_id := self._ids.get(key)) is None:
            raise NotContinued
        self._ids.move_to_end(key)
        return tracker_id

    def keep(self, part: LogAppend, tracker_id: int) -> None:
        """Keep the id of a part's tracker; give up the one that was not used for longest if there are too many."""
        self._ids[part.topic, part.cursor] = tracker_id
        if len(self._ids) > _KNOWN_MAX:
            self._ids.popitem(last=False)


def prepare_to_append(connection: sqlite3.Connection) -> None:
    """Give a connection what :func:`append_known` needs."""
    connection.executescript(_APPENDING)


def append_known(connection: sqlite3.Connection, parts: Sequence[LogAppend], *, writer: str, ids: TrackerIds) -> None:
    """Add the records of all parts, each of which continues its tracker's records as their owner, and commit.

    Raises:
        NotContinued: a part does not. Nothing was written.
    """
    rows = [row for part in parts for row in _rows(ids.of(part), part, part.first_number, writer)]
    groups = [rows[start : start + _STATEMENT_ROWS_MAX] for start in range(0, len(rows), _STATEMENT_ROWS_MAX)]
    with transaction(connection) if len(groups) > 1 else contextlib.nullcontext():
        for group in groups:
            try:
                _insert(connection, group)
            except sqlite3.IntegrityError as error:  # by the trigger, which has rolled back
                raise NotContinued from error


def append_each(
    connection: sqlite3.Connection, parts: Sequence[LogAppend], *, writer: str, ids: TrackerIds
) -> list[tuple[str, str]]:
    """Add the records that are not on record, commit, and return the trackers whose parts are refused.

    Raises:
        InvalidInput: a part begins above the next number.
    """
    refused: list[tuple[str, str]] = []
    written: list[tuple[LogAppend, int]] = []
    with transaction(connection):
        for part in parts:
            after = part.first_number - 1
            try:
                tracker_id, last_number = own(
                    connection, part.topic, part.cursor, epoch=part.epoch, writer=writer, after=after
                )
            except SnapshotConflict:  # it is raised before anything of the part is written
                refused.append((part.topic, part.cursor))
                continue
            require_no_gap(part, last_number)
            written.append((part, tracker_id))
            for row in _rows(tracker_id, part, last_number + 1, writer):
                _insert(connection, [row])
    for part, tracker_id in written:  # not before the commit: the id of a new tracker that is rolled back is used again
        ids.keep(part, tracker_id)
    return refused


def _insert(connection: sqlite3.Connection, rows: Sequence[_Row]) -> None:
    """Let the trigger advance the trackers and store the rows, in one statement."""
    values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * len(rows))
    connection.execute(f"INSERT INTO appended VALUES {values}", tuple(chain.from_iterable(rows)))  # noqa: S608  # question marks alone


def _rows(tracker_id: int, part: LogAppend, first_number: int, writer: str) -> Iterator[_Row]:
    """Yield the rows of a part's records from a number on."""
    records = part.records[first_number - part.first_number :]
    start = 0
    while start < len(records):
        end, size = start + 1, len(records[start])
        while end < len(records) and size + len(records[end]) <= ROW_BYTES:
            size += len(records[end])
            end += 1
        block = records[start:end]
        payload = b"".join((struct.pack(f"<{len(block)}I", *map(len, block)), *block))
        key = (tracker_id, first_number + start, len(block))
        yield *key, checksum(key, payload), payload, size, part.epoch, writer
        start = end
