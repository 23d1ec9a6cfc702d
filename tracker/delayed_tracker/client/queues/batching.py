"""Sends long columns in several calls, and reduces their size to a limit that the service returns.

A call that was refused as too large applied nothing. The same positions are sent again in smaller batches, and later
calls keep the limit.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import Message

from delayed_tracker.client.errors import BatchTooLarge
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
