"""Keeps the add log short: decides which tracker records its consumed positions, so that its records can be cut.

A tracker is looked at when its records have grown by a small part of the log's limit, and when a snapshot was stored. If
enough of its records need not be kept any more, the catalogue learns what was consumed, and they are cut.

From half of the log's limit on, the trackers that hold most of it are sealed, the largest first; also trackers that no
dispatcher has opened since the start, which are loaded for it and closed again.

What the storage refuses is tried again after a pause: a full log takes no records whose commit would be another occasion.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.clock import Clock, Timer
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.log_writer import LogWriter
from delayed_tracker.service.storage.tracker_log import TrackerLog

_GROWTH_SHARE: Final = 4_096
"""A tracker is looked at each time that its records have grown by this part of the log's limit: 256 KiB by default."""
_CUT_SHARE: Final = 2
"""Records are cut if at least one part in this many of a tracker's records can be."""


class LoggedTracker(Protocol):
    """Open tracker, as far as its part of the log is concerned."""

    @property
    def key(self) -> TrackerKey:
        """Topic and subscription."""
        ...

    @property
    def log_bytes(self) -> int:
        """Bytes that the log has of it."""
        ...

    @property
    def sealing_count(self) -> int:
        """Positions that are being stored, or wait for another attempt."""
        ...

    def cuttable_log_bytes(self) -> int:
        """Return the bytes that a checkpoint would free."""
        ...

    async def checkpoint(self) -> bool:
        """Record the consumed positions, and cut. Return False if that failed."""
        ...

    def seal_open_buckets(self) -> int:
        """Seal the buckets that are still filling, and return the number of their positions."""
        ...


class LogKeeper:
    """The sizes of all trackers' records, and the work that keeps them small.

    Args:
        writer: of the log.
        trackers: returns the open trackers.
        relieve: loads a tracker that is not open, seals it and closes it.
        clock: for pauses.
        retry_ms: pause after a checkpoint or a relief that failed.
    """

    def __init__(
        self,
        writer: LogWriter,
        trackers: Callable[[], Iterable[LoggedTracker]],
        relieve: Callable[[TrackerKey], Awaitable[None]],
        *,
        clock: Clock,
        retry_ms: int,
    ) -> None:
        self.unloaded: dict[TrackerKey, int] = {}
        """Bytes of the records of each tracker that is not open."""
        self.checkpoint_count = 0
        """Checkpoints that were recorded and have cut the log."""
        self._clock = clock
        self._retry_ms = retry_ms
        self._retry: Timer | None = None
        self._writer = writer
        self._trackers = trackers
        self._relieve = relieve
        self._wanted: dict[TrackerKey, None] = {}
        self._looked_at: dict[TrackerKey, int] = {}
        self._sealing: set[TrackerKey] = set()
        self._emptying: set[TrackerKey] = set()
        self._task: asyncio.Task[None] | None = None
        self._relief: asyncio.Task[None] | None = None
        self._closing = False
        writer.committed = self.committed

    @property
    def growth_bytes(self) -> int:
        """Bytes by which the records of a tracker grow between two looks."""
        return self._writer.limits.add_log_bytes_max // _GROWTH_SHARE

    @property
    def _is_half_full(self) -> bool:
        return 2 * self._writer.log_bytes >= self._writer.limits.add_log_bytes_max

    def opened(self, key: TrackerKey, log_bytes: int) -> None:
        """Note that a tracker is open, and how many bytes of records it has found."""
        self._writer.log_bytes += log_bytes - self.unloaded.pop(key, 0)

    def closed(self, key: TrackerKey, log_bytes: int) -> None:
        """Note that a tracker is closed, and how many bytes of records it has left."""
        self._looked_at.pop(key, None)
        self._wanted.pop(key, None)
        self._sealing.discard(key)
        self._emptying.discard(key)
        if log_bytes:
            self.unloaded[key] = log_bytes

    def emptied(self, key: TrackerKey) -> None:
        """Note that a tracker that is not open has no records any more."""
        self._writer.log_bytes -= self.unloaded.pop(key, 0)

    def committed(self, tracker: TrackerLog) -> None:
        """Look at a tracker if its records have grown enough; make room if the log is half full."""
        if tracker.log_bytes >= self._looked_at.get(tracker.key, 0) + self.growth_bytes:
            self._look_at(tracker.key, tracker.log_bytes)
        if self._is_half_full and not self._sealing:
            self._begin()

    def stored(self, key: TrackerKey, log_bytes: int) -> None:
        """Look at a tracker whose snapshot was stored, unless its records are few: a checkpoint is a write, too."""
        self._sealing.discard(key)
        if log_bytes >= self.growth_bytes or self._is_half_full or key in self._emptying:
            self._look_at(key, log_bytes)

    def empty(self, key: TrackerKey) -> None:
        """Cut the records of a tracker, however few, now and when what is sealed is stored."""
        self._emptying.add(key)
        self._wanted[key] = None
        self._begin()

    def _look_at(self, key: TrackerKey, log_bytes: int) -> None:
        self._looked_at[key] = log_bytes
        self._wanted[key] = None
        self._begin()

    def _begin(self) -> None:
        if self._task is None and not self._closing:
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._ended)

    def _begin_later(self) -> None:
        if self._retry is None and not self._closing:
            self._retry = self._clock.call_later(self._retry_ms, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._begin()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._task is task:  # cancelled before it ran
            self._task = None
        if self._relief is task:
            self._relief = None
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "keeping the add log short failed", "exception": error})

    async def _run(self) -> None:
        try:
            await self._keep_short()
        finally:
            # In the same step as the last look at what is wanted: what comes later begins a task of its own.
            self._task = None

    async def _keep_short(self) -> None:
        failed: dict[TrackerKey, None] = {}
        while self._wanted and not self._closing:
            wanted, self._wanted = self._wanted, {}
            for tracker in [tracker for tracker in self._trackers() if tracker.key in wanted]:
                if not tracker.sealing_count:  # what was sealed is stored, or gone
                    self._sealing.discard(tracker.key)
                if not await self._checkpoint(tracker):
                    failed[tracker.key] = None
        if self._is_half_full and not self._closing:
            failed |= await self._make_room()
        if failed:
            self._wanted |= failed
            self._begin_later()

    async def _checkpoint(self, tracker: LoggedTracker) -> bool:
        """Cut the records of a tracker if that frees enough. Return False if it failed."""
        key, cuttable = tracker.key, tracker.cuttable_log_bytes()
        is_enough = _CUT_SHARE * cuttable >= tracker.log_bytes or self._is_half_full or key in self._emptying
        if cuttable and is_enough:
            if not await tracker.checkpoint():
                return False
            self.checkpoint_count += 1
            self._looked_at[key] = tracker.log_bytes
        if not tracker.sealing_count:  # what was sealed is stored, and cut; what came later stays
            self._emptying.discard(key)
        return True

    async def _make_room(self) -> dict[TrackerKey, None]:
        """Begin to seal what holds a quarter of the log's limit, and cut what is consumed; return those that failed."""
        wanted = self._writer.limits.add_log_bytes_max // 4
        consumed: list[LoggedTracker] = []
        sizes = {tracker.key: tracker for tracker in self._trackers() if tracker.log_bytes}
        for tracker in sorted(sizes.values(), key=lambda each: each.log_bytes, reverse=True):
            if wanted <= 0:
                break
            wanted -= tracker.log_bytes
            # Once, until that is stored: an outage would leave a bucket for each attempt.
            if not tracker.sealing_count and tracker.seal_open_buckets():
                self._wanted[tracker.key] = None
            else:
                consumed.append(tracker)
            self._sealing.add(tracker.key)
        if wanted > 0 and self.unloaded and self._relief is None:
            # In a task of its own: recoveries may take long, and open trackers are checkpointed meanwhile.
            self._relief = asyncio.get_running_loop().create_task(self._relieve_unloaded(wanted))
            self._relief.add_done_callback(self._ended)
        return {tracker.key: None for tracker in consumed if not await self._checkpoint(tracker)}

    async def _relieve_unloaded(self, wanted: int) -> None:
        """Store what the log has of trackers that are not open, the largest first, until ``wanted`` bytes are free."""
        try:
            for key, size in sorted(self.unloaded.items(), key=lambda each: each[1], reverse=True):
                if wanted <= 0 or self._closing:
                    return
                wanted -= size
                try:
                    await self._relieve(key)
                except DelayedTrackerError:  # an open says why
                    self._begin_later()
        finally:
            self._relief = None

    async def close(self) -> None:
        """Begin nothing more, and return when nothing is under way."""
        self._closing = True
        if self._retry is not None:
            self._retry.cancel()
        if under_way := [task for task in (self._task, self._relief) if task is not None]:
            await asyncio.wait(under_way)
