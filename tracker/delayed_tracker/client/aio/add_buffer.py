"""Buffer of single adds: one call for many, and for each caller its own result.

One batch is in flight at a time, so positions arrive in the order of their adds; in the meantime the next batch fills.
The buffer is bounded: an add beyond ``buffer_max`` waits for room, so callers add as fast as the service applies.
"""

import asyncio
from collections.abc import Awaitable, Callable

from delayed_tracker.client.errors import Unavailable
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

SendBatch = Callable[[list[int], list[int], list[int]], Awaitable[AddAnswer]]
"""Sends three columns: deadlines, ledger ids, entry ids."""

_Batch = list[WaitingAdd["asyncio.Future[AddResult]"]]


class AddBuffer:
    """Buffer that sends single adds ``flush_count`` at a time, or ``flush_delay_s`` after the first.

    Its task exists while adds are buffered or in flight; a buffer that is dropped leaves no task.
    """

    def __init__(self, send: SendBatch, *, flush_count: int, flush_delay_s: float, buffer_max: int) -> None:
        self._send = send
        self._flush_delay_s = flush_delay_s
        self._room = asyncio.Semaphore(buffer_max)
        self._queue: AddQueue[asyncio.Future[AddResult]] = AddQueue(
            flush_count=flush_count, wanted=lambda outcome: not outcome.done()
        )
        self._enough = asyncio.Event()
        self._closed = False
        self._sender: asyncio.Task[None] | None = None

    def warn_when_dropped(self, session: object) -> None:
        """Warn if adds are buffered when their session is dropped, or when the program ends."""
        self._queue.warn_when_dropped(session)

    def __len__(self) -> int:
        """Return the number of adds that are buffered and not yet in flight."""
        return len(self._queue)

    async def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> AddResult:
        """Add one position; return its result when its batch was answered.

        Raises:
            TrackerCallError: its batch failed; nothing of the batch was applied.
            SessionClosed: the buffer was closed before the add was sent.
        """
        async with self._room:
            if self._closed:
                raise refused()
            outcome: asyncio.Future[AddResult] = asyncio.get_running_loop().create_future()
            self._queue.put(WaitingAdd(deliver_at_ms, ledger_id, entry_id, outcome))
            if self._queue.full:
                self._enough.set()
            if self._sender is None or self._sender.done():
                self._sender = asyncio.create_task(self._send_batches(), name="delayed-tracker add buffer")
                self._sender.add_done_callback(self._ended)
            return await outcome

    async def close(self) -> None:
        """Send the buffered adds and refuse more; closing twice is harmless, also if the first was cancelled.

        If a batch fails because the service is unavailable, the adds behind it are not sent.
        """
        self._closed = True
        self._enough.set()
        if self._sender is not None:
            await asyncio.wait([self._sender])  # which goes on if this is cancelled
            if not self._sender.cancelled():
                self._sender.result()

    def _ended(self, sender: "asyncio.Task[None]") -> None:
        # Adds are left only by a sender that was cancelled before its first step; its successor sends them.
        if sender is self._sender:
            fail(self._queue.take_all(), not_sent())

    async def _send_batches(self) -> None:
        try:
            while self._queue:
                await self._gather()
                if batch := self._take():
                    await self._answer(batch)
        finally:
            fail(self._queue.take_all(), not_sent())

    async def _gather(self) -> None:
        if not self._enough.is_set():
            try:
                async with asyncio.timeout(self._flush_delay_s):
                    await self._enough.wait()
            except TimeoutError:
                return

    def _take(self) -> _Batch:
        batch = self._queue.take()
        if not self._closed and not self._queue.full:
            self._enough.clear()
        return batch

    async def _answer(self, batch: _Batch) -> None:
        try:
            answer = await self._send(*columns(batch))
        except Exception as error:  # noqa: BLE001  # raised again in the callers, also the token function's own
            fail(batch, error)
            # During an outage every further batch would take a whole time limit, and the program waits to leave.
            if self._closed and isinstance(error, Unavailable):
                fail(self._queue.take_all(), not_sent())
        except BaseException:
            fail(batch, perhaps_sent())
            raise
        else:
            succeed(batch, answer)
