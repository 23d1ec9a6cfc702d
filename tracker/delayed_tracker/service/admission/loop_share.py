"""A bound on the positions applied in one iteration of the event loop, so that small calls wait for few large requests.

Without it, all requests that have arrived would be applied in one iteration. Twenty streams that send 20,000 positions
each would block the loop for 40 ms, and a call takes several iterations.
"""

import asyncio
from collections import deque
from typing import Final

POSITIONS_MAX: Final = 20_000
"""Positions applied in one iteration, in about 2 ms. The request that exceeds it is still applied whole."""


class LoopShare:
    """Admits requests in the order of their calls. For use within one event loop."""

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
