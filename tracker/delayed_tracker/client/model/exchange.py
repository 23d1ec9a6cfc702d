"""The client's rules as exchanges: generators that yield calls, are sent answers, and return the caller's result.

An exchange decides which call comes next and what an answer means. It does not make the call: the asyncio client does
that in ``aio/calls.py``, the blocking one in ``blocking/calls.py``. A failed call is thrown into the exchange, which
may yield another call instead. An exchange validates its values when it starts, before anything is sent.
"""

import copy
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from google.protobuf.message import Message

from delayed_tracker.client.errors import TrackerCallError
from delayed_tracker.wire.calls import MessageDecoder

Result = TypeVar("Result")


class Call(NamedTuple):
    """One call for the asyncio or the blocking client to make."""

    method: str
    """Name of the method in the service, such as ``AddMessages``."""
    request: Message | bytes
    """Request, as a message or encoded."""
    answer: MessageDecoder[object]
    """Reader of the answer; always the same for one method."""
    timeout_s: float | None = None
    """Time limit of the call in seconds; None is ``call_timeout_s``."""
    wait_ms: int = 0
    """Time for which the service may wait before it answers, as the request says; it is part of the time limit."""

    def request_after(self, passed_s: float) -> Message | bytes:
        """Return the request for an attempt so many seconds after the first one: the service waits that much less."""
        if not self.wait_ms or not passed_s:
            return self.request
        request: Any = copy.deepcopy(self.request)
        request.wait_ms = max(0, self.wait_ms - int(passed_s * 1_000))
        shorter: Message = request
        return shorter


Exchange: TypeAlias = Generator[Call, Any, Result]
"""Generator that yields calls and is sent the values that their ``answer`` read."""


def performed(exchange: Exchange[Result], make: Callable[[Call], object]) -> Result:
    """Make the calls of an exchange one after the other, with a function that waits for the answer.

    Returns: the return value of the exchange.
    Raises:
        InvalidInput: the exchange refused a value.
        TrackerCallError: a call failed, and the exchange made no other call instead.
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
    method: str,
    request: Message | bytes,
    answer: MessageDecoder[Result],
    *,
    timeout_s: float | None = None,
    wait_ms: int = 0,
) -> Exchange[Result]:
    """Make one call and return its answer; for ``yield from``."""
    response: Result = yield Call(method, request, answer, timeout_s, wait_ms)
    return response
