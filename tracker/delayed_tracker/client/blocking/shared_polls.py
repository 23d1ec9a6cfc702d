"""Shares calls among polls that threads make at the same time, while more is due than the last answer had room for.

The rules are those of ``delayed_tracker.client.aio.shared_polls`` (``poll_queue``). Two threads make the shared calls;
the threads that poll wait for their share.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeAlias

from delayed_tracker.client.blocking.call_threads import CallThreads
from delayed_tracker.client.errors import InvalidArgument
from delayed_tracker.client.queues.poll_queue import (
    CALLS_MAX,
    PollQueue,
    PollResult,
    PollTerms,
    WaitingPoll,
    interrupted,
)

Send: TypeAlias = Callable[[Sequence[int], int, PollTerms], list[PollResult]]
"""Makes one call: most positions for each poll, longest wait in milliseconds, terms."""
GiveBack: TypeAlias = Callable[[PollResult], object]
"""Ends a lease early."""

_Polls: TypeAlias = "list[WaitingPoll[Future[PollResult | None]]]"


class SharedPolls:
    """Polls of one session; any thread may make them."""

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
        self._lock = threading.Lock()
        self._queue: PollQueue[Future[PollResult | None]] = PollQueue(share_max=share_max)
        self._callers = CallThreads(CALLS_MAX, name="delayed-tracker polls")

    def poll(self, max_messages: int, wait_ms: int, terms: PollTerms) -> PollResult:
        """Take due positions; the result is empty if nothing became due within ``wait_ms``.

        Raises:
            TrackerCallError: the call that the poll was part of failed.
            SessionClosed: the client was closed before the answer arrived.
        """
        until = time.monotonic() + wait_ms / 1_000
        outcome: Future[PollResult | None] = Future()
        with self._lock:
            if terms.is_hand_off and (kept := self._queue.kept(max_messages, epoch=self._epoch())) is not None:
                return kept
            is_shared = self._queue.more_is_due
            if is_shared:
                self._queue.put(WaitingPoll(max_messages, wait_ms > 0, terms, outcome))
        if is_shared and self._has_caller(outcome):
            if (share := self._share(outcome, terms)) is not None:
                return share
            wait_ms = max(0, math.ceil((until - time.monotonic()) * 1_000))
        (taken,) = self._send([max_messages], wait_ms, terms)
        with self._lock:
            self._queue.answered(taken.messages)
        return taken

    def _has_caller(self, outcome: "Future[PollResult | None]") -> bool:
        """Give a waiting poll to the threads; return False if none could be started, and the poll waits no more."""
        try:
            self._callers.submit(self._call)
        except RuntimeError:
            with self._lock:
                return not outcome.cancel()  # a thread that was at work before may have answered it
        return True

    def _share(self, outcome: "Future[PollResult | None]", terms: PollTerms) -> PollResult | None:
        try:
            return outcome.result()
        except BaseException:  # an interrupt, or what a signal handler raises to end the program
            with self._lock:
                given_up = outcome.cancel()
            if not given_up and not outcome.exception() and (share := outcome.result()):
                self._put_back(share, terms)
            raise

    def _call(self) -> None:
        """Make one call for all waiting polls, if there are any."""
        with self._lock:
            polls = self._queue.take()
        if not polls:
            return
        try:
            parts = self._send([poll.max_messages for poll in polls], 0, polls[0].terms)
            with self._lock:
                rest = self._queue.distribute(polls, parts)
        except InvalidArgument as error:
            with self._lock:
                is_again = self._queue.refused(polls, error)
            if is_again:
                for _ in polls:
                    try:
                        self._callers.submit(self._call)
                    except RuntimeError:  # no other thread could be started
                        self._call()
            else:
                self._fail(polls, error)
        except Exception as error:  # noqa: BLE001  # raised again in the threads that wait
            self._fail(polls, error)
        except BaseException:  # noqa: BLE001  # what the token function raises to end the program
            self._fail(polls, interrupted())
        else:
            for part in rest:
                self._put_back(part, polls[0].terms)

    def _put_back(self, taken: PollResult, terms: PollTerms) -> None:
        """Make the positions of a poll that was given up due again, or keep them for the next hand-off."""
        if not len(taken.messages):
            return
        if terms.is_hand_off:
            with self._lock:
                self._queue.keep(taken)
        else:
            # However this fails, nobody waits for it, and the positions return when the lease expires.
            with suppress(Exception):
                self._give_back(taken)

    def _fail(self, polls: _Polls, error: Exception) -> None:
        with self._lock:
            for poll in polls:
                if not poll.outcome.done():
                    poll.outcome.set_exception(error)
