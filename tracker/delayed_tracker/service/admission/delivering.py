"""Answers made when there is room for them, and counted until their callers have taken them.

Most answers are small by their method's own limits. Those that list things may have ``grpcMessageBytesMax``, so a call of
such a method takes a seat before it begins. Of all others only what is large in fact is counted, after it was made.
"""

from typing import Any, Final, TypeAlias

import grpc

from delayed_tracker.service.admission.byte_budget import ByteBudget
from delayed_tracker.service.errors import AnswerTooLarge
from delayed_tracker.service.limits import ServiceLimits

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

COUNTED_ANSWER_BYTES: Final = 64 * 2**10
"""Smaller answers are not counted: gRPC takes them off the service's hands at once."""
LISTING_METHODS: Final = frozenset(
    {"FilterEntries", "ListBuckets", "ListTrackers", "PeekMessages", "ReadEntries", "VerifySnapshots"}
)


class Delivering:
    """Counts the answers of all calls of one service."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self.budget = ByteBudget(
            "answers",
            bytes_max=limits.answer_bytes_in_flight_max,
            seat_bytes=limits.message_bytes_max,
            waiting_max=limits.unread_calls_max,
            wait_max_ms=limits.receive_max_ms,
            retry_after_ms=limits.retry_after_ms,
        )

    def require_room(self) -> None:
        """Refuse to make an answer while answers that nobody takes fill the room. Raises Overloaded."""
        self.budget.require_room()

    def until_taken(self, method: str, encoded: bytes, context: Context) -> None:
        """Count an answer until its call is over, which is when gRPC has sent it all or the caller has gone.

        Raises:
            AnswerTooLarge: gRPC would refuse to send it.
        """
        if len(encoded) <= COUNTED_ANSWER_BYTES:
            return
        if len(encoded) > self._limits.message_bytes_max:
            raise AnswerTooLarge("bytes", self._limits.message_bytes_max)
        hold = self.budget.hold(method, len(encoded))

        context.add_done_callback(lambda _: hold.release())  # type: ignore[arg-type]  # gRPC names no argument
