"""One tracker as a dispatcher without an event loop uses it: a session that owns it for one epoch."""

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import grpc

from delayed_tracker.client.blocking.add_buffer import AddBuffer
from delayed_tracker.client.blocking.calls import Calls
from delayed_tracker.client.blocking.lease import Lease
from delayed_tracker.client.blocking.shared_acks import SharedAcks
from delayed_tracker.client.blocking.shared_polls import SharedPolls
from delayed_tracker.client.blocking.view import TrackerView
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
    ResetAnswer,
)
from delayed_tracker.client.model.bounds import require_type
from delayed_tracker.client.model.exchange import Exchange, Result
from delayed_tracker.client.queues.add_stream import AddStream, IndexBatch
from delayed_tracker.client.queues.poll_queue import PollTerms, Taken
from delayed_tracker.client.queues.session_end import SessionEnd
from delayed_tracker.client.rules.session import SessionRules
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.columns import IntColumn, pack_indexes


class TrackerSession(TrackerView):
    """Owns one tracker for one epoch; made by ``DelayedTrackerClient.open_tracker``.

    Whoever opens the tracker next fences this session: its calls then raise Fenced. As a context it leaves the tracker
    loaded and sends what is buffered; :meth:`close` unloads it. After either every call raises SessionClosed. Any thread may call it.
    """

    _rules: SessionRules

    def __init__(self, calls: Calls, topic: str, subscription: str, opened: OpenAnswer) -> None:
        settings = calls.settings
        rules = SessionRules(settings, topic, subscription, opened)
        super().__init__(calls, rules)
        self.opened = opened
        self._end = SessionEnd()
        # None of these holds the session: it goes when the program drops it, and they when they have nothing to do.
        self._polls = SharedPolls(
            lambda shares, wait_ms, terms: calls.perform(rules.poll(shares, wait_ms=wait_ms, terms=terms)),
            lambda rest: calls.perform(rules.give_back(rest)),
            share_max=settings.batch_max,
            epoch=lambda: rules.epoch,
        )
        self._acks = SharedAcks(lambda acks: calls.perform(rules.acked(acks)), batch_max=lambda: rules.batch_max)
        self._buffer = AddBuffer(
            lambda *columns: calls.perform(rules.add_columns(*columns)),
            flush_count=settings.flush_count,
            flush_delay_s=settings.flush_delay_s,
            buffer_max=settings.buffer_max,
        )
        self._buffer.warn_when_dropped(self)

    @property
    def epoch(self) -> int:
        """What every call of this session carries; :meth:`clear` and :meth:`reset_cursor` raise it."""
        return self._rules.epoch

    def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> AddResult:
        """Offer one position; it travels with other threads' in a batch, and its own outcome is the answer.

        A thread that adds one after the other waits for each; :meth:`add_soon` does not.

        Args:
            deliver_at_ms: wall-clock deadline, 0 to 2^63-1.
            ledger_id: 0 to 2^63-1.
            entry_id: 0 to 2^32-1.
        Raises:
            InvalidInput: a value out of range; nothing was buffered.
            TrackerCallError: its batch failed; unless the answer was lost, nothing of it was applied.
        """
        return self.add_soon(deliver_at_ms, ledger_id, entry_id).result()

    def add_soon(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> "Future[AddResult]":
        """Offer one position without waiting for what becomes of it; blocks only while the buffer is full.

        Args, and errors of the future: as for :meth:`add`. Cancelling the future keeps the position from being sent,
        unless it is on its way.

        Raises:
            InvalidInput: a value out of range; nothing was buffered.
            SessionClosed: this session was left or closed.
        """
        self._require_open()
        pack_indexes([deliver_at_ms], [ledger_id], [entry_id])
        return self._buffer.add(deliver_at_ms, ledger_id, entry_id)

    def add_columns(self, deliver_at_ms: IntColumn, ledger_ids: IntColumn, entry_ids: IntColumn) -> AddAnswer:
        """Offer many positions as parallel columns, in order.

        More than fit into one call travel in several, each applied in one step. If a later one fails, the earlier ones
        stay applied; offering all of it again is harmless.

        Raises:
            InvalidInput: unequal lengths or values out of range, by column and offset; nothing was sent.
        """
        return self._perform(self._rules.add_columns(deliver_at_ms, ledger_ids, entry_ids))

    def add_stream(self, batches: Iterable[IndexBatch]) -> Iterator[AddAnswer]:
        """Offer batch after batch over one stream, for replays: answers come while later batches are on their way.

        At most ``stream_batches_max`` batches are unanswered; ``batches`` is asked for the next one, by another thread,
        only below that. Batches that were answered are applied when an error ends the stream, the others may be. A
        stream has no time limit, and does not wait for a service that is away: begin another after Unavailable. To
        leave early, close the iterator: ``with contextlib.closing(session.add_stream(batches)) as answers``.

        Args:
            batches: deadlines, ledger ids and entry ids of each batch.
        Returns: one answer for each batch, in order.
        Raises:
            InvalidInput: a batch with values out of range; it was not sent, the ones before it were.
            TrackerCallError: the stream ended; nothing of the batch that caused it is applied.
        """
        self._require_open()
        require_type("batches", batches, Iterable, "give an iterable, such as a generator")
        sending = _Sending(self._rules.add_stream(), batches, self._calls.settings.stream_batches_max)
        call = self._calls.add_stream(sending.requests())
        try:
            for response in call:
                answer = sending.answered(response)
                if answer is not None:
                    yield answer
            sending.ended()
        except grpc.RpcError as error:
            raise self._calls.failure(error) from error
        finally:
            sending.stop()
            call.cancel()  # type: ignore[no-untyped-call]  # not described in grpc-stubs

    def poll(self, max_messages: int, *, wait_ms: int = 0, lease_ms: int | None = None) -> Lease:
        """Lease what is due, waiting up to ``wait_ms`` for the first of it.

        While more is due than polls take, two calls of a session are under way at most; polls that other threads make
        meanwhile share the next, each with a lease of its own.

        Args:
            max_messages: 1 to the server's maximum.
            wait_ms: how long to wait for the first due position; the server caps it.
            lease_ms: how long to hold them; None is the server's default.
        Returns: a lease, of nothing if nothing became due.
        """
        taken = self._poll(max_messages, wait_ms, PollTerms(lease_ms))
        return Lease(self, lease_id=taken.lease_id, expires_at_ms=taken.expires_at_ms, messages=taken.messages)

    def poll_hand_off(self, max_messages: int, *, wait_ms: int = 0) -> DueMessages:
        """Take what is due without a lease: if the answer is lost, so are its positions until the next replay."""
        return self._poll(max_messages, wait_ms, PollTerms(None, is_hand_off=True)).messages

    def _poll(self, max_messages: int, wait_ms: int, terms: PollTerms) -> Taken:
        self._require_open()
        self._rules.require_poll(max_messages, wait_ms, terms)
        return self._polls.poll(max_messages, wait_ms, terms)

    def ack(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> AckAnswer:
        """Acknowledge leased positions: they are no longer tracked.

        Two calls of a session are under way at most; what other threads acknowledge meanwhile shares the next, each ack
        with its own answer.
        """
        self._require_open()
        return self._acks.ack(self._rules.ack(lease_id, ledger_ids, entry_ids))

    def ack_whole(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> AckAnswer:
        """Acknowledge all that a lease still holds, as far as the caller knows; by its id, if the service agrees."""
        self._require_open()
        return self._acks.ack(self._rules.ack_whole(lease_id, ledger_ids, entry_ids))

    def nack(
        self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn, *, deliver_at_ms: int | None = None
    ) -> NackAnswer:
        """Give leased positions back, at once or for a new deadline."""
        return self._perform(self._rules.nack(lease_id, ledger_ids, entry_ids, deliver_at_ms=deliver_at_ms))

    def extend(
        self,
        lease_id: int,
        lease_ms: int,
        ledger_ids: IntColumn | None = None,
        entry_ids: IntColumn | None = None,
    ) -> ExtendAnswer:
        """Hold leased positions for ``lease_ms`` from now on; without columns, all that the lease still holds."""
        return self._perform(self._rules.extend(lease_id, lease_ms, ledger_ids, entry_ids))

    def cancel(self, ledger_ids: IntColumn, entry_ids: IntColumn) -> CancelAnswer:
        """Forget positions that are not leased; acknowledge them in the cursor too, else a replay adds them again.

        After a lost answer, repeat it: what the lost call cancelled is then answered as unknown.
        """
        return self._perform(self._rules.cancel(ledger_ids, entry_ids))

    def advance_mark_delete(self, ledger_id: int, entry_id: int) -> MarkDeleteAnswer:
        """Tell the tracker that everything up to and including a position is acknowledged."""
        return self._perform(self._rules.advance_mark_delete(Position(ledger_id, entry_id)))

    def reset_cursor(self, mark_delete: Position | None) -> ResetAnswer:
        """Forget every position and take a new mark-delete position, which may be lower than the old one.

        The session goes on under a new epoch; replay from where the answer says. None is before the first entry.
        """
        return self._perform(self._rules.reset_cursor(mark_delete))

    def clear(self) -> int:
        """Forget every position, durably; returns how many. The session goes on under a new epoch."""
        return self._perform(self._rules.clear())

    def seal(self) -> int:
        """Seal what the mutable bucket holds, however little; returns how many positions."""
        return self._perform(self._rules.seal())

    def close(self) -> None:
        """Send what is buffered, then unload the tracker: leases are void, snapshots stay.

        What is not in a snapshot is covered by the next dispatcher's replay. A session that was closed, deleted or left
        stays as it is; one whose end failed can be ended again.
        """
        if not self._end.is_complete:
            self._unload(self._rules.close())

    def delete(self) -> int:
        """Forget the tracker with every snapshot, for the subscription is gone; returns how many positions."""
        self._end.require_incomplete()
        return self._unload(self._rules.delete())

    def _unload(self, exchange: Exchange[Result]) -> Result:
        self._calls.require_open()
        self.leave()
        with self._end.unloading():
            return self._calls.perform(exchange)

    def leave(self) -> None:
        """Send what is buffered and refuse further calls; the tracker stays loaded on the service."""
        self._end.has_come = True
        self._buffer.close()

    def _perform(self, exchange: Exchange[Result]) -> Result:
        self._require_open()
        return super()._perform(exchange)

    def _require_open(self) -> None:
        self._calls.require_open()
        self._end.require_ahead()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


class _Sending:
    """What gRPC's thread sends on a stream while the caller's thread reads the answers."""

    def __init__(self, stream: AddStream, batches: Iterable[IndexBatch], batches_max: int) -> None:
        self._stream = stream
        self._batches = batches
        self._room = threading.Semaphore(batches_max)
        self._lock = threading.Lock()
        self._stopped = False
        self._all_sent = False
        self._error: Exception | None = None

    def requests(self) -> Iterator[bytes]:
        """Every batch's requests, as there is room for them; ends at the first error."""
        try:
            for batch in self._batches:
                self._room.acquire()
                if self._stopped:
                    return
                with self._lock:
                    requests = self._stream.requests(batch)
                yield from requests
        except Exception as error:  # noqa: BLE001  # handed over to the caller's thread, which raises it
            self._error = error
        finally:
            self._all_sent = True

    def answered(self, response: pb.AddMessagesStreamResponse) -> AddAnswer | None:
        """Take an answer in; a batch that is wholly answered makes room for another."""
        with self._lock:
            answer = self._stream.answered(response)
        if answer is not None:
            self._room.release()
        return answer

    def ended(self) -> None:
        """The service ended the stream: raise what went wrong here, if anything did."""
        self._stream.ended(all_sent=self._all_sent)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Nobody reads any more: let gRPC's thread go."""
        self._stopped = True
        self._room.release()
