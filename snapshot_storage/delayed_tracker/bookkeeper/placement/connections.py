"""Keeps the connections to each bookie, which all ledgers of a client share: one, and one more for batch reads."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
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
        self._connections: dict[str, BookieConnection] = {}
        self._for_batches: dict[str, BookieConnection] = {}
        self._counted: dict[str, BookieCounters] = {}
        self._others = BookieCounters()
        self._is_closed = False

    def of(self, bookie_id: str) -> BookieConnection:
        """Return the connection to a bookie; it is opened by its first request.

        Raises:
            ClientClosed: this was closed.
        """
        return self._one_of(self._connections, bookie_id, REPLIES_OF_VERSION_3)

    def for_batches(self, bookie_id: str) -> BookieConnection:
        """Return the connection for batch reads to a bookie that takes them; as :meth:`of`."""
        return self._one_of(self._for_batches, bookie_id, BATCH_REPLIES)

    def takes_batches(self, bookie_id: str) -> bool:
        """Return False if batch reads are off, or the bookie has refused one a short time ago.

        Bookies before 4.17 close the connection at the first one. With TLS there are none, because only version 3 of the
        protocol can begin it.
        """
        if not self._settings.batch_reads or self._settings.tls is not None:
            return False
        batches = self._for_batches.get(bookie_id)
        if batches is None or batches.refused_at is None:
            return True
        return asyncio.get_running_loop().time() >= batches.refused_at + _NO_BATCHES_S

    def _one_of(self, kept: dict[str, BookieConnection], bookie_id: str, replies: ReplyFormat) -> BookieConnection:
        if self._is_closed:
            raise ClientClosed(f"bookie {bookie_id}: the client was closed; make another one")
        connection = kept.get(bookie_id)
        if connection is None:
            others = self._all_of(bookie_id)
            counters = others[0].counters if others else self._counters_of(bookie_id)
            connection = kept[bookie_id] = BookieConnection(
                bookie_id, lambda: self._endpoint_of(bookie_id), self._settings, counters=counters, replies=replies
            )
        return connection

    def _counters_of(self, bookie_id: str) -> BookieCounters:
        """Return the counters of a bookie that has no connection yet: its own, as long as there is room."""
        names = self._names()
        if len(names) >= BOOKIES_MAX:
            for gone in [name for name in names if all(each.is_gone for each in self._all_of(name))]:
                self._connections.pop(gone, None)
                self._for_batches.pop(gone, None)
                self._counted.pop(gone, None)
        if len(self._counted) >= BOOKIES_MAX:
            return self._others
        return self._counted.setdefault(bookie_id, BookieCounters())

    def _names(self) -> set[str]:
        return self._connections.keys() | self._for_batches.keys()

    def replaced(self, bookie_id: str) -> None:
        """Count that another bookie took the place of this one in an ensemble."""
        self._counted.get(bookie_id, self._others).replacements += 1

    def stats(self) -> dict[str, BookieStats]:
        """Return what each bookie was asked and answered so far, by its id; see ``BOOKIES_MAX``."""
        names = self._names()
        found = {
            name: _stats_of(name, counters, self._all_of(name))
            for name, counters in self._counted.items()
            if name in names
        }
        others = list(chain.from_iterable(map(self._all_of, names - self._counted.keys())))
        if others or self._others.connections:
            found[OTHERS] = _stats_of(OTHERS, self._others, others)
        return found

    def _all_of(self, bookie_id: str) -> list[BookieConnection]:
        return [each[bookie_id] for each in (self._connections, self._for_batches) if bookie_id in each]

    async def close(self) -> None:
        """End all connections; requests without a reply fail with ClientClosed. Closing again does nothing."""
        self._is_closed = True
        connections = chain(self._connections.values(), self._for_batches.values())
        await asyncio.gather(*(connection.close() for connection in connections))


def _stats_of(name: str, counters: BookieCounters, connections: Sequence[BookieConnection]) -> BookieStats:
    in_flight = [connection.in_flight for connection in connections]
    return counters.read(name, sum(each.requests for each in in_flight), sum(each.bytes for each in in_flight))
