"""Sends the adds of one ledger to its bookies, and goes on with other bookies when some fail.

It does not know where the ledger's metadata are: a :class:`ChangesEnsembles` decides, and the live writer's one publishes
each change before an add is answered by the new bookies. Which adds are answered is decided by :class:`PendingAdds`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from delayed_tracker.bookkeeper.errors import (
    BookieUnavailable,
    BookKeeperError,
    ClientClosed,
    EntryTooLarge,
    LedgerFenced,
    NotEnoughBookies,
    TooManyInFlight,
    Unauthorized,
)
from delayed_tracker.bookkeeper.placement.connections import BookieConnections
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import Digest, master_key
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import AddRequests, Request
from delayed_tracker.bookkeeper.writing.pending_adds import PendingAdds
from delayed_tracker.bookkeeper.writing.relapses import Relapses

_SENDS_AT_ONCE: Final = 256
"""Adds that a new bookie gets before others have their turn in the event loop: about 5 ms."""


class ChangesEnsembles(Protocol):
    """Replaces bookies of a ledger that is written."""

    async def change(
        self, first_entry_id: int, ensemble: tuple[str, ...], failed: frozenset[int], *, avoid: frozenset[str]
    ) -> tuple[str, ...]:
        """Return the ensemble of the entries from ``first_entry_id`` on, once it is in force.

        Args:
            first_entry_id: the oldest add that is not answered.
            ensemble: in force so far.
            failed: indexes of the bookies to be replaced.
            avoid: bookies that are not chosen.
        Raises:
            NotEnoughBookies: the ensemble stays, because there are no other bookies.
            BookKeeperError: nothing can be added to the ledger any more.
        """


@dataclass(slots=True)
class _Add:
    """An add whose request is needed yet: it is not answered, or some bookie has not replied."""

    entry_id: int
    length: int
    """Payload bytes of the ledger up to this entry."""
    request: Request = field(repr=False)
    answer: asyncio.Future[int] | None = None
    """None if a later add answers for this one, too."""
    unsettled: int = 0
    """Bookies that have not replied."""
    is_answered: bool = False
    is_settled: bool = False


class EntryAdds:
    """Adds of one ledger, in the order of their entries. It belongs to the running event loop.

    Args:
        ledger_id: of the ledger.
        digest: of its entries, with its password.
        pending: the decisions; its ensemble is in force.
        segments: replaces bookies that fail.
        connections: to the bookies.
        settings: bounds.
        on_settled: called with the payload bytes and the number of adds whose memory is not needed any more.
        earlier_bytes: payload bytes of the entries before the first add.
        is_recovery: True for entries of a fenced ledger, which its recovery adds again.
    """

    def __init__(
        self,
        ledger_id: int,
        digest: Digest,
        pending: PendingAdds,
        *,
        segments: ChangesEnsembles,
        connections: BookieConnections,
        settings: ClientSettings,
        on_settled: Callable[[int, int], None],
        earlier_bytes: int = 0,
        is_recovery: bool = False,
    ) -> None:
        self.length = earlier_bytes
        """Payload bytes of the answered entries, and of those before."""
        self.failure: BookKeeperError | None = None
        """The error that ended all adds; None before."""
        self._ledger_id = ledger_id
        self._digest = digest
        self._requests = AddRequests(ledger_id, master_key(digest.password), is_recovery=is_recovery)
        self._pending = pending
        self._segments = segments
        self._connections = connections
        self._settings = settings
        self._on_settled = on_settled
        self._loop = asyncio.get_running_loop()
        self._adds: deque[_Add] = deque()
        self._sent_length = earlier_bytes
        self._is_recovery = is_recovery
        self._checking: asyncio.Handle | None = None
        self._changing: asyncio.Task[None] | None = None
        self._relapses = Relapses(settings)

    @property
    def last_confirmed(self) -> int:
        """The last entry that is answered; -1 for none."""
        return self._pending.first_entry_id - 1

    @property
    def ensemble(self) -> tuple[str, ...]:
        """Ids of the bookies in force."""
        return self._pending.ensemble

    def add(self, payload: bytes) -> asyncio.Future[int]:
        """Send the next entry, or keep it until the ensemble has changed; return its future id.

        Raises:
            EntryTooLarge: bookies do not take so many bytes; nothing is sent.
            BookKeeperError: ``failure``.
        """
        return self.add_all((payload,))

    def add_all(self, payloads: Sequence[bytes]) -> asyncio.Future[int]:
        """Send the next entries as :meth:`add` does, all or none; return the future id of the last one.

        It is answered when all of them are. Together they cost each bookie's connection one call.
        """
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        first, length, confirmed = self._pending.next_entry_id, self._sent_length, self.last_confirmed
        adds: list[_Add] = []
        for entry_id, payload in enumerate(payloads, first):
            length += len(payload)
            sealed = self._digest.seal(self._ledger_id, entry_id, confirmed, length, payload)
            request = self._requests.of(entry_id, sealed, payload)
            if request.frame_bytes > self._settings.frame_bytes_max:
                raise EntryTooLarge(
                    f"payload: an entry of {len(payload)} bytes makes a frame of {request.frame_bytes}, and"
                    f" frame_bytes_max={self._settings.frame_bytes_max}; cut it into several entries"
                )
            adds.append(_Add(entry_id, length, request))
        answer = adds[-1].answer = self._loop.create_future()
        shares = self._pending.add(len(adds))
        self._sent_length = length
        self._adds.extend(adds)
        for index, share in shares:
            self._send([adds[entry_id - first] for entry_id in share], index)
        return answer

    async def until_answered(self) -> None:
        """Wait until all adds so far are answered, or have failed."""
        answers = [add.answer for add in self._adds if add.answer is not None and not add.answer.done()]
        if answers:
            await asyncio.wait(answers)

    async def until_unchanging(self) -> None:
        """Wait until no bookie is being replaced, or is about to be."""
        # A task that is cancelled before its first step does not run at all, and leaves itself in its place.
        while self._checking is not None or (self._changing is not None and not self._changing.done()):
            if self._changing is not None:
                await asyncio.wait([self._changing])
            else:
                await asyncio.sleep(0)

    def end(self, error: BookKeeperError) -> None:
        """Fail all adds that are not answered, and all later ones. Does nothing if they have failed."""
        if self.failure is not None:
            return
        self.failure = error
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None
        if self._changing is not None and self._changing is not asyncio.current_task():
            self._changing.cancel()
        for add in self._adds:
            if add.answer is not None and not add.answer.done():
                add.answer.set_exception(error)
                # Who dropped the future learns of it by the next call.
                add.answer.exception()
        self._settle(self._adds)

    def refused(self, bookie: str, reply: Reply) -> BookKeeperError | None:
        """Return the error by which a reply ends the writing of the ledger for good; None for other replies."""
        if reply.status == Status.FENCED:
            return LedgerFenced(
                f"ledger {self._ledger_id}: bookie {bookie} refuses it, because another client recovers it; open it with"
                " recovery to see its end, and create another ledger"
            )
        if reply.status == Status.UNAUTHORIZED:
            return Unauthorized(
                f"ledger {self._ledger_id}: bookie {bookie} answers UNAUTHORIZED: it knows the ledger by another password,"
                " or could not write the entry; see its log, and create another ledger"
            )
        return None

    # sending

    def _send(self, adds: Sequence[_Add], index: int) -> None:
        if self.failure is not None:
            return
        bookie = self._pending.ensemble[index]
        share = _Share(self, adds, index, bookie)
        requests = [add.request for add in adds]
        try:
            connection = self._connections.of(bookie)
            try:
                connection.send_all(requests, share)
            except TooManyInFlight:
                # In turn, and within the time of an add: a bookie that is too slow for that has failed.
                for number, request in enumerate(requests):
                    call = self._loop.create_task(connection.call(request))
                    call.add_done_callback(partial(share.take, number))
        except ClientClosed as error:
            self.end(error)
        except BookieUnavailable:
            for add in adds:
                self._failed(add.entry_id, index, bookie)
        else:
            for add in adds:
                add.unsettled += 1

    def stored(self, share: "_Share", adds: Sequence[_Add]) -> None:
        """Note that a bookie has stored adds."""
        for add in adds:
            add.unsettled -= 1
        if self._counts(share):
            self._pending.stored([add.entry_id for add in adds], share.index, share.bookie)
            self._answer()
        self._settle(adds)

    def replied(self, share: "_Share", add: _Add, outcome: Reply | BookKeeperError) -> None:
        """Note another reply of a bookie to an add, or the error that stands in its place."""
        add.unsettled -= 1
        if self._counts(share):
            self._note(add.entry_id, share.index, share.bookie, outcome)
        self._settle((add,))

    def _counts(self, share: "_Share") -> bool:
        """Return False if a bookie was replaced: what it says counts no more, not even that the ledger is fenced."""
        return self.failure is None and self._pending.ensemble[share.index] == share.bookie

    def _note(self, entry_id: int, index: int, bookie: str, outcome: Reply | BookKeeperError) -> None:
        if isinstance(outcome, ClientClosed):
            self.end(outcome)
        elif isinstance(outcome, BookKeeperError):
            self._failed(entry_id, index, bookie)
        elif outcome.status == Status.OK:
            self._pending.stored((entry_id,), index, bookie)
            self._answer()
        elif (refusal := self.refused(bookie, outcome)) is not None:
            self.end(refusal)
        else:
            # A recovery goes on without another bookie as long as the ack quorum is left.
            is_read_only = outcome.status == Status.READ_ONLY and not self._is_recovery
            self._failed(entry_id, index, bookie, is_read_only=is_read_only)

    def _answer(self) -> None:
        answered = [self._adds.popleft() for _ in range(self._pending.answered())]
        for add in answered:
            add.is_answered = True
            self.length = add.length
            if add.answer is not None and not add.answer.done():
                add.answer.set_result(add.entry_id)
        self._settle(answered)

    def _settle(self, adds: Sequence[_Add]) -> None:
        """Report the adds whose memory nothing needs any more; each once."""
        count = payload_bytes = 0
        for add in adds:
            if not add.is_settled and not add.unsettled and (add.is_answered or self.failure is not None):
                add.is_settled = True
                count += 1
                payload_bytes += len(add.request.payload)
        if count:
            self._on_settled(payload_bytes, count)

    # replacing bookies

    def _failed(self, entry_id: int, index: int, bookie: str, *, is_read_only: bool = False) -> None:
        self._pending.failed(entry_id, index, bookie, is_read_only=is_read_only)
        self._check_soon()

    def _check_soon(self) -> None:
        """Look for bookies to be replaced once for all failures of this round of the event loop."""
        if self._checking is None and self._changing is None:
            self._checking = self._loop.call_soon(self._check)

    def _check(self) -> None:
        self._checking = None
        if self.failure is None and self._pending.to_replace():
            self._pending.begin_change()
            self._changing = self._loop.create_task(self._change())

    async def _change(self) -> None:
        before = self._pending.ensemble
        try:
            await self._replace()
        except BookKeeperError as error:
            self.end(error)
        finally:
            self._changing = None
        # Others may have failed meanwhile. Without another bookie only a lost add is a reason to look again.
        if self._pending.ensemble != before or self._pending.is_lost():
            self._check_soon()

    async def _replace(self) -> None:
        pending = self._pending
        try:
            failed = [pending.ensemble[index] for index in pending.to_replace()]
            if pending.is_lost():
                await self._relapses.pause(self._ledger_id, pending.first_entry_id, failed)
            else:
                self._relapses.note(failed)
            # Without need, a bookie that failed is not exchanged for one that has failed this ledger as well.
            avoid = frozenset[str]() if pending.is_lost() else self._relapses.recent
            ensemble = await self._segments.change(
                pending.first_entry_id, pending.ensemble, pending.to_replace(), avoid=avoid
            )
        except NotEnoughBookies:
            if pending.is_lost():
                raise
            # The others are enough; the next failure looks for new bookies again.
            ensemble = pending.ensemble
        for before, now in zip(pending.ensemble, ensemble, strict=True):
            if before != now:
                self._connections.replaced(before)
        adds = {add.entry_id: add for add in self._adds}
        sends = pending.end_change(ensemble)
        self._answer()
        for count, (entry_id, index) in enumerate(sends, start=1):
            # Also those that are answered now: the segment says that the new bookie has them.
            self._send((adds[entry_id],), index)
            if not count % _SENDS_AT_ONCE:
                await asyncio.sleep(0)


class _Share:
    """Takes what one bookie replies to adds that were sent to it together."""

    def __init__(self, owner: EntryAdds, adds: Sequence[_Add], index: int, bookie: str) -> None:
        self.index = index
        self.bookie = bookie
        self._owner = owner
        self._adds = adds

    def is_withdrawn(self) -> bool:
        return False

    def succeeded(self, numbers: Sequence[int], _: Sequence[bytes]) -> None:
        self._owner.stored(self, [self._adds[number] for number in numbers])

    def replied(self, number: int, reply: Reply) -> None:
        self._owner.replied(self, self._adds[number], reply)

    def failed(self, number: int, error: BookKeeperError) -> None:
        self._owner.replied(self, self._adds[number], error)

    def take(self, number: int, called: asyncio.Task[Reply]) -> None:
        """Take the reply, or the error, of a request that waited for room."""
        if called.cancelled():
            self.failed(number, BookieUnavailable(self.bookie, "the request was withdrawn; it was not sent"))
        elif (error := called.exception()) is None:
            self.replied(number, called.result())
        elif isinstance(error, BookKeeperError):
            self.failed(number, error)
        else:
            raise error
