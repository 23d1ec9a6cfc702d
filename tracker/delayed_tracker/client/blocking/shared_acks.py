"""Shares calls among acks that threads make at the same time, so that many acks have the cost of one call.

The rules are those of ``delayed_tracker.client.aio.shared_acks`` (``ack_queue``). Two threads make the shared calls;
the threads that acknowledge wait for their results.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeAlias

from delayed_tracker.client.blocking.call_threads import CallThreads
from delayed_tracker.client.errors import ThreadNotStarted
from delayed_tracker.client.model.answers import AckAnswer
from delayed_tracker.client.queues.ack_queue import AckOutcome, AckQueue, LeaseAck, WaitingAck, interrupted, settle
from delayed_tracker.client.queues.poll_queue import CALLS_MAX

Send: TypeAlias = Callable[[Sequence[LeaseAck]], list[AckOutcome]]
"""Makes one call for several acks; returns the result of each."""


class SharedAcks:
    """Acks of one session; any thread may make them."""

    def __init__(self, send: Send, *, batch_max: Callable[[], int]) -> None:
        """Create the queue.

        Args:
            send: makes one call.
            batch_max: returns how many positions a call may settle, as known at that time.
        """
        self._send = send
        self._lock = threading.Lock()
        self._queue: AckQueue[Future[AckAnswer]] = AckQueue(batch_max=batch_max)
        self._callers = CallThreads(CALLS_MAX, name="delayed-tracker acks")

    def ack(self, ack: LeaseAck) -> AckAnswer:
        """Acknowledge positions and return the result.

        Raises:
            TrackerCallError: the ack failed.
            SessionClosed: the client was closed before the answer arrived.
            ThreadNotStarted: the thread that makes the call could not be started.
        """
        outcome: Future[AckAnswer] = Future()
        with self._lock:
            self._queue.put(WaitingAck(ack, outcome))
        try:
            self._callers.submit(self._call)
        except RuntimeError as error:
            with self._lock:
                given_up = outcome.cancel()
            if given_up:
                raise ThreadNotStarted from error
            # A thread that was at work before has answered it.
        try:
            return outcome.result()
        except BaseException:  # an interrupt, or what a signal handler raises to end the program
            with self._lock:
                outcome.cancel()
            raise

    def _call(self) -> None:
        """Make one call for all waiting acks, if there are any."""
        with self._lock:
            acks = self._queue.take()
        if not acks:
            return
        outcomes: Sequence[AckAnswer | Exception]
        try:
            outcomes = self._send([each.ack for each in acks])
        except Exception as error:  # noqa: BLE001  # raised again in the threads that wait
            outcomes = [error] * len(acks)
        except BaseException:  # noqa: BLE001  # what the token function raises to end the program
            outcomes = [interrupted()] * len(acks)
        with self._lock:
            settle(acks, outcomes)
