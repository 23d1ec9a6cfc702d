"""Reads consecutive entries of one ledger at once, each from one bookie: the common case, in which nothing fails.

An entry that does not come so, in time and right, is left to :class:`EntryReads`, which asks its other bookies. A search, a
future and a task's turn for each entry cost more than the entry itself.
"""

import asyncio
from collections.abc import Sequence

from delayed_tracker.bookkeeper.errors import BookieUnavailable, BookKeeperError, DigestMismatch, TooManyInFlight
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.wire.digest import Entry
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import Request


class RangeRead:
    """Entries that were asked for together.

    Args:
        access: to the ledger.
        requests: for each entry.
        bookies: for each entry the bookie to ask.
    """

    def __init__(self, access: LedgerAccess, requests: Sequence[Request], bookies: Sequence[str]) -> None:
        self._access = access
        self._requests = requests
        self._bookies = list(bookies)
        self.failing: set[str] = set()
        """Bookies that gave an error instead of a reply, or took too long."""
        self.is_over = False
        """True if no answer counts any more."""
        self._entries: list[Entry | None] = [None] * len(bookies)
        self._unanswered = set(range(len(bookies)))
        self._loop = asyncio.get_running_loop()
        self._asked_at = self._loop.time()
        self._all: asyncio.Future[None] | None = None
        for bookie in dict.fromkeys(bookies):
            self._ask(bookie, [number for number, asked in enumerate(bookies) if asked == bookie])

    def _ask(self, bookie: str, numbers: Sequence[int]) -> None:
        requests = [self._requests[number] for number in numbers]
        try:
            self._access.connections.of(bookie).send_all(requests, _Share(self, numbers))
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

    def take_from(self, number: int) -> Sequence[Entry]:
        """Return the entries from one place on that have come, once; empty if this one has not, or not right."""
        entries: list[Entry] = []
        for place in range(number, len(self._entries)):
            entry = self.take(place)
            if entry is None:
                break
            entries.append(entry)
        return entries

    @property
    def is_settled(self) -> bool:
        """True if every entry has come, or will not."""
        return not self._unanswered

    async def settled(self, patience_s: float | None) -> bool:
        """Wait until every entry has come, or will not; return False if that takes too long.

        Args:
            patience_s: seconds from the request on; None for as long as a request may take.
        """
        if self.is_settled:
            return True
        # To be woken for each entry would cost more than the entry.
        self._all = self._loop.create_future()
        left_s = None if patience_s is None else max(0.0, self._asked_at + patience_s - self._loop.time())
        await asyncio.wait([self._all], timeout=left_s)
        self._all = None
        return self.is_settled

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

    def came(self, numbers: Sequence[int], bodies: Sequence[bytes]) -> None:
        """Take the stored bodies of entries."""
        open_body, ledger_id = self._access.digest.open, self._access.ledger_id
        for number, body in zip(numbers, bodies, strict=True):
            try:
                self._entries[number] = open_body(ledger_id, self._requests[number].entry_id, body)
            except DigestMismatch:  # the other bookies are asked, and the error names what they have
                continue
        self.settle(numbers)

    def failed(self, number: int) -> None:
        """Note that one entry was not answered, by whatever error."""
        self.failing.add(self._bookies[number])
        self.settle((number,))

    def settle(self, numbers: Sequence[int]) -> None:
        """Note that nothing more will come for entries."""
        self._unanswered.difference_update(numbers)
        if not self._unanswered and self._all is not None and not self._all.done():
            self._all.set_result(None)


class _Share:
    """Takes what one bookie replies to the requests for some entries of a :class:`RangeRead`."""

    def __init__(self, read: RangeRead, numbers: Sequence[int]) -> None:
        self._read = read
        self._numbers = numbers

    def is_withdrawn(self) -> bool:
        return self._read.is_over

    def succeeded(self, numbers: Sequence[int], bodies: Sequence[bytes]) -> None:
        if not self._read.is_over:
            self._read.came([self._numbers[number] for number in numbers], bodies)

    def replied(self, number: int, reply: Reply) -> None:
        if not self._read.is_over and reply.status == Status.OK and reply.body is not None:
            self._read.came((self._numbers[number],), (reply.body,))
        elif not self._read.is_over:
            self._read.settle((self._numbers[number],))

    def failed(self, number: int, _: BookKeeperError) -> None:
        if not self._read.is_over:
            self._read.failed(self._numbers[number])
