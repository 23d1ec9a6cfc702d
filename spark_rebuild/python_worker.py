"""Manners of the processes that Spark runs Python in."""

import gc
import itertools
import sys
from typing import Final

_tasks: Final = itertools.count()
"""Of this process."""


def end_quietly() -> None:
    """Have a process that Spark keeps for later end without a word when Spark has gone.

    It finds out when it tells Spark so. Over TCP that goes nowhere; over a Unix socket it fails, and Spark's daemon would
    print the traceback, among what a command says that has long succeeded.
    """
    daemon = sys.modules["__main__"]
    serve = getattr(daemon, "worker", None)
    if getattr(daemon.__spec__, "name", None) != "pyspark.daemon" or serve is None or hasattr(serve, "__wrapped__"):
        return

    def serve_quietly(*given: object) -> object:
        try:
            return serve(*given)
        except BrokenPipeError:
            return 1

    serve_quietly.__wrapped__ = serve  # type: ignore[attr-defined]
    daemon.worker = serve_quietly  # type: ignore[attr-defined]


def spare_what_stays() -> None:
    """Take what is in memory for something that stays, when a process begins its first task and its second.

    Spark has workers look for garbage after each task. Among all that the compiler's library made when it was imported,
    and what the first task imported, that takes 0.1 s, half the time of reading, and there is none.
    """
    if next(_tasks) <= 1:
        gc.collect()
        gc.freeze()
