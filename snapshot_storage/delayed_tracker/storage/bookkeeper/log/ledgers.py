"""Ledgers of logs: one that is written, and what is read of closed ones."""

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import DigestMismatch, EntryMissing
from delayed_tracker.bookkeeper.metadata.errors import LedgerNotFound, NodeMissing
from delayed_tracker.bookkeeper.metadata.zookeeper import Delete
from delayed_tracker.bookkeeper.writing.writer import LedgerWriter
from delayed_tracker.storage.bookkeeper.connecting import create_ledger
from delayed_tracker.storage.bookkeeper.kept_readers import KeptReaders
from delayed_tracker.storage.bookkeeper.log.content import LogContent
from delayed_tracker.storage.bookkeeper.log.entries import EntryCorrupt, Item, items_of
from delayed_tracker.storage.bookkeeper.registrations import ROOT_KEY
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl

CACHED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Entries that are kept, because an entry has records of many trackers, which are recovered one after the other."""
READ_ENTRIES: Final = 256
"""Entries that one read asks for."""

NodeOf: TypeAlias = Callable[[int], str]
"""Returns the path of a ledger's node."""


class LogLedgers:
    """Ledgers of logs of one root. The errors of its operations are those of the client.

    Args:
        client: started and closed by the caller.
        url: ensemble, quorums and digest of new ledgers.
    """

    def __init__(self, client: BookKeeper, url: BookKeeperUrl) -> None:
        self._client = client
        self._url = url
        self._custom: Final = {ROOT_KEY: url.root.encode(), "component": b"delayed-tracker-add-log"}
        self._readers = KeptReaders()
        self._cached: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._cached_bytes = 0

    @property
    def entry_bytes_max(self) -> int:
        """Largest entry that bookies take."""
        return self._client.payload_bytes_max

    async def create(self, node_of: NodeOf) -> LedgerWriter:
        """Create a ledger and its node in one step."""
        return await create_ledger(self._client, self._url, self._custom, node_of)

    async def fence(self, ledger_id: int) -> int | None:
        """Close a ledger for whoever writes it, and return its last entry: -1 if it has none, None if it was deleted."""
        try:
            reader = await self._client.recover(ledger_id, require=self._custom)
        except LedgerNotFound:
            return None
        self._readers.keep(ledger_id, reader)
        return reader.metadata.last_entry_id

    async def fill(self, content: LogContent, ledger_id: int, first: int, last: int) -> None:
        """Apply entries of a fenced ledger; those that cannot be read any more leave the content damaged."""
        for start in range(first, last + 1, READ_ENTRIES):
            end = min(start + READ_ENTRIES - 1, last)
            for entry_id, items in enumerate(await self.items(ledger_id, start, end), start):
                if items is None:
                    content.is_damaged = True
                else:
                    content.apply(ledger_id, entry_id, items)

    async def items(self, ledger_id: int, first: int, last: int) -> list[list[Item] | None]:
        """Return the items of entries ``first`` to ``last``; None for an entry that is damaged in all its copies."""
        wanted = range(first, last + 1)
        found = {entry_id: self._cached.get((ledger_id, entry_id)) for entry_id in wanted}
        if any(octets is None for octets in found.values()):
            found.update(await self._read(ledger_id, first, last))
        return [_items_of(found[entry_id]) for entry_id in wanted]

    async def _read(self, ledger_id: int, first: int, last: int) -> dict[int, bytes | None]:
        reader = self._readers.get(ledger_id)
        if reader is None:
            reader = await self._client.open(ledger_id, require=self._custom)
            self._readers.keep(ledger_id, reader)
        try:
            entries = {entry.entry_id: bytes(entry.payload) for entry in await reader.read(first, last)}
        except (DigestMismatch, EntryMissing):
            if first == last:
                return {first: None}
            entries = {}
        if not entries:
            single = [await self._read(ledger_id, entry_id, entry_id) for entry_id in range(first, last + 1)]
            return {entry_id: octets for one in single for entry_id, octets in one.items()}
        for entry_id, octets in entries.items():
            self.keep(ledger_id, entry_id, octets)
        return dict(entries)

    def keep(self, ledger_id: int, entry_id: int, octets: bytes) -> None:
        """Keep an entry for the next readers, as long as there is room."""
        if (ledger_id, entry_id) in self._cached:
            return
        self._cached[ledger_id, entry_id] = octets
        self._cached_bytes += len(octets)
        while self._cached_bytes > CACHED_BYTES_MAX:
            self._cached_bytes -= len(self._cached.popitem(last=False)[1])

    async def delete(self, ledger_id: int, node: str) -> None:
        """Delete a ledger and its node, if they exist."""
        self._readers.drop(ledger_id)
        with contextlib.suppress(NodeMissing):
            if not await self._client.delete(ledger_id, require=self._custom, also=[Delete(node)]):
                await self._client.zookeeper.delete(node)


def _items_of(octets: bytes | None) -> list[Item] | None:
    if octets is None:
        return None
    try:
        return items_of(octets)
    except EntryCorrupt:
        return None
