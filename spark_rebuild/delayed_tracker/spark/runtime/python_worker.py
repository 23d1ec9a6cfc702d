"""Workarounds for PySpark's Python workers."""

import gc
import itertools
import sys
import traceback
from types import ModuleType
from typing import Final

_tasks: Final = itertools.count()
"""Counter of the tasks of this process."""


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
    if getattr(daemon.__spec__, "name", None) == "pyspark.daemon" and hasattr(daemon, "traceback"):
        daemon.traceback = _WithoutLostConnections  # type: ignore[attr-defined]


def freeze_heap() -> None:
    """Freeze the heap before the first two tasks of a process: saves 0.1 s of garbage collection per task.

    Spark makes workers collect garbage after each task. The collection visits all objects that the import of the
    compiler's library and the first task created. That takes half the time of reading, and frees nothing.
    """
    if next(_tasks) <= 1:
        gc.collect()
        gc.freeze()
