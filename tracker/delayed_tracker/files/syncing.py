"""Makes what was written survive a power failure: the content of a file, or the names in a directory."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until a file's content, or the new, renamed and removed names of a directory, are on disk.

    Raises:
        OSError: the path cannot be opened, or the disk fails. After a failed fsync the kernel may report a later one as
            done although the data is lost.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
