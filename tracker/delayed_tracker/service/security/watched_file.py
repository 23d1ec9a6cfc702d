"""A file of the operator that is parsed at the start, and again when it changes. A broken one leaves the last good one."""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.whole_file import read_whole
from delayed_tracker.service.security.file_watch import FileWatch

T = TypeVar("T")


class WatchedFile(Generic[T]):
    """The value that the last good content of a file stands for.

    Args:
        key: the setting that names the file, for errors.
        path: of the file.
        bytes_max: a longer file is refused.
        parse: raises InvalidInput.

    Raises:
        InvalidInput: the file is unusable at the start. Blocks.
    """

    def __init__(self, key: str, path: Path, *, bytes_max: int, parse: Callable[[bytes], T]) -> None:
        self._key = key
        self._path = path
        self._bytes_max = bytes_max
        self._parse = parse
        self._watch = FileWatch((path,))
        self._watch.changed()
        self.value = self._read()
        self.version = 1
        """The number of contents that were good."""

    def refresh(self) -> bool:
        """Read the file again if it has changed. Return True if there is another value. Blocks.

        Raises:
            InvalidInput: it cannot be read or parsed; raised once for each change.
        """
        if not self._watch.changed():
            return False
        self.value = self._read()
        self.version += 1
        return True

    def _read(self) -> T:
        try:
            return self._parse(read_whole(self._path, self._bytes_max))
        except OSError as error:
            remedy = f"{error.strerror or error}: name a readable file"
            raise InvalidInput(self._key, str(self._path), remedy) from error
        except InvalidInput as error:
            raise InvalidInput(self._key, str(self._path), error.message) from error
