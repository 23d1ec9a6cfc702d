"""Calls under way in one service: how many there may be at once, and the end of those that would never end alone."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from tracker.service.errors import Overloaded, ShuttingDown
from tracker.service.limits import ServiceLimits


class Calls:
    """Counts calls, waiting polls and open streams included, and refuses those above the limit."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.open_count = 0
        self._limits = limits
        self._stopping = False
        self._streams: set[asyncio.Timeout] = set()

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Count one call for the time of the block.

        Raises:
            Overloaded: there are as many as there may be; nothing of this one was done.
        """
        if self.open_count >= self._limits.calls_max:
            raise Overloaded(
                f"{self.open_count} calls are under way, which is the limit", retry_after_ms=self._limits.retry_after_ms
            )
        self.open_count += 1
        try:
            yield
        finally:
            self.open_count -= 1

    @asynccontextmanager
    async def until_stopping(self) -> AsyncIterator[None]:
        """A block that waits for its caller for as long as the caller likes, but not beyond :meth:`stop`.

        Raises:
            ShuttingDown: the service stops.
        """
        if self._stopping:
            raise self._stopping_error()
        try:
            async with asyncio.timeout(None) as stream:
                self._streams.add(stream)
                try:
                    yield
                finally:
                    self._streams.discard(stream)
        except TimeoutError as error:
            raise self._stopping_error() from error

    def _stopping_error(self) -> ShuttingDown:
        return ShuttingDown("the service is stopping", retry_after_ms=self._limits.retry_after_ms)

    def stop(self) -> None:
        """End every block of :meth:`until_stopping`, now and from now on."""
        self._stopping = True
        for stream in self._streams:
            stream.reschedule(asyncio.get_running_loop().time())
