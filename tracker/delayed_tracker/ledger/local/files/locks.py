"""Locks on files, which the kernel releases even at kill -9.

A lock belongs to an open file, not to a process, so that one process cannot open a topic twice either. Lock files stay:
removing one would let two openers lock two files of the same name.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from delayed_tracker.ledger.local.errors import LedgerInUse


class FileLock:
    """An exclusive hold on a file, from :meth:`acquire` to :meth:`release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, path: Path, what: str) -> Self:
        """Hold the lock.

        Args:
            path: of the lock file, which is created.
            what: what the lock is for, for the error.
        Raises:
            LedgerInUse: somebody has it; the message names the process.
            OSError: the lock file cannot be created, or the file system has no locks.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            who = "this process writes" if holder == str(os.getpid()) else f"process {holder or 'unknown'} writes"
            raise LedgerInUse(f"{who} to {what} already; stop it first, or use another directory") from error
        except OSError:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let the next one in; called once."""
        os.close(self._descriptor)


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold a lock that nobody keeps for long, waiting for it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
