"""Keeps the add log short: decides which tracker records its consumed positions, so that its records can be cut.

A tracker is looked at when its records have grown by a small part of the log's limit, and when a snapshot was stored. If
enough of its records need not be kept any more, the catalogue learns what was consumed, and they are cut.

From half of the log's limit on, the trackers that hold most of it are sealed, the largest first; also trackers that no
dispatcher has opened since the start, which are loaded for it and closed again.

What the storage refuses is tried again after a pause: a full log takes no records whose commit would be another occasion.
A tracker whose storage hangs keeps no other one from being cut.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.clock import Clock, Timer
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.log_writer import LogWriter
from delayed_tracker.service.storage.tracker_log import TrackerLog
from delayed_tracker.service.trackers.tracker_work import TrackerWork

_GROWTH_SHARE: Final = 4_096
"""A tracker is looked at each time that its records have grown by this part of the log's limit: 256 KiB by default."""
_CUT_SHARE: Final = 2
"""Records are cut if at least one part in this many of a tracker's records can be."""
_ROOM_SHARE: Final = 8
"""Room is made again when a log that is half full has grown by this part of its limit ..."""
_ROOM_RETRIES: Final = 5
"""... or after this many pauses: a full log does not grow."""
_CHECKPOINTS_AT_ONCE: Final = 8
_RELIEFS_AT_ONCE: Final = 4


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
        trackers: returns the trackers that are in memory.
        find: returns one of them; None if it is not in memory.
        relieve: loads a tracker that is not open, seals it and closes it.
        clock: for pauses.
        retry_ms: pause after a checkpoint or a relief that failed.
    """

    def __init__(
        self,
        writer: LogWriter,
        trackers: Callable[[], Iterable[LoggedTracker]],
        find: Callable[[TrackerKey], LoggedTracker | None],
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
        self._find = find
        self._relieve = relieve
        self._checkpoints = TrackerWork("a checkpoint", self._checkpoint, at_once=_CHECKPOINTS_AT_ONCE, clock=clock)
        self._reliefs = TrackerWork(
            "storing a tracker that is not open", self._relieved, at_once=_RELIEFS_AT_ONCE, clock=clock
        )
        self._looked_at: dict[TrackerKey, int] = {}
        self._emptying: set[TrackerKey] = set()
        self._room_bytes = 0
        """Size of the log from which on room is made again, if it is half full."""
        self._room_made_ms = 0.0
        self._chosen: set[TrackerKey] = set()
        """Trackers that were sealed or cut to make room, the last time."""
        self._in_vain: set[TrackerKey] = set()
        """Trackers whose last checkpoint or relief failed."""
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
        self._writer.call_window_waiters()

    def closed(self, key: TrackerKey, log_bytes: int) -> None:
        """Note that a tracker is closed, and how many bytes of records it has left."""
        self._looked_at.pop(key, None)
        self._checkpoints.withdraw(key)
        self._in_vain.discard(key)
        self._emptying.discard(key)
        if log_bytes:
            self.unloaded[key] = log_bytes

    def emptied(self, key: TrackerKey) -> None:
        """Note that a tracker that is not open has no records any more."""
        self._writer.log_bytes -= self.unloaded.pop(key, 0)
        self._writer.call_window_waiters()
        self._in_vain.discard(key)

    def committed(self, tracker: TrackerLog) -> None:
        """Look at a tracker if its records have grown enough; make room if the log is half full."""
        if tracker.log_bytes >= self._looked_at.get(tracker.key, 0) + self.growth_bytes:
            self._look_at(tracker.key, tracker.log_bytes)
        self.make_room_in_time()

    def stored(self, key: TrackerKey, log_bytes: int) -> None:
        """Look at a tracker whose snapshot was stored, unless its records are few: a checkpoint is a write, too."""
        if log_bytes >= self.growth_bytes or self._is_half_full or key in self._emptying:
            self._look_at(key, log_bytes)
        self.make_room_in_time()

    def empty(self, key: TrackerKey) -> None:
        """Cut the records of a tracker, however few, now and when what is sealed is stored."""
        self._emptying.add(key)
        self._checkpoints.ask(key)

    def _look_at(self, key: TrackerKey, log_bytes: int) -> None:
        self._looked_at[key] = log_bytes
        self._checkpoints.ask(key)

    async def _checkpoint(self, key: TrackerKey) -> None:
        """Cut the records of a tracker if that frees enough. If it fails, try again after a pause."""
        if (tracker := self._find(key)) is None:
            return
        cuttable = tracker.cuttable_log_bytes()
        is_enough = _CUT_SHARE * cuttable >= tracker.log_bytes or self._is_half_full or key in self._emptying
        if cuttable and is_enough:
            if not await tracker.checkpoint():
                self._in_vain.add(key)
                self._begin_later()
                return
            self._in_vain.discard(key)
            self.checkpoint_count += 1
            self._looked_at[key] = tracker.log_bytes
            # The log has become shorter.
            self._room_bytes = min(self._room_bytes, self._next_room_bytes)
        if not tracker.sealing_count:  # what was sealed is stored, and cut; what came later stays
            self._emptying.discard(key)

    def make_room_in_time(self) -> None:
        """Make room if the log is half full, and longer by a part of its limit than when that was done last."""
        if not self._is_half_full:
            self._room_bytes = 0
        elif self._writer.log_bytes >= self._room_bytes:
            self._make_room()

    @property
    def _next_room_bytes(self) -> int:
        return self._writer.log_bytes + self._writer.limits.add_log_bytes_max // _ROOM_SHARE

    def _make_room(self) -> None:
        """Begin to seal what holds a quarter of the log's limit, the largest first, and to cut what is consumed of it.

        What failed, or was begun the last time and has not ended, is tried and does not count: it may never end.
        """
        if self._closing:
            return
        before, self._chosen = self._chosen, set()
        self._room_bytes, self._room_made_ms = self._next_room_bytes, self._clock.elapsed_ms()
        self._begin_later()
        wanted = self._writer.limits.add_log_bytes_max // 4
        logged = [tracker for tracker in self._trackers() if tracker.log_bytes]
        for tracker in sorted(logged, key=lambda each: each.log_bytes, reverse=True):
            if wanted <= 0:
                return
            key, is_sealing = tracker.key, tracker.sealing_count > 0
            hangs = key in before and (is_sealing or self._checkpoints.is_under_way(key))
            if not hangs and key not in self._in_vain:
                wanted -= tracker.log_bytes
            if not is_sealing:  # once, until that is stored: an outage would leave a bucket for each attempt
                tracker.seal_open_buckets()
            self._chosen.add(key)
            self._checkpoints.ask(key)
        for key, size in sorted(self.unloaded.items(), key=lambda each: each[1], reverse=True):
            if wanted <= 0:
                return
            if not self._reliefs.is_under_way(key):
                if key not in self._in_vain:
                    wanted -= size
                self._reliefs.ask(key)

    async def _relieved(self, key: TrackerKey) -> None:
        """Store what the log has of a tracker, if it is still not open."""
        if (before := self.unloaded.get(key)) is None:
            return
        try:
            await self._relieve(key)
        except DelayedTrackerError:  # an open says why
            is_shorter = False
        else:  # it is closed again, even if its snapshots could not be stored
            is_shorter = self.unloaded.get(key, 0) < before
        if is_shorter:
            self._in_vain.discard(key)
        else:
            self._in_vain.add(key)
            self._begin_later()

    def _begin_later(self) -> None:
        if self._retry is None and not self._closing:
            self._retry = self._clock.call_later(self._retry_ms, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        for key in self._in_vain:  # reliefs are chosen anew with the room that is still wanted
            self._checkpoints.ask(key)
        if self._is_half_full:
            if self._clock.elapsed_ms() - self._room_made_ms >= _ROOM_RETRIES * self._retry_ms:
                self._make_room()
            self._begin_later()

    async def close(self) -> None:
        """Begin nothing more, and return when nothing is under way."""
        self._closing = True
        if self._retry is not None:
            self._retry.cancel()
        await asyncio.gather(self._checkpoints.close(), self._reliefs.close())
