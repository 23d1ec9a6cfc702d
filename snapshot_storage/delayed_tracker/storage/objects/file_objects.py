"""Objects as files of one machine: each appears whole by a rename, and is on disk when the call returns.

New content is written to a file of its own, fsynced, renamed to its place, and the directory is fsynced. A compare and
swap holds a file lock meanwhile, so that several processes may share the directory. Each process has a folder for what
is not renamed yet, with a lock that the kernel releases when the process ends; the next start of any process empties it.
"""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import math
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.lock_file import waiting_lock
from delayed_tracker.storage.capabilities import StorageSpace
from delayed_tracker.storage.errors import StorageFormatUnsupported, StorageUnavailable
from delayed_tracker.storage.objects.keys import IMMUTABLE
from delayed_tracker.storage.objects.object_store import (
    RANGE_BYTES_MAX,
    SMALL_BYTES_MAX,
    ListedObject,
    require_listable,
    require_readable,
)
from delayed_tracker.storage.shared.document_store import Stale, StoredDocument
from delayed_tracker.storage.worker_threads import WorkerThreads

T = TypeVar("T")

THREAD_COUNT: Final = 8
SPACE_AGE_MAX_S: Final = 60.0

_FOLDERS: Final = ("c", "f", "t", "locks", "unfinished")
_FORMAT: Final = "format"
_EVERYTHING: Final = 2**62
_PROCESS_FOLDER: Final = re.compile("[0-9a-f]{32}")


class FileObjects:
    """Objects in a directory, which may be shared by processes of one machine.

    Args:
        directory: absolute path; it is created if only that level is missing.
        clock: returns seconds that only grow.
    """

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self.name: Final = str(directory)
        self._clock = clock
        self._count_again_s = -math.inf
        self._used_bytes = 0
        self._threads: WorkerThreads | None = None
        self._unfinished = directory / "unfinished" / uuid4().hex
        self._lock = -1
        self._names = iter(range(2**63))
        self._synced: set[Path] = set()
        self._failed_sync = ""
        self.min_interval_s: Final = 0.0
        self.swept_count = 0
        """Unfinished files of ended processes, deleted by the last start."""

    async def start(self) -> None:
        """Create the directory, take this process's folder in it, and delete what ended processes left.

        Raises:
            InvalidInput: the path is no directory, or its parent is missing.
            StorageFormatUnsupported: the directory has files of another program.
            StorageUnavailable: the operating system refuses.
        """
        self._threads = WorkerThreads(THREAD_COUNT, "file-objects")
        started = False
        try:
            await self._run(self._start)
            started = True
        finally:
            if not started:
                await self.close()

    def _start(self) -> None:
        # Asked in this order, because another process may be making the same directory.
        if not self._directory.exists():
            if not self._directory.parent.is_dir():
                raise InvalidInput(
                    "file URL", str(self._directory), f"create the directory {self._directory.parent} first"
                )
        elif not self._directory.is_dir():
            raise InvalidInput("file URL", str(self._directory), "this is no directory; name one")
        else:
            names = {entry.name for entry in self._directory.iterdir()}
            if _FORMAT not in names and (strange := names.difference(_FOLDERS)):
                raise StorageFormatUnsupported(
                    f"{self._directory} has {min(strange)!r}, which is none of ours; give an empty directory"
                )
        self._failed_sync = ""
        for folder in _FOLDERS:
            self._make_directory(self._directory / folder)
        with waiting_lock(self._directory / "locks" / "start"):
            self._unfinished.mkdir(exist_ok=True)
            self._lock = _locked(self._unfinished)
            self.swept_count = sum(map(self._sweep, list(self._unfinished.parent.iterdir())))

    def _sweep(self, folder: Path) -> int:
        """Delete the unfinished files of an ended process; return their number. What others put there stays."""
        if folder == self._unfinished or _PROCESS_FOLDER.fullmatch(folder.name) is None:
            return 0
        try:
            lock = _locked(folder)
        except (FileNotFoundError, NotADirectoryError):
            return 0  # its process has just ended and removed it; or it is no folder, and so not ours
        if lock < 0:
            return 0
        try:
            files = [file for file in folder.iterdir() if file.name.isdecimal() and file.is_file()]
            for file in files:
                file.unlink()
            with contextlib.suppress(OSError):  # it has something that is not ours
                folder.rmdir()
        except FileNotFoundError:
            return 0  # removed before it was locked
        finally:
            os.close(lock)
        return len(files)

    async def close(self) -> None:
        """Finish the accepted operations and release the lock."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.shield(asyncio.to_thread(self._close, threads))

    def _close(self, threads: WorkerThreads) -> None:
        threads.shutdown()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            # What is left there belongs to operations that failed; a start sweeps it.
            with contextlib.suppress(OSError):
                self._unfinished.rmdir()
            os.close(lock)

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store an object under a new key; it appears when it is whole and on disk."""
        draft = _Draft(self._directory / key, self._temporary())
        done = False
        try:
            async for chunk in chunks:
                await self._run(partial(draft.write, chunk))
            await self._run(partial(draft.finish, self._publish))
            done = True
        finally:
            if not done:
                # A cancelled job may still be running or waiting: the draft lets none of them begin after this one.
                with contextlib.suppress(StorageUnavailable):
                    await self._run(draft.discard)
        return draft.size_bytes

    async def put_if(self, key: str, content: bytes, expected: str | None) -> str:
        """Replace a small object if it has this version, under a lock that all processes take."""
        return await self._run(partial(self._put_if, key, content, expected))

    def _put_if(self, key: str, content: bytes, expected: str | None) -> str:
        path, temporary = self._directory / key, self._temporary()
        digest = hashlib.sha256(key.encode()).hexdigest()
        with waiting_lock(self._directory / "locks" / digest[:2]):
            if _version_of(path) != expected:
                raise Stale(f"{path} has another version than expected; read it again")
            try:
                with temporary.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                self._publish(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
        return _version(content)

    async def get(self, key: str) -> StoredDocument | None:
        """Return a small object; its version is a hash of its content. Raises SnapshotCorrupt if it is not small."""
        content = await self._run(partial(_read, self._directory / key, 0, _EVERYTHING, SMALL_BYTES_MAX))
        return None if content is None else StoredDocument(content, _version(content))

    async def get_range(self, key: str, first: int, end: int) -> bytes | None:
        """Return a range of an object; raises SnapshotCorrupt if it has more than ``RANGE_BYTES_MAX``."""
        return await self._run(partial(_read, self._directory / key, first, end, RANGE_BYTES_MAX))

    async def delete(self, key: str) -> bool:
        """Delete an object if it exists. After a power failure it may be there again, as after a lost delete."""
        return await self._run(partial(_unlinked, self._directory / key))

    async def listing(self, prefix: str) -> list[ListedObject]:
        """Return the objects below a folder; raises StorageUnavailable if the directory is away."""
        return await self._run(partial(self._list, prefix))

    def _list(self, prefix: str) -> list[ListedObject]:
        found = []
        for listed in self._files(prefix):
            found.append(listed)
            require_listable(str(self._directory / prefix), len(found))
        # A directory that is away looks empty, too. This process's own folder is in it as long as the process runs.
        if not found and not self._unfinished.is_dir():
            raise StorageUnavailable(
                f"{self._directory} has lost {self._unfinished.relative_to(self._directory)}: mount it, or move it back; if only "
                "that was deleted, restart this process"
            )
        return found

    def _files(self, folder: str) -> Iterator[ListedObject]:
        has_versions = not folder.startswith(f"{IMMUTABLE}/")
        for directory, _, names in os.walk(self._directory / folder):
            for name in names:
                path = Path(directory, name)
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    found = path.stat()
                    version = f"{found.st_ino}.{found.st_mtime_ns}.{found.st_size}" if has_versions else ""
                    yield ListedObject(str(path.relative_to(self._directory)), found.st_size, version)

    async def space(self) -> StorageSpace:
        """Return the bytes of all files and those that are free.

        The files are counted again when ``SPACE_AGE_MAX_S`` have passed: there may be 100,000 of them.
        """
        return await self._run(self._space)

    def _space(self) -> StorageSpace:
        now_s = self._clock()
        if now_s >= self._count_again_s:
            self._used_bytes = sum(listed.size_bytes for listed in self._files(""))
            self._count_again_s = now_s + SPACE_AGE_MAX_S
        system = os.statvfs(self._directory)
        return StorageSpace(self._used_bytes, system.f_bavail * system.f_frsize)

    def _temporary(self) -> Path:
        return self._unfinished / str(next(self._names))

    def _publish(self, temporary: Path, path: Path) -> None:
        """Give a file that is on disk its name, durably."""
        self._make_directory(path.parent)
        temporary.replace(path)
        self._sync_directory(path.parent)

    def _make_directory(self, directory: Path) -> None:
        """Create a directory and those above it, durably. Another process may have made them, and not yet synced."""
        if directory in self._synced:
            return
        if directory != self._directory:
            self._make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        self._sync_directory(directory.parent)
        self._synced.add(directory)

    def _sync_directory(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            # The kernel may report the next one as done. A reader must not take for durable what is not on disk.
            self._failed_sync = f"{directory}: an fsync failed ({error.strerror})"
            raise
        finally:
            os.close(descriptor)

    async def _run(self, job: Callable[[], T]) -> T:
        """Run a job in a thread; if the caller is cancelled it still runs."""
        if self._threads is None:
            raise StorageUnavailable(f"{self._directory} is not open; call start() first")
        if self._failed_sync:
            raise StorageUnavailable(f"{self._failed_sync}; check the disk, then restart this process")
        return await self._threads.submit(partial(self._job, job), runs_anyway=True)

    def _job(self, job: Callable[[], T]) -> T:
        with _storage_errors(self._directory):
            return job()


class _Draft:
    """A file that has no name yet. Jobs run one at a time, and none after it was discarded."""

    def __init__(self, path: Path, temporary: Path) -> None:
        self._path = path
        self._temporary = temporary
        self._turn = threading.Lock()
        self._descriptor = -1
        self._discarded = False
        self.size_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Append a chunk."""
        with self._turn:
            if self._discarded:
                return
            if self._descriptor < 0:
                self._descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self.size_bytes += len(chunk)

    def finish(self, publish: Callable[[Path, Path], None]) -> None:
        """Bring the file to the disk and to its place."""
        with self._turn:
            if not self._discarded:
                os.fsync(self._descriptor)
                self._close()
                publish(self._temporary, self._path)

    def discard(self) -> None:
        """Delete the file, wherever it is."""
        with self._turn:
            self._discarded = True
            self._close()
            self._temporary.unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _locked(folder: Path) -> int:
    """Return a descriptor that holds the lock of a folder, not of a link to one; -1 if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return -1
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _read(path: Path, first: int, end: int, most: int) -> bytes | None:
    """Return a range of a file; None if there is no file. Raises SnapshotCorrupt if it has more than ``most`` bytes."""
    try:
        with path.open("rb") as file:
            size_bytes = max(0, min(end, os.fstat(file.fileno()).st_size) - first)
            require_readable(str(path), size_bytes, most)
            file.seek(first)
            return file.read(size_bytes)
    except FileNotFoundError:
        return None


def _version_of(path: Path) -> str | None:
    """Return the version of a file, which may have any size; None if there is no file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _version(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def _storage_errors(directory: Path) -> Iterator[None]:
    """Turn errors of the operating system into storage errors."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InvalidInput("file URL", str(directory), f"{error.strerror}; give a shorter one") from error
        raise StorageUnavailable(
            f"{error.filename or directory}: {error.strerror or error}; check the disk's free space and that this user may "
            "write the directory"
        ) from error


def _unlinked(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
