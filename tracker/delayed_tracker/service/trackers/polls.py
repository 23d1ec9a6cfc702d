"""Polls that wait for something to become due: first come, first served, without a sleep anywhere.

A waiting poll is a future. When something is due, the first in the queue is *called*: only told to try, so that the pop
happens in its own task with no await between pop and answer, and a poll that was cancelled in between has taken
nothing. Whoever leaves the queue calls the next. A poll that tried in vain keeps its place and is called again by the
next event that can have changed the matter (an add, a nack, a lease that ended, a loaded segment, the clock), never by
its own attempt, so nothing spins.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import Overloaded, ServiceError
from delayed_tracker.service.limits import ServiceLimits


class WaitingPoll:
    """One poll's place in the queue."""

    __slots__ = ("_ended", "_expired", "_signal")

    def __init__(self) -> None:
        self._signal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: ServiceError | None = None
        self._expired = False

    async def called(self) -> bool:
        """Wait to be called; True means "try now", False that the waiting time is over.

        Raises:
            PollEnded: the tracker was cleared, closed or opened anew meanwhile.
            ShuttingDown: the process is going away.
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

    def call(self) -> None:
        """Tell it to try."""
        self._wake()

    def expire(self) -> None:
        """Tell it that its time is over."""
        self._expired = True
        self._wake()

    def end(self, error: ServiceError) -> None:
        """Tell it that there is nothing to wait for."""
        self._ended = error
        self._wake()


class PollTally:
    """How many polls wait in the whole service."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.waiting_count = 0
        self._limits = limits

    def enter(self) -> None:
        """Count one more, or raise Overloaded."""
        if self.waiting_count >= self._limits.waiting_polls_max:
            raise Overloaded(
                f"{self.waiting_count} polls are waiting, which is the limit",
                retry_after_ms=self._limits.retry_after_ms,
            )
        self.waiting_count += 1

    def leave(self) -> None:
        """Count one less."""
        self.waiting_count -= 1


class PollQueue:
    """The waiting polls of one tracker."""

    __slots__ = ("_clock", "_tally", "_waiting")

    def __init__(self, clock: Clock, tally: PollTally) -> None:
        self._clock = clock
        self._tally = tally
        # A list: an empty deque takes 600 bytes, and there are tens of thousands of idle trackers.
        self._waiting: list[WaitingPoll] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def join(self, wait_ms: int) -> Iterator[WaitingPoll]:
        """Take the last place for the time of the block; leaving calls the next in the queue.

        Raises:
            Overloaded: too many polls wait already.
        """
        self._tally.enter()
        poll = WaitingPoll()
        self._waiting.append(poll)
        timer = self._clock.call_later(wait_ms, poll.expire)
        try:
            yield poll
        finally:
            timer.cancel()
            self._waiting.remove(poll)
            self._tally.leave()
            # It may have been called and not have tried, or have left something for the next.
            self.call_first()

    def call_first(self) -> None:
        """Tell the first in the queue to try."""
        if self._waiting:
            self._waiting[0].call()

    def end_all(self, error: Callable[[], ServiceError]) -> None:
        """End every wait with an error of its own."""
        for poll in self._waiting:
            poll.end(error())
