"""Bounds what one bookie has not answered: requests, and their bytes. Who waits for room gets it in turn."""

import asyncio
from collections import deque


class InFlight:
    """Room for requests in flight.

    Args:
        requests_max: most requests.
        bytes_max: most bytes of requests; a single request has at most that many.
    """

    def __init__(self, requests_max: int, bytes_max: int) -> None:
        self.requests = 0
        self.bytes = 0
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._queue: deque[tuple[int, int, asyncio.Future[None]]] = deque()

    def try_take(self, count: int, requests: int = 1) -> bool:
        """Take room for requests of ``count`` bytes in all; return False if there is none, or others wait for it."""
        if self._queue or not self._fits(count, requests):
            return False
        self._take(count, requests)
        return True

    def take_at_once(self, count: int) -> None:
        """Take room for a request that goes before all others, whether there is room or not."""
        self._take(count, 1)

    async def take(self, count: int, requests: int = 1) -> None:
        """Wait until there is room for requests of ``count`` bytes in all, after all who waited before, and take it."""
        if self.try_take(count, requests):
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((count, requests, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._queue = deque(row for row in self._queue if row[2] is not turn)
                self._hand_on()
            else:
                self.give(count, requests)
            raise

    def give(self, count: int, requests: int = 1) -> None:
        """Return the room of requests of ``count`` bytes in all."""
        self.requests -= requests
        self.bytes -= count
        if self._queue:
            self._hand_on()

    def _hand_on(self) -> None:
        while self._queue and self._fits(*self._queue[0][:2]):
            count, requests, turn = self._queue.popleft()
            if not turn.done():
                self._take(count, requests)
                turn.set_result(None)

    def _fits(self, count: int, requests: int) -> bool:
        return self.requests + requests <= self._requests_max and self.bytes + count <= self._bytes_max

    def _take(self, count: int, requests: int) -> None:
        self.requests += requests
        self.bytes += count
