"""Reads a range of one ledger from the bookies, piece by piece, and lists what cannot be read.

Each entry is read from the next of its bookies, so that all replicas share the work, and from another one if that fails.
Memory holds one piece and the entries on their way, at most ``ENTRIES_AHEAD_MAX``.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from typing import Final

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import DigestMismatch, EntryMissing, LedgerUnreadable
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, LedgerNotFound, ZooKeeperUnavailable
from delayed_tracker.bookkeeper.metadata.ledger_store import Versioned
from delayed_tracker.bookkeeper.reading.ahead_bound import AheadBound
from delayed_tracker.bookkeeper.reading.reader import LedgerReader
from delayed_tracker.bookkeeper.wire.digest import Entry
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.live.client import ClusterClient
from delayed_tracker.ledger.live.pace import BYTES_AHEAD_MIN, Answers

PIECE_BYTES: Final = 4 * 2**20
_PIECE_ENTRIES: Final = 16_384
ENTRIES_AHEAD_MAX: Final = 48
"""Entries on their way: with frames of 5 MiB at most 240 MiB, however small the entries before them were."""
_ENTRY_OVERHEAD_BYTES: Final = 100
"""Bytes of a reply besides the payload, about; the throttle counts them."""
_SHORTEST_WAIT_S: Final = 0.01
"""Waits of the throttle are put together up to this time, as timers are not finer."""
_PATIENCE_S: Final = 30.0
"""Seconds that one scan waits in all for bookies that fail, and 10 more at most. After that, each entry is asked for once."""
_HOPELESS: Final = 32
"""Consecutive entries that bookies fail to give, after which the rest of the range is not asked for."""
DELETED: Final = "the ledger was deleted after its metadata were read: the topic was trimmed, or deleted"
_DROPPED: Final = "it was stored, but not acknowledged, and is not in the ledger since that was closed"
_MISSING: Final = "none of its bookies has it"
_DAMAGED: Final = "some of its bookies have a damaged copy, and the others none"
_OTHER_COPY: Final = "give tiered storage or the disks of the bookies as a further source"


def scan_ledger(
    client: ClusterClient, ledger: Versioned, first: int, last: int, piece_bytes: int = PIECE_BYTES
) -> Iterator[LedgerEntries]:
    """Yield the entries ``first`` to ``last``, both included, in pieces of about 4 MB, each of at least one entry.

    Args:
        client: connection to the cluster.
        ledger: its metadata, which may be older than the cluster's.
        first: 0 or more.
        last: an entry that is confirmed, or stored; below ``first`` to read nothing.
        piece_bytes: approximate size of a piece.
    Raises:
        MetadataUnavailable, InvalidInput: the connection cannot be opened.
    """
    if last < first:
        return
    scan = _Scan(client, ledger, first, last, piece_bytes)
    try:
        while not scan.is_over:
            yield client.run(scan.piece)
    finally:
        if not scan.is_closed:
            client.run(scan.close)


class _Scan:
    """One scan; its coroutines run in the background."""

    def __init__(self, client: ClusterClient, ledger: Versioned, first: int, last: int, piece_bytes: int) -> None:
        self._client = client
        self._ledger = ledger
        self._next = first
        self._last = last
        self._piece_bytes = piece_bytes
        self._bound = AheadBound(BYTES_AHEAD_MIN, ENTRIES_AHEAD_MAX)
        self._reader: LedgerReader | None = None
        self._entries: AsyncGenerator[Entry, None] | None = None
        self._patience_s = _PATIENCE_S
        self._failures = 0

    @property
    def is_over(self) -> bool:
        """True if all entries are read or listed as bad."""
        return self._next > self._last

    @property
    def is_closed(self) -> bool:
        """True if nothing is in flight."""
        return self._entries is None

    async def piece(self, bookkeeper: BookKeeper) -> LedgerEntries:
        """Return the next piece."""
        pace = self._client.pace
        if pace.pause_s:
            await asyncio.sleep(pace.pause_s)
        self._bound.resize(self._bytes_ahead())
        before = Answers.of(bookkeeper.stats().values())
        ids: list[int] = []
        payloads: list[bytes] = []
        bad: list[BadEntry] = []
        size_bytes = count = 0
        while not self.is_over and size_bytes < self._piece_bytes and count < _PIECE_ENTRIES:
            found = await self._next_entry(bookkeeper)
            count += 1
            if isinstance(found, BadEntry):
                _append(bad, found)
                continue
            ids.append(found.entry_id)
            payloads.append(found.payload)
            size_bytes += len(found.payload)
            await self._pay(len(found.payload) + _ENTRY_OVERHEAD_BYTES)
        pace.note(Answers.of(bookkeeper.stats().values()).since(before))
        if self.is_over:
            await self.close(bookkeeper)
        return LedgerEntries(StoredEntries.of(self._ledger.metadata.ledger_id, ids, payloads), tuple(bad))

    async def close(self, _: BookKeeper) -> None:
        """Withdraw what is in flight."""
        entries, self._entries = self._entries, None
        if entries is not None:
            await entries.aclose()

    async def _next_entry(self, bookkeeper: BookKeeper) -> Entry | BadEntry:
        """Return the next entry, or what is bad from there on."""
        while True:
            if self._reader is not None and self._next > self._reader.last_confirmed:
                return self._bad(_DROPPED, self._last - self._next + 1)
            try:
                entry = await anext(self._begun(bookkeeper))
            except EntryMissing:
                return self._bad(_MISSING)
            except DigestMismatch:
                return self._bad(_DAMAGED)
            except (LedgerNotFound, LedgerMetadataInvalid) as error:
                gone = isinstance(error, LedgerNotFound)
                return self._bad(DELETED if gone else error.message, self._last - self._next + 1)
            except (LedgerUnreadable, ZooKeeperUnavailable) as error:
                self._entries = None
                if self._patience_s > 0:
                    await self._back_off()
                    continue
                return self._unreadable(error.message)
            self._failures = 0
            self._next = entry.entry_id + 1
            return entry

    def _begun(self, bookkeeper: BookKeeper) -> AsyncGenerator[Entry, None]:
        if self._entries is None:
            if self._reader is None:
                self._reader = bookkeeper.reader(self._ledger, confirmed=self._last)
            last = min(self._last, self._reader.last_confirmed)
            self._entries = self._reader.entries(self._next, last, ahead_bound=self._bound)
        return self._entries

    async def _back_off(self) -> None:
        pace = self._client.pace
        pace.back_off()
        self._patience_s -= pace.pause_s
        self._bound.resize(self._bytes_ahead())
        await asyncio.sleep(pace.pause_s)

    def _bytes_ahead(self) -> int:
        """Return what may be on its way: no more than the throttle lets through in a second."""
        rate = self._client.throttle.bytes_per_second_max
        ahead = self._client.pace.bytes_ahead
        return ahead if rate is None else max(min(ahead, rate), 1)

    async def _pay(self, count: int) -> None:
        wait_s = self._client.throttle.take(count)
        if wait_s >= _SHORTEST_WAIT_S:
            await asyncio.sleep(wait_s)

    def _unreadable(self, message: str) -> BadEntry:
        self._failures += 1
        reason = message.removeprefix(f"entry {self._ledger.metadata.ledger_id}:{self._next}: ")
        if self._failures < _HOPELESS:
            return self._bad(reason)
        given_up = f"not asked for, since the {_HOPELESS - 1} entries before it failed; the first of these: {reason}"
        return self._bad(given_up, self._last - self._next + 1)

    def _bad(self, reason: str, count: int = 1) -> BadEntry:
        """Return the next entries as bad, and go on behind them."""
        self._entries = None
        first, self._next = self._next, self._next + count
        ledger_id = self._ledger.metadata.ledger_id
        return BadEntry(ledger_id, first, None, None, reason, entry_count=count, remedy=_OTHER_COPY)


def _append(bad: list[BadEntry], found: BadEntry) -> None:
    """Append an entry, or count it with those before it if they are bad for the same reason."""
    if bad and bad[-1].entry_id is not None and found.entry_id is not None:
        last = bad[-1]
        if last.reason == found.reason and bad[-1].entry_id + last.entry_count == found.entry_id:
            bad[-1] = replace(last, entry_count=last.entry_count + found.entry_count)
            return
    bad.append(found)
