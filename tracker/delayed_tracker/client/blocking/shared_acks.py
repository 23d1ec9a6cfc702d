"""Acks that threads make at the same time share calls: what a call costs is paid once for all that wait meanwhile.

As ``delayed_tracker.client.aio.shared_acks`` is for event loops, whose rules these are (``ack_queue``). Two threads make the shared
calls; threads that acknowledge wait for their outcome.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

from delayed_tracker.client.model.answers import AckAnswer
from delayed_tracker.client.queues.ack_queue import AckOutcome, AckQueue, LeaseAck, WaitingAck, settle
from delayed_tracker.client.queues.poll_queue import CALLS_MAX

Send: TypeAlias = Callable[[Sequence[LeaseAck]], list[AckOutcome]]
"""Makes the call for so many acks; returns the outcome of each."""


class SharedAcks:
    """The acks of one session; any thread may make them."""

    def __init__(self, send: Send, *, batch_max: Callable[[], int]) -> None:
        """``batch_max`` tells how many positions a call may settle, as far as is known by then."""
        self._send = send
        self._lock = threading.Lock()
        self._queue: AckQueue[Future[AckAnswer]] = AckQueue(batch_max=batch_max)
        self._callers = ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="delayed-tracker-acks")

    def ack(self, ack: LeaseAck) -> AckAnswer:
        """What became of one ack.

        Raises:
            TrackerCallError: it failed.
            SessionClosed: the client was closed before the answer came.
        """
        outcome: Future[AckAnswer] = Future()
        with self._lock:
            self._queue.put(WaitingAck(ack, outcome))
        self._callers.submit(self._call)
        try:
            return outcome.result()
        except KeyboardInterrupt:
            with self._lock:
                outcome.cancel()
            raise

    def _call(self) -> None:
        """Make one call for all that wait, if anybody does."""
        with self._lock:
            acks = self._queue.take()
        if not acks:
            return
        outcomes: Sequence[AckAnswer | Exception]
        try:
            outcomes = self._send([each.ack for each in acks])
        except Exception as error:  # noqa: BLE001  # handed over to the threads that wait, which raise it
            outcomes = [error] * len(acks)
        with self._lock:
            settle(acks, outcomes)
