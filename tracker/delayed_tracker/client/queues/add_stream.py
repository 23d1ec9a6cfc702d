"""Stream of adds: makes the requests of each batch, and assigns answers to batches. Used by both clients.

Answers come in the order of the requests. A batch longer than ``batch_max`` is sent as several requests and has one
answer.
"""

from collections import deque

from delayed_tracker.client.errors import ServiceFault
from delayed_tracker.client.model import convert
from delayed_tracker.client.model.answers import AddAnswer
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.columns import IntColumn, pack_indexes, slice_packed
from delayed_tracker.wire.message_columns import ADD_COLUMNS, streamed_add

IndexBatch = tuple[IntColumn, IntColumn, IntColumn]
"""Deadlines, ledger ids and entry ids, of equal length."""


class AddStream:
    """Requests in flight of one stream."""

    def __init__(self, tracker: pb.TrackerRef, epoch: int, *, batch_max: int) -> None:
        # Only the first request contains the tracker and the epoch.
        self._head = pb.AddMessagesRequest(tracker=tracker, epoch=epoch)
        self._batch_max = batch_max
        # One element for each batch with unanswered requests: the number of positions in each of these requests.
        self._unanswered: deque[deque[int]] = deque()
        self._parts: list[tuple[int, pb.AddMessagesResponse]] = []
        self._answered_count = 0

    def requests(self, batch: IndexBatch) -> list[bytes]:
        """Return the encoded requests of a batch; always at least one.

        Raises:
            InvalidInput: unequal lengths or values out of range; nothing is to be sent.
        """
        try:
            deliver_at_ms, ledger_ids, entry_ids = batch
        except (TypeError, ValueError) as error:
            raise InvalidInput("batches", batch, "give deadlines, ledger ids and entry ids of each batch") from error
        columns = pack_indexes(deliver_at_ms, ledger_ids, entry_ids)
        total = len(deliver_at_ms)
        made: list[bytes] = []
        counts: deque[int] = deque()
        for first in range(0, max(total, 1), self._batch_max):
            count = min(self._batch_max, total - first)
            add = ADD_COLUMNS.encoded(self._head, [slice_packed(packed, first, count) for packed in columns])
            made.append(streamed_add(add))
            self._head = pb.AddMessagesRequest()
            counts.append(count)
        self._unanswered.append(counts)
        return made

    def answered(self, response: pb.AddMessagesStreamResponse) -> AddAnswer | None:
        """Apply the next answer; return the answer to the whole batch, or None if other requests of it are unanswered.

        Raises:
            ServiceFault: no request is unanswered.
        """
        if not self._unanswered:
            raise ServiceFault("the service answered more often than it was asked")
        counts = self._unanswered[0]
        self._parts.append((self._answered_count, response.added))
        self._answered_count += counts.popleft()
        if counts:
            return None
        self._unanswered.popleft()
        answer = convert.add_answer(self._parts)
        self._parts, self._answered_count = [], 0
        return answer

    def ended(self, *, all_sent: bool) -> None:
        """Apply the end of the stream without an error; raises ServiceFault if the service ended it too early."""
        if self._unanswered or not all_sent:
            raise ServiceFault("the service ended the stream before it had answered all of it")
