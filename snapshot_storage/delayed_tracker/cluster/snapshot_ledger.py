"""Reads a broker's snapshot from its ledger. The ledger is never fenced, so that a broker may be writing it meanwhile."""

import asyncio
from collections.abc import Sequence
from typing import Final

from delayed_tracker.bookkeeper.reading.reader import LedgerReader
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.ledger.live.throttle import Throttle
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.errors import SnapshotNotFound

_THREAD_BYTES_MIN: Final = 64 * 1024
"""Size from which on segments are decoded in a thread; a smaller one takes less time than the change of threads."""


class SnapshotLedger:
    """A ``SnapshotReader`` of one ledger. Besides, errors of the BookKeeper client are raised.

    Args:
        reader: of the ledger; of one that is not closed, confirmed entries are read.
        now_ms: time by which an index is due, in milliseconds since 1970.
        throttle: of the cluster; reads wait for it.
    """

    def __init__(self, reader: LedgerReader, *, now_ms: int = 0, throttle: Throttle | None = None) -> None:
        self.reader = reader
        self._now_ms = now_ms
        self._throttle = throttle
        self.due_count = 0
        """Rows that :meth:`decode` returned whose deadline is at or before ``now_ms``."""

    async def metadata_entry(self) -> bytes:
        """Return entry 0 as it is stored.

        Raises:
            SnapshotNotFound: the ledger is empty.
        """
        return (await self._entries(0, 0))[0]

    async def metadata(self) -> SnapshotMetadata:
        """See ``SnapshotReader``."""
        return await asyncio.to_thread(decode_metadata, await self.metadata_entry())

    async def entries(self, first: int, last: int) -> list[bytes]:
        """See ``SnapshotReader``."""
        return await self._entries(first + 1, last + 1)

    async def decode(self, entries: Sequence[bytes]) -> IndexColumns:
        """See ``SnapshotReader``."""
        if sum(map(len, entries)) < _THREAD_BYTES_MIN:
            rows = decode_segments(entries)
        else:
            rows = await asyncio.to_thread(decode_segments, entries)
        self.due_count += int((rows.deliver_at_ms <= self._now_ms).sum())
        return rows

    async def length(self) -> int:
        """See ``SnapshotReader``."""
        return self.reader.metadata.payload_bytes

    async def _entries(self, first: int, last: int) -> list[bytes]:
        end = self.reader.last_confirmed
        if last > end:
            raise SnapshotNotFound(f"ledger {self.reader.ledger_id} ends at entry {end}, and entry {last} is missing")
        payloads = [bytes(entry.payload) for entry in await self.reader.read(first, last)]
        if self._throttle is not None:
            await asyncio.sleep(self._throttle.take(sum(map(len, payloads))))
        return payloads
