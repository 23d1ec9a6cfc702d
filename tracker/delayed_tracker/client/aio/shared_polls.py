"""Polls made at the same time share calls, as long as more is due than the last answer had room for.

Then a poll asks without waiting: ``CALLS_MAX`` calls are under way at most, and those that come meanwhile leave
together, in the order they came. One that got nothing, or came when nothing was due, goes alone and waits at the
service. So each is answered as if it had had a call of its own, and has a lease of its own.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from delayed_tracker.client.aio.turns import Turns
from delayed_tracker.client.errors import InvalidArgument, SessionClosed
from delayed_tracker.client.queues.poll_queue import CALLS_MAX, PollQueue, PollTerms, Taken, WaitingPoll
from delayed_tracker.core.values.errors import DelayedTrackerError

Send: TypeAlias = Callable[[Sequence[int], int, PollTerms], Awaitable[list[Taken]]]
"""Makes the call: so many positions at most for each poll, waiting so many milliseconds at most, on such terms."""
GiveBack: TypeAlias = Callable[[Taken], Awaitable[object]]
"""Ends a lease early."""

_Polls: TypeAlias = "list[WaitingPoll[asyncio.Future[Taken | None]]]"


class SharedPolls:
    """The polls of one session."""

    def __init__(self, send: Send, give_back: GiveBack, *, share_max: int, epoch: Callable[[], int]) -> None:
        """``share_max`` is the most that polls ask for together; ``epoch`` tells the session's."""
        self._send = send
        self._give_back = give_back
        self._epoch = epoch
        self._queue: PollQueue[asyncio.Future[Taken | None]] = PollQueue(share_max=share_max)
        self._turns = Turns(self._queue, self._call, calls_max=CALLS_MAX, name="delayed-tracker shared polls")
        self._returning: set[asyncio.Task[None]] = set()

    async def poll(self, max_messages: int, wait_ms: int, terms: PollTerms) -> Taken:
        """What one poll took: nothing, if nothing became due within ``wait_ms``.

        Raises:
            TrackerCallError: the call that it was part of failed.
            SessionClosed: the client was closed, or the program's event loop ended, before the answer came.
        """
        if terms.is_hand_off and (kept := self._queue.kept(max_messages, epoch=self._epoch())) is not None:
            return kept
        if self._queue.more_is_due:
            loop = asyncio.get_running_loop()
            until = loop.time() + wait_ms / 1_000
            outcome: asyncio.Future[Taken | None] = loop.create_future()
            self._queue.put(WaitingPoll(max_messages, wait_ms > 0, terms, outcome))
            self._turns.begin()
            if (share := await self._share(outcome, terms)) is not None:
                return share
            wait_ms = max(0, math.ceil((until - loop.time()) * 1_000))
        (taken,) = await self._send([max_messages], wait_ms, terms)
        self._queue.answered(taken.messages)
        return taken

    async def _share(self, outcome: "asyncio.Future[Taken | None]", terms: PollTerms) -> Taken | None:
        try:
            return await outcome
        except asyncio.CancelledError:
            # Given up in the very turn in which its share came.
            if not outcome.cancelled() and not outcome.exception() and (share := outcome.result()):
                self._put_back(share, terms)
            raise

    async def _call(self, polls: _Polls) -> None:
        try:
            parts = await self._send([poll.max_messages for poll in polls], 0, polls[0].terms)
        except InvalidArgument as error:
            if not self._queue.refused(polls, error):
                _fail(polls, error)
        except DelayedTrackerError as error:
            _fail(polls, error)
        except BaseException:
            _fail(polls + self._queue.take_all(), _interrupted())
            raise
        else:
            for part in self._queue.distribute(polls, parts):
                self._put_back(part, polls[0].terms)

    def _put_back(self, taken: Taken, terms: PollTerms) -> None:
        """Make what was taken for a poll that was given up due again, or keep it for the next poll."""
        if not len(taken.messages):
            return
        if terms.is_hand_off:
            self._queue.keep(taken)
        else:
            returning = asyncio.get_running_loop().create_task(self._return(taken))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)

    async def _return(self, taken: Taken) -> None:
        # If this fails it comes back when the lease expires, as after a lost answer.
        with suppress(DelayedTrackerError):
            await self._give_back(taken)


def _fail(polls: _Polls, error: DelayedTrackerError) -> None:
    for poll in polls:
        if not poll.outcome.done():
            poll.outcome.set_exception(error)


def _interrupted() -> SessionClosed:
    return SessionClosed("the session ended while this poll was on its way; what it leased comes back in time")
