"""Notices that files have changed, by their size, times and identity. Also follows links, which Kubernetes replaces.

A change of mode or owner counts, too: a file that could not be read before can be read now.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

_State: TypeAlias = tuple[int, int, int, int] | None


class FileWatch:
    """The state of some files when they were last looked at.

    Args:
        paths: of the files, which need not exist.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._seen: tuple[_State, ...] | None = None

    def changed(self) -> bool:
        """Return True if a file is not as at the last call; True at the first call. Blocks for some microseconds."""
        before, self._seen = self._seen, tuple(map(_state, self._paths))
        return before != self._seen


def _state(path: Path) -> _State:
    try:
        found = os.stat(path)  # noqa: PTH116  # one system call, for several values
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
