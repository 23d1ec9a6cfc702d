"""Looks for trackers that nobody uses, and drops their cores from memory.

A tracker that is idle for ``tracker_idle_unload_ms`` is checkpointed: then the catalogue and the add log have all of it,
and it can be recovered at any time under its epoch. It stays open. ``recoveries`` brings it back before a call, and
before it falls due.

A tracker that was recovered for an opener who has gone has no owner. It is closed when it is unused for as long.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Final

from delayed_tracker.service.clock import Clock, Timer
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.log_keeper import LogKeeper
from delayed_tracker.service.trackers.tracker_work import TrackerWork

_LOOKS: Final = 4
"""Trackers are looked at this many times while the idle time passes."""
_LOOKED_AT_ONCE: Final = 256
"""Trackers looked at before other tasks of the event loop run."""
_UNLOADS_AT_ONCE: Final = 8


class IdleTrackers:
    """The trackers whose cores are not in memory, and the search for more of them.

    Args:
        limits: has the idle time.
        clock: for the time of the next search.
        log_keeper: learns the size of the records of unloaded trackers.
        trackers: returns the trackers that are in memory.
        find: returns one of them; None if it is not in memory.
        is_free: returns False while something is done with a tracker as a whole, such as an import.
        close: begins to close a tracker.
    """

    def __init__(
        self,
        limits: ServiceLimits,
        clock: Clock,
        log_keeper: LogKeeper,
        trackers: Callable[[], Iterable[TrackerHost]],
        *,
        find: Callable[[TrackerKey], TrackerHost | None],
        is_free: Callable[[TrackerKey], bool],
        close: Callable[[TrackerHost], object],
    ) -> None:
        self.unload_count = 0
        """Unloads since the start."""
        self.reload_count = 0
        """Returns to memory since the start."""
        self._limits = limits
        self._clock = clock
        self._log_keeper = log_keeper
        self._trackers = trackers
        self._find = find
        self._unloads = TrackerWork("unloading an idle tracker", self._unload, at_once=_UNLOADS_AT_ONCE, clock=clock)
        self._is_free = is_free
        self._close_tracker = close
        self._unloaded: set[TrackerKey] = set()
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def unloaded_count(self) -> int:
        """Trackers that are open and not in memory."""
        return len(self._unloaded)

    def watch(self) -> None:
        """Look for idle trackers from now on; called when a tracker is in memory."""
        idle_ms = self._limits.tracker_idle_unload_ms
        if idle_ms and self._timer is None and self._task is None and not self._closing:
            self._timer = self._clock.call_later(max(1, idle_ms / _LOOKS), self._begin)

    def limits_changed(self) -> None:
        """Look by the setting of now, which may be shorter than before, or no longer 0."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.watch()

    def returned(self, key: TrackerKey) -> None:
        """Note that a tracker is in memory again."""
        self._unloaded.discard(key)
        self.reload_count += 1
        self.watch()

    def closed(self, key: TrackerKey) -> None:
        """Note that a tracker is not open any more."""
        self._unloaded.discard(key)

    def _begin(self) -> None:
        self._timer = None
        # An empty context: the search does not belong to the call that opened a tracker.
        self._task = asyncio.get_running_loop().create_task(self._run(), context=Context())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "unloading idle trackers failed", "exception": error})
        if any(True for _ in self._trackers()):
            self.watch()

    async def _run(self) -> None:
        for number, tracker in enumerate(list(self._trackers()), start=1):
            if self._closing:
                return
            if self._may_rest(tracker):
                self._unloads.ask(tracker.key)
            elif self._may_close(tracker):
                self._close_tracker(tracker)
            if number % _LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _may_rest(self, tracker: TrackerHost) -> bool:
        # The setting may have been changed to 0 meanwhile.
        idle_ms = self._limits.tracker_idle_unload_ms
        return idle_ms > 0 and self._is_free(tracker.key) and tracker.is_idle(idle_ms)

    def _may_close(self, tracker: TrackerHost) -> bool:
        idle_ms = self._limits.tracker_idle_unload_ms
        return idle_ms > 0 and self._is_free(tracker.key) and tracker.is_abandoned(idle_ms)

    async def _unload(self, key: TrackerKey) -> None:
        tracker = self._find(key)
        if tracker is None or not self._may_rest(tracker):
            return
        # Somebody may have used it during the checkpoint.
        if await tracker.checkpoint() and self._may_rest(tracker) and tracker.is_logged and not self._closing:
            tracker.unload()
            self._log_keeper.closed(tracker.key, tracker.log_bytes)
            self._unloaded.add(tracker.key)
            self.unload_count += 1

    async def close(self) -> None:
        """Unload nothing more, and return when nothing is under way."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            if self._task is not None:
                await asyncio.wait([self._task])
        finally:
            await self._unloads.close()
