"""Shares calls among batches that are added at the same time, so that many batches have the cost of one call.

A batch that arrives alone is sent at once. Those that arrive while a call is in flight wait for its end, as in Nagle's
algorithm, and are sent together in the order of their arrival, as long as they fit into one call; from
``SECOND_CALL_MIN`` positions on they are sent in a second call beside it. Each batch has its own answer, as if it had its
own call: the service applies a call in one step, wholly or not at all, and if two batches contain a position, the first
wins.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from delayed_tracker.client.model.answers import AddAnswer
from delayed_tracker.client.queues.add_queue import not_sent, perhaps_sent
from delayed_tracker.client.queues.batching import parts_of
from delayed_tracker.client.rules.session import Claim

CALLS_MAX: Final = 2
"""Calls in flight at most: the service works on one while the client reads the other's answer and makes the next."""
SECOND_CALL_MIN: Final = 1_000
"""Positions from which a second call is worth its cost: a call takes as long as a few hundred positions in one."""

PackedIndexes: TypeAlias = tuple[bytes, bytes, bytes]
"""Deadlines, ledger ids and entry ids, packed."""
Send: TypeAlias = Callable[[PackedIndexes, int, Claim | None], Awaitable[AddAnswer]]
"""Makes the call for this number of positions, and a claim that they are part of or that ends before them."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    columns: PackedIndexes
    count: int
    claim: Claim | None
    outcome: "asyncio.Future[AddAnswer]"


@dataclass(frozen=True, slots=True, eq=False)
class _Flight:
    """A call in flight."""

    count: int


class SharedAdds:
    """Batches of one session."""

    def __init__(self, send: Send, *, batch_max: Callable[[], int], second_call_min: int = SECOND_CALL_MIN) -> None:
        """Create a state without batches.

        Args:
            send: makes one call.
            batch_max: returns how many positions a call may carry, as known at that time.
            second_call_min: positions that wait for the end of a call at most.
        """
        self._send = send
        self._batch_max = batch_max
        self._second_call_min = second_call_min
        self._waiting: deque[_Waiting] = deque()
        self._waiting_count = 0
        self._in_flight: set[_Flight] = set()
        self._is_gathering = False
        self._senders: set[asyncio.Task[None]] = set()

    async def add(self, columns: PackedIndexes, count: int, claim: Claim | None = None) -> AddAnswer:
        """Add one batch and return its answer.

        Raises:
            TrackerCallError: the call that carried it failed.
            SessionClosed: the client was closed, or the program's event loop ended, before the answer arrived.
        """
        if not self._in_flight and not self._is_gathering:
            flight = _Flight(count)
            self._in_flight.add(flight)
            try:
                return await self._send(columns, count, claim)
            finally:
                self._ended(flight)
        outcome: asyncio.Future[AddAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(columns, count, claim, outcome))
        self._waiting_count += count
        if not self._is_gathering:
            self._begin()
        return await outcome

    def _ended(self, flight: _Flight) -> None:
        """Make room after a call."""
        self._in_flight.remove(flight)
        if self._waiting:
            self._gather()

    def _gather(self) -> None:
        """Begin the next call when those whom the last one has answered could add again."""
        if not self._is_gathering:
            self._is_gathering = True
            asyncio.get_running_loop().call_soon(self._gathered)

    def _gathered(self) -> None:
        self._is_gathering = False
        self._begin()

    def _begin(self) -> None:
        """Send what waits, if there is room for a call and it is worth one."""
        in_flight = self._in_flight
        while self._waiting and len(in_flight) < CALLS_MAX:
            if in_flight and self._waiting_count < self._second_call_min:
                return
            if batches := self._take():
                flight = _Flight(sum(each.count for each in batches))
                in_flight.add(flight)
                sender = asyncio.get_running_loop().create_task(self._send_together(batches, flight))
                self._senders.add(sender)
                sender.add_done_callback(partial(self._sent, batches, flight))

    def _sent(self, batches: list[_Waiting], flight: _Flight, sender: "asyncio.Task[None]") -> None:
        self._senders.discard(sender)
        if flight in self._in_flight:
            # Cancelled before its first step: nothing in `_send_together` has run.
            _fail(batches, not_sent())
            self._ended(flight)

    def _take(self) -> list[_Waiting]:
        """Remove and return the batches of the next call: at least one if any caller waits, and no more than fit.

        Of many positions half wait for the second call, so that the calls are about equal.
        """
        batches: list[_Waiting] = []
        half = (self._waiting_count + sum(flight.count for flight in self._in_flight) + 1) // 2
        room = min(self._batch_max(), max(half, self._second_call_min))
        while self._waiting and (not batches or self._waiting[0].count <= room):
            waiting = self._waiting.popleft()
            self._waiting_count -= waiting.count
            # A batch that was given up before it was sent is dropped: the caller does not want it tracked.
            if not waiting.outcome.done():
                batches.append(waiting)
                room -= waiting.count
        return batches

    async def _send_together(self, batches: list[_Waiting], flight: _Flight) -> None:
        deadlines, ledgers, entries = (
            b"".join(column) for column in zip(*(each.columns for each in batches), strict=True)
        )
        counts = [each.count for each in batches]
        # Each claim holds when its own batch is applied, and all are applied together; of two epochs, the newer counts.
        claims = [each.claim for each in batches if each.claim is not None]
        claim = max(claims, key=lambda each: (each.epoch, each.position), default=None)
        try:
            answer = await self._send((deadlines, ledgers, entries), flight.count, claim)
        except Exception as error:  # noqa: BLE001  # raised again in the callers, also the token function's own
            _fail(batches, error)
        except BaseException:
            _fail(batches, perhaps_sent())
            raise
        else:
            for each, own in zip(batches, parts_of(answer, counts), strict=True):
                if not each.outcome.done():
                    each.outcome.set_result(own)
            self._gather()
        finally:
            self._ended(flight)


def _fail(batches: list[_Waiting], error: Exception) -> None:
    for each in batches:
        if not each.outcome.done():
            each.outcome.set_exception(error)
