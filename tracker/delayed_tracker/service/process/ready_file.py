"""The file that shows a supervisor that the service answers calls, and on which addresses."""

import os
from pathlib import Path
from typing import Final

import structlog

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.home_paths import refuse_home_path

_OPTION: Final = "--ready-file"

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class ReadyFile:
    """A file that appears complete, and exists only while the service answers.

    Args:
        path: path of the file; None for no file.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def prepare(self) -> None:
        """Remove a file of an earlier service, and check that the file is writable before anything is opened.

        Raises:
            InvalidInput: the file is not writable.
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
        """Create the file in one step.

        Raises:
            InvalidInput: the file cannot be written.
        """
        if self._path is None:
            return
        try:
            self._draft.write_text(text, encoding="utf-8")
            self._draft.replace(self._path)
        except OSError as error:
            raise self._unusable(error) from error

    def remove(self) -> None:
        """Remove the file. A failure is logged, so that the rest of the service is still closed."""
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
