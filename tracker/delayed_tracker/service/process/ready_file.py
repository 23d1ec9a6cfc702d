"""The file that shows a supervisor that the service answers calls, and on which addresses.

Its writer holds a lock on it, which the kernel releases when the process ends, even after kill -9. So a later start knows
a file that was left behind from that of a running service.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

import structlog

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.home_paths import refuse_home_path

_OPTION: Final = "--ready-file"

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class ReadyFile:
    """A file that appears complete, and is removed when the service stops answering.

    Args:
        path: path of the file; None for no file.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock: int | None = None
        """Descriptor of the file that was written."""

    def prepare(self) -> None:
        """Check that the file is writable before anything is opened, and remove one that a killed service left.

        That of a running service stays: this start may be one too many, and fail.

        Raises:
            InvalidInput: the file is not writable.
        """
        if self._path is None:
            return
        refuse_home_path(_OPTION, str(self._path), str(self._path))
        try:
            self._draft.touch()
            os.close(_locked(self._draft))
            self._draft.unlink()
            if not _has_running_writer(self._path):
                self._path.unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, text: str) -> None:
        """Create the file in one step.

        Raises:
            InvalidInput: the file cannot be written.
        """
        if self._path is None:
            return
        try:
            self._draft.write_text(text, encoding="utf-8")
            self._lock = _locked(self._draft)
            self._draft.replace(self._path)
        except OSError as error:
            raise self._unusable(error) from error

    def remove(self) -> None:
        """Remove the file that was written, unless another service has replaced it.

        A failure is logged, so that the rest of the service is still closed.
        """
        if self._path is None or self._lock is None:
            return
        try:
            if os.path.samestat(os.fstat(self._lock), self._path.lstat()):
                self._path.unlink()
        except OSError as error:
            _log.warning("ready file not removed", file=str(self._path), error=error.strerror)
        finally:
            os.close(self._lock)
            self._lock = None

    @property
    def _draft(self) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.{os.getpid()}")

    def _unusable(self, error: OSError) -> InvalidInput:
        return InvalidInput(
            _OPTION, str(self._path), f"{error.strerror}: name a file in a directory that this user can write to"
        )


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock of a file of this process."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _has_running_writer(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
