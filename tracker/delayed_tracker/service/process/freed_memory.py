"""Returns freed memory to the operating system when the process is at rest.

glibc keeps freed memory between blocks in use: after a million indexes were drained it kept 40 MB of unused memory.
``malloc_trim`` returns it. That takes up to 20 ms for 100 MB, during which allocations of other threads wait, and
returned pages must be mapped again. So it happens after work and not during it, or every five minutes if the work does
not end. glibc would give each thread an arena, up to eight for each core, and ``malloc_trim`` does not shrink the top
of any arena but the first: 14 MB after a deletion of ten million. So there are two arenas: one for the event loop and
one for all other threads. With one arena for all, adds over gRPC took a tenth more processor time, measured on a busy
machine.

Measured and rejected: lower thresholds of the allocator (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD), which return pages at
once. The resident memory is the same, but storing and draining take a third more time.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from typing import Final

from delayed_tracker.service.clock import Clock, SystemClock, Timer

LOOK_MS: Final = 2_000
REST_SHARE_MAX: Final = 0.05
"""The process is at rest if it has used less than this share of one core since the last check."""
WORK_S_MIN: Final = 0.2
"""Processor time, in seconds, after which there may be memory to return."""
LOOKS_MAX: Final = 150
"""Checks after which freed memory is returned even during work: five minutes."""
_M_ARENA_MAX: Final = -8
"""Constant of glibc's ``malloc.h``."""


class MemoryTrimmer:
    """Timer that checks every two seconds if the process is at rest after work. Used from the event loop.

    Args:
        clock: runs the checks.
        cpu_s: returns the processor time of this process so far, in seconds.
        trim: returns free pages to the operating system; runs in a thread. None for C libraries other than glibc:
            there is nothing to do.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        cpu_s: Callable[[], float] = lambda: sum(os.times()[:2]),
        trim: Callable[[], None] | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._cpu_s = cpu_s
        self._trim = trim
        self._timer: Timer | None = None
        self._seen_s = self._given_back_s = 0.0
        self._looks = 0

    def start(self) -> None:
        """Start the checks. Processor time used so far counts as work."""
        if self._trim is not None and self._timer is None:
            self._seen_s = self._cpu_s()
            self._timer = self._clock.call_later(LOOK_MS, self._look)

    def stop(self) -> None:
        """Stop the checks. May be called if they are not running."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        assert self._trim is not None
        self._timer = self._clock.call_later(LOOK_MS, self._look)  # also if no thread can be started now
        now_s = self._cpu_s()
        used_s, self._seen_s = now_s - self._seen_s, now_s
        self._looks += 1
        rests = used_s <= REST_SHARE_MAX * LOOK_MS / 1_000
        if now_s - self._given_back_s >= WORK_S_MIN and (rests or self._looks >= LOOKS_MAX):
            asyncio.get_running_loop().run_in_executor(None, self._trim)
            self._given_back_s, self._looks = now_s, 0


def allocate_in_two_arenas() -> None:
    """Make all threads that start from now on share one arena, other than that of the first thread.

    Does nothing with a C library other than glibc, or if ``MALLOC_ARENA_MAX`` in the environment sets the number of
    arenas.
    """
    c_library = _c_library()
    if c_library is not None and hasattr(c_library, "mallopt") and "MALLOC_ARENA_MAX" not in os.environ:
        c_library.mallopt(_M_ARENA_MAX, 2)


def trim_of_this_process() -> Callable[[], None] | None:
    """Return a function that returns free pages of this process, in milliseconds; None if the C library has none."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is None:
        return None

    def trim_all() -> None:
        trim(0)

    return trim_all


def _c_library() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if os.name == "posix" else None
