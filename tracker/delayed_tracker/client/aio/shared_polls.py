"""Shares calls among polls that are made at the same time, while more is due than the last answer had room for.

A shared call does not wait at the service. At most ``CALLS_MAX`` calls are in flight, and polls that arrive in the
meantime are sent together, in the order of their arrival. A poll that got nothing, or that arrives when nothing is due,
is sent alone and waits at the service. Each poll has its own answer and its own lease, as if it had its own call.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from delayed_tracker.client.aio.call_coalescer import CallCoalescer
from delayed_tracker.client.errors import InvalidArgument
from delayed_tracker.client.queues.poll_queue import (
    CALLS_MAX,
    PollQueue,
    PollResult,
    PollTerms,
    WaitingPoll,
    interrupted,
)

Send: TypeAlias = Callable[[Sequence[int], int, PollTerms], Awaitable[list[PollResult]]]
"""Makes one call: most positions for each poll, longest wait in milliseconds, terms."""
GiveBack: TypeAlias = Callable[[PollResult], Awaitable[object]]
"""Ends a lease early."""

_Polls: TypeAlias = "list[WaitingPoll[asyncio.Future[PollResult | None]]]"


class SharedPolls:
    """Polls of one session."""

    def __init__(self, send: Send, give_back: GiveBack, *, share_max: int, epoch: Callable[[], int]) -> None:
        """Create the queue.

        Args:
            send: makes one call.
            give_back: ends a lease early.
            share_max: positions that the polls of a shared call request together at most.
            epoch: returns the session's epoch.
        """
        self._send = send
        self._give_back = give_back
        self._epoch = epoch
        self._queue: PollQueue[asyncio.Future[PollResult | None]] = PollQueue(share_max=share_max)
        self._coalescer = CallCoalescer(
            self._queue, self._call, interrupt=_interrupt, calls_max=CALLS_MAX, name="delayed-tracker shared polls"
        )
        self._returning: set[asyncio.Task[None]] = set()

    async def poll(self, max_messages: int, wait_ms: int, terms: PollTerms) -> PollResult:
        """Take due positions; the result is empty if nothing became due within ``wait_ms``.

        Raises:
            TrackerCallError: the call that the poll was part of failed.
            SessionClosed: the client was closed, or the program's event loop ended, before the answer arrived.
        """
        if terms.is_hand_off and (kept := self._queue.kept(max_messages, epoch=self._epoch())) is not None:
            return kept
        if self._queue.more_is_due:
            loop = asyncio.get_running_loop()
            until = loop.time() + wait_ms / 1_000
            outcome: asyncio.Future[PollResult | None] = loop.create_future()
            self._queue.put(WaitingPoll(max_messages, wait_ms > 0, terms, outcome))
            self._coalescer.begin()
            if (share := await self._share(outcome, terms)) is not None:
                return share
            wait_ms = max(0, math.ceil((until - loop.time()) * 1_000))
        (taken,) = await self._send([max_messages], wait_ms, terms)
        self._queue.answered(taken.messages)
        return taken

    async def _share(self, outcome: "asyncio.Future[PollResult | None]", terms: PollTerms) -> PollResult | None:
        try:
            return await outcome
        except asyncio.CancelledError:
            # Cancelled in the same iteration of the event loop in which its share arrived.
            if not outcome.cancelled() and not outcome.exception() and (share := outcome.result()):
                self._put_back(share, terms)
            raise

    async def _call(self, polls: _Polls) -> None:
        try:
            parts = await self._send([poll.max_messages for poll in polls], 0, polls[0].terms)
            rest = self._queue.distribute(polls, parts)
        except InvalidArgument as error:
            if not self._queue.refused(polls, error):
                _fail(polls, error)
        except Exception as error:  # noqa: BLE001  # raised again in the callers, also the token function's own
            _fail(polls, error)
        else:
            for part in rest:
                self._put_back(part, polls[0].terms)

    def _put_back(self, taken: PollResult, terms: PollTerms) -> None:
        """Make the positions of a poll that was given up due again, or keep them for the next hand-off."""
        if not len(taken.messages):
            return
        if terms.is_hand_off:
            self._queue.keep(taken)
        else:
            returning = asyncio.get_running_loop().create_task(self._return(taken))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)

    async def _return(self, taken: PollResult) -> None:
        # However this fails, nobody waits for it, and the positions return when the lease expires.
        with suppress(Exception):
            await self._give_back(taken)


def _fail(polls: _Polls, error: Exception) -> None:
    for poll in polls:
        if not poll.outcome.done():
            poll.outcome.set_exception(error)


def _interrupt(polls: _Polls) -> None:
    _fail(polls, interrupted())
