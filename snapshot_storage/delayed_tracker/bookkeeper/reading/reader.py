"""Reads one ledger, which may be written meanwhile."""

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from delayed_tracker.bookkeeper.errors import DigestMismatch, EntryMissing, LedgerUnreadable
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from delayed_tracker.bookkeeper.reading.ahead_bound import AheadBound
from delayed_tracker.bookkeeper.reading.entry_reads import EntryRead, EntryReads
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.reading.ledger_end import read_last_confirmed, read_last_entries
from delayed_tracker.bookkeeper.reading.range_read import BATCH_BYTES_MAX, RangeRead
from delayed_tracker.bookkeeper.wire.digest import Entry
from delayed_tracker.core.values.errors import InvalidInput

BYTES_AHEAD: Final = 8 * 1024 * 1024
_RANGE: Final = 64
"""Entries that are asked for together."""
_SMALL_BYTES: Final = BATCH_BYTES_MAX // (2 * _RANGE)
"""Payload of entries of which a whole range may come in one reply; larger ones gain little by that."""


class _Begun(NamedTuple):
    """A read, and the version of the metadata that said whom to ask."""

    entry_id: int
    version: int
    read: EntryRead


class _BegunRange(NamedTuple):
    """Consecutive entries that are being read, and the version of the metadata that said whom to ask."""

    first: int
    entry_count: int
    version: int
    read: RangeRead | EntryRead
    """A single entry is read as such."""


class LedgerReader:
    """A ledger that was opened; made by ``BookKeeper.open`` and ``BookKeeper.recover``.

    Entries are read from any bookie that has them, and verified. A bookie that fails, has a damaged entry, or takes longer
    than ``speculative_read_ms`` costs time, but no error, while another one has the entry.

    Args:
        store: the ledgers' metadata.
        current: metadata of the ledger.
        access: to the ledger.
        confirmed: an entry that is known to be confirmed; -1 if none is known.
    """

    def __init__(self, store: LedgerStore, current: Versioned, access: LedgerAccess, *, confirmed: int = -1) -> None:
        self._store = store
        self._current = current
        self._access = access
        self._reads = EntryReads(access)
        self._confirmed = confirmed

    @property
    def ledger_id(self) -> int:
        """Id of the ledger."""
        return self._access.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """Metadata of the ledger, as they were read last."""
        return self._current.metadata

    @property
    def current(self) -> Versioned:
        """These metadata with their version, for ``BookKeeper.reader``."""
        return self._current

    @property
    def last_confirmed(self) -> int:
        """The last entry that may be read; -1 if there is none. :meth:`read_lac` moves it on while the ledger is open."""
        metadata = self._current.metadata
        # Entries of older segments are confirmed, or there would be no later segment.
        return metadata.last_entry_id if metadata.closed else max(self._confirmed, metadata.segments[-1][0] - 1)

    async def read(self, first: int, last: int) -> list[Entry]:
        """Return entries in the order of their ids. All of them are held in memory: use :meth:`entries` for many.

        Args:
            first: 0 to ``last``.
            last: at most ``last_confirmed``.
        Raises:
            InvalidInput: the ledger has no such entries, or they are not confirmed yet.
            EntryMissing: none of an entry's bookies has it.
            DigestMismatch: some of an entry's bookies have a damaged copy, and the others none.
            LedgerUnreadable: bookies of an entry fail, and the others cannot give it.
            ClientClosed: the client was closed.
            LedgerNotFound: the ledger was deleted meanwhile.
            ZooKeeperUnavailable: an entry was not found, and ZooKeeper cannot say whether it moved.
        """
        return [entry async for entry in self.entries(first, last)]

    async def entries(
        self,
        first: int = 0,
        last: int | None = None,
        *,
        bytes_ahead: int = BYTES_AHEAD,
        ahead_bound: AheadBound | None = None,
    ) -> AsyncGenerator[Entry, None]:
        """Yield entries in the order of their ids, and read ahead meanwhile. Errors are those of :meth:`read`.

        Args:
            first: 0 to ``last``; one more than ``last`` yields nothing.
            last: at most ``last_confirmed``, which is the default.
            bytes_ahead: bytes of entries to hold or to wait for, from 1. They are estimated by the entries before, and one
                entry is always read.
            ahead_bound: takes the place of ``bytes_ahead``; the caller may resize it meanwhile.
        """
        end = self.last_confirmed if last is None else last
        if not 0 <= first <= end + 1 or end > self.last_confirmed:
            raise InvalidInput(
                "entries", f"{first} to {end}", f"give entries of ledger {self.ledger_id}, 0 to {self.last_confirmed}"
            )
        bound = ahead_bound or AheadBound(bytes_ahead)
        ahead: deque[_BegunRange] = deque()
        next_id = yielded = first
        try:
            while ahead or next_id <= end:
                while next_id <= end and (room := bound.entries - (next_id - yielded)) >= min(_RANGE, bound.entries):
                    are_small = bound.expects_at_most(_SMALL_BYTES)
                    count = min(room, _RANGE, end + 1 - next_id)
                    ahead.append(self._begin_range(next_id, count, are_small=are_small))
                    next_id += ahead[-1].entry_count
                async with aclosing(self._entries_of(ahead[0])) as come:
                    async for entries in come:
                        bound.seen([len(entry.payload) for entry in entries])
                        for entry in entries:
                            yielded += 1
                            yield entry
                ahead.popleft()
        finally:
            for begun in ahead:
                begun.read.cancel()

    async def read_lac(self) -> int:
        """Ask for the last entry that is confirmed, explicitly or by later entries, and return ``last_confirmed``.

        Entries that were acknowledged a short time ago may be above it.

        Raises:
            LedgerUnreadable: too few bookies answer.
            ClientClosed: the client was closed.
            LedgerNotFound: the ledger was deleted meanwhile.
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        await self._refresh()
        if not self.metadata.closed:
            end = await read_last_confirmed(self._access, self.metadata.segments[-1][1])
            self._confirmed = max(self._confirmed, end.last_confirmed)
        return self.last_confirmed

    async def read_last_stored(self) -> Entry | None:
        """Return the last entry that a bookie has; None if there is none. Errors are those of :meth:`read` and :meth:`read_lac`.

        Every acknowledged entry is this one or an earlier one. In a ledger that is not closed, it need not be acknowledged
        itself, and a recovery may drop it, unless another one is added behind it.
        """
        await self._refresh()
        if not self.metadata.closed:
            end = await read_last_entries(self._access, self.metadata.segments[-1][1])
            self._confirmed = max(self._confirmed, end.last_confirmed)
            if end.last_stored is not None:
                return end.last_stored
        last = self.last_confirmed
        return None if last < 0 else await self._finish(self._begin(last))

    def _begin(self, entry_id: int, *, last: str = "") -> _Begun:
        bookies = self.metadata.bookies_of(entry_id)
        return _Begun(entry_id, self._current.version, self._reads.begin(entry_id, bookies, last=last))

    def _begin_range(self, first: int, count: int, *, are_small: bool) -> _BegunRange:
        metadata, bookies = self.metadata, self.metadata.bookies_of(first)
        count = min(count, metadata.entries_with(first))
        read: RangeRead | EntryRead
        if count > 1:
            read = self._reads.begin_range(first, count, bookies, are_small=are_small)
        else:
            read = self._reads.begin(first, bookies)
        return _BegunRange(first, count, self._current.version, read)

    async def _entries_of(self, begun: _BegunRange) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield the entries of a range as they come. Those that do not are read again, from their other bookies too."""
        read = begun.read
        if isinstance(read, EntryRead):
            yield [await self._finish(_Begun(begun.first, begun.version, read))]
            return
        again: dict[int, _Begun] = {}
        number = 0
        try:
            while number < begun.entry_count:
                entries = read.take_from(number)
                number += len(entries)
                if entries:
                    yield entries
                    continue
                entry = await self._reads.late_entry(read, number)
                if entry is None:
                    for failed in read.failed_from(number):
                        if failed not in again:
                            again[failed] = self._begin(begun.first + failed, last=read.bookie_of(failed))
                    entry = await self._finish(again.pop(number))
                number += 1
                yield [entry]
        finally:
            for each in again.values():
                each.read.cancel()

    async def _finish(self, begun: _Begun) -> Entry:
        """Return the entry; look for it anew if its bookies were replaced meanwhile."""
        try:
            return await self._entry_of(begun)
        except (EntryMissing, DigestMismatch, LedgerUnreadable):
            if begun.version == self._current.version:
                await self._refresh()
            if begun.version == self._current.version:
                raise
        return await self._entry_of(self._begin(begun.entry_id))

    async def _entry_of(self, begun: _Begun) -> Entry:
        entry = await begun.read.outcome()
        if entry is None:
            raise EntryMissing(
                f"entry {self.ledger_id}:{begun.entry_id}: none of its bookies has it; restore the ledger from a copy"
            )
        return entry

    async def _refresh(self) -> None:
        self._current = await self._store.read(self.ledger_id, newest=True)
