"""One opener per storage file: two locks, which the kernel releases even after kill -9.

:func:`lock_path` locks a file beside the storage file that contains the process id. :class:`FileLock` locks the storage
file itself, which may have other names: hard links, another mount, the name before it was renamed. SQLite keeps a log
beside each name, so two openers under two names would destroy the file.

The locks belong to open files, not to a process, so that one process cannot open the storage twice either. The lock
file stays when the storage is closed: removing it would let two openers lock two files of the same name.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

from delayed_tracker.files.lock_file import LockFile
from delayed_tracker.storage.errors import StorageInUse


def lock_path_of(path: Path) -> Path:
    """Return the lock file of a storage path. If it does not exist, no process has the storage open."""
    return path.with_name(path.name + ".lock")


def lock_path(path: Path) -> LockFile:
    """Lock the lock file of a storage path. If root makes it, it gets the owner of the storage, or of the directory.

    Raises:
        StorageInUse: it is taken; the message names the process.
        OSError: the lock file cannot be created, or the file system has no locks.
    """
    lock = LockFile.acquire(
        lock_path_of(path),
        lambda holder: StorageInUse(f"{holder} has {path} open already; stop it, or give this one another path"),
    )
    try:
        lock.give_owner(path)
    except OSError:
        lock.release()
        raise
    return lock


FileId = tuple[int, int]
"""Device and inode: the same for all names of one file."""


def file_id_of(path: Path) -> FileId | None:
    """Return the id of the file with this name, or None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


class FileLock:
    """An exclusive lock on a storage file under all its names, from construction to :meth:`release`.

    ``flock`` and the record locks of SQLite are independent. Closing any descriptor of a file ends all record locks
    that its process has on it. This descriptor may therefore be closed only after SQLite's, and a file that this
    process has locked is never opened a second time, not even to test the lock.
    """

    _held: Final[set[FileId]] = set()
    """Files that this process has locked."""
    _held_guard: Final = threading.Lock()

    def __init__(self, descriptor: int, file_id: FileId) -> None:
        self._descriptor = descriptor
        self.file_id = file_id

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Lock the file, which is created if it does not exist.

        Raises:
            StorageInUse: it is open under another name.
            OSError: it cannot be opened for writing, or the file system has no locks.
        """
        with cls._held_guard:
            if file_id_of(path) in cls._held:
                raise StorageInUse(
                    f"this process has {path} open already under another name; give this one another file"
                )
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(descriptor)
                raise StorageInUse(
                    f"another process has {path} open already, under another name (a hard link, another mount, or before it "
                    f"was renamed): stop it (`fuser {path}` tells which), or give this one another file"
                ) from error
            except OSError:
                os.close(descriptor)
                raise
            opened = os.fstat(descriptor)
            lock = cls(descriptor, (opened.st_dev, opened.st_ino))
            cls._held.add(lock.file_id)
        return lock

    def release(self) -> None:
        """Release the lock; called once, after SQLite has closed the file."""
        with self._held_guard:
            self._held.discard(self.file_id)
            os.close(self._descriptor)


@contextlib.contextmanager
def locked(path: Path, verify: Callable[[Path], None] | None = None) -> Iterator[None]:
    """Keep other openers out of a storage path and of the file that has it now, if any.

    Args:
        path: of the storage.
        verify: called with the path of a file that there is; if it raises, no new lock file is left beside the file.
    Raises:
        StorageInUse: it is open.
        OSError: a lock file cannot be created, or the file system has no locks.
    """
    with contextlib.ExitStack() as undo:
        # A running service has both locks; the error of the lock file names its process.
        if lock_path_of(path).exists():
            undo.callback(lock_path(path).release)
        if path.exists():
            undo.callback(FileLock.acquire(path).release)
            if verify is not None:
                verify(path)
        if not lock_path_of(path).exists():
            undo.callback(lock_path(path).release)
        yield
