"""Single adds made into batches: one call for many, each caller its own outcome.

One batch is on its way at a time, so positions arrive in the order of their adds; while it is, the next one gathers.
The buffer is bounded: an add beyond ``buffer_max`` waits for room, which slows its caller down to the service's pace.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tracker.client.answers import AddAnswer, AddResult
from tracker.client.errors import SessionClosed
from tracker.core.errors import DelayedTrackerError

SendBatch = Callable[[list[int], list[int], list[int]], Awaitable[AddAnswer]]
"""Sends three columns: deadlines, ledger ids, entry ids."""


@dataclass(frozen=True, slots=True)
class _WaitingAdd:
    deliver_at_ms: int
    ledger_id: int
    entry_id: int
    outcome: "asyncio.Future[AddResult]"


class AddBuffer:
    """Gathers single adds and sends them ``flush_count`` at a time, or ``flush_delay_s`` after the first."""

    def __init__(self, send: SendBatch, *, flush_count: int, flush_delay_s: float, buffer_max: int) -> None:
        self._send = send
        self._flush_count = flush_count
        self._flush_delay_s = flush_delay_s
        self._room = asyncio.Semaphore(buffer_max)
        self._waiting: deque[_WaitingAdd] = deque()
        self._some = asyncio.Event()
        self._enough = asyncio.Event()
        self._closed = False
        self._sender: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Adds that are buffered and not yet on their way."""
        return len(self._waiting)

    async def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> AddResult:
        """What became of one position, once its batch was answered.

        Raises:
            TrackerCallError: its batch failed; nothing of the batch was applied.
            SessionClosed: the buffer was closed before it could be sent.
        """
        async with self._room:
            if self._closed:
                raise SessionClosed("the session is closed; open the tracker again before adding to it")
            if self._sender is None:
                self._sender = asyncio.create_task(self._send_batches(), name="delayed-tracker add buffer")
            add = _WaitingAdd(deliver_at_ms, ledger_id, entry_id, asyncio.get_running_loop().create_future())
            self._waiting.append(add)
            self._some.set()
            if len(self._waiting) >= self._flush_count:
                self._enough.set()
            return await add.outcome

    async def close(self) -> None:
        """Send what is buffered and refuse more; closing twice is harmless."""
        self._closed = True
        self._some.set()
        self._enough.set()
        if self._sender is not None:
            await self._sender

    async def _send_batches(self) -> None:
        try:
            while True:
                await self._some.wait()
                await self._gather()
                batch = self._take()
                if batch:
                    await self._answer(batch)
                elif self._closed:
                    return
        finally:
            for add in self._waiting:
                _fail(add, SessionClosed("the session ended before this add was sent; nothing is known of it"))

    async def _gather(self) -> None:
        if not self._enough.is_set():
            try:
                async with asyncio.timeout(self._flush_delay_s):
                    await self._enough.wait()
            except TimeoutError:
                return

    def _take(self) -> list[_WaitingAdd]:
        batch: list[_WaitingAdd] = []
        while self._waiting and len(batch) < self._flush_count:
            add = self._waiting.popleft()
            # Whoever stopped waiting for an add that has not left does not want it tracked.
            if not add.outcome.done():
                batch.append(add)
        if not self._closed:
            if not self._waiting:
                self._some.clear()
            if len(self._waiting) < self._flush_count:
                self._enough.clear()
        return batch

    async def _answer(self, batch: list[_WaitingAdd]) -> None:
        try:
            answer = await self._send(
                [add.deliver_at_ms for add in batch],
                [add.ledger_id for add in batch],
                [add.entry_id for add in batch],
            )
        except DelayedTrackerError as error:
            for add in batch:
                _fail(add, error)
        except BaseException:
            for add in batch:
                _fail(add, SessionClosed("the session ended while this add was on its way; it may be tracked"))
            raise
        else:
            for add, result in zip(batch, answer.results(len(batch)), strict=True):
                if not add.outcome.done():
                    add.outcome.set_result(result)


def _fail(add: _WaitingAdd, error: DelayedTrackerError) -> None:
    if not add.outcome.done():
        add.outcome.set_exception(error)
