"""One opener per storage file: a lock on a file beside it, which the kernel releases even at kill -9.

The lock belongs to an open file, not to a process, so that one process cannot open the storage twice either. The lock
file stays when the storage is closed: removing it would let two openers lock two files of the same name.
"""

import fcntl
import os
from pathlib import Path
from typing import Self

from snapshot_storage.errors import StorageInUse


def lock_path_of(path: Path) -> Path:
    """The lock file of a storage path. Where there is none, nobody has the storage open."""
    return path.with_name(path.name + ".lock")


class PathLock:
    """An exclusive hold on ``PATH.lock``, from construction to :meth:`release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path) -> Self:
        """Hold the lock of a storage path.

        Raises:
            StorageInUse: somebody has it; the message names the process.
            OSError: the lock file cannot be created, or the file system has no locks.
        """
        descriptor = os.open(lock_path_of(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            who = "this process has" if holder == str(os.getpid()) else f"process {holder or 'unknown'} has"
            raise StorageInUse(f"{who} {path} open already; stop it, or give this one another path") from error
        except OSError:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let the next one in; called once."""
        os.close(self._descriptor)
