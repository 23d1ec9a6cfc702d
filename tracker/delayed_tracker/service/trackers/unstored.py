"""How many indexes may be in memory that no snapshot has yet: of one tracker, and of all together.

They are the filling buckets, late positions, sealed buckets that are being stored or could not be, and all that a tracker
in memory has. At the maximum nothing new is tracked: a call is refused (``Overloaded``), a stream waits in line. Below it
a whole batch comes in, so each maximum is exceeded by less than a batch. What makes room (acks, polls, cancels, the
mark-delete position) is never refused, nor is a batch in which nothing is new.

A process that is full of filling buckets would wait for ever. So these are sealed early, the largest first, until a
quarter of the maximum is on its way to the storage; as it arrives there, room comes back.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Final, Protocol

from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.errors import Overloaded, TrackerKey
from delayed_tracker.service.limits import ServiceLimits

_SEALING_SHARE: Final = 4
"""One part in so many of a maximum is to be on its way to the storage when it is reached."""


class Sealable(Protocol):
    """A tracker whose buckets can be sealed early."""

    unstored: "UnstoredShare"

    def seal_open(self) -> None:
        """Seal what is still filling."""
        ...


class UnstoredBound:
    """The unstored indexes of all trackers of one process.

    Args:
        limits: both maxima.
        kind: trackers in memory cannot seal.
        trackers: all that can be sealed now, in any order.
    """

    def __init__(self, limits: ServiceLimits, kind: TrackerKind, trackers: Callable[[], Iterable[Sealable]]) -> None:
        self.limits = limits
        self.unstored_count = 0
        """Of all trackers."""
        self.refused_count = 0
        """Calls that were refused."""
        self.held_back_count = 0
        """Times that a stream began to wait."""
        self.waiting_count = 0
        """Streams that wait now."""
        self._sealing_count = 0
        self._can_seal = kind is TrackerKind.BUCKET
        self._trackers = trackers
        self._lines: dict[UnstoredShare, list[asyncio.Future[None]]] = {}
        """The streams that wait, by their tracker; the tracker that was called last stands behind the others."""
        self._crowded: set[UnstoredShare] = set()
        """Trackers that are to seal early."""
        self._is_sealing_soon = False

    def share(self) -> "UnstoredShare":
        """The part of one more tracker, which has nothing."""
        return UnstoredShare(self)

    @property
    def is_full(self) -> bool:
        """Whether no tracker may take more."""
        return self.unstored_count >= self.limits.unstored_indexes_max

    def changed(self, share: "UnstoredShare", unstored: int, sealing: int) -> None:
        """A tracker has so many more, and so many more of them on their way to the storage."""
        self.unstored_count += unstored
        self._sealing_count += sealing
        is_full = self.unstored_count >= self.limits.unstored_indexes_max
        if self._can_seal and (is_full or share.unstored_count >= self.limits.tracker_unstored_indexes_max):
            self._seal_if_wanted(share)
        if self._lines and not is_full:
            self.call_next()

    def _seal_if_wanted(self, share: "UnstoredShare") -> None:
        if share.is_full and share.wants_seals:
            self._crowded.add(share)
        if self._crowded or self._wants_seals:
            self._seal_soon()

    @property
    def _wants_seals(self) -> bool:
        return self.is_full and _SEALING_SHARE * self._sealing_count < self.limits.unstored_indexes_max

    def _seal_soon(self) -> None:
        """Seal when the step that has filled it is over."""
        if not self._is_sealing_soon:
            self._is_sealing_soon = True
            # Not done for the call that happened to be the last.
            asyncio.get_running_loop().call_soon(self._seal, context=Context())

    def _seal(self) -> None:
        self._is_sealing_soon = False
        crowded, self._crowded = self._crowded, set()
        trackers = list(self._trackers())
        for tracker in trackers:
            if tracker.unstored in crowded:
                tracker.seal_open()
        if not self._wants_seals:
            return
        for tracker in sorted(trackers, key=lambda one: one.unstored.filling_count, reverse=True):
            if not self._wants_seals or not tracker.unstored.filling_count:
                return
            tracker.seal_open()

    async def turn(self, share: "UnstoredShare") -> None:
        """Stand in line; see :meth:`UnstoredShare.turn`."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        line = self._lines.setdefault(share, [])
        line.append(turn)
        self.held_back_count += 1
        self.waiting_count += 1
        try:
            await turn
        finally:
            self.waiting_count -= 1
            line.remove(turn)
            if not line:
                self._lines.pop(share)
            # This one may need no room, or be gone: the next is called once it has had its chance.
            loop.call_soon(self.call_next, context=Context())

    def call_next(self) -> None:
        """Let the first stream of each tracker that has room look, in turns where all share the room."""
        if not self._lines or self.is_full:
            return
        for share in [share for share in self._lines if not share.is_full]:
            line = self._lines[share] = self._lines.pop(share)
            _call(line[0])

    def call_all(self, share: "UnstoredShare") -> None:
        """Let all streams of a tracker look."""
        for turn in self._lines.get(share, ()):
            _call(turn)


class UnstoredShare:
    """The unstored indexes of one tracker, and the streams that wait to add to it."""

    __slots__ = ("_bound", "_sealing_count", "unstored_count")

    def __init__(self, bound: UnstoredBound) -> None:
        self._bound = bound
        self._sealing_count = 0
        self.unstored_count = 0
        """In memory, and in no snapshot."""

    @property
    def filling_count(self) -> int:
        """Those that are not on their way to the storage."""
        return self.unstored_count - self._sealing_count

    @property
    def is_full(self) -> bool:
        """Whether this tracker has as many as one may have."""
        return self.unstored_count >= self._bound.limits.tracker_unstored_indexes_max

    @property
    def wants_seals(self) -> bool:
        """Whether little of it is on its way to the storage."""
        return _SEALING_SHARE * self._sealing_count < self.unstored_count

    @property
    def has_room(self) -> bool:
        """Whether the tracker may take a batch."""
        bound, limits = self._bound, self._bound.limits
        return (
            bound.unstored_count < limits.unstored_indexes_max
            and self.unstored_count < limits.tracker_unstored_indexes_max
        )

    def hold(self, unstored_count: int, sealing_count: int) -> None:
        """Say how many there are now, and how many of them are on their way to the storage. O(1) but for who waits."""
        unstored, sealing = unstored_count - self.unstored_count, sealing_count - self._sealing_count
        if unstored or sealing:
            self.unstored_count, self._sealing_count = unstored_count, sealing_count
            self._bound.changed(self, unstored, sealing)

    def refusal(self, key: TrackerKey) -> Overloaded:
        """The error for a call that comes while there is no room; it is counted."""
        bound = self._bound
        bound.refused_count += 1
        if bound.is_full:
            said = f"{bound.unstored_count} indexes of all trackers are in no snapshot yet (unstoredIndexesMax)"
        else:
            said = f"{self.unstored_count} indexes of subscription {key} are in no snapshot yet (trackerUnstoredIndexesMax)"
        return Overloaded(f"{said}, and nothing was applied", retry_after_ms=bound.limits.retry_after_ms)

    async def turn(self) -> None:
        """Wait in line until there is room, or the tracker was closed or has another epoch.

        Whoever returns looks again, and takes the room before the next await: others may come first.
        """
        await self._bound.turn(self)

    def call_all(self) -> None:
        """Let every stream that waits look: the tracker was closed, or its epoch is another."""
        self._bound.call_all(self)

    def close(self) -> None:
        """The tracker is gone, with all that it had."""
        self.call_all()
        self.hold(0, 0)


def _call(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
