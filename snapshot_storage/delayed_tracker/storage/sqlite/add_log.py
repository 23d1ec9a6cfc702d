"""The add log in a SQLite file of its own, beside the snapshots' file: its commits wait for no snapshot.

Each append is one transaction with one fsync. After a failed fsync the kernel may report a later one as done although
the pages of the first are lost. So the log is not written again until it is opened anew.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from delayed_tracker.storage.add_log import (
    LogAppend,
    LogExtent,
    LogPage,
    require_cuts,
    require_epoch_number,
    require_page,
    require_parts,
)
from delayed_tracker.storage.errors import LogBroken, StorageInUse, StorageUnavailable
from delayed_tracker.storage.sqlite import log_rows
from delayed_tracker.storage.sqlite.catalogue import SMALL_BYTES
from delayed_tracker.storage.sqlite.gathering import Job, T
from delayed_tracker.storage.sqlite.log_appends import (
    NotContinued,
    TrackerIds,
    append_each,
    append_known,
    prepare_to_append,
)
from delayed_tracker.storage.sqlite.log_schema import LOG_SCHEMA
from delayed_tracker.storage.sqlite.snapshots import reclaim
from delayed_tracker.storage.sqlite.storage import file_of
from delayed_tracker.storage.sqlite.threads import SqliteThreads, files_bytes, require_text, transaction

READER_COUNT: Final = 2
_FAILED_FSYNC: Final = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


def log_path_of(path: Path) -> Path:
    """Return the file of the add log beside a snapshots' file."""
    return path.with_name(f"{path.name}.add-log")


def _pass(_point: str) -> None:
    """Do nothing at a named point; tests replace this."""


class SqliteAddLog:
    """Add log in the file at ``path``, which must not be shared with another program."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads: SqliteThreads | None = None
        self._log_id = ""
        self._broken: str | None = None
        """Message of the fsync that failed; None if none did."""
        self._tracker_ids = TrackerIds()
        """Used by the writer thread alone."""
        self.at_point: Callable[[str], None] = _pass
        """Called by the writer thread with the name of a point: ``append.commit`` and ``cut.commit`` come just before
        those commits.
        """

    async def start(self) -> None:
        """Open or create the file and lock it."""
        if self._threads is not None:
            raise StorageInUse(f"this process has {self._path} open already; close it first")
        self._tracker_ids = TrackerIds()  # those of the file that is opened now
        self._threads = SqliteThreads(self._path, LOG_SCHEMA, reader_count=READER_COUNT, writing=self._writing)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            self._log_id = await self._threads.open(self._prepare)
            undo.pop_all()

    def _prepare(self, connection: sqlite3.Connection) -> str:
        prepare_to_append(connection)
        reclaim(connection)
        return log_rows.identify(connection, self._path.stat().st_ino)

    async def close(self) -> None:
        """Finish the accepted operations and release the locks."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await threads.close()

    async def log_id(self) -> str:
        """Return the id that the file got when it was made, or when it was first opened as a copy."""
        self._opened()
        return self._log_id

    async def append(self, parts: Sequence[LogAppend], *, writer: str) -> list[tuple[str, str]]:
        """Append all parts in one transaction, and return the trackers that are fenced."""
        require_parts(parts)
        for part in parts:
            require_text(part.topic, part.cursor)

        def append(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            self.at_point("append.commit")
            with contextlib.suppress(NotContinued):
                append_known(connection, parts, writer=writer, ids=self._tracker_ids)
                return []
            return append_each(connection, parts, writer=writer, ids=self._tracker_ids)

        return await self._write(append)

    async def take_over(self, topic: str, cursor: str, *, epoch: int, writer: str) -> LogExtent:
        """Record the epoch and its writer; return the records, too, if they are few."""
        require_epoch_number(epoch)
        require_text(topic, cursor)

        def take_over(connection: sqlite3.Connection) -> LogExtent:
            with transaction(connection):
                log_rows.own(connection, topic, cursor, epoch=epoch, writer=writer, after=0)
                extent = log_rows.extent(connection, topic, cursor)
                if extent.record_bytes > SMALL_BYTES:
                    return extent
                return replace(extent, page=log_rows.page(connection, topic, cursor, 0, SMALL_BYTES))

        return await self._opened().write_together(take_over)

    async def read(self, topic: str, cursor: str, *, after: int, bytes_max: int) -> LogPage:
        """Return records after a number, verified, up to a size."""
        require_page(after, bytes_max)
        require_text(topic, cursor)
        return await self._read(partial(log_rows.read, topic=topic, cursor=cursor, after=after, bytes_max=bytes_max))

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        """Remove the rows that end at or below the given numbers, and return space to the file system if much is free."""
        require_cuts(cuts)
        for topic, cursor, _ in cuts:
            require_text(topic, cursor)

        def cut(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                for topic, cursor, through in cuts:
                    log_rows.cut(connection, topic, cursor, through)
                self.at_point("cut.commit")
            reclaim(connection)

        await self._write(cut)

    async def extents(self) -> list[LogExtent]:
        """Return the trackers that have bytes of records, in order."""
        return await self._read(log_rows.extents)

    async def size_bytes(self) -> int:
        """Return the size of the file and of its write-ahead log."""
        return await self._read(lambda _connection: files_bytes(self._path))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Write nothing more after a commit that could not be made durable."""
        if self._broken is not None:
            raise LogBroken(self._broken)
        try:
            yield
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) not in _FAILED_FSYNC:
                raise
            self._broken = (
                f"{self._path}: a write could not be made durable ({error}); check the disk, then restart the service"
            )
            raise LogBroken(self._broken) from error

    async def _write(self, job: Job[T]) -> T:
        return await self._opened().write(job)

    async def _read(self, job: Job[T]) -> T:
        return await self._opened().read(job)

    def _opened(self) -> SqliteThreads:
        if self._threads is None:
            raise StorageUnavailable(f"{self._path} is not open; call start() first")
        return self._threads


def open_sqlite_log(path: str) -> SqliteAddLog:
    """Return the add log beside the storage file at ``path``; not started."""
    return SqliteAddLog(log_path_of(file_of(path)))
