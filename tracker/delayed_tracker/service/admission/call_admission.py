"""Calls in flight of one service: their limit, and the end of streams that would not end by themselves."""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final, TypeVar

from delayed_tracker.service.admission.answer_admission import AnswerAdmission
from delayed_tracker.service.admission.request_admission import RequestAdmission
from delayed_tracker.service.clock import Clock, SystemClock
from delayed_tracker.service.errors import Overloaded, ShuttingDown
from delayed_tracker.service.instruments.call_counts import CallCounts
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.telemetry.failed_calls import FailedCalls
from delayed_tracker.service.telemetry.spans import Spans

POSITIONS_MAX: Final = 20_000
"""Positions applied in one iteration, in about 2 ms. The request that exceeds it is still applied whole."""
Request = TypeVar("Request")


class IterationBudget:
    """Admits requests in the order of their calls. For use within one event loop.

    It bounds the positions applied in one iteration of the event loop. Without it, all requests that have arrived would be
    applied in one iteration: twenty streams that send 20,000 positions each would block the loop for 40 ms, and a call
    takes several iterations.
    """

    def __init__(self, positions_max: int = POSITIONS_MAX) -> None:
        self._positions_max = positions_max
        self._remaining = positions_max
        self._refill_due = False
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, position_count: int) -> None:
        """Return when this many positions may be applied: at once, or in a later iteration of the loop."""
        if self._waiting or self._remaining <= 0:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((position_count, turn))
            await turn
        else:
            self._spend(position_count)

    def _spend(self, position_count: int) -> None:
        self._remaining -= position_count
        if not self._refill_due:
            self._refill_due = True
            asyncio.get_running_loop().call_soon(self._refill)

    def _refill(self) -> None:
        self._refill_due = False
        self._remaining = self._positions_max
        while self._waiting and self._remaining > 0:
            position_count, turn = self._waiting.popleft()
            if not turn.done():  # else its caller has left
                turn.set_result(None)
                self._spend(position_count)


class CallAdmission:
    """Counter of calls, including waiting polls and open streams. It refuses calls above the limit."""

    def __init__(self, limits: ServiceLimits, clock: Clock | None = None) -> None:
        self.open_count = 0
        self.spans: Spans | None = None
        """Receiver of the traces of calls; must be set before calls are served."""
        clock = clock or SystemClock()
        self.counts = CallCounts(clock)
        self.failures = FailedCalls(clock)
        self.iteration_budget = IterationBudget()
        self.requests = RequestAdmission(limits)
        self.answers = AnswerAdmission(limits)
        self.limits = limits
        self._stopping = False
        self._waits: set[asyncio.Timeout] = set()

    def enter(self) -> None:
        """Count one call, until :meth:`leave`.

        Raises:
            Overloaded: the limit is reached; nothing of this call was done.
        """
        if self.open_count >= self.limits.calls_max:
            raise Overloaded(
                f"{self.open_count} calls are under way, which is the limit", retry_after_ms=self.limits.retry_after_ms
            )
        self.open_count += 1

    def leave(self) -> None:
        """Count one call less."""
        self.open_count -= 1

    async def requests_until_stopping(self, requests: AsyncIterable[Request]) -> AsyncIterator[Request]:
        """Yield the requests of a stream until its caller ends it, or until :meth:`stop`.

        Only the wait for the next request is cancelled. If a write is cancelled, gRPC loses count of the messages it
        sent and cannot end the call any more.

        Raises:
            ShuttingDown: the service stops.
        """
        if self._stopping:
            raise self._stopping_error()  # gRPC's iterator must not be created unless it is iterated
        waiting_requests = aiter(requests)
        while not self._stopping:
            try:
                async with asyncio.timeout(None) as wait:
                    self._waits.add(wait)
                    try:
                        request = await anext(waiting_requests)
                    finally:
                        self._waits.discard(wait)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise self._stopping_error() from error
            yield request
        raise self._stopping_error()

    def _stopping_error(self) -> ShuttingDown:
        return ShuttingDown("the service is stopping", retry_after_ms=self.limits.retry_after_ms)

    def stop(self) -> None:
        """End every wait of :meth:`requests_until_stopping`, now and from now on."""
        self._stopping = True
        for wait in self._waits:
            wait.reschedule(asyncio.get_running_loop().time())
