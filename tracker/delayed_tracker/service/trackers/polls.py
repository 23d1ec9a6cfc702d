"""Polls that wait until a position is due: first come, first served, without sleeping.

A waiting poll is a future. When a position is due, the queue *calls* the first poll: it completes the poll's future,
and the poll tries in its own task. So there is no await between pop and answer, and a poll that was cancelled before
has taken nothing. A poll that leaves the queue calls the next one. A poll that tried in vain keeps its place. It is
called again by the next event that may help (an add, a nack, an expired lease, a loaded segment, the clock), but never
by its own attempt, so there is no busy loop.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import Overloaded, ServiceError
from delayed_tracker.service.limits import ServiceLimits


class WaitingPoll:
    """Place of one poll in the queue."""

    __slots__ = ("_ended", "_expired", "_signal")

    def __init__(self) -> None:
        self._signal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: ServiceError | None = None
        self._expired = False

    async def notified(self) -> bool:
        """Wait to be called. Return True if the poll should try now, False if its waiting time is over.

        Raises:
            PollEnded: the tracker was cleared, closed or opened again meanwhile.
            ShuttingDown: the service is stopping.
        """
        if not self._expired:
            await self._signal
        if self._ended is not None:
            raise self._ended
        if self._expired:
            return False
        self._signal = asyncio.get_running_loop().create_future()
        return True

    def _wake(self) -> None:
        if not self._signal.done():
            self._signal.set_result(None)

    def notify(self) -> None:
        """Let the poll try."""
        self._wake()

    def expire(self) -> None:
        """End the wait because its time is over."""
        self._expired = True
        self._wake()

    def end(self, error: ServiceError) -> None:
        """End the wait with an error."""
        self._ended = error
        self._wake()


_NOBODY: Final[frozenset[WaitingPoll]] = frozenset()
"""One for all trackers: each empty set is an object of 216 bytes."""


class PollLimiter:
    """Limit of the polls that wait in the whole service."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.waiting_count = 0
        self._limits = limits

    def enter(self) -> None:
        """Count one more poll. Raises Overloaded at the limit."""
        if self.waiting_count >= self._limits.waiting_polls_max:
            raise Overloaded(
                f"{self.waiting_count} polls are waiting, which is the limit",
                retry_after_ms=self._limits.retry_after_ms,
            )
        self.waiting_count += 1

    def leave(self) -> None:
        """Count one poll less."""
        self.waiting_count -= 1


class PollQueue:
    """Waiting polls of one tracker."""

    __slots__ = ("_aside", "_clock", "_limiter", "_waiting")

    def __init__(self, clock: Clock, limiter: PollLimiter) -> None:
        self._clock = clock
        self._limiter = limiter
        # An empty list takes 56 bytes, an empty deque 600, and there are tens of thousands of idle trackers.
        self._waiting: list[WaitingPoll] | None = None
        self._aside = _NOBODY
        """Polls that wait for something else than messages."""

    def __len__(self) -> int:
        return len(self._waiting or ())

    @contextmanager
    def join(self, wait_ms: float) -> Iterator[WaitingPoll]:
        """Take the last place in the queue for the time of the block. On exit, call the next poll.

        Raises:
            Overloaded: too many polls wait already.
        """
        with self._begin(wait_ms) as poll:
            waiting = self._waiting = self._waiting or []
            waiting.append(poll)
            try:
                yield poll
            finally:
                waiting.remove(poll)
                self._waiting = waiting or None
                # This poll may have been called without trying, or may have left positions for the next one.
                self.notify_first()

    @contextmanager
    def aside(self, wait_ms: float | None) -> Iterator[WaitingPoll]:
        """Wait in the block for something else than messages, without a place in the queue. None waits without a limit.

        Raises:
            Overloaded: too many polls wait already.
        """
        with self._begin(wait_ms) as poll:
            self._aside |= {poll}
            try:
                yield poll
            finally:
                self._aside = self._aside - {poll} or _NOBODY

    @contextmanager
    def _begin(self, wait_ms: float | None) -> Iterator[WaitingPoll]:
        """Count one poll for the time of the block, and end its wait when its time is over. Raises Overloaded."""
        self._limiter.enter()
        poll = WaitingPoll()
        timer = None if wait_ms is None else self._clock.call_later(wait_ms, poll.expire)
        try:
            yield poll
        finally:
            if timer is not None:
                timer.cancel()
            self._limiter.leave()

    def notify_first(self) -> None:
        """Let the first poll in the queue try."""
        if self._waiting:
            self._waiting[0].notify()

    def end_all(self, error: Callable[[], ServiceError]) -> None:
        """End every wait, each with a new error."""
        for poll in (*(self._waiting or ()), *self._aside):
            poll.end(error())
