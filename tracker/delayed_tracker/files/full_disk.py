"""The errors of a disk without room."""

import errno
from typing import Final

FULL_DISK: Final = frozenset({errno.EDQUOT, errno.EFBIG, errno.ENOSPC})
"""Error numbers of the operating system: the quota is used up, the file would be too large, no space is left."""
