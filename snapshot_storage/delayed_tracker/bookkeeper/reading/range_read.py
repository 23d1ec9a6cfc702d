"""Reads consecutive entries of one ledger at once, each from one bookie: the common case, in which nothing fails.

One bookie that has all of them is asked by one request, if it takes such requests and the entries are small.

An entry that does not come so, in time and right, is left to :class:`EntryReads`, which asks its other bookies. A search, a
future and a task's turn for each entry cost more than the entry itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from delayed_tracker.bookkeeper.errors import (
    BookieUnavailable,
    BookKeeperError,
    ClientClosed,
    DigestMismatch,
    TooManyInFlight,
)
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.wire.batch_reads import BatchReadRequest, split_bodies
from delayed_tracker.bookkeeper.wire.connection import BookieConnection
from delayed_tracker.bookkeeper.wire.digest import Entry
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import ReadRequests, Request

BATCH_BYTES_MAX: Final = 1024 * 1024
"""Most bytes of the reply to one request for several entries, unless its first entry alone has more."""


class RangeRead:
    """Entries that were asked for together.

    Args:
        access: to the ledger.
        requests: makes requests for single entries.
        first: id of the first entry.
        bookies: for each entry the bookie to ask.
        in_batch: True to ask for them by one request, if the bookie is the same for all, and takes that.
    """

    def __init__(
        self,
        access: LedgerAccess,
        requests: ReadRequests,
        first: int,
        bookies: Sequence[str],
        *,
        in_batch: bool = False,
    ) -> None:
        self._access = access
        self._requests = requests
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
        self._all: asyncio.Future[None] | None = None
        if in_batch:
            self.ask_for_batch(0)
            return
        for bookie in dict.fromkeys(bookies):
            self.ask_for_each([number for number, of_entry in enumerate(bookies) if of_entry == bookie])

    def ask_for_batch(self, number: int) -> None:
        """Ask for all entries from this one on by one request if their bookie takes that, or else for each."""
        numbers, bookie = range(number, len(self._entries)), self._bookies[number]
        connections = self._access.connections
        if len(numbers) == 1 or not connections.takes_batches(bookie):
            self.ask_for_each(numbers)
            return
        request = BatchReadRequest(self._access.ledger_id, self._first + number, len(numbers), BATCH_BYTES_MAX)
        self._send(connections.for_batches, (request,), _BatchOfAll(self, numbers))

    def ask_for_each(self, numbers: Sequence[int]) -> None:
        """Ask for each of some entries, which have the same bookie."""
        requests = [self._requests.of(self._first + number) for number in numbers]
        self._send(self._access.connections.of, requests, _Share(self, numbers))

    def _send(
        self,
        connection_of: Callable[[str], BookieConnection],
        requests: Sequence[Request],
        answers: "_Share | _BatchOfAll",
    ) -> None:
        """Send requests for entries of one bookie. No error leaves it: it is called where connections end, too."""
        try:
            connection_of(self._bookies[answers.numbers[0]]).send_all(requests, answers)
        except (BookieUnavailable, ClientClosed):
            self.failed(answers.numbers)
        except TooManyInFlight:  # one by one they wait for room
            for number in answers.numbers:
                self._bookies[number] = ""
            self.settle(answers.numbers)

    def takes_batches(self, number: int) -> bool:
        """Return True if the bookie of an entry may be asked for several entries by one request."""
        return self._access.connections.takes_batches(self._bookies[number])

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
        open_body, ledger_id, first = self._access.digest.open, self._access.ledger_id, self._first
        for number, body in zip(numbers, bodies, strict=True):
            try:
                self._entries[number] = open_body(ledger_id, first + number, body)
            except DigestMismatch:  # the other bookies are asked, and the error names what they have
                continue
        self.settle(numbers)

    def failed(self, numbers: Sequence[int]) -> None:
        """Note that entries of one bookie were not answered, by whatever error."""
        self.failing.add(self._bookies[numbers[0]])
        self.settle(numbers)

    def settle(self, numbers: Sequence[int]) -> None:
        """Note that nothing more will come for entries."""
        self._unanswered.difference_update(numbers)
        if not self._unanswered and self._all is not None and not self._all.done():
            self._all.set_result(None)


class _Share:
    """Takes what one bookie replies to the requests for some entries of a :class:`RangeRead`."""

    def __init__(self, read: RangeRead, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self._read = read

    def is_withdrawn(self) -> bool:
        return self._read.is_over

    def succeeded(self, numbers: Sequence[int], bodies: Sequence[bytes]) -> None:
        if not self._read.is_over:
            self._read.came([self.numbers[number] for number in numbers], bodies)

    def replied(self, number: int, reply: Reply) -> None:
        if not self._read.is_over and reply.status == Status.OK and reply.body is not None:
            self._read.came((self.numbers[number],), (reply.body,))
        elif not self._read.is_over:
            self._read.settle((self.numbers[number],))

    def failed(self, number: int, _: BookKeeperError) -> None:
        if not self._read.is_over:
            self._read.failed((self.numbers[number],))


class _BatchOfAll:
    """Takes what a bookie replies to one request for the last entries of a :class:`RangeRead`, and asks for what is missing."""

    def __init__(self, read: RangeRead, numbers: range) -> None:
        self.numbers = numbers
        self._read = read

    def is_withdrawn(self) -> bool:
        return self._read.is_over

    def succeeded(self, _: Sequence[int], bodies: Sequence[bytes]) -> None:
        if self._read.is_over:
            return
        (entries,) = bodies
        split = split_bodies(entries, len(self.numbers))
        came, missing = self.numbers[: len(split)], self.numbers[len(split) :]
        if came:
            self._read.came(came, split)
        if came and missing:
            self._read.ask_for_batch(missing.start)
        elif missing:  # it is no use to ask again for what is not even cut right
            self._read.settle(missing)

    def replied(self, number: int, reply: Reply) -> None:
        if reply.status == Status.OK and reply.body is not None:
            self.succeeded((number,), (reply.body,))
        elif not self._read.is_over:
            self._read.settle(self.numbers)

    def failed(self, _: int, __: BookKeeperError) -> None:
        if self._read.is_over:
            return
        if self._read.takes_batches(self.numbers.start):
            self._read.failed(self.numbers)
        else:
            self._read.ask_for_each(self.numbers)
