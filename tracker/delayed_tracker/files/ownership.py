"""Owner of files that root makes for a service that runs as another user: without it the service could not open them."""

import contextlib
import os
from pathlib import Path


def give_owner(descriptor: int, place: Path) -> None:
    """Give an open file the owner and the group of the file at ``place``, or of the directory if there is no such file.

    Does nothing unless the process runs as root, or if root may not do that here, as on a network's file system.

    Raises:
        OSError: the file or the directory cannot be examined.
    """
    if os.geteuid() != 0:
        return
    try:
        wanted = place.stat()
    except FileNotFoundError:
        wanted = place.parent.stat()
    present = os.fstat(descriptor)
    if (present.st_uid, present.st_gid) != (wanted.st_uid, wanted.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, wanted.st_uid, wanted.st_gid)
