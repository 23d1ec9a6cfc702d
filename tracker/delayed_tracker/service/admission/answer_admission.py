"""A bound on the bytes of answers that gRPC has not sent yet.

Most answers are small by the limits of their methods. Answers of listing methods may have ``grpcMessageBytesMax``, so a
call of such a method takes a seat before it begins. For the other methods, only large answers are counted, after they
were made.
"""

from typing import Any, Final, TypeAlias

import grpc

from delayed_tracker.service.admission.byte_budget import ByteBudget
from delayed_tracker.service.errors import AnswerTooLarge
from delayed_tracker.service.limits import ServiceLimits

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

COUNTED_ANSWER_BYTES: Final = 64 * 2**10
"""Answers up to this size are not counted, because gRPC sends them at once."""
LISTING_METHODS: Final = frozenset(
    {"FilterEntries", "ListBuckets", "ListTrackers", "PeekMessages", "ReadEntries", "VerifySnapshots"}
)


class AnswerAdmission:
    """Counter of the answer bytes of all calls of one service."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self.budget = ByteBudget.of_calls("answers", limits, bytes_max=limits.answer_bytes_in_flight_max)

    def require_room(self) -> None:
        """Raise Overloaded if answers that callers have not taken fill the room."""
        self.budget.require_room()

    def hold_until_call_ends(self, method: str, encoded: bytes, context: Context) -> None:
        """Count an answer until its call is over: gRPC has sent it all, or the caller has gone.

        Raises:
            AnswerTooLarge: gRPC would refuse to send it.
        """
        if len(encoded) <= COUNTED_ANSWER_BYTES:
            return
        if len(encoded) > self._limits.message_bytes_max:
            raise AnswerTooLarge("bytes", self._limits.message_bytes_max)
        hold = self.budget.hold(method, len(encoded))

        context.add_done_callback(lambda _: hold.release())  # type: ignore[arg-type]  # gRPC names no argument
