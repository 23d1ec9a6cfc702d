"""Bounds the share of the event loop that scrapes take, for any number of clients and requests.

One exposition is rendered at a time, for all clients that requested its format before it began. Then follows a pause of
four times that duration. A Prometheus that scrapes every few seconds never meets the pause.
"""

import asyncio
from typing import Final, Protocol

from delayed_tracker.service.instruments.family import Format

_PAUSE_FACTOR: Final = 4
"""Scrapes take at most a fifth of the time; calls of dispatchers have the rest."""


class MetricsRenderer(Protocol):
    """Renderer of expositions: :class:`~delayed_tracker.service.exposition.exporter.ServiceMetrics`."""

    async def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """Return an exposition and its content type."""
        ...


class ScrapeTurns:
    """Queue of renderings, one at a time. Used from one event loop."""

    def __init__(self, metrics: MetricsRenderer) -> None:
        self._metrics = metrics
        self._next: dict[Format, asyncio.Task[tuple[bytes, str]]] = {}
        """The rendering that has not begun yet, by format."""
        self._turn = asyncio.Lock()
        self._free_at = 0.0

    async def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """Return an exposition that was begun after this call, and its content type."""
        form = Format.accepted(accept)
        if form not in self._next:
            self._next[form] = asyncio.create_task(self._render(form, accept))
        return await asyncio.shield(self._next[form])

    async def _render(self, form: Format, accept: str) -> tuple[bytes, str]:
        loop = asyncio.get_running_loop()
        async with self._turn:
            await asyncio.sleep(self._free_at - loop.time())
            del self._next[form]
            begun = loop.time()
            try:
                return await self._metrics.scrape(accept)
            finally:
                ended = loop.time()
                self._free_at = ended + (ended - begun) * _PAUSE_FACTOR
