"""Workarounds for PySpark's Python workers."""

import ctypes
import gc
import itertools
import os
import sys
import traceback
from types import ModuleType
from typing import Final

_tasks: Final = itertools.count()
"""Counter of the tasks of this process."""


_M_MMAP_THRESHOLD: Final = -3
_M_TRIM_THRESHOLD: Final = -1
_MAPPED_FROM_BYTES: Final = 32 * 1024 * 1024
"""Size from which an array is mapped by itself: the largest that glibc takes, above those of a piece of entries."""
_KEPT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Most bytes at the end of the heap that a worker keeps although it does not use them."""
_ALLOCATOR_VARIABLES: Final = ("MALLOC_", "GLIBC_TUNABLES")


class _WithoutLostConnections:
    """Replacement of module ``traceback`` for Spark's daemon; silent about lost connections of workers."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """Print the current exception unless it is a lost connection to Spark."""
        if not isinstance(sys.exception(), ConnectionError):
            traceback.print_exc()


def suppress_disconnect_traceback(daemon: ModuleType | None = None) -> None:
    """Let a worker process of Spark's daemon end without a traceback when Spark has closed its connection.

    A worker detects this when it flushes its answer after its task: over TCP the bytes are lost, over a Unix socket the
    flush fails. The daemon would print the traceback among the messages of a command that succeeded. A task calls this
    when it imports this package; it then applies to that task and to all later ones in the process.

    Args:
        daemon: the module ``pyspark.daemon``; None for the program of this process, if it is that module.
    """
    daemon = daemon or sys.modules["__main__"]
    if _is_daemon(daemon) and hasattr(daemon, "traceback"):
        daemon.traceback = _WithoutLostConnections  # type: ignore[attr-defined]


def is_worker() -> bool:
    """Return True in a worker process of Spark's own daemon."""
    return _is_daemon(sys.modules["__main__"])


def _is_daemon(program: ModuleType) -> bool:
    return getattr(program.__spec__, "name", None) == "pyspark.daemon"


def keep_freed_memory() -> None:
    """Let a worker process of Spark's daemon use freed memory again for its next piece of entries.

    By default glibc gives arrays of megabytes back, and the system clears the pages of the next ones: a quarter of the time
    of reading blobs, a tenth of reading entry logs. Does nothing with another C library, or where the environment has
    settings for its allocator.
    """
    if os.name != "posix" or any(name.startswith(_ALLOCATOR_VARIABLES) for name in os.environ):
        return
    c_library = ctypes.CDLL(None)
    if hasattr(c_library, "mallopt"):
        c_library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        c_library.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)


def freeze_heap() -> None:
    """Freeze the heap before the first two tasks of a process: saves 0.1 s of garbage collection per task.

    Spark makes workers collect garbage after each task. The collection visits all objects that the import of the
    compiler's library and the first task created. That takes half the time of reading, and frees nothing.
    """
    if next(_tasks) <= 1:
        gc.collect()
        gc.freeze()
