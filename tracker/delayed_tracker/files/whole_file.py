"""Reads whole files up to a bound, because a path may name a device or a pipe without an end."""

import errno
from pathlib import Path


def read_whole(path: str | Path, bytes_max: int) -> bytes:
    """Return the content of a file, a pipe or a device.

    Args:
        path: path of the file.
        bytes_max: most bytes that the file may have.
    Raises:
        OSError: the file cannot be read, or has more bytes (EFBIG).
    Cost: O(bytes), and ``bytes_max`` at most in time and memory.
    """
    with Path(path).open("rb") as opened:
        content = opened.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it has more than {bytes_max} bytes", str(path))
    return content
