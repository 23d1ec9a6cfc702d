"""Asks the bookies of a ledger's last ensemble how far the ledger goes: what is confirmed, and what is stored.

The writer sends with each entry the last entry that was confirmed, so that this lags behind. An entry counts for sure only
if so many bookies have answered that no acknowledged entry can be unknown to all of them; bookies that fail or send a
damaged entry have not answered. Rules as in BookKeeper's ``ReadLastConfirmedOp`` and ``PendingReadLacOp``.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delayed_tracker.bookkeeper.errors import (
    BookieUnavailable,
    DigestMismatch,
    LedgerUnreadable,
    TooManyInFlight,
    Unauthorized,
)
from delayed_tracker.bookkeeper.reading.entry_reads import MISSING
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess, withdraw
from delayed_tracker.bookkeeper.wire.digest import Entry
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import LAST_ENTRY, ReadRequests, Request, read_lac_request


@dataclass(slots=True)
class LedgerEnd:
    """States how far a ledger goes, as far as its last ensemble knows."""

    last_confirmed: int = -1
    """Highest entry that a bookie knows to be confirmed; -1 if none."""
    last_stored: Entry | None = None
    """Entry with the highest id that a bookie has."""

    def stored(self, entry: Entry) -> None:
        """Take the last entry of one bookie into account."""
        self.last_confirmed = max(self.last_confirmed, entry.last_confirmed)
        if self.last_stored is None or entry.entry_id > self.last_stored.entry_id:
            self.last_stored = entry


async def read_last_entries(
    access: LedgerAccess, bookies: Sequence[str], *, fence_key: bytes | None = None
) -> LedgerEnd:
    """Return the end of a ledger by the last entry of each bookie.

    Args:
        access: to the ledger.
        bookies: its last ensemble.
        fence_key: master key of the ledger, to fence it on all bookies that answer, so that no add of its writer can be
            acknowledged any more.
    Raises:
        LedgerUnreadable: too few bookies answer.
        Unauthorized: a bookie refuses the key.
        ClientClosed: the client was closed meanwhile.
    """
    end = LedgerEnd()

    def take(reply: Reply) -> None:
        assert reply.body is not None
        end.stored(access.digest.open(access.ledger_id, None, reply.body))

    await _ask_all(access, bookies, ReadRequests(access.ledger_id, fence_key=fence_key).of(LAST_ENTRY), take)
    return end


async def read_last_confirmed(access: LedgerAccess, bookies: Sequence[str]) -> LedgerEnd:
    """Return the end of a ledger by explicit last-add-confirmeds as well.

    Args:
        access: to the ledger.
        bookies: its last ensemble.
    Raises:
        LedgerUnreadable: too few bookies answer.
        ClientClosed: the client was closed meanwhile.
    """
    end = LedgerEnd()

    def take(reply: Reply) -> None:
        if reply.lac_body:
            end.last_confirmed = max(end.last_confirmed, access.digest.open_lac(access.ledger_id, reply.lac_body))
        if reply.body:
            end.stored(access.digest.open(access.ledger_id, None, reply.body))

    await _ask_all(access, bookies, read_lac_request(access.ledger_id), take)
    return end


async def _ask_all(
    access: LedgerAccess, bookies: Sequence[str], request: Request, take: Callable[[Reply], None]
) -> None:
    """Ask all bookies at once, and take what they have, until those that answered cover the ensemble."""
    loop = asyncio.get_running_loop()
    asked = {
        loop.create_task(access.connections.of(bookie).call(request)): index for index, bookie in enumerate(bookies)
    }
    answered = 0
    problems: list[str] = []
    try:
        while asked:
            replied, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            for task in replied:
                index = asked.pop(task)
                bookie = bookies[index]
                try:
                    reply = task.result()
                    if reply.status == Status.UNAUTHORIZED:
                        raise Unauthorized(
                            f"password: bookie {bookie} refuses that of ledger {request.ledger_id}; give the password that"
                            " the ledger was created with"
                        )
                    if reply.status == Status.OK:
                        take(reply)
                except (BookieUnavailable, TooManyInFlight) as error:
                    problems.append(error.message)
                    continue
                except DigestMismatch as error:
                    problems.append(f"bookie {bookie}: {error.message}")
                    continue
                if reply.status != Status.OK and reply.status not in MISSING:
                    problems.append(f"bookie {bookie} answers {reply.status_name}")
                    continue
                answered |= 1 << index
            if access.quorums.covers(answered):
                return
    finally:
        withdraw(asked)
    raise LedgerUnreadable(
        f"ledger {request.ledger_id}: too few of its bookies answer: {'; '.join(problems)}; try again when they are back"
    )
