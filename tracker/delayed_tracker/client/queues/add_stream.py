"""Stream of adds: makes the requests of the batches, and assigns answers to batches. Used by both clients.

Answers come in the order of the requests. A batch longer than ``batch_max`` is sent as several requests and has one
answer. Small batches share a request while another one is unanswered, as calls do (``aio/shared_adds.py``): a request
costs as much as some hundred positions in it. The service applies a request in one step, and if two of its batches
contain a position, the first wins, as if each had its own request.
"""

from collections import deque
from typing import Final, NamedTuple, TypeAlias

from delayed_tracker.client.errors import ServiceFault
from delayed_tracker.client.model import convert
from delayed_tracker.client.model.answers import AddAnswer
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.queues.batching import parts_of
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.columns import IntColumn, pack_indexes, slice_packed
from delayed_tracker.wire.message_columns import ADD_COLUMNS, streamed_add

IndexBatch = tuple[IntColumn, IntColumn, IntColumn]
"""Deadlines, ledger ids and entry ids, of equal length."""
SHARED_MAX: Final = 128
"""Positions of a request that batches share, at most, so that no service refuses it as too large. With more, a position
would hardly cost less.
"""

_Packed: TypeAlias = tuple[bytes, bytes, bytes]
_NO_HEAD: Final = pb.AddMessagesRequest()


class _Request(NamedTuple):
    """A request that is not answered."""

    counts: tuple[int, ...]
    """Positions of each of its batches; of a part of a long batch, its own alone."""
    ends_batch: bool
    """False if the next request has more of the same batch."""


class AddStream:
    """Requests in flight of one stream, and the small batches that wait for the next request."""

    def __init__(self, tracker: pb.TrackerRef, epoch: int, *, batch_max: int) -> None:
        # Only the first request contains the tracker and the epoch.
        self._head = pb.AddMessagesRequest(tracker=tracker, epoch=epoch)
        self._batch_max = batch_max
        self._shared_max = min(batch_max, SHARED_MAX)
        self._waiting: list[tuple[_Packed, int]] = []
        self._waiting_count = 0
        self._unanswered: deque[_Request] = deque()
        self._parts: list[tuple[int, pb.AddMessagesResponse]] = []
        self._answered_count = 0
        self.outgoing: deque[bytes] = deque()
        """Encoded requests, which the client removes from the left and sends."""
        self.is_complete = False
        """True if no further request is made."""

    def put(self, batch: IndexBatch) -> int:
        """Make the requests of a batch; a small batch waits while requests are unanswered, until the next one is full.

        Returns: its positions.
        Raises:
            InvalidInput: unequal lengths or values out of range; nothing of the batch is to be sent.
        """
        try:
            deliver_at_ms, ledger_ids, entry_ids = batch
        except (TypeError, ValueError) as error:
            raise InvalidInput("batches", batch, "give deadlines, ledger ids and entry ids of each batch") from error
        columns = pack_indexes(deliver_at_ms, ledger_ids, entry_ids)
        count = len(deliver_at_ms)
        if self._waiting_count + count > self._shared_max:
            self.send_waiting()
        self._waiting.append((columns, count))
        self._waiting_count += count
        if not self._unanswered or self._waiting_count >= self._shared_max:
            self.send_waiting()
        return count

    def take_outgoing(self) -> list[bytes]:
        """Make requests of all batches so far, and remove and return those that were not sent."""
        self.send_waiting()
        made = list(self.outgoing)
        self.outgoing.clear()
        return made

    @property
    def has_waiting(self) -> bool:
        """True if batches wait for the next request."""
        return bool(self._waiting)

    def send_waiting(self) -> None:
        """Make one request of the batches that wait, or several of a single long one."""
        waiting, self._waiting, self._waiting_count = self._waiting, [], 0
        if not waiting:
            return
        columns, count = waiting[0]
        if len(waiting) > 1:
            deadlines, ledgers, entries = (
                b"".join(column) for column in zip(*(each for each, _ in waiting), strict=True)
            )
            self._send((deadlines, ledgers, entries), _Request(tuple(each for _, each in waiting), ends_batch=True))
        elif count <= self._batch_max:
            self._send(columns, _Request((count,), ends_batch=True))
        else:
            for first in range(0, count, self._batch_max):
                here = min(self._batch_max, count - first)
                deadlines, ledgers, entries = (slice_packed(packed, first, here) for packed in columns)
                self._send((deadlines, ledgers, entries), _Request((here,), ends_batch=first + here == count))

    def complete(self) -> None:
        """Make the last requests: no further batch comes."""
        self.send_waiting()
        self.is_complete = True

    def _send(self, columns: _Packed, request: _Request) -> None:
        self.outgoing.append(streamed_add(ADD_COLUMNS.encoded(self._head, columns)))
        self._head = _NO_HEAD
        self._unanswered.append(request)

    def answered(self, response: pb.AddMessagesStreamResponse) -> list[AddAnswer]:
        """Apply the next answer. Return the answers to the batches that are wholly answered now: none, one or several.

        Raises:
            ServiceFault: no request is unanswered.
        """
        if not self._unanswered:
            raise ServiceFault("the service answered more often than it was asked")
        request = self._unanswered.popleft()
        if not self._unanswered:
            self.send_waiting()
        self._parts.append((self._answered_count, response.added))
        if not request.ends_batch:
            self._answered_count += request.counts[0]
            return []
        answer = convert.add_answer(self._parts)
        self._parts, self._answered_count = [], 0
        return [answer] if len(request.counts) == 1 else list(parts_of(answer, request.counts))

    def ended(self, *, all_sent: bool) -> None:
        """Apply the end of the stream without an error; raises ServiceFault if the service ended it too early."""
        if self._unanswered or not all_sent:
            raise ServiceFault("the service ended the stream before it had answered all of it")


class StreamRoom:
    """Bound on the batches of a stream that are read and not answered. Their positions are bounded as well.

    Many small batches may be in flight, because they share requests, and as few large ones as keep the service busy.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._batches_max = settings.stream_batches_max
        self._positions_max = settings.stream_positions_max
        self._counts: deque[int] = deque()
        self._positions_count = 0

    @property
    def is_there(self) -> bool:
        """True if another batch may be read."""
        return len(self._counts) < self._batches_max and self._positions_count < self._positions_max

    def take(self, positions_count: int) -> None:
        """Count a batch."""
        self._counts.append(positions_count)
        self._positions_count += positions_count

    def release(self) -> None:
        """Count the first batch no more: its answer was read."""
        self._positions_count -= self._counts.popleft()
