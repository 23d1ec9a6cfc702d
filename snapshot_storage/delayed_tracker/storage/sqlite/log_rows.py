"""SQL statements for the add log, except those of an append: plain functions on a connection, run in one of its threads.

A row has consecutive records of one commit: their lengths as little-endian u32, then their bytes. Its CRC32C covers
tracker, first number and count as well. A number up to the last one that no sound row has is corrupt, whether its row is
damaged, under a wrong key, or gone.
"""

import sqlite3
import struct
import uuid
from collections.abc import Iterator
from typing import Final

import google_crc32c

from delayed_tracker.storage.add_log import LogExtent, LoggedRecord, LogPage
from delayed_tracker.storage.protocol import require_epoch
from delayed_tracker.storage.sqlite.threads import read_transaction, transaction

_LENGTH_BYTES: Final = 4
_CHECKED: Final = struct.Struct("<qqq")
_EXTENT: Final = "topic, cursor, epoch, last_number, record_bytes, claims_void_through"


def identify(connection: sqlite3.Connection, inode: int) -> str:
    """Return the id of the log, a new one if this file has none or is a copy of the file that got it.

    Two instances with copies of one log would take each other's records for their own. A copy has an inode of its own.
    """
    row = connection.execute("SELECT log_id FROM identity WHERE inode = ?", (inode,)).fetchone()
    if row is not None:
        return str(row[0])
    log_id = uuid.uuid4().hex
    with transaction(connection):
        connection.execute("DELETE FROM identity")
        connection.execute("INSERT INTO identity (log_id, inode) VALUES (?, ?)", (log_id, inode))
    return log_id


def own(
    connection: sqlite3.Connection, topic: str, cursor: str, *, epoch: int, writer: str, after: int
) -> tuple[int, int]:
    """Record an epoch and its writer; return the tracker's id and its last number. Runs in the caller's transaction.

    Args:
        connection: of the writer.
        topic: of the tracker.
        cursor: of the tracker.
        epoch: to be recorded.
        writer: to be recorded.
        after: last number of a tracker that is new.
    Raises:
        SnapshotConflict: a newer epoch is recorded, or this one by another writer.
    """
    row = connection.execute(
        "SELECT epoch, writer FROM trackers WHERE topic = ? AND cursor = ?", (topic, cursor)
    ).fetchone()
    if row is not None:
        epoch_now, writer_now = row
        require_epoch(f"the log of {topic!r}, {cursor!r}", epoch_now, writer_now, epoch, writer)
        writer = writer or (writer_now if epoch == epoch_now else "")
    tracker_id, last_number = connection.execute(
        "INSERT INTO trackers (topic, cursor, epoch, writer, last_number, cut_through, record_bytes) "
        "VALUES (?, ?, ?, ?, ?, ?, 0) "
        "ON CONFLICT DO UPDATE SET epoch = excluded.epoch, writer = excluded.writer RETURNING tracker_id, last_number",
        (topic, cursor, epoch, writer, after, after),
    ).fetchone()
    return int(tracker_id), int(last_number)


def cut(connection: sqlite3.Connection, topic: str, cursor: str, through: int) -> None:
    """Remove the rows whose last number is up to ``through``. Runs in the caller's transaction."""
    tracker = connection.execute(
        "UPDATE trackers SET cut_through = max(cut_through, min(?, last_number)) WHERE topic = ? AND cursor = ? "
        "RETURNING tracker_id, cut_through, last_number",
        (through, topic, cursor),
    ).fetchone()
    if tracker is None:
        return
    tracker_id, cut_through, last_number = tracker
    # A row ends where the next one begins: the count of a damaged row may be wrong.
    (kept_from,) = connection.execute(
        "SELECT max(first_number) FROM records WHERE tracker_id = ? AND first_number <= ?",
        (tracker_id, cut_through + 1),
    ).fetchone()
    if cut_through == last_number:
        connection.execute("DELETE FROM records WHERE tracker_id = ?", (tracker_id,))
        connection.execute("UPDATE trackers SET record_bytes = 0 WHERE tracker_id = ?", (tracker_id,))
    elif kept_from is not None:
        gone = (tracker_id, kept_from)
        connection.execute(
            "UPDATE trackers SET record_bytes = max(0, record_bytes - (SELECT coalesce(sum(length(payload) - ? * count), 0)"
            " FROM records WHERE tracker_id = ? AND first_number < ?)) WHERE tracker_id = ?",
            (_LENGTH_BYTES, *gone, tracker_id),
        )
        connection.execute("DELETE FROM records WHERE tracker_id = ? AND first_number < ?", gone)


def read(connection: sqlite3.Connection, topic: str, cursor: str, after: int, bytes_max: int) -> LogPage:
    """Return records above ``after`` and above the last cut, verified row by row."""
    with read_transaction(connection):
        return page(connection, topic, cursor, after, bytes_max)


def page(connection: sqlite3.Connection, topic: str, cursor: str, after: int, bytes_max: int) -> LogPage:
    """Return records as :func:`read` does. Runs in the caller's transaction."""
    tracker = connection.execute(
        "SELECT tracker_id, last_number, max(cut_through, ?) FROM trackers WHERE topic = ? AND cursor = ?",
        (after, topic, cursor),
    ).fetchone()
    if tracker is None:
        return LogPage((), (), is_last=True)
    tracker_id, last_number, passed = tracker
    records: list[LoggedRecord] = []
    corrupt: list[tuple[int, int]] = []
    size = 0
    if passed >= last_number:
        return LogPage((), (), is_last=True)
    for number, record in _sound_records(connection, tracker_id, passed):
        size += len(record)
        if records and size > bytes_max:
            return LogPage(tuple(records), tuple(corrupt), is_last=False)
        if number > passed + 1:
            corrupt.append((passed + 1, number - 1))
        records.append(LoggedRecord(number, record))
        passed = number
    if passed < last_number:
        corrupt.append((passed + 1, last_number))
    return LogPage(tuple(records), tuple(corrupt), is_last=True)


def extent(connection: sqlite3.Connection, topic: str, cursor: str) -> LogExtent:
    """Return the extent of a known tracker."""
    row = connection.execute(
        f"SELECT {_EXTENT} FROM trackers WHERE topic = ? AND cursor = ?",  # noqa: S608  # column names of ours
        (topic, cursor),
    ).fetchone()
    return LogExtent(*row)


def extents(connection: sqlite3.Connection) -> list[LogExtent]:
    """Return the extents of all trackers with bytes of records, ascending."""
    rows = connection.execute(
        f"SELECT {_EXTENT} FROM trackers WHERE record_bytes > 0 ORDER BY topic, cursor"  # noqa: S608  # as above
    )
    return [LogExtent(*row) for row in rows]


def _sound_records(connection: sqlite3.Connection, tracker_id: int, after: int) -> Iterator[tuple[int, bytes]]:
    """Yield the records above a number, of sound rows alone."""
    rows = connection.execute(
        "SELECT first_number, count, crc32c, payload FROM records WHERE tracker_id = :tracker AND first_number >= "
        "coalesce((SELECT max(first_number) FROM records WHERE tracker_id = :tracker AND first_number <= :first), 0) "
        "ORDER BY first_number",
        {"tracker": tracker_id, "first": after + 1},
    )
    for first_number, count, crc32c, payload in rows:
        # A damaged value may be of another type.
        if not (
            isinstance(first_number, int)
            and isinstance(count, int)
            and isinstance(payload, bytes)
            and crc32c == checksum((tracker_id, first_number, count), payload)
        ):
            continue
        offset = count * _LENGTH_BYTES
        for number, length in enumerate(struct.unpack_from(f"<{count}I", payload), first_number):
            if number > after:
                yield number, payload[offset : offset + length]
            offset += length


def checksum(key: tuple[int, int, int], payload: bytes) -> int:
    """Return the CRC32C of a row: tracker, first number, count, then the payload."""
    return int(google_crc32c.extend(google_crc32c.value(_CHECKED.pack(*key)), payload))
