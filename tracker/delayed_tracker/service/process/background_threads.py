"""Threads that sort, encode and decode snapshots. No caller waits for them, so the event loop has priority."""

import contextlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

NICENESS: Final = 10
"""Added to the niceness of the process. While a million indexes sealed and 40 buckets merged on two cores that clients
used as well, adds at a steady rate took 20 ms at p99.9 without it and 13 ms with it; sealing and merging took no
longer.
"""

_NICENESS_MAX: Final = 19


def background_threads(count: int) -> ThreadPoolExecutor:
    """Return a pool of ``count`` threads that run only when calls leave the processors free."""
    return ThreadPoolExecutor(count, thread_name_prefix="delayed-tracker-worker", initializer=_give_way)


def _give_way() -> None:
    # Only Linux has a niceness for each thread; elsewhere this would slow down the event loop, too.
    if sys.platform != "linux":
        return
    thread = threading.get_native_id()
    # A filter of system calls may refuse it. Without its threads the service could store nothing.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, min(_NICENESS_MAX, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS))
