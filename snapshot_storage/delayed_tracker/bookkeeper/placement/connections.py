"""Keeps the connections to each bookie, which all ledgers of a client share: one, and one more for batch reads."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Final

from delayed_tracker.bookkeeper.errors import ClientClosed
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.stats import BOOKIES_MAX, OTHERS, BookieCounters, BookieStats
from delayed_tracker.bookkeeper.wire.batch_reads import BATCH_REPLIES
from delayed_tracker.bookkeeper.wire.connection import BookieConnection, Endpoint
from delayed_tracker.bookkeeper.wire.replies import REPLIES_OF_VERSION_3, ReplyFormat

_NO_BATCHES_S: Final = 600.0
"""Time for which a bookie that closed the connection at a batch read is not asked for any: it may be replaced by a newer one.
"""


class BookieConnections:
    """Connections by bookie. They belong to the running event loop.

    Args:
        endpoint_of: returns where a bookie listens, asked at each attempt to connect (``Bookies.endpoint_of``).
        settings: times, bounds and TLS.
    """

    def __init__(self, endpoint_of: Callable[[str], Awaitable[Endpoint]], settings: ClientSettings) -> None:
        self._endpoint_of = endpoint_of
        self._settings = settings
        self._connections: dict[str, dict[ReplyFormat, BookieConnection]] = {}
        """By bookie, and by what it answers on each."""
        self._counted: dict[str, BookieCounters] = {}
        self._others = BookieCounters()
        self._is_closed = False

    def of(self, bookie_id: str) -> BookieConnection:
        """Return the connection to a bookie; it is opened by its first request.

        Raises:
            ClientClosed: this was closed.
        """
        return self._one_of(bookie_id, REPLIES_OF_VERSION_3)

    def for_batches(self, bookie_id: str) -> BookieConnection:
        """Return the connection for batch reads to a bookie that takes them; as :meth:`of`."""
        return self._one_of(bookie_id, BATCH_REPLIES)

    def takes_batches(self, bookie_id: str) -> bool:
        """Return False if batch reads are off, or the bookie has refused one a short time ago.

        Bookies before 4.17 close the connection at the first one. With TLS there are none, because only version 3 of the
        protocol can begin it.
        """
        if not self._settings.batch_reads or self._settings.tls is not None:
            return False
        batches = self._connections.get(bookie_id, {}).get(BATCH_REPLIES)
        if batches is None or batches.refused_at is None:
            return True
        return asyncio.get_running_loop().time() >= batches.refused_at + _NO_BATCHES_S

    def _one_of(self, bookie_id: str, replies: ReplyFormat) -> BookieConnection:
        if self._is_closed:
            raise ClientClosed(f"bookie {bookie_id}: the client was closed; make another one")
        kept = self._connections.get(bookie_id, {})
        connection = kept.get(replies)
        if connection is None:
            # Those of one bookie have the same counters.
            counters = next((each.counters for each in kept.values()), None) or self._counters_of(bookie_id)
            connection = kept[replies] = BookieConnection(
                bookie_id, lambda: self._endpoint_of(bookie_id), self._settings, counters=counters, replies=replies
            )
            self._connections[bookie_id] = kept
        return connection

    def _counters_of(self, bookie_id: str) -> BookieCounters:
        """Return the counters of a bookie that has no connection yet: its own, as long as there is room."""
        if len(self._connections) >= BOOKIES_MAX:
            for gone in [name for name, kept in self._connections.items() if all(one.is_gone for one in kept.values())]:
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
        found = {
            name: _stats_of(name, counters, self._connections[name].values())
            for name, counters in self._counted.items()
            if name in self._connections
        }
        others = [
            connection
            for name, kept in self._connections.items()
            if name not in self._counted
            for connection in kept.values()
        ]
        if others or self._others.connections:
            found[OTHERS] = _stats_of(OTHERS, self._others, others)
        return found

    async def close(self) -> None:
        """End all connections; requests without a reply fail with ClientClosed. Closing again does nothing."""
        self._is_closed = True
        kept = chain.from_iterable(kept.values() for kept in self._connections.values())
        await asyncio.gather(*(connection.close() for connection in kept))


def _stats_of(name: str, counters: BookieCounters, connections: Iterable[BookieConnection]) -> BookieStats:
    in_flight = [connection.in_flight for connection in connections]
    return counters.read(name, sum(each.requests for each in in_flight), sum(each.bytes for each in in_flight))
