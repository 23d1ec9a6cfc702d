"""SQLite off the event loop: one thread writes, a few read, each with its own connection.

A job that has started runs to its end even if the task that waits for it is cancelled, and jobs of the writer run in
the order in which they were given. A cancelled task therefore leaves either the whole effect of its job or, if it gives
a second job that undoes the first, nothing.
"""

import asyncio
import contextlib
import errno
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.lock_file import LockFile
from delayed_tracker.files.syncing import sync
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageUnavailable
from delayed_tracker.storage.sqlite.file_schema import FileSchema
from delayed_tracker.storage.sqlite.gathering import Gathering, Job, T
from delayed_tracker.storage.sqlite.lock import FileLock, file_id_of, lock_path, lock_path_of
from delayed_tracker.storage.worker_threads import WorkerThreads

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system and of SQLite into storage errors; programming errors pass through."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidInput("sqlite path", str(path), f"{error.strerror}; give a shorter one") from error
        raise StorageUnavailable(
            f"{path}: {error.strerror or error}; make the file and its directory writable for this user"
        ) from error
    except sqlite3.DatabaseError as error:
        # Errors of the module itself have no code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            raise SnapshotCorrupt(
                f"{path}: {error}; restore the file from a copy, or remove it and rebuild from the ledgers"
            ) from error
        if not isinstance(error, sqlite3.OperationalError):
            raise
        raise StorageUnavailable(
            f"{path}: {error}; check the disk's free space and that this user may write the file and its directory"
        ) from error


def require_text(topic: str, cursor: str) -> None:
    """Raise InvalidInput for names that SQLite cannot store."""
    for field, text in (("topic", topic), ("cursor", cursor)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(field, text, "half of a surrogate pair is no text; send valid unicode") from error


def files_bytes(path: Path) -> int:
    """Return the size of a file and of its write-ahead log. Raises OSError."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all statements of the block durably, or none of them; within another such block, when that one ends."""
    is_part = connection.in_transaction
    if is_part:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextlib.contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Let every statement of the block read the same state of the file."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def ensure_directory(path: Path) -> None:
    """Create the file's directory, durably, if only that level is missing: more missing levels mean a mistyped path."""
    directory = path.parent
    if directory.is_dir():
        return
    if directory.exists():
        raise InvalidInput("sqlite path", str(path), f"{directory} is not a directory; give another path")
    if not directory.parent.is_dir():
        raise InvalidInput("sqlite path", str(path), f"create the directory {directory.parent} first")
    directory.mkdir(exist_ok=True)
    sync(directory.parent)


class SqliteThreads:
    """Threads and connections of one open file, and the locks that keep other openers out.

    Args:
        path: of the file.
        schema: of its tables.
        reader_count: threads that read.
        writing: block in which each transaction is written; it may replace errors.
    """

    def __init__(
        self,
        path: Path,
        schema: FileSchema,
        *,
        reader_count: int,
        writing: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._path = path
        self._writing = writing
        self._schema = schema
        self._reader_count = reader_count
        self._writer_thread = WorkerThreads(1, "sqlite-writer")
        self._reader_threads = WorkerThreads(reader_count, "sqlite-reader")
        self._readers: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._writer: sqlite3.Connection | None = None
        self._path_lock: LockFile | None = None
        self._file_lock: FileLock | None = None
        self._accepts = False
        self._writes = Gathering(self._writer_thread, self._run_writing, transaction)
        self._reads = Gathering(self._reader_threads, self._run_reading, contextlib.nullcontext)

    async def open(self, recover: Job[T]) -> T:
        """Lock the path, open and verify the file, and run the first write job on it.

        If this fails or is cancelled, close.

        Raises:
            InvalidInput: the path cannot be a storage file.
            StorageInUse: it is open elsewhere.
            StorageFormatUnsupported: it belongs to another program, or has a newer format.
            StorageUnavailable: the operating system refuses.
        """
        return await self._writer_thread.submit(partial(self._open, recover), runs_anyway=True)

    def _open(self, recover: Job[T]) -> T:
        with storage_errors(self._path), contextlib.ExitStack() as undo:
            if self._path.is_dir():
                raise InvalidInput("sqlite path", str(self._path), "this is a directory; name a file in it")
            ensure_directory(self._path)
            undo.callback(self._release)
            # The file is read only under its lock: closing it would release the locks that SQLite has on it in the same
            # process. No lock file is written beside a file of another program.
            if self._path.exists() and not lock_path_of(self._path).exists():
                self._file_lock = FileLock.acquire(self._path)
                self._schema.require_ours_or_new(self._path)
            self._path_lock = lock_path(self._path)
            if self._file_lock is None:
                self._file_lock = FileLock.acquire(self._path)
            self._schema.require_ours_or_new(self._path)
            self._writer = self._schema.connect(self._path)
            self._schema.prepare(self._writer, self._path)
            for _ in range(self._reader_count):
                reader = self._schema.connect(self._path)
                self._readers.put(reader)
                reader.execute("PRAGMA query_only = ON")
            self._require_same_file()
            recovered = recover(self._writer)
            self._accepts = True
            undo.pop_all()
        return recovered

    async def write(self, job: Job[T]) -> T:
        """Run a job on the writer; if the caller is cancelled the job still runs."""
        self._require_open()
        self._writes.keep_order()
        return await self._writer_thread.submit(partial(self._run_writing, job), runs_anyway=True)

    async def write_together(self, job: Job[T]) -> T:
        """Run a job as :meth:`write` does, in one transaction with others that wait for the writer: a commit is a sync.

        If one of them fails, all are rolled back, and each runs alone, behind what was given meanwhile, unless its caller was
        cancelled. So a job may run twice, and its only effect is what it writes in :func:`transaction`.
        """
        self._require_open()
        return await self._writes.run(job, alone=self.write)

    async def read(self, job: Job[T]) -> T:
        """Run a job on one of the readers."""
        self._require_open()
        return await self._reader_threads.submit(partial(self._run_reading, job))

    async def read_together(self, job: Job[T]) -> T:
        """Run a small job as :meth:`read` does, in one turn of a reader with others that wait for one.

        If one of them fails, each runs again, alone, unless its caller was cancelled.
        """
        self._require_open()
        return await self._reads.run(job, alone=self.read)

    async def close(self) -> None:
        """Refuse new jobs, finish the accepted ones, move the log into the file, and unlock."""
        self._accepts = False
        await asyncio.shield(asyncio.to_thread(self._close))

    def _close(self) -> None:
        self._reader_threads.shutdown()
        self._writer_thread.shutdown()
        self._release()

    def _release(self) -> None:
        while not self._readers.empty():
            self._readers.get().close()
        writer, self._writer = self._writer, None
        file_lock, self._file_lock = self._file_lock, None
        path_lock, self._path_lock = self._path_lock, None
        if writer is not None:
            writer.close()  # the last connection to close moves the log into the file and removes it
        if file_lock is not None:
            file_lock.release()
        if path_lock is not None:
            path_lock.release()

    def _run_writing(self, job: Job[T]) -> T:
        assert self._writer is not None  # jobs are accepted only while it exists, and finished before it is closed
        with storage_errors(self._path), self._writing():
            self._require_same_file()
            return job(self._writer)

    def _require_same_file(self) -> None:
        """Refuse to write to a file that the next start would not read.

        SQLite itself continues with a file that has lost its name.
        """
        if self._file_lock is None or file_id_of(self._path) != self._file_lock.file_id:
            raise StorageUnavailable(
                f"{self._path} was removed or replaced while it was in use; put the file back, or stop the service and "
                "start it again with the one that is there now"
            )

    def _run_reading(self, job: Job[T]) -> T:
        reader = self._readers.get()
        try:
            with storage_errors(self._path):
                return job(reader)
        finally:
            self._readers.put(reader)

    def _require_open(self) -> None:
        if not self._accepts:
            raise StorageUnavailable(f"{self._path} is not open; call start() first")
