"""The client's rules as exchanges: generators that yield calls, are sent answers, and return what their caller gets.

A rule knows what to send next and what an answer means; it does not know how a call is made. A shell performs it: the
asyncio one in ``calls.py``, the blocking one in ``blocking/calls.py``. A call that failed is thrown into the exchange,
which may make another of it. Values are validated when an exchange starts, before anything is sent.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from google.protobuf.message import Message

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound=Message)


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a shell is to make."""

    method: str
    """Its name in the service, such as ``AddMessages``."""
    request: Message
    answer: type[Message]
    """The type of its answer."""
    timeout_s: float | None = None
    """How long it may take; None is ``call_timeout_s``."""


Exchange: TypeAlias = Generator[Call, Message, Result]


def ask(method: str, request: Message, answer: type[Answer], *, timeout_s: float | None = None) -> Exchange[Answer]:
    """One call and its answer, for ``yield from``."""
    response = yield Call(method, request, answer, timeout_s)
    assert isinstance(response, answer)
    return response
