"""Memory that was freed goes back to the operating system, once the process has come to rest.

glibc keeps what is freed between what is not: after a million indexes were drained it held 40 MB that nobody used.
``malloc_trim`` gives them back. That takes up to 20 ms for 100 MB, for which allocations of other threads wait, and pages
given back must be made again; so it happens after work, not during it, and every five minutes if there is no end to it.
glibc would give each thread an arena, up to eight for each core, and of all but the first ``malloc_trim`` leaves the top
alone: 14 MB after a deletion of ten million. So there are two, that of the event loop and one for all other threads. With
one for all, adds over gRPC took a tenth more processor time, as far as a busy machine could tell.

Measured and rejected: lower thresholds of the allocator (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD), with which pages go back at
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
"""A process that has used less than this of one core since the last look is at rest."""
WORK_S_MIN: Final = 0.2
"""Processor time after which there may be something to give back."""
LOOKS_MAX: Final = 150
"""Looks after which freed memory goes back during work: five minutes."""
_M_ARENA_MAX: Final = -8
"""Of glibc's ``malloc.h``."""


class FreedMemory:
    """Looks every two seconds whether the process rests after work. Used from the event loop.

    Args:
        clock: when it looks.
        cpu_s: processor time of this process so far, in seconds.
        give_back: returns free pages to the operating system; runs in a thread. None, as for C libraries other than
            glibc: there is nothing to do.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        cpu_s: Callable[[], float] = lambda: sum(os.times()[:2]),
        give_back: Callable[[], None] | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._cpu_s = cpu_s
        self._give_back = give_back
        self._timer: Timer | None = None
        self._seen_s = self._given_back_s = 0.0
        self._looks = 0

    def start(self) -> None:
        """Begin to look; what was done so far counts as work."""
        if self._give_back is not None and self._timer is None:
            self._seen_s = self._cpu_s()
            self._timer = self._clock.call_later(LOOK_MS, self._look)

    def stop(self) -> None:
        """Look no more; harmless if nobody does."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        assert self._give_back is not None
        now_s = self._cpu_s()
        used_s, self._seen_s = now_s - self._seen_s, now_s
        self._looks += 1
        rests = used_s <= REST_SHARE_MAX * LOOK_MS / 1_000
        if now_s - self._given_back_s >= WORK_S_MIN and (rests or self._looks >= LOOKS_MAX):
            self._given_back_s, self._looks = now_s, 0
            asyncio.get_running_loop().run_in_executor(None, self._give_back)
        self._timer = self._clock.call_later(LOOK_MS, self._look)


def allocate_in_two_arenas() -> None:
    """Have all threads that are started from now on allocate in one arena, which is not that of the first thread.

    Nothing happens with another C library than glibc, or if ``MALLOC_ARENA_MAX`` in the environment says how many arenas
    there are to be.
    """
    c_library = _c_library()
    if c_library is not None and hasattr(c_library, "mallopt") and "MALLOC_ARENA_MAX" not in os.environ:
        c_library.mallopt(_M_ARENA_MAX, 2)


def trim_of_this_process() -> Callable[[], None] | None:
    """What gives free pages of this process back, or None if its C library has no such call. It takes milliseconds."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is None:
        return None

    def give_back() -> None:
        trim(0)

    return give_back


def _c_library() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if os.name == "posix" else None
