"""Reads consecutive entries of one ledger at once, each from one bookie: the common case, in which nothing fails.

An entry that does not come so, in time and right, is left to :class:`EntryReads`, which asks its other bookies. A search, a
future and a task's turn for each entry cost more than the entry itself.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from delayed_tracker.bookkeeper.errors import BookieUnavailable, BookKeeperError, DigestMismatch, TooManyInFlight
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.wire.digest import Entry
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import read_request


class RangeRead:
    """Entries that were asked for together.

    Args:
        access: to the ledger.
        first: the first entry.
        bookies: for each entry the bookie to ask.
    """

    def __init__(self, access: LedgerAccess, first: int, bookies: Sequence[str]) -> None:
        self._access = access
        self._first = first
        self._bookies = list(bookies)
        self.failing: set[str] = set()
        """Bookies that gave an error instead of a reply, or took too long."""
        self.is_over = False
        """True if no answer counts any more."""
        self._entries: list[Entry | None] = [None] * len(bookies)
        self._unanswered = set(range(len(bookies)))
        self._loop = asyncio.get_running_loop()
        self._asked_at = self._loop.time()
        self._awaited: tuple[int, asyncio.Future[None]] | None = None
        for bookie in dict.fromkeys(bookies):
            self._ask(bookie, [number for number, asked in enumerate(bookies) if asked == bookie])

    def _ask(self, bookie: str, numbers: Sequence[int]) -> None:
        ledger_id, first = self._access.ledger_id, self._first
        requests = [read_request(ledger_id, first + number) for number in numbers]
        try:
            self._access.connections.of(bookie).send_all(requests, [_Place(self, number) for number in numbers])
        except BookieUnavailable:
            for number in numbers:
                self.failed(number)
        except TooManyInFlight:  # one by one they wait for room
            for number in numbers:
                self._bookies[number] = ""
            self._unanswered.difference_update(numbers)

    def bookie_of(self, number: int) -> str:
        """Return the bookie that was asked for an entry; empty if none was."""
        return self._bookies[number]

    def take(self, number: int) -> Entry | None:
        """Return an entry by its place in the range, once; None if it has not come, or not right."""
        entry, self._entries[number] = self._entries[number], None
        return entry

    async def settled(self, number: int, patience_s: float | None) -> bool:
        """Wait until one entry has come, or will not; return False if that takes too long.

        Args:
            number: its place in the range.
            patience_s: seconds from the request on; None for as long as a request may take.
        """
        if number not in self._unanswered:
            return True
        self._awaited = (number, self._loop.create_future())
        left_s = None if patience_s is None else max(0.0, self._asked_at + patience_s - self._loop.time())
        await asyncio.wait([self._awaited[1]], timeout=left_s)
        self._awaited = None
        return number not in self._unanswered

    def failed_from(self, number: int) -> list[int]:
        """Return the places from this one on whose entries will not come, ascending. No later one was taken."""
        return [
            place
            for place in range(number, len(self._entries))
            if self._entries[place] is None and place not in self._unanswered
        ]

    def cancel(self) -> None:
        """Ask and wait no more: what has not come will not."""
        self.is_over = True
        self.failing.update(self._bookies[number] for number in self._unanswered)
        self._unanswered.clear()

    def replied(self, number: int, reply: Reply) -> None:
        """Take the reply to the request for one entry."""
        if reply.status == Status.OK and reply.body is not None:
            with contextlib.suppress(DigestMismatch):  # the other bookies are asked, and the error names what they have
                self._entries[number] = self._access.digest.open(
                    self._access.ledger_id, self._first + number, reply.body
                )
        self._settle(number)

    def failed(self, number: int) -> None:
        """Note that one entry was not answered, by whatever error."""
        self.failing.add(self._bookies[number])
        self._settle(number)

    def _settle(self, number: int) -> None:
        self._unanswered.discard(number)
        if self._awaited is not None and self._awaited[0] == number and not self._awaited[1].done():
            self._awaited[1].set_result(None)


class _Place:
    """Place of one entry in a :class:`RangeRead`."""

    __slots__ = ("_number", "_read")

    def __init__(self, read: RangeRead, number: int) -> None:
        self._read = read
        self._number = number

    def done(self) -> bool:
        return self._read.is_over

    def cancelled(self) -> bool:
        return self._read.is_over

    def set_result(self, result: Reply, /) -> None:
        self._read.replied(self._number, result)

    def set_exception(self, _: BookKeeperError, /) -> None:
        self._read.failed(self._number)
