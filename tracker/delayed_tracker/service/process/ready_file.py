"""The file that tells a supervisor that calls are answered, and where."""

import os
from pathlib import Path
from typing import Final

import structlog

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.home_paths import refuse_home_path

_OPTION: Final = "--ready-file"

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class ReadyFile:
    """A file that appears whole, and is there only while the service answers.

    Args:
        path: which; None is none.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def prepare(self) -> None:
        """Remove what an earlier service left, and make sure that the file can be written before anything is opened.

        Raises:
            InvalidInput: it cannot.
        """
        if self._path is None:
            return
        refuse_home_path(_OPTION, str(self._path), str(self._path))
        try:
            self._path.unlink(missing_ok=True)
            self._draft.touch()
            self._draft.unlink()
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, text: str) -> None:
        """Make the file appear.

        Raises:
            InvalidInput: it cannot be written.
        """
        if self._path is None:
            return
        try:
            self._draft.write_text(text, encoding="utf-8")
            self._draft.replace(self._path)
        except OSError as error:
            raise self._unusable(error) from error

    def remove(self) -> None:
        """Make the file disappear; that it cannot be removed keeps nothing else from being closed."""
        if self._path is None:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("ready file not removed", file=str(self._path), error=error.strerror)

    @property
    def _draft(self) -> Path:
        assert self._path is not None
        return self._path.with_name(f"{self._path.name}.{os.getpid()}")

    def _unusable(self, error: OSError) -> InvalidInput:
        return InvalidInput(
            _OPTION, str(self._path), f"{error.strerror}: name a file in a directory that this user can write to"
        )
