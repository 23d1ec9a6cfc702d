"""Writes files that others may be reading: a new file takes the place of the old one in one step."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a name beside ``path`` for the new content; at the end of the block it takes the place of ``path``.

    After an error the old file is as it was, and the new one is removed.

    Raises:
        OSError: the file cannot be renamed; so is an error of the block.
    """
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield written
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)
