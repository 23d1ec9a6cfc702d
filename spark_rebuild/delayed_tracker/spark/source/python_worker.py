"""Manners of the processes that Spark runs Python in."""

import gc
import itertools
import sys
import traceback
from typing import Final

_tasks: Final = itertools.count()
"""Of this process."""


class _WithoutLostConnections:
    """Module ``traceback`` for Spark's daemon, silent about workers whose connection to Spark is gone."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """Print the exception that is handled, unless it only says that Spark has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            traceback.print_exc()


def end_quietly() -> None:
    """Let a worker process of Spark's daemon end without a traceback when Spark has closed its connection.

    A worker notices when it flushes its answer, after its task is done: over TCP the bytes go nowhere, over a Unix socket
    the flush fails. The daemon would print the traceback among the messages of a command that succeeded. Called when a
    task imports this package, it covers the task itself and all that follow in the process.
    """
    daemon = sys.modules["__main__"]
    if getattr(daemon.__spec__, "name", None) == "pyspark.daemon" and hasattr(daemon, "traceback"):
        daemon.traceback = _WithoutLostConnections  # type: ignore[attr-defined]


def spare_what_stays() -> None:
    """Take what is in memory for something that stays, when a process begins its first task and its second.

    Spark has workers look for garbage after each task. Among all that the compiler's library made when it was imported,
    and what the first task imported, that takes 0.1 s, half the time of reading, and there is none.
    """
    if next(_tasks) <= 1:
        gc.collect()
        gc.freeze()
