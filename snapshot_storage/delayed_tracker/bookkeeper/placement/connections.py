"""Keeps one connection for each bookie, which all ledgers of a client share."""

import asyncio
from collections.abc import Awaitable, Callable

from delayed_tracker.bookkeeper.errors import ClientClosed
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.stats import BOOKIES_MAX, OTHERS, BookieCounters, BookieStats
from delayed_tracker.bookkeeper.wire.connection import BookieConnection, Endpoint


class BookieConnections:
    """Connections by bookie. They belong to the running event loop.

    Args:
        endpoint_of: returns where a bookie listens, asked at each attempt to connect (``Bookies.endpoint_of``).
        settings: times, bounds and TLS.
    """

    def __init__(self, endpoint_of: Callable[[str], Awaitable[Endpoint]], settings: ClientSettings) -> None:
        self._endpoint_of = endpoint_of
        self._settings = settings
        self._connections: dict[str, BookieConnection] = {}
        self._counted: dict[str, BookieCounters] = {}
        self._others = BookieCounters()
        self._is_closed = False

    def of(self, bookie_id: str) -> BookieConnection:
        """Return the connection to a bookie; it is opened by its first request.

        Raises:
            ClientClosed: this was closed.
        """
        if self._is_closed:
            raise ClientClosed(f"bookie {bookie_id}: the client was closed; make another one")
        connection = self._connections.get(bookie_id)
        if connection is None:
            counters = self._counters_of(bookie_id)
            connection = BookieConnection(
                bookie_id, lambda: self._endpoint_of(bookie_id), self._settings, counters=counters
            )
            self._connections[bookie_id] = connection
        return connection

    def _counters_of(self, bookie_id: str) -> BookieCounters:
        """Return the counters of a bookie that has no connection yet: its own, as long as there is room."""
        if len(self._connections) >= BOOKIES_MAX:
            for gone in [name for name, connection in self._connections.items() if connection.is_gone]:
                del self._connections[gone]
                self._counted.pop(gone, None)
        if len(self._counted) >= BOOKIES_MAX:
            return self._others
        return self._counted.setdefault(bookie_id, BookieCounters())

    def replaced(self, bookie_id: str) -> None:
        """Count that another bookie took the place of this one in an ensemble."""
        self._counted.get(bookie_id, self._others).replacements += 1

    def stats(self) -> dict[str, BookieStats]:
        """Return what each bookie was asked and answered so far, by its id; see ``BOOKIES_MAX``."""
        found = {name: self._connections[name].stats() for name in self._counted if name in self._connections}
        others = [connection.in_flight for name, connection in self._connections.items() if name not in self._counted]
        if others or self._others.connections:
            requests, octets = sum(each.requests for each in others), sum(each.bytes for each in others)
            found[OTHERS] = self._others.read(OTHERS, requests, octets)
        return found

    async def close(self) -> None:
        """End all connections; requests without a reply fail with ClientClosed. Closing again does nothing."""
        self._is_closed = True
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
