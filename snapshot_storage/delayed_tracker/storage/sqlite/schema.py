"""Tables of a SQLite storage: creation in an empty file, updates of older formats, refusal of foreign files.

One file holds snapshots and catalogue. ``application_id`` identifies the program and ``user_version`` the format; both
are read before anything is written.
"""

import contextlib
import sqlite3
import struct
from pathlib import Path
from typing import Final

import google_crc32c

from delayed_tracker.storage.errors import StorageFormatUnsupported, StorageUnavailable

APPLICATION_ID: Final = int.from_bytes(b"DDTr", "big")
FORMAT_VERSION: Final = 4
ENTRY_BITS: Final = 24
"""A key is ``bucket_id << ENTRY_BITS | entry_id``: one B-tree in the order of reading, and no second index."""
ENTRY_ID_MAX: Final = (1 << ENTRY_BITS) - 1
PAGE_BYTES: Final = 16 * 1024
"""Size of a page. A large page holds a block of entries."""

_FILE_MAGIC: Final = b"SQLite format 3\x00"
_CACHE_PAGES: Final = 32
"""Half a megabyte for each connection."""
_TABLES: Final = (
    # AUTOINCREMENT: an id is never used again, even if the highest one was deleted.
    """CREATE TABLE snapshots (
        bucket_id INTEGER PRIMARY KEY AUTOINCREMENT,
        topic TEXT NOT NULL,
        cursor TEXT NOT NULL,
        bucket_key TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        complete INTEGER NOT NULL,
        entry_count INTEGER NOT NULL,
        payload_bytes INTEGER NOT NULL
    )""",
    "CREATE INDEX snapshots_by_tracker ON snapshots (topic, cursor)",
    """CREATE TABLE entries (
        entry_key INTEGER PRIMARY KEY,
        crc32c INTEGER NOT NULL,
        payload BLOB NOT NULL,
        lengths BLOB
    )""",
    """CREATE TABLE trackers (
        tracker_id INTEGER PRIMARY KEY,
        topic TEXT NOT NULL,
        cursor TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        forgotten INTEGER NOT NULL,
        writer TEXT NOT NULL DEFAULT '',
        mark_delete_ledger_id INTEGER,
        mark_delete_entry_id INTEGER,
        UNIQUE (topic, cursor)
    )""",
    """CREATE TABLE catalogue (
        tracker_id INTEGER NOT NULL REFERENCES trackers,
        bucket_id INTEGER NOT NULL,
        first_ledger_id INTEGER NOT NULL,
        first_entry_id INTEGER NOT NULL,
        last_ledger_id INTEGER NOT NULL,
        last_entry_id INTEGER NOT NULL,
        mark_delete_ledger_id INTEGER,
        mark_delete_entry_id INTEGER,
        summary BLOB NOT NULL,
        consumed BLOB NOT NULL,
        crc32c INTEGER NOT NULL,
        seal_number INTEGER,
        PRIMARY KEY (tracker_id, bucket_id)
    )""",
)
_SEAL_NUMBER: Final = struct.Struct("<?q")
_CHANGES: Final = {
    1: (
        "ALTER TABLE trackers ADD COLUMN writer TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE trackers ADD COLUMN mark_delete_ledger_id INTEGER",
        "ALTER TABLE trackers ADD COLUMN mark_delete_entry_id INTEGER",
    ),
    2: ("ALTER TABLE entries ADD COLUMN lengths BLOB",),
    3: (
        "ALTER TABLE catalogue ADD COLUMN seal_number INTEGER",
        # Until then recovery took bucket ids for the order, and entries without a summary for foreign ones.
        """UPDATE catalogue SET
            seal_number = iif(length(summary), bucket_id, NULL),
            crc32c = with_seal_number(crc32c, iif(length(summary), bucket_id, NULL))
            WHERE typeof(bucket_id) = 'integer' AND typeof(crc32c) = 'integer' AND crc32c BETWEEN 0 AND 0xffffffff""",
    ),
}
"""Statements that turn each older format into the next."""


def with_seal_number(checksum: int, seal_number: int | None) -> int:
    """Return the checksum of a catalogue row, given that of its other columns.

    The number comes last, so that rows of older formats need not be checked to get one: a damaged row stays damaged.
    """
    return int(google_crc32c.extend(checksum, _SEAL_NUMBER.pack(seal_number is not None, seal_number or 0)))


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection in autocommit mode, usable from one thread at a time; a commit is on disk when it returns."""
    connection = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    # In pages: the log is copied into the file every 4 MB.
    connection.execute("PRAGMA wal_autocheckpoint = 256")
    # Also in pages: SQLite takes a size in bytes as that of 4 KB pages, and would keep four times as much. Writes are
    # in ascending order and empty the readers' caches, so a larger cache would seldom be read.
    connection.execute(f"PRAGMA cache_size = {_CACHE_PAGES}")
    # Some builds overwrite deleted content with zeros, which writes it once more. Positions are not secret.
    connection.execute("PRAGMA secure_delete = OFF")
    return connection


def require_ours_or_new(path: Path) -> None:
    """Refuse a file of another program, without changing it.

    Raises:
        StorageFormatUnsupported: not a SQLite database, or another program's.
        OSError: the file cannot be read or written. SQLite would open it for reading, and refuse the first snapshot.
    """
    if not path.exists():
        return
    with path.open("r+b") as file:
        magic = file.read(len(_FILE_MAGIC))
    if magic and magic != _FILE_MAGIC:
        raise StorageFormatUnsupported(
            f"{path} is not a SQLite database; give the storage a path of its own, or restore the file"
        )
    # Immutable: SQLite neither creates nor removes a log or its index beside the file.
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        _require_ours(connection, path)


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file, or verify that they are ours, and update an older format.

    Raises:
        StorageFormatUnsupported: another program's database, or one of a newer format.
        StorageUnavailable: the file system cannot hold a write-ahead log.
    """
    is_empty, version = _require_ours(connection, path)
    if version > FORMAT_VERSION:
        raise StorageFormatUnsupported(
            f"{path} has storage format {version}, this program reads up to {FORMAT_VERSION}; use a newer program"
        )
    if is_empty:
        # Freed pages can return to the file system. This must be set before the first page, and so must the page size.
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StorageUnavailable(f"{path}: its file system has no write-ahead log; give the storage a local disk")
    # The log shrinks to this size when it starts again; see `connect` for its copying into the file.
    connection.execute(f"PRAGMA journal_size_limit = {16 * 1024 * 1024}")
    # If no log can be written beside the file, this fails now instead of at the first snapshot.
    connection.execute("BEGIN IMMEDIATE")
    if is_empty:
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    else:
        connection.create_function("with_seal_number", 2, with_seal_number, deterministic=True)
        for older in range(version, FORMAT_VERSION):
            for change in _CHANGES.get(older, ()):
                connection.execute(change)
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    connection.execute("COMMIT")


def _require_ours(connection: sqlite3.Connection, path: Path) -> tuple[bool, int]:
    """Return True if the database is empty, and its format. Raises StorageFormatUnsupported if it is not ours."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (object_count,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    is_empty = not (application_id or version or object_count)
    if not is_empty and application_id != APPLICATION_ID:
        raise StorageFormatUnsupported(
            f"{path} is a database of another program (application id {application_id:#x}); give the storage a path of its own"
        )
    return is_empty, version
