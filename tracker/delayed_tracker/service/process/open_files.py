"""Raises the process's limit of open files at the start, and divides it among both ports and everything else.

Connections never take the descriptors that the storage needs: a full port refuses clients, and the service goes on to
serve the connected ones.
"""

import contextlib
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput

OPEN_FILES_MIN: Final = 128
"""A service at rest has about 30 files open."""
_RAISED_TO_MAX: Final = 2**20
"""Containers often have a hard limit of 10**9, for which some libraries allocate tables."""
_PROCESS_FILES: Final = 128
"""Files of the process itself: libraries, logs, ledgers, and sockets that are accepted only to be closed."""
_CONNECTIONS_MIN: Final = 16
_GRPC_DEFAULT_MAX: Final = 10_000
"""An idle connection takes 13 KB of memory: 130 MB for so many."""
_HTTP_DEFAULT_MAX: Final = 256


class OpenFilesLimitTooLow(DelayedTrackerError):
    """The process may open too few files. Raise the limit."""

    reason = "OPEN_FILES_LIMIT_TOO_LOW"

    def __init__(self, limit: int, required: int) -> None:
        super().__init__(
            f"the limit of open files is {limit}, the service needs {required}: raise it (ulimit -n, LimitNOFILE= of systemd)",
            metadata={"limit": str(limit), "required": str(required)},
        )


@dataclass(frozen=True, slots=True)
class ConnectionCaps:
    """Maximum of connections of each port."""

    grpc: int
    http: int

    @classmethod
    def within(
        cls, open_files_max: int, *, storage_operations_max: int, open_count: int = 0, grpc: int = 0, http: int = 0
    ) -> "ConnectionCaps":
        """Divide a limit of open files.

        Args:
            open_files_max: the limit of the process.
            storage_operations_max: descriptors that the storage may need at the same time.
            open_count: files that are open already; ledgers keep one for each of their logs.
            grpc: connections as configured; 0 takes what is left, up to 10,000.
            http: connections as configured; 0 takes a quarter of what is left, up to 256.

        Raises:
            OpenFilesLimitTooLow: the service cannot work within this limit.
            InvalidInput: the configured connections do not fit into it.
        """
        if open_files_max < OPEN_FILES_MIN:
            raise OpenFilesLimitTooLow(open_files_max, OPEN_FILES_MIN)
        reserved = min(_PROCESS_FILES + storage_operations_max, open_files_max // 2)
        kept_open = max(open_count - _PROCESS_FILES // 2, 0)
        available = open_files_max - reserved - kept_open
        if available < _CONNECTIONS_MIN:
            raise OpenFilesLimitTooLow(open_files_max, open_files_max + _CONNECTIONS_MIN - available)
        if max(grpc, 1) + max(http, 1) > available:
            key, wanted = ("grpcConnectionsMax", grpc) if grpc >= http else ("httpConnectionsMax", http)
            remedy = (
                f"of the limit of {open_files_max} open files {available} are left for connections of both ports: lower "
                "this, or raise the limit (ulimit -n, LimitNOFILE= of systemd)"
            )
            raise InvalidInput(key, wanted, remedy)
        http = http or min(_HTTP_DEFAULT_MAX, available // 4, available - max(grpc, 1))
        return cls(grpc or min(_GRPC_DEFAULT_MAX, available - http), http)


def open_files_limit() -> int:
    """Return the number of files that this process may have open at the same time."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _RAISED_TO_MAX if soft == resource.RLIM_INFINITY else soft


def open_files_count() -> int:
    """Return the number of files that this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def raise_open_files_limit() -> None:
    """Raise the soft limit to the hard one. The soft limit is low only for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _RAISED_TO_MAX if hard == resource.RLIM_INFINITY else min(hard, _RAISED_TO_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # The kernel's own limit may be below the hard one. Connections are then bounded by the soft one.
        with contextlib.suppress(ValueError, PermissionError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
