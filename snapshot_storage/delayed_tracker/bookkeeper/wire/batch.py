"""Requests that were sent together, and the taker of their outcomes. A request's number is its place among them."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from delayed_tracker.bookkeeper.errors import BookKeeperError
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import Request


class Answers(Protocol):
    """Takes the outcomes of requests that were sent together, one for each number."""

    def is_withdrawn(self) -> bool:
        """Return True if the requests that are not written yet need not be."""
        ...

    def succeeded(self, numbers: Sequence[int], bodies: Sequence[bytes]) -> None:
        """Take good replies that came together: of reads the stored bodies, of adds empty ones."""
        ...

    def replied(self, number: int, reply: Reply) -> None:
        """Take any other reply. It may be a good one, too, if the bookie encodes it in a way of its own."""
        ...

    def failed(self, number: int, error: BookKeeperError) -> None:
        """Take the error that stands in the place of a reply."""
        ...


class Batch:
    """Requests of one kind that wait for replies.

    Args:
        requests: in the order of their sending.
        answers: takes their outcomes.
        headers: of their replies.
        now: time of sending, in seconds.
        timeout_s: time for each reply.
    """

    __slots__ = ("answers", "deadline", "headers", "requests", "sent_at", "written", "written_at")

    def __init__(
        self, requests: Sequence[Request], answers: Answers, headers: Sequence[bytes], *, now: float, timeout_s: float
    ) -> None:
        self.requests = requests
        self.answers = answers
        self.headers = headers
        self.sent_at = now
        self.deadline = now + timeout_s
        self.written = 0
        """Requests that were given to the socket, the first ones."""
        self.written_at: float | None = None
        """Time at which the first one was."""

    @property
    def is_written(self) -> bool:
        """True if no request is left to be written."""
        return self.written == len(self.requests)


class FutureReply:
    """Takes the outcome of a single request, as a future."""

    def __init__(self, request: Request, txn_id: int) -> None:
        self.future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._request = request
        self._txn_id = txn_id

    def is_withdrawn(self) -> bool:
        """Return True if the future was cancelled."""
        return self.future.cancelled()

    def succeeded(self, numbers: Sequence[int], bodies: Sequence[bytes]) -> None:
        """Complete the future with a good reply."""
        request, (number,), (body,) = self._request, numbers, bodies
        reply = Reply(self._txn_id, request.operation, Status.OK, request.ledger_id, request.entry_id)
        if request.is_read:
            reply.body = body
        self.replied(number, reply)

    def replied(self, _: int, reply: Reply) -> None:
        """Complete the future with a reply."""
        if not self.future.done():
            self.future.set_result(reply)

    def failed(self, _: int, error: BookKeeperError) -> None:
        """Fail the future."""
        if not self.future.done():
            self.future.set_exception(error)
