"""SQL statements for catalogues: plain functions on a connection, like ``snapshots.py``.

Each row has the CRC32C of its content, including its tracker and bucket.
"""

import sqlite3
import struct
from collections.abc import Sequence
from typing import Any, Final

import google_crc32c

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, LogMark, Mark, StoredThrough, require_epoch
from delayed_tracker.storage.sqlite.schema import with_seal_number
from delayed_tracker.storage.sqlite.threads import read_transaction

SMALL_BYTES: Final = 64 * 1024
"""Bytes of entries that the writer may read beside a commit: they take it a tenth of a millisecond."""
_COLUMNS: Final = (
    "bucket_id, first_ledger_id, first_entry_id, last_ledger_id, last_entry_id, "
    "mark_delete_ledger_id, mark_delete_entry_id, summary, consumed, seal_number"
)
_CHECKED: Final = struct.Struct("<qqqqqq?qqQ")

_Row = tuple[int, int, int, int, int, int | None, int | None, bytes, bytes, int | None]


def read(connection: sqlite3.Connection, topic: str, cursor: str) -> CatalogueState:
    """Return the catalogue of one tracker, verified entry by entry."""
    with read_transaction(connection):
        tracker = _tracker(connection, topic, cursor)
        rows = _rows(connection, tracker[0]) if tracker is not None else []
    return CatalogueState() if tracker is None else _state(tracker, rows)


def read_if_small(connection: sqlite3.Connection, topic: str, cursor: str) -> CatalogueState | None:
    """Return the catalogue of one tracker as :func:`read` does; None if it has more than ``SMALL_BYTES`` in its entries.

    Runs in the caller's transaction.
    """
    tracker = _tracker(connection, topic, cursor)
    if tracker is None:
        return CatalogueState()
    (size,) = connection.execute(
        "SELECT TOTAL(LENGTH(summary) + LENGTH(consumed)) FROM catalogue WHERE tracker_id = ?", tracker[:1]
    ).fetchone()
    return _state(tracker, _rows(connection, tracker[0])) if size <= SMALL_BYTES else None


def _tracker(connection: sqlite3.Connection, topic: str, cursor: str) -> tuple[Any, ...] | None:
    found: tuple[Any, ...] | None = connection.execute(
        "SELECT tracker_id, epoch, writer, mark_delete_ledger_id, mark_delete_entry_id, log_number, log_id,"
        " offered_ledger_id, offered_entry_id, stored_ledger_id, stored_entry_id"
        " FROM trackers WHERE topic = ? AND cursor = ?",
        (topic, cursor),
    ).fetchone()
    return found


def _rows(connection: sqlite3.Connection, tracker_id: int) -> list[tuple[Any, ...]]:
    return connection.execute(
        f"SELECT crc32c, {_COLUMNS} FROM catalogue WHERE tracker_id = ?"  # noqa: S608  # column names of ours
        " ORDER BY first_ledger_id, first_entry_id, last_ledger_id, last_entry_id, bucket_id",
        (tracker_id,),
    ).fetchall()


def _state(tracker: tuple[Any, ...], rows: Sequence[tuple[Any, ...]]) -> CatalogueState:
    tracker_id, epoch, writer, *mark_delete, log_number, log_id = tracker[:7]
    offered, stored = tracker[7:9], tracker[9:]
    entries: list[CatalogueEntry] = []
    corrupt: list[int] = []
    for checksum, *columns in rows:
        row: _Row = tuple(columns)
        if _is_sound(tracker_id, checksum, row):
            entries.append(_entry(row))
        else:
            corrupt.append(row[0])
    log_mark = LogMark(log_number, _position(*offered), log_id, _position(*stored))
    return CatalogueState(epoch, tuple(entries), tuple(corrupt), _position(*mark_delete), log_mark, writer)


def fence(connection: sqlite3.Connection, topic: str, cursor: str, *, epoch: int, writer: str) -> int:
    """Record an epoch and its writer; return the tracker's id. Runs in the caller's transaction.

    Raises:
        SnapshotConflict: a newer epoch is recorded, or this one by another writer.
    """
    row = connection.execute(
        "SELECT epoch, writer FROM trackers WHERE topic = ? AND cursor = ?", (topic, cursor)
    ).fetchone()
    if row is not None:
        epoch_now, writer_now = row
        require_epoch(f"the catalogue of {topic!r}, {cursor!r}", epoch_now, writer_now, epoch, writer)
        writer = writer or (writer_now if epoch == epoch_now else "")
    (tracker_id,) = connection.execute(
        "INSERT INTO trackers (topic, cursor, epoch, forgotten, writer) VALUES (?, ?, ?, FALSE, ?) "
        "ON CONFLICT DO UPDATE SET epoch = excluded.epoch, forgotten = FALSE, writer = excluded.writer "
        "RETURNING tracker_id",
        (topic, cursor, epoch, writer),
    ).fetchone()
    return int(tracker_id)


def replace(
    connection: sqlite3.Connection,
    tracker_id: int,
    *,
    remove: Sequence[int],
    add: Sequence[CatalogueEntry],
    mark_delete: Position | None,
    mark: Mark | None,
) -> None:
    """Remove, then add, and record the cursor's position and the log's mark if they are given.

    Runs in the caller's transaction.
    """
    if mark_delete is not None:
        connection.execute(
            "UPDATE trackers SET mark_delete_ledger_id = ?, mark_delete_entry_id = ? WHERE tracker_id = ?",
            (*mark_delete, tracker_id),
        )
    if isinstance(mark, LogMark):
        connection.execute(
            "UPDATE trackers SET log_number = ?, log_id = ?, offered_ledger_id = ?, offered_entry_id = ?,"
            " stored_ledger_id = ?, stored_entry_id = ? WHERE tracker_id = ?",
            (mark.number, mark.log, *_columns(mark.offered_through), *_columns(mark.stored_through), tracker_id),
        )
    elif isinstance(mark, StoredThrough):
        connection.execute(
            "UPDATE trackers SET stored_ledger_id = ?, stored_entry_id = ? WHERE tracker_id = ?",
            (*_columns(mark.position), tracker_id),
        )
    connection.executemany(
        "DELETE FROM catalogue WHERE tracker_id = ? AND bucket_id = ?",
        [(tracker_id, bucket_id) for bucket_id in remove],
    )
    rows = [_row(entry) for entry in add]
    connection.executemany(
        f"INSERT OR REPLACE INTO catalogue (tracker_id, crc32c, {_COLUMNS}) "  # noqa: S608  # column names of ours
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(tracker_id, _checksum(tracker_id, row), *row) for row in rows],
    )


def forget(connection: sqlite3.Connection, tracker_id: int) -> None:
    """Remove all entries of a tracker, its mark-delete position and its claims; keep epoch, log and log number.

    Runs in the caller's transaction.
    """
    connection.execute("DELETE FROM catalogue WHERE tracker_id = ?", (tracker_id,))
    connection.execute(
        "UPDATE trackers SET forgotten = TRUE, mark_delete_ledger_id = NULL, mark_delete_entry_id = NULL,"
        " offered_ledger_id = NULL, offered_entry_id = NULL, stored_ledger_id = NULL, stored_entry_id = NULL"
        " WHERE tracker_id = ?",
        (tracker_id,),
    )


def trackers(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return every tracker that was not forgotten, ascending."""
    return connection.execute(
        "SELECT topic, cursor FROM trackers WHERE NOT forgotten ORDER BY topic, cursor"
    ).fetchall()


def _row(entry: CatalogueEntry) -> _Row:
    mark_delete = entry.mark_delete or (None, None)
    return (
        entry.bucket_id,
        *entry.first,
        *entry.last,
        *mark_delete,
        entry.summary,
        entry.consumed,
        entry.seal_number,
    )


def _is_sound(tracker_id: int, checksum: int, row: _Row) -> bool:
    try:
        return checksum == _checksum(tracker_id, row)
    except (struct.error, TypeError):  # a damaged value may be of another type
        return False


def _entry(row: _Row) -> CatalogueEntry:
    bucket_id, first, first_entry, last, last_entry, mark, mark_entry, summary, consumed, seal_number = row
    return CatalogueEntry(
        bucket_id=bucket_id,
        first=Position(first, first_entry),
        last=Position(last, last_entry),
        summary=summary,
        consumed=consumed,
        mark_delete=_position(mark, mark_entry),
        seal_number=seal_number,
    )


def _position(ledger_id: int | None, entry_id: int | None) -> Position | None:
    return None if ledger_id is None or entry_id is None else Position(ledger_id, entry_id)


def _columns(position: Position | None) -> tuple[int | None, int | None]:
    return (None, None) if position is None else (position.ledger_id, position.entry_id)


def _checksum(tracker_id: int, row: _Row) -> int:
    *places, mark_ledger, mark_entry, summary, consumed, seal_number = row
    fixed = _CHECKED.pack(tracker_id, *places, mark_ledger is not None, mark_ledger or 0, mark_entry or 0, len(summary))
    return with_seal_number(google_crc32c.value(fixed + summary + consumed), seal_number)
