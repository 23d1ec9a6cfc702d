"""Acks made at the same time share calls: what a call costs is paid once for all that wait meanwhile.

``CALLS_MAX`` calls are under way at most, and acks that come meanwhile leave together, in the order they came. Each is
answered as if it had had a call of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from delayed_tracker.client.aio.turns import Turns
from delayed_tracker.client.model.answers import AckAnswer
from delayed_tracker.client.queues.ack_queue import AckOutcome, AckQueue, LeaseAck, WaitingAck, interrupted, settle
from delayed_tracker.client.queues.poll_queue import CALLS_MAX
from delayed_tracker.core.values.errors import DelayedTrackerError

Send: TypeAlias = Callable[[Sequence[LeaseAck]], Awaitable[list[AckOutcome]]]
"""Makes the call for so many acks; returns the outcome of each."""

_Acks: TypeAlias = "list[WaitingAck[asyncio.Future[AckAnswer]]]"


class SharedAcks:
    """The acks of one session."""

    def __init__(self, send: Send, *, batch_max: Callable[[], int]) -> None:
        """``batch_max`` tells how many positions a call may settle, as far as is known by then."""
        self._send = send
        self._queue: AckQueue[asyncio.Future[AckAnswer]] = AckQueue(batch_max=batch_max)
        self._turns = Turns(self._queue, self._call, calls_max=CALLS_MAX, name="delayed-tracker shared acks")

    async def ack(self, ack: LeaseAck) -> AckAnswer:
        """What became of one ack.

        Raises:
            TrackerCallError: it failed.
            SessionClosed: the client was closed, or the program's event loop ended, before the answer came.
        """
        outcome: asyncio.Future[AckAnswer] = asyncio.get_running_loop().create_future()
        self._queue.put(WaitingAck(ack, outcome))
        self._turns.begin()
        return await outcome

    async def _call(self, acks: _Acks) -> None:
        try:
            outcomes = await self._send([each.ack for each in acks])
        except DelayedTrackerError as error:
            settle(acks, [error] * len(acks))
        except BaseException:
            settle(broken := acks + self._queue.take_all(), [interrupted()] * len(broken))
            raise
        else:
            settle(acks, outcomes)
