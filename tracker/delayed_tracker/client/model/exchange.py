"""The client's rules as exchanges: generators that yield calls, are sent answers, and return what their caller gets.

A rule knows what to send next and what an answer means; it does not know how a call is made. A shell performs it: the
asyncio one in ``calls.py``, the blocking one in ``blocking/calls.py``. A call that failed is thrown into the exchange,
which may make another of it. Values are validated when an exchange starts, before anything is sent.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message

from delayed_tracker.client.errors import TrackerCallError

Result = TypeVar("Result")
Answer_co = TypeVar("Answer_co", covariant=True)


class Answered(Protocol[Answer_co]):
    """What makes an answer of bytes: a message's class, or its ``ColumnFields``."""

    def FromString(self, encoded: bytes, /) -> Answer_co:  # noqa: N802  # protobuf's name for it
        """The answer; raises DecodeError for bytes that are none."""
        ...


class Call(NamedTuple):
    """One call that a shell is to make."""

    method: str
    """Its name in the service, such as ``AddMessages``."""
    request: Message | bytes
    """A message, encoded or not."""
    answer: Answered[object]
    """Reads its answer; always the same for one method."""
    timeout_s: float | None = None
    """How long it may take; None is ``call_timeout_s``."""


Exchange: TypeAlias = Generator[Call, Any, Result]
"""Yields calls, and is sent what their ``answer`` read."""


def performed(exchange: Exchange[Result], make: Callable[[Call], object]) -> Result:
    """Make the calls of an exchange, one after the other, each by a function that waits for its answer.

    Returns: what the exchange returns.
    Raises:
        InvalidInput: a value that the exchange refused.
        TrackerCallError: of a call; the exchange made no other of it.
    """
    try:
        call = next(exchange)
        while True:
            try:
                response = make(call)
            except TrackerCallError as error:
                call = exchange.throw(error)
            else:
                call = exchange.send(response)
    except StopIteration as returned:
        result: Result = returned.value
        return result


def ask(
    method: str, request: Message | bytes, answer: Answered[Result], *, timeout_s: float | None = None
) -> Exchange[Result]:
    """One call and its answer, for ``yield from``."""
    response: Result = yield Call(method, request, answer, timeout_s)
    return response
