"""Opens SQLite files of this program: creation in an empty file, updates of older formats, refusal of foreign files.

``application_id`` identifies the program and the kind of its file, ``user_version`` the format; both are read before
anything is written. ``schema.py`` has the tables of the snapshots' file, ``log_schema.py`` those of the add log.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from delayed_tracker.storage.errors import StorageFormatUnsupported, StorageUnavailable

_FILE_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
_VERSION_AT: Final = slice(60, 64)
_APPLICATION_ID_AT: Final = slice(68, 72)
"""Places in the header, in SQLite's description of its file format, section 1.3; integers are big-endian."""
_CACHE_BYTES: Final = 512 * 1024
"""Cache of each connection."""
_CHECKPOINT_BYTES: Final = 4 * 1024 * 1024
"""The write-ahead log is copied into the file each time it has grown by this much."""
_LOG_BYTES_KEPT: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileSchema:
    """Tables and identity of one kind of file."""

    application_id: int
    format_version: int
    """Format that this program writes."""
    page_bytes: int
    """Size of a page, set when the file is created."""
    tables: tuple[str, ...]
    """Statements that create the tables of the present format."""
    changes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Statements that turn each older format into the next."""
    functions: Mapping[str, tuple[int, Callable[..., int]]] = field(default_factory=dict)
    """Functions that the changes call: number of arguments, function."""

    def connect(self, path: Path) -> sqlite3.Connection:
        """Return a connection in autocommit mode, usable from one thread at a time; a commit is on disk when it
        returns.
        """
        connection = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_BYTES // self.page_bytes}")
        # In pages: SQLite takes a size in bytes as that of 4 KB pages, and would keep up to four times as much. Writes
        # are in ascending order and empty the readers' caches, so a larger cache would seldom be read.
        connection.execute(f"PRAGMA cache_size = {_CACHE_BYTES // self.page_bytes}")
        # Some builds overwrite deleted content with zeros, which writes it once more. Positions are not secret.
        connection.execute("PRAGMA secure_delete = OFF")
        return connection

    def require_ours_or_new(self, path: Path) -> None:
        """Refuse a file of another program, without changing it.

        Raises:
            StorageFormatUnsupported: not a SQLite database, or another program's.
            OSError: the file cannot be read or written. SQLite would open it for reading, and refuse the first write.
        """
        if not path.exists():
            return
        with path.open("r+b") as file:
            header = file.read(_HEADER_BYTES)
        magic = header[: len(_FILE_MAGIC)]
        if magic and magic != _FILE_MAGIC:
            raise StorageFormatUnsupported(
                f"{path} is not a SQLite database; give the storage a path of its own, or restore the file"
            )
        if header[_APPLICATION_ID_AT] == self.application_id.to_bytes(4, "big"):
            # Without its log the file may look damaged: a power failure can end a copy from the log half-way.
            self._require_known(int.from_bytes(header[_VERSION_AT], "big"), path)
            return
        # Immutable: SQLite neither creates nor removes a log or its index beside the file.
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            self.require_ours(connection, path)

    def prepare(self, connection: sqlite3.Connection, path: Path) -> None:
        """Create the tables in an empty file, or verify that they are ours, and update an older format.

        Raises:
            StorageFormatUnsupported: another program's database, or one of a newer format.
            StorageUnavailable: the file system cannot hold a write-ahead log.
        """
        is_empty, version = self.require_ours(connection, path)
        if is_empty:
            # Freed pages can return to the file system. This must be set before the first page, and so must the page
            # size.
            connection.execute(f"PRAGMA page_size = {self.page_bytes}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StorageUnavailable(f"{path}: its file system has no write-ahead log; give the storage a local disk")
        # The write-ahead log shrinks to this size when it starts again; see `connect` for its copying into the file.
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES_KEPT}")
        # If no log can be written beside the file, this fails now instead of at the first write.
        connection.execute("BEGIN IMMEDIATE")
        if is_empty:
            for table in self.tables:
                connection.execute(table)
            connection.execute(f"PRAGMA application_id = {self.application_id}")
        else:
            for name, (argument_count, function) in self.functions.items():
                connection.create_function(name, argument_count, function, deterministic=True)
            for older in range(version, self.format_version):
                for change in self.changes.get(older, ()):
                    connection.execute(change)
        connection.execute(f"PRAGMA user_version = {self.format_version}")
        connection.execute("COMMIT")

    def require_ours(self, connection: sqlite3.Connection, path: Path) -> tuple[bool, int]:
        """Return True if the database is empty, and its format.

        Raises:
            StorageFormatUnsupported: another program's database, or one of a newer format.
        """
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (object_count,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        is_empty = not (application_id or version or object_count)
        if not is_empty and application_id != self.application_id:
            raise StorageFormatUnsupported(
                f"{path} is a database of another program (application id {application_id:#x}); give the storage a path of "
                "its own"
            )
        self._require_known(version, path)
        return is_empty, version

    def _require_known(self, version: int, path: Path) -> None:
        if version > self.format_version:
            raise StorageFormatUnsupported(
                f"{path} has storage format {version}, this program reads up to {self.format_version}; use a newer program"
            )
