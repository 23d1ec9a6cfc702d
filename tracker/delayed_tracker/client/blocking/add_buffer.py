"""Buffer of single adds of many threads: one call for many, and for each caller its own result.

One thread sends one batch at a time, so positions arrive in the order of their adds; while it waits for an answer, the
next batch fills. The buffer is bounded: an add beyond ``buffer_max`` blocks until there is room.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from delayed_tracker.client.blocking.call_threads import IDLE_S
from delayed_tracker.client.errors import ThreadNotStarted, Unavailable, WrongThread
from delayed_tracker.client.model.answers import AddAnswer, AddResult
from delayed_tracker.client.queues.add_queue import (
    AddQueue,
    WaitingAdd,
    columns,
    fail,
    not_sent,
    perhaps_sent,
    refused,
    succeed,
)

SendBatch = Callable[[list[int], list[int], list[int]], AddAnswer]
"""Sends three columns: deadlines, ledger ids, entry ids."""

_Batch = list[WaitingAdd["Future[AddResult]"]]


class _Role(threading.local):
    """Role of the current thread for one buffer."""

    is_sender = False
    """True in the thread that sends, and so in the callbacks of the futures."""


class AddBuffer:
    """Buffer that sends single adds ``flush_count`` at a time, or ``flush_delay_s`` after the first.

    Its thread ends after ``idle_s`` without an add, and the next add starts another; a buffer that is dropped leaves no
    thread.
    """

    def __init__(
        self,
        send: SendBatch,
        *,
        flush_count: int,
        flush_delay_s: float,
        buffer_max: int,
        idle_s: float = IDLE_S,
    ) -> None:
        self._send = send
        self._flush_delay_s = flush_delay_s
        self._idle_s = idle_s
        self._room = threading.Semaphore(buffer_max)
        self._role = _Role()
        # Guards the queue, the flag and the thread; the sender waits on it.
        self._changed = threading.Condition()
        self._queue: AddQueue[Future[AddResult]] = AddQueue(
            flush_count=flush_count, wanted=lambda outcome: outcome.set_running_or_notify_cancel()
        )
        self._closed = False
        self._sender: threading.Thread | None = None

    def warn_when_dropped(self, session: object) -> None:
        """Warn if adds are buffered when their session is dropped, or when the program ends."""
        self._queue.warn_when_dropped(session)

    def __len__(self) -> int:
        """Return the number of adds that are buffered and not yet in flight."""
        with self._changed:
            return len(self._queue)

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> "Future[AddResult]":
        """Add one position; return the future of its result. Blocks while there is no room, except in a callback.

        The future raises TrackerCallError if its batch failed; nothing of the batch was applied then. If it is
        cancelled before the position is in flight, the position is not sent.

        Raises:
            SessionClosed: the buffer was closed.
            ThreadNotStarted: the thread that sends could not be started; the position is not sent.
        """
        outcome: Future[AddResult] = Future()
        # A callback goes beyond the bound if it must: the thread that it runs in is the one that makes room.
        if self._room.acquire(blocking=not self._role.is_sender):
            outcome.add_done_callback(lambda _: self._room.release())
        with self._changed:
            if self._closed:
                outcome.cancel()
                raise refused()
            if self._sender is None:
                try:
                    self._sender = self._started_sender()
                except RuntimeError as error:
                    outcome.cancel()
                    raise ThreadNotStarted from error
            self._queue.put(WaitingAdd(deliver_at_ms, ledger_id, entry_id, outcome))
            self._changed.notify()
        return outcome

    def require_other_thread(self) -> None:
        """Refuse a call that would wait for the current thread; raises WrongThread."""
        if self._role.is_sender:
            raise WrongThread

    def close(self) -> None:
        """Send the buffered adds and refuse more; closing twice is harmless.

        If a batch fails because the service is unavailable, the adds behind it are not sent.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
            sender = self._sender
        if sender is not None:
            sender.join()

    def _started_sender(self) -> threading.Thread:
        # A daemon, so that a program that does not leave its session can end.
        sender = threading.Thread(target=self._send_batches, name="delayed-tracker add buffer", daemon=True)
        sender.start()
        return sender

    def _send_batches(self) -> None:
        self._role.is_sender = True
        try:
            while (batch := self._gathered()) is not None:
                if batch:
                    self._answer(batch)
        except BaseException:
            with self._changed:
                self._sender = None
                rest = self._queue.take_all()
            fail(rest, not_sent())
            raise

    def _gathered(self) -> _Batch | None:
        """Return the next batch when it is full or old enough; None if no add came: then the thread ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed, timeout=self._idle_s)
            if not self._queue:
                self._sender = None
                return None
            self._changed.wait_for(lambda: self._queue.full or self._closed, timeout=self._flush_delay_s)
            return self._queue.take()

    def _answer(self, batch: _Batch) -> None:
        try:
            answer = self._send(*columns(batch))
        except Exception as error:  # noqa: BLE001  # raised again in the callers, also the token function's own
            fail(batch, error)
            # During an outage every further batch would take a whole time limit, and the program waits to leave.
            if self._closed and isinstance(error, Unavailable):
                with self._changed:
                    rest = self._queue.take_all()
                fail(rest, not_sent())
        except BaseException:
            fail(batch, perhaps_sent())
            raise
        else:
            succeed(batch, answer)
