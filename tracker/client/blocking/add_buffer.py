"""Single adds of many threads made into batches: one call for many, each caller its own outcome.

One thread sends, one batch at a time, so positions arrive in the order of their adds; while it waits for an answer, the
next batch gathers. The buffer is bounded: an add beyond ``buffer_max`` blocks until there is room.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from tracker.client.add_queue import (
    AddQueue,
    WaitingAdd,
    columns,
    fail,
    not_sent,
    perhaps_sent,
    refused,
    succeed,
)
from tracker.client.answers import AddAnswer, AddResult
from tracker.core.errors import DelayedTrackerError

SendBatch = Callable[[list[int], list[int], list[int]], AddAnswer]
"""Sends three columns: deadlines, ledger ids, entry ids."""

_Batch = list[WaitingAdd["Future[AddResult]"]]


class AddBuffer:
    """Gathers single adds and sends them ``flush_count`` at a time, or ``flush_delay_s`` after the first."""

    def __init__(self, send: SendBatch, *, flush_count: int, flush_delay_s: float, buffer_max: int) -> None:
        self._send = send
        self._flush_delay_s = flush_delay_s
        self._room = threading.Semaphore(buffer_max)
        # Guards the queue, the flag and the thread; waited on by the sender.
        self._changed = threading.Condition()
        self._queue: AddQueue[Future[AddResult]] = AddQueue(
            flush_count=flush_count, wanted=lambda outcome: outcome.set_running_or_notify_cancel()
        )
        self._closed = False
        self._sender: threading.Thread | None = None

    def __len__(self) -> int:
        """Adds that are buffered and not yet on their way."""
        with self._changed:
            return len(self._queue)

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> "Future[AddResult]":
        """What will have become of one position, once its batch was answered. Blocks while there is no room.

        The future raises TrackerCallError if its batch failed; nothing of the batch was applied then. Cancelling it
        keeps the position from being sent, unless it is on its way.

        Raises:
            SessionClosed: the buffer was closed.
        """
        outcome: Future[AddResult] = Future()
        self._room.acquire()
        outcome.add_done_callback(lambda _: self._room.release())
        with self._changed:
            if self._closed:
                outcome.cancel()
                raise refused()
            if self._sender is None:
                # A daemon, so that a program that forgets to leave its session can end.
                self._sender = threading.Thread(
                    target=self._send_batches, name="delayed-tracker add buffer", daemon=True
                )
                self._sender.start()
            self._queue.put(WaitingAdd(deliver_at_ms, ledger_id, entry_id, outcome))
            self._changed.notify()
        return outcome

    def close(self) -> None:
        """Send what is buffered and refuse more; closing twice is harmless."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            sender = self._sender
        if sender is not None:
            sender.join()

    def _send_batches(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._queue or self._closed)
                    self._changed.wait_for(lambda: self._queue.full or self._closed, timeout=self._flush_delay_s)
                    batch = self._queue.take()
                    ended = self._closed and not self._queue
                if batch:
                    self._answer(batch)
                if ended:
                    return
        finally:
            with self._changed:
                self._closed = True
                rest = self._queue.take_all()
            fail(rest, not_sent())

    def _answer(self, batch: _Batch) -> None:
        try:
            answer = self._send(*columns(batch))
        except DelayedTrackerError as error:
            fail(batch, error)
        except BaseException:
            fail(batch, perhaps_sent())
            raise
        else:
            succeed(batch, answer)
