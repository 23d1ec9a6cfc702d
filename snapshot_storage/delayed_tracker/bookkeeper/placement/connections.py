"""Keeps one connection for each bookie, which all ledgers of a client share."""

import asyncio
from collections.abc import Awaitable, Callable

from delayed_tracker.bookkeeper.errors import ClientClosed
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.stats import BookieStats
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
            connection = BookieConnection(bookie_id, lambda: self._endpoint_of(bookie_id), self._settings)
            self._connections[bookie_id] = connection
        return connection

    def stats(self) -> dict[str, BookieStats]:
        """Return what each bookie was asked and answered so far, by its id."""
        return {bookie_id: connection.stats() for bookie_id, connection in self._connections.items()}

    async def close(self) -> None:
        """End all connections; requests without a reply fail with ClientClosed. Closing again does nothing."""
        self._is_closed = True
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
