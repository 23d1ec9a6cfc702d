"""Bounds on the unstored indexes, which no snapshot contains: for one tracker, and for all trackers together.

Unstored indexes are those of mutable and late buckets, of sealed buckets that are not stored yet, and all indexes of an
in-memory tracker. At a maximum, no new index is accepted: a call is refused (``Overloaded``), a stream waits in line.
Below it, a whole batch is accepted, so each maximum is exceeded by less than a batch. Calls that make room (acks,
polls, cancels, the mark-delete position) are never refused, nor is a batch without new indexes.

If all room were taken by buckets that are still filling, the process would wait for ever. So these buckets are sealed
early, the largest first, until a quarter of the maximum is being stored. When they are stored, there is room again. What
is not stored within seconds, because its store fails or hangs, counts no more: the others share what it leaves, of which
a quarter is sealed in its place. Each time that this helps nothing, the next takes twice as long, for the storage may be
away, and every early seal is a small bucket.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Final, Protocol

from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.clock import Clock, Timer
from delayed_tracker.service.errors import Overloaded, TrackerKey
from delayed_tracker.service.limits import ServiceLimits

_SEALING_SHARE: Final = 4
"""At a maximum, one part in this many should be on its way to the storage."""
_STUCK_AFTER_MS: Final = 5_000
"""While all is full, a tracker of which nothing is stored from one look to the next makes no room; so long is between."""
_STUCK_AFTER_MAX_MS: Final = 300_000
"""Longest time between two looks."""


class Sealable(Protocol):
    """Tracker whose buckets can be sealed early."""

    @property
    def unstored(self) -> "UnstoredShare":
        """Its part of the bound."""
        ...

    def seal_open_buckets(self) -> int:
        """Seal the buckets that are still filling, and return the number of their positions."""
        ...


class UnstoredBound:
    """Bound on the unstored indexes of all trackers of one process.

    Args:
        limits: has both maxima.
        kind: in-memory trackers cannot seal.
        trackers: returns all trackers that can be sealed now, in any order.
        clock: measures how long nothing is stored.
    """

    def __init__(
        self, limits: ServiceLimits, kind: TrackerKind, trackers: Callable[[], Iterable[Sealable]], clock: Clock
    ) -> None:
        self.limits = limits
        self.unstored_count = 0
        """Unstored indexes of all trackers."""
        self.refused_count = 0
        """Calls refused since the start."""
        self.held_back_count = 0
        """Waits of streams since the start."""
        self.waiting_count = 0
        """Streams waiting now."""
        self._sealing_count = 0
        self._can_seal = kind is TrackerKind.BUCKET
        self._trackers = trackers
        self._clock = clock
        self._looked_at: dict[UnstoredShare, int] = {}
        """Sealing indexes of each tracker at the last look, for those of which none has been stored since."""
        self._stuck: dict[UnstoredShare, int] = {}
        """The same at the look before."""
        self._stuck_count = 0
        self._look: Timer | None = None
        self._look_after_ms = _STUCK_AFTER_MS
        self._lines: dict[UnstoredShare, list[asyncio.Future[None]]] = {}
        """Waiting streams of each tracker. The tracker that was called last is at the end."""
        self._crowded: set[UnstoredShare] = set()
        """Trackers at their own maximum, which must seal early."""
        self._is_sealing_soon = False

    def share(self) -> "UnstoredShare":
        """Return the share of a new tracker, which has no indexes."""
        return UnstoredShare(self)

    @property
    def is_full(self) -> bool:
        """True if no tracker may accept new indexes."""
        return self.unstored_count >= self.limits.unstored_indexes_max

    def changed(self, share: "UnstoredShare", unstored: int, sealing: int) -> None:
        """Add the changes of one tracker: unstored indexes, and those of them on their way to the storage."""
        self.unstored_count += unstored
        self._sealing_count += sealing
        if sealing < 0:
            self._looked_at.pop(share, None)
            self._stuck_count -= self._stuck.pop(share, 0)
            self._look_after_ms = _STUCK_AFTER_MS
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
        if self.is_full and self._look is None:
            self._look = self._clock.call_later(self._look_after_ms, self._look_again)

    @property
    def _wants_seals(self) -> bool:
        if not self.is_full or self._sealing_count == self.unstored_count:
            return False
        stuck = self._stuck_count
        return _SEALING_SHARE * (self._sealing_count - stuck) < self.limits.unstored_indexes_max - stuck

    def _look_again(self) -> None:
        """Find out which trackers make no room, and seal others in their place; look again while all is full."""
        self._look = None
        if not self.is_full:
            return
        self._stuck, self._looked_at = self._looked_at, {}
        self._stuck_count = sum(self._stuck.values())
        for tracker in self._trackers():
            if count := tracker.unstored.sealing_count:
                self._looked_at[tracker.unstored] = count
        if self._wants_seals:
            self._seal_soon()
            self._look_after_ms = min(2 * self._look_after_ms, _STUCK_AFTER_MAX_MS)
        self._look = self._clock.call_later(self._look_after_ms, self._look_again)

    def _seal_soon(self) -> None:
        """Seal after the present step has ended."""
        if not self._is_sealing_soon:
            self._is_sealing_soon = True
            # An empty context: the seals do not belong to the call that reached the maximum.
            asyncio.get_running_loop().call_soon(self._seal, context=Context())

    def _seal(self) -> None:
        self._is_sealing_soon = False
        crowded, self._crowded = self._crowded, set()
        trackers = list(self._trackers())
        for tracker in trackers:
            if tracker.unstored in crowded:
                tracker.seal_open_buckets()
        if not self._wants_seals:
            return
        for tracker in sorted(trackers, key=lambda one: one.unstored.filling_count, reverse=True):
            if not self._wants_seals or not tracker.unstored.filling_count:
                return
            tracker.seal_open_buckets()

    async def wait_for_room(self, share: "UnstoredShare") -> None:
        """Wait in line; see :meth:`UnstoredShare.turn`."""
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
            # This stream may need no room, or have ended. Call the next one after this one has had its chance.
            loop.call_soon(self.call_next, context=Context())

    def call_next(self) -> None:
        """Let the first stream of each tracker that has room try. The trackers take turns."""
        if not self._lines or self.is_full:
            return
        for share in [share for share in self._lines if not share.is_full]:
            line = self._lines[share] = self._lines.pop(share)
            _call(line[0])

    def call_all(self, share: "UnstoredShare") -> None:
        """Let all streams of a tracker try."""
        for turn in self._lines.get(share, ()):
            _call(turn)


class UnstoredShare:
    """Unstored indexes of one tracker, and the streams that wait to add to it."""

    __slots__ = ("_bound", "sealing_count", "unstored_count")

    def __init__(self, bound: UnstoredBound) -> None:
        self._bound = bound
        self.unstored_count = 0
        """Indexes in memory that no snapshot contains."""
        self.sealing_count = 0
        """Those of them that are on their way to the storage."""

    @property
    def filling_count(self) -> int:
        """Indexes that are not on their way to the storage."""
        return self.unstored_count - self.sealing_count

    @property
    def is_full(self) -> bool:
        """True if the tracker has reached its own maximum."""
        return self.unstored_count >= self._bound.limits.tracker_unstored_indexes_max

    @property
    def wants_seals(self) -> bool:
        """True if less than a quarter of the indexes are on their way to the storage."""
        return _SEALING_SHARE * self.sealing_count < self.unstored_count

    @property
    def has_room(self) -> bool:
        """True if the tracker may accept a batch."""
        bound, limits = self._bound, self._bound.limits
        return (
            bound.unstored_count < limits.unstored_indexes_max
            and self.unstored_count < limits.tracker_unstored_indexes_max
        )

    def hold(self, unstored_count: int, sealing_count: int) -> None:
        """Set the number of unstored indexes, and of those on their way to the storage.

        O(1), plus waking the streams that wait.
        """
        unstored, sealing = unstored_count - self.unstored_count, sealing_count - self.sealing_count
        if unstored or sealing:
            self.unstored_count, self.sealing_count = unstored_count, sealing_count
            self._bound.changed(self, unstored, sealing)

    def refusal(self, key: TrackerKey) -> Overloaded:
        """Return the error for a call that comes while there is no room, and count it."""
        bound = self._bound
        bound.refused_count += 1
        if bound.is_full:
            said = f"{bound.unstored_count} indexes of all trackers are in no snapshot yet (unstoredIndexesMax)"
        else:
            said = f"{self.unstored_count} indexes of subscription {key} are in no snapshot yet (trackerUnstoredIndexesMax)"
        return Overloaded(f"{said}, and nothing was applied", retry_after_ms=bound.limits.retry_after_ms)

    async def wait_for_room(self) -> None:
        """Wait in line until there is room, or until the tracker was closed or has another epoch.

        After the return, the caller checks again and takes the room before its next await: other callers may come
        first.
        """
        await self._bound.wait_for_room(self)

    def call_all(self) -> None:
        """Let every waiting stream try: the tracker was closed, or has another epoch."""
        self._bound.call_all(self)

    def close(self) -> None:
        """Release everything: the tracker is closed."""
        self.call_all()
        self.hold(0, 0)


def _call(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
