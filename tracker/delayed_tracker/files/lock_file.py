"""Lock files with the process id of their holder. The kernel releases a lock when its process ends, even after kill -9.

A lock belongs to an open file, not to a process, so a process cannot take one twice either. Lock files are never
removed: otherwise two openers could lock two different files of the same name.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.files.ownership import give_owner


class LockFile:
    """Exclusive lock on a file, held from :meth:`acquire` to :meth:`release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path, refused: Callable[[str], DelayedTrackerError]) -> Self:
        """Take the lock without waiting.

        Args:
            path: the lock file; it is created if it is missing.
            refused: makes the error if the lock is taken, from its holder: "this process" or "process 4711".

        Raises:
            DelayedTrackerError: the one of ``refused``.
            OSError: the lock file cannot be created, or the file system does not support locks.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise refused("this process" if holder == str(os.getpid()) else f"process {holder or 'unknown'}") from error
        except OSError:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def give_owner(self, place: Path) -> None:
        """Give the lock file the owner of the file that it protects; see :func:`ownership.give_owner`. Raises OSError."""
        give_owner(self._descriptor, place)

    def release(self) -> None:
        """Release the lock; must be called only once."""
        os.close(self._descriptor)


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Wait for a lock that is held for short times only, and hold it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
