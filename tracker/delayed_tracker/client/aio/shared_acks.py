"""Shares calls among acks that are made at the same time, so that many acks have the cost of one call.

At most ``CALLS_MAX`` calls are in flight. Acks that arrive in the meantime are sent together, in the order of their
arrival. Each has its own answer, as if it had its own call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from delayed_tracker.client.aio.call_coalescer import CallCoalescer
from delayed_tracker.client.model.answers import AckAnswer
from delayed_tracker.client.queues.ack_queue import AckOutcome, AckQueue, LeaseAck, WaitingAck, interrupted, settle
from delayed_tracker.client.queues.poll_queue import CALLS_MAX

Send: TypeAlias = Callable[[Sequence[LeaseAck]], Awaitable[list[AckOutcome]]]
"""Makes one call for several acks; returns the result of each."""

_Acks: TypeAlias = "list[WaitingAck[asyncio.Future[AckAnswer]]]"


class SharedAcks:
    """Acks of one session."""

    def __init__(self, send: Send, *, batch_max: Callable[[], int]) -> None:
        """Create the queue.

        Args:
            send: makes one call.
            batch_max: returns how many positions a call may settle, as known at that time.
        """
        self._send = send
        self._queue: AckQueue[asyncio.Future[AckAnswer]] = AckQueue(batch_max=batch_max)
        self._coalescer = CallCoalescer(
            self._queue, self._call, interrupt=_interrupt, calls_max=CALLS_MAX, name="delayed-tracker shared acks"
        )

    async def ack(self, ack: LeaseAck) -> AckAnswer:
        """Acknowledge positions and return the result.

        Raises:
            TrackerCallError: the ack failed.
            SessionClosed: the client was closed, or the program's event loop ended, before the answer arrived.
        """
        outcome: asyncio.Future[AckAnswer] = asyncio.get_running_loop().create_future()
        self._queue.put(WaitingAck(ack, outcome))
        self._coalescer.begin()
        return await outcome

    async def _call(self, acks: _Acks) -> None:
        try:
            outcomes = await self._send([each.ack for each in acks])
        except Exception as error:  # noqa: BLE001  # raised again in the callers, also the token function's own
            settle(acks, [error] * len(acks))
        else:
            settle(acks, outcomes)


def _interrupt(acks: _Acks) -> None:
    settle(acks, [interrupted()] * len(acks))
