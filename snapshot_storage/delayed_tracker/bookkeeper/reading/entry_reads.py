"""Reads single entries of a ledger: from the next bookie if one fails, has a damaged copy, or takes too long."""

import asyncio
from collections.abc import Sequence
from typing import Final

from delayed_tracker.bookkeeper.errors import (
    BookieUnavailable,
    DigestMismatch,
    LedgerUnreadable,
    TooManyInFlight,
)
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess, withdraw
from delayed_tracker.bookkeeper.reading.range_read import RangeRead
from delayed_tracker.bookkeeper.reading.replica_search import ReplicaSearch
from delayed_tracker.bookkeeper.wire.digest import Entry
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import ReadRequests, Request

MISSING: Final = frozenset({Status.NO_ENTRY, Status.NO_LEDGER})
"""Answers of a bookie that has no such entry. Any other refusal says nothing about it."""
_AVOIDED_S: Final = 10.0
"""Time for which a bookie that was slow is asked last; the connection to one that failed refuses requests for a while."""


class EntryReads:
    """Begins reads of one ledger's entries.

    Args:
        access: to the ledger.
        fence_key: master key of a ledger that is being recovered, else None. Each read then fences the ledger on the bookies
            that it asks, which are all of the entry's at once.
    """

    def __init__(self, access: LedgerAccess, *, fence_key: bytes | None = None) -> None:
        self.access = access
        self.speculative_s = access.settings.speculative_read_ms / 1_000
        self._is_recovery = fence_key is not None
        self._requests = ReadRequests(access.ledger_id, fence_key=fence_key)
        self._loop = asyncio.get_running_loop()
        self._avoided_until: dict[str, float] = {}

    def begin(self, entry_id: int, bookies: Sequence[str], *, last: str = "") -> "EntryRead":
        """Ask for an entry, and return the read, which must be awaited or cancelled.

        Args:
            entry_id: from 0.
            bookies: ensemble of the entry.
            last: one that is asked after the others; empty for none.
        """
        is_recovery, quorums = self._is_recovery, self.access.quorums
        avoided = self._avoided(bookies) | (1 << bookies.index(last) if last in bookies else 0)
        search = ReplicaSearch(quorums, entry_id, avoided=avoided, is_recovery=is_recovery)
        read = EntryRead(self, self._requests.of(entry_id), bookies, search)
        # A recovery reads few entries, and a bookie that hangs must not delay it.
        for _ in range(quorums.write if is_recovery else 1):
            read.ask_next()
        return read

    def begin_range(self, first: int, count: int, bookies: Sequence[str], *, are_small: bool = False) -> RangeRead:
        """Ask for entries that have the same ensemble, and return the read, which must be awaited or cancelled.

        Not for a recovery. Each entry is asked of the first of its bookies that is not avoided; small ones of a single bookie,
        if it has them all.

        Args:
            first: the first entry.
            count: entries, from 1.
            bookies: their ensemble.
            are_small: True if all of them may fit into ``BATCH_BYTES_MAX``.
        """
        assert not self._is_recovery
        quorums, avoided = self.access.quorums, self._avoided(bookies)
        # Entries that are an ensemble's size apart have the same bookies.
        period = range(first, first + min(count, quorums.ensemble))
        asked = [bookies[quorums.in_order(entry_id, avoided)[0]] for entry_id in period]
        has_all = quorums.ensemble == quorums.write
        in_batch = are_small and has_all and self.access.connections.takes_batches(asked[0])
        if in_batch:
            asked = asked[:1]
        of_each = [asked[number % len(asked)] for number in range(count)]
        return RangeRead(self.access, self._requests, first, of_each, in_batch=in_batch)

    async def late_entry(self, read: RangeRead, number: int) -> Entry | None:
        """Wait for a range, and return one of its entries; None if it is to be read by :meth:`begin`.

        If that takes too long, it counts for every entry that has not come.
        """
        # The only bookie of an entry has as long as a request may take.
        if not await read.settled(self.speculative_s if self.access.quorums.write > 1 else None):
            read.cancel()
        for bookie in read.failing:
            self.avoid(bookie)
        return read.take(number)

    def avoid(self, bookie: str) -> None:
        """Ask a bookie last from now on, for a while."""
        self._avoided_until[bookie] = self._loop.time() + _AVOIDED_S

    def _avoided(self, bookies: Sequence[str]) -> int:
        if not self._avoided_until:
            return 0
        now = self._loop.time()
        self._avoided_until = {bookie: until for bookie, until in self._avoided_until.items() if until > now}
        return sum(1 << index for index, bookie in enumerate(bookies) if bookie in self._avoided_until)


class EntryRead:
    """One entry that is being read; made by :meth:`EntryReads.begin`."""

    def __init__(self, reads: EntryReads, request: Request, bookies: Sequence[str], search: ReplicaSearch) -> None:
        self._reads = reads
        self._access = reads.access
        self._request = request
        self._bookies = bookies
        self._search = search
        self._loop = asyncio.get_running_loop()
        self._asked: dict[asyncio.Future[Reply], int] = {}
        self._asked_at = 0.0
        self._problems: list[str] = []

    def ask_next(self) -> None:
        """Ask the next bookie that can be asked, if there is one left."""
        while self._search.has_next:
            index = self._search.next()
            connection = self._access.connections.of(self._bookies[index])
            try:
                reply = connection.send(self._request)
            except TooManyInFlight:
                reply = self._loop.create_task(connection.call(self._request))
            except BookieUnavailable as error:
                self._fail(index, error)
                continue
            self._asked[reply] = index
            self._asked_at = self._loop.time()
            return

    async def outcome(self) -> Entry | None:
        """Return the entry; None if it is missing.

        Raises:
            DigestMismatch: all of its bookies answer, some have a damaged copy, and none has a right one. Not in a recovery.
            LedgerUnreadable: none of its bookies can give it, and nothing else is known.
            ClientClosed: the client was closed meanwhile.
        """
        try:
            while not self._search.is_over:
                for reply in await self._next_replies():
                    entry = self._take(reply)
                    if entry is not None:
                        return entry
        finally:
            self.cancel()
        if self._search.is_missing:
            return None
        found = f"entry {self._access.ledger_id}:{self._request.entry_id}: {'; '.join(self._problems)}"
        if self._search.is_damaged:
            raise DigestMismatch(f"{found}; restore the ledger from a copy")
        raise LedgerUnreadable(f"{found}; try again when its bookies are back")

    def cancel(self) -> None:
        """Ask and wait no more."""
        withdraw(self._asked)
        self._asked.clear()

    async def _next_replies(self) -> Sequence[asyncio.Future[Reply]]:
        """Wait for replies; after the time for a speculative read, ask another bookie and return none."""
        done = [reply for reply in self._asked if reply.done()]
        if done:
            return done
        wait_s = None
        if self._search.has_next:
            wait_s = max(0.0, self._asked_at + self._reads.speculative_s - self._loop.time())
        replied, _ = await asyncio.wait(self._asked, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        if not replied:
            for index in self._asked.values():
                self._reads.avoid(self._bookies[index])
            self.ask_next()
        return list(replied)

    def _take(self, replied: asyncio.Future[Reply]) -> Entry | None:
        """Return the entry of a reply that has it, or else ask the next bookie."""
        index = self._asked.pop(replied)
        try:
            reply = replied.result()
        except (BookieUnavailable, TooManyInFlight) as error:
            self._fail(index, error)
        else:
            if reply.status == Status.OK and reply.body is not None:
                try:
                    return self._access.digest.open(self._access.ledger_id, self._request.entry_id, reply.body)
                except DigestMismatch as error:
                    self._search.damaged(index)
                    self._problems.append(f"bookie {self._bookies[index]}: {error.message}")
            elif reply.status in MISSING:
                self._search.missing(index)
                self._problems.append(f"bookie {self._bookies[index]} does not have it")
            else:
                self._search.failed(index)
                self._problems.append(f"bookie {self._bookies[index]} answers {reply.status_name}")
        self.ask_next()
        return None

    def _fail(self, index: int, error: BookieUnavailable | TooManyInFlight) -> None:
        self._search.failed(index)
        self._problems.append(error.message)
