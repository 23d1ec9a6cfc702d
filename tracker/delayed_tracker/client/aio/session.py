"""Session of a dispatcher: it owns one tracker for one epoch."""

import contextlib
from collections.abc import AsyncIterable, AsyncIterator
from types import TracebackType
from typing import Self

from delayed_tracker.client.aio.adds import Adds
from delayed_tracker.client.aio.calls import Calls
from delayed_tracker.client.aio.lease import Lease
from delayed_tracker.client.aio.offers import Offers
from delayed_tracker.client.aio.shared_acks import SharedAcks
from delayed_tracker.client.aio.shared_polls import SharedPolls
from delayed_tracker.client.aio.view import TrackerView
from delayed_tracker.client.model.answers import (
    AckAnswer,
    AddAnswer,
    AddResult,
    CancelAnswer,
    DueMessages,
    ExtendAnswer,
    MarkDeleteAnswer,
    NackAnswer,
    OpenAnswer,
    Position,
    RescheduleAnswer,
    ResetAnswer,
)
from delayed_tracker.client.model.exchange import Exchange, Result
from delayed_tracker.client.queues.add_stream import IndexBatch
from delayed_tracker.client.queues.poll_queue import PollResult, PollTerms
from delayed_tracker.client.queues.session_end import SessionEnd
from delayed_tracker.client.rules.session import SessionRules
from delayed_tracker.wire.columns import IntColumn, pack_indexes


class TrackerSession(TrackerView):
    """Session that owns one tracker for one epoch; made by ``DelayedTrackerClient.open_tracker``.

    The next open of the tracker fences this session: its calls then raise Fenced. At the end of its context, the
    session sends the buffered adds and leaves the tracker loaded. :meth:`close` unloads the tracker. After either,
    every call raises SessionClosed. The tasks of one event loop may share it.
    """

    _rules: SessionRules

    def __init__(self, calls: Calls, topic: str, subscription: str, opened: OpenAnswer) -> None:
        settings = calls.settings
        rules = SessionRules(settings, topic, subscription, opened)
        super().__init__(calls, rules)
        self.opened = opened
        self._end = SessionEnd()
        # These objects hold no reference to the session, so it is freed as soon as the program drops it. They are
        # freed when their last call has ended.
        self._adds = Adds(calls, rules)
        self._polls = SharedPolls(
            lambda shares, wait_ms, terms: calls.perform(rules.poll(shares, wait_ms=wait_ms, terms=terms)),
            lambda rest: calls.perform(rules.give_back(rest)),
            share_max=settings.batch_max,
            epoch=lambda: rules.epoch,
        )
        self._acks = SharedAcks(lambda acks: calls.perform(rules.acked(acks)), batch_max=lambda: rules.batch_max)
        self._adds.warn_when_dropped(self)

    @property
    def epoch(self) -> int:
        """Epoch that every call of this session carries; :meth:`clear` and :meth:`reset_cursor` raise it."""
        return self._rules.epoch

    async def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> AddResult:
        """Add one position; it is sent in a batch with others, and the result is its own.

        Args:
            deliver_at_ms: wall-clock deadline, 0 to 2^63-1.
            ledger_id: 0 to 2^63-1.
            entry_id: 0 to 2^32-1.
        Raises:
            InvalidInput: a value is out of range; nothing was buffered.
            TrackerCallError: the batch failed; unless the answer was lost, nothing of it was applied.
        """
        self._require_open()
        return await self._adds.add(deliver_at_ms, ledger_id, entry_id)

    async def add_columns(
        self,
        deliver_at_ms: IntColumn,
        ledger_ids: IntColumn,
        entry_ids: IntColumn,
        *,
        offered_through: Position | None = None,
    ) -> AddAnswer:
        """Add many positions as parallel columns, in order.

        Columns that do not fit into one call are sent in several, each applied in one step. If a later call fails, the
        earlier ones stay applied; adding everything again is harmless. At most two calls of a session are in flight.
        Batches that arrive in the meantime share the next; fewer than 1,000 positions wait for the end of a single call.

        Args:
            deliver_at_ms: wall-clock deadlines, 0 to 2^63-1.
            ledger_ids: 0 to 2^63-1.
            entry_ids: 0 to 2^32-1.
            offered_through: claim that everything delayed and unacknowledged at or below was offered and answered, or is
                in these columns, which may be empty. :meth:`offers` derives it from the answers.
        Raises:
            InvalidInput: unequal lengths or values out of range, by column and offset; nothing was sent.
        """
        self._require_open()
        columns = pack_indexes(deliver_at_ms, ledger_ids, entry_ids)
        return await self._adds.add_packed(columns, len(deliver_at_ms), self._rules.claim(offered_through))

    def offers(self) -> Offers:
        """Return an object that offers in reading order, from ``opened.replay_from`` on, and claims what was answered."""
        self._require_open()
        return Offers(self._adds, self._rules, self._require_open)

    async def add_stream(self, batches: AsyncIterable[IndexBatch]) -> AsyncIterator[AddAnswer]:
        """Add batch after batch over one stream, for replays: answers arrive while later batches are in flight.

        Small batches share requests while one is unanswered, for ``flush_delay_s`` at most. At most
        ``stream_batches_max`` batches are unanswered; below that, the next one is read from ``batches``. If an
        error ends the stream, the answered batches are applied; the others may be. A stream has no time limit and does
        not wait for a service that is being restarted: begin another after Unavailable. To leave early, close the
        iterator: ``async with contextlib.aclosing(session.add_stream(batches)) as answers``.

        Args:
            batches: deadlines, ledger ids and entry ids of each batch.
        Returns: one answer for each batch, in order.
        Raises:
            InvalidInput: a batch has values out of range; it was not sent, the batches before it were.
            TrackerCallError: the stream ended; nothing of the batch that caused it is applied.
        """
        self._require_open()
        async with contextlib.aclosing(self._adds.stream(batches)) as answers:
            async for answer in answers:
                yield answer

    async def poll(self, max_messages: int, *, wait_ms: int = 0, lease_ms: int | None = None) -> Lease:
        """Lease due positions; wait up to ``wait_ms`` for the first.

        While more is due than polls take, at most two calls of a session are in flight. Polls made in the meantime
        share the next, each with a lease of its own.

        Args:
            max_messages: 1 to the server's maximum.
            wait_ms: longest wait for the first due position; limited by the server.
            lease_ms: duration of the lease; None is the server's default.
        Returns: a lease, empty if nothing became due.
        """
        taken = await self._poll(max_messages, wait_ms, PollTerms(lease_ms))
        return Lease(self, lease_id=taken.lease_id, expires_at_ms=taken.expires_at_ms, messages=taken.messages)

    async def poll_hand_off(self, max_messages: int, *, wait_ms: int = 0) -> DueMessages:
        """Take due positions without a lease: if the answer is lost, its positions are lost until the next replay.

        Hand-offs share calls as leased polls do. What came in a shared call for a cancelled hand-off goes to the next one.
        """
        taken = await self._poll(max_messages, wait_ms, PollTerms(None, is_hand_off=True))
        return taken.messages

    async def _poll(self, max_messages: int, wait_ms: int, terms: PollTerms) -> PollResult:
        self._require_open()
        self._rules.require_poll(max_messages, wait_ms, terms)
        return await self._polls.poll(max_messages, wait_ms, terms)

    async def ack(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> AckAnswer:
        """Acknowledge leased positions: they are no longer tracked.

        At most two calls of a session are in flight. Acks made in the meantime share the next, each with its own
        answer. An ack that is cancelled before it is sent is dropped.
        """
        self._require_open()
        return await self._acks.ack(self._rules.ack(lease_id, ledger_ids, entry_ids))

    async def ack_whole(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> AckAnswer:
        """Acknowledge all positions that a lease still holds; by the lease's id alone if the service holds as many."""
        self._require_open()
        return await self._acks.ack(self._rules.ack_whole(lease_id, ledger_ids, entry_ids))

    async def nack(
        self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn, *, deliver_at_ms: int | None = None
    ) -> NackAnswer:
        """Return leased positions to the tracker, due at once or with a new deadline."""
        return await self._perform(self._rules.nack(lease_id, ledger_ids, entry_ids, deliver_at_ms=deliver_at_ms))

    async def extend(
        self,
        lease_id: int,
        lease_ms: int,
        ledger_ids: IntColumn | None = None,
        entry_ids: IntColumn | None = None,
    ) -> ExtendAnswer:
        """Hold leased positions for ``lease_ms`` from now on; without columns, all that the lease still holds."""
        return await self._perform(self._rules.extend(lease_id, lease_ms, ledger_ids, entry_ids))

    async def cancel(self, ledger_ids: IntColumn, entry_ids: IntColumn) -> CancelAnswer:
        """Remove positions that are not leased. Acknowledge them in the cursor too, otherwise a replay adds them again.

        Repeat the call after a lost answer: positions that the lost call cancelled are then in the answer as unknown.
        """
        return await self._perform(self._rules.cancel(ledger_ids, entry_ids))

    async def reschedule(
        self, deliver_at_ms: IntColumn, ledger_ids: IntColumn, entry_ids: IntColumn
    ) -> RescheduleAnswer:
        """Give tracked positions that are not leased another deadline each, sooner or later.

        Columns that do not fit into one call are sent in several, each applied in one step. If a later call fails, the
        earlier ones stay applied; repeating everything is harmless. Name each position once: within one call the first
        row of a position decides, but a later call changes it again.

        Args:
            deliver_at_ms: new wall-clock deadlines, 0 to 2^63-1.
            ledger_ids: 0 to 2^63-1.
            entry_ids: 0 to 2^32-1.
        Raises:
            InvalidInput: unequal lengths or values out of range, by column and offset; nothing was sent.
            Overloaded: the service has no room for new deadlines; nothing of that call was changed.
        """
        return await self._perform(self._rules.reschedule(deliver_at_ms, ledger_ids, entry_ids))

    async def advance_mark_delete(self, ledger_id: int, entry_id: int) -> MarkDeleteAnswer:
        """Drop all positions up to and including a position, because they are acknowledged."""
        return await self._perform(self._rules.advance_mark_delete(Position(ledger_id, entry_id)))

    async def reset_cursor(self, mark_delete: Position | None, *, keep_index: bool = False) -> ResetAnswer:
        """Remove all positions and set a new mark-delete position, which may be lower than the old one.

        The session continues with a new epoch; replay from the position in the answer.

        Args:
            mark_delete: the position; None is before the first entry.
            keep_index: remove only what is at or below the position. What is tracked above it keeps its deadline; what was
                acknowledged or dropped before and lies above it is tracked again when the replay offers it.
        """
        return await self._perform(self._rules.reset_cursor(mark_delete, keep_index=keep_index))

    async def clear(self) -> int:
        """Remove all positions, durably; return their number. The session continues with a new epoch."""
        return await self._perform(self._rules.clear())

    async def seal(self) -> int:
        """Seal the mutable bucket and the late positions, however few; return their number."""
        return await self._perform(self._rules.seal())

    async def close(self) -> None:
        """Send the buffered adds, then unload the tracker: its leases end, its snapshots stay.

        Positions that no snapshot contains come from the add log at the next open; without durable adds
        (``trackerDurableAdds=false``), from the replay of the next dispatcher. Closing a session that was closed, deleted
        or left does nothing; if the end of a session failed, it can be repeated.
        """
        if not self._end.is_complete:
            await self._unload(self._rules.close())

    async def delete(self) -> int:
        """Delete the tracker with all snapshots, after its subscription was removed; return the number of positions."""
        self._end.require_incomplete()
        return await self._unload(self._rules.delete())

    async def _unload(self, exchange: Exchange[Result]) -> Result:
        self._calls.require_open()
        with self._end.unloading():
            await self.leave()
            return await self._calls.perform(exchange)

    async def leave(self) -> None:
        """Send the buffered adds and refuse further calls; the tracker stays loaded on the service.

        If a batch of them fails because the service is unavailable, the adds behind it are not sent: they raise
        SessionClosed.
        """
        self._calls.require_loop()
        self._end.has_begun = True
        await self._adds.close()

    async def _perform(self, exchange: Exchange[Result]) -> Result:
        self._require_open()
        return await super()._perform(exchange)

    def _require_usable(self) -> None:
        self._require_open()

    def _require_open(self) -> None:
        self._calls.require_open()
        self._end.require_active()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()
