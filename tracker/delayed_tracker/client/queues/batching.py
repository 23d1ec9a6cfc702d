"""Sends long columns in several calls, and reduces their size to a limit that the service returns.

A call that was refused as too large applied nothing. The same positions are sent again in smaller batches, and later
calls keep the limit. Conversely, the answer to a call that several small batches shared is divided among them.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

from google.protobuf.message import Message

from delayed_tracker.client.errors import BatchTooLarge
from delayed_tracker.client.model.answers import AddAnswer
from delayed_tracker.client.model.exchange import Exchange, ask
from delayed_tracker.wire.calls import MessageDecoder
from delayed_tracker.wire.column_fields import ColumnFields
from delayed_tracker.wire.columns import slice_packed

Answer = TypeVar("Answer", bound=Message)
Head = TypeVar("Head", bound=Message)


class Batches:
    """Number of positions that a call may carry, as known from earlier answers."""

    def __init__(self, batch_max: int) -> None:
        self.batch_max = batch_max

    def send_in_batches(
        self,
        method: str,
        head: Head,
        answer: MessageDecoder[Answer],
        *,
        fields: ColumnFields[Head],
        columns: Sequence[bytes],
        total: int,
        last: Head | None = None,
    ) -> Exchange[list[tuple[int, Answer]]]:
        """Make one call after the other until all positions are sent; always at least one call.

        Args:
            method: the method's name.
            head: a request without columns, the same for each call.
            answer: the type of its answer.
            fields: the request's columns.
            columns: the packed columns, each of ``total`` values.
            total: number of positions; 0 makes one call without any.
            last: the request of the last call, in place of ``head``.
        Returns: the answers, each with the offset of its first position.
        Raises:
            TrackerCallError: a call failed; the calls before it stay applied.
        """
        parts: list[tuple[int, Answer]] = []
        first = 0
        while first < total or not parts:
            count = min(self.batch_max, total - first)
            request = head if last is None or first + count < total else last
            batch = fields.encoded(request, [slice_packed(packed, first, count) for packed in columns])
            try:
                response = yield from ask(method, batch, answer)
            except BatchTooLarge as error:
                if not self.take_over_limit(error, count):
                    raise
                continue
            parts.append((first, response))
            first += count
        return parts

    def take_over_limit(self, error: BatchTooLarge, sent_count: int) -> bool:
        """Use the limit in the error, or half of the positions that were sent; return False if no batch is smaller."""
        named = error.metadata.get("limit", "")
        limit = int(named) if named.isdecimal() else math.ceil(sent_count / 2)
        if not 1 <= limit < sent_count:
            return False
        self.batch_max = limit
        return True


def parts_of(answer: AddAnswer, counts: Sequence[int]) -> Iterator[AddAnswer]:
    """Yield the answer to each batch of a call, in their order; offsets count from each batch's first position."""
    if answer.added_count == sum(counts):
        for count in counts:
            yield AddAnswer(count, offered_through=answer.offered_through)
        return
    for first, end in pairwise(accumulate(counts, initial=0)):
        due = _between(answer.due_offsets, first, end)
        duplicate = _between(answer.duplicate_offsets, first, end)
        beyond = _between(answer.beyond_max_delay_offsets, first, end)
        below = _between(answer.below_mark_delete_offsets, first, end)
        yield AddAnswer(
            added_count=end - first - len(due) - len(duplicate) - len(beyond) - len(below),
            due_offsets=due,
            duplicate_offsets=duplicate,
            beyond_max_delay_offsets=beyond,
            below_mark_delete_offsets=below,
            offered_through=answer.offered_through,
        )


def _between(offsets: tuple[int, ...], first: int, end: int) -> tuple[int, ...]:
    if not offsets:
        return ()
    return tuple(offset - first for offset in offsets[bisect_left(offsets, first) : bisect_left(offsets, end)])
