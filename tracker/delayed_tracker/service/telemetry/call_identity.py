"""Which call something is done for: its request id, and its trace if there is one.

Whatever a call causes says so in its log lines, also what goes on after the answer (an add may seal a bucket, which is
then stored). What time alone causes belongs to no call.
"""

import re
import uuid
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

from structlog.typing import EventDict

REQUEST_ID_KEY: Final = "x-request-id"
"""Of the metadata that a caller may send."""
_USABLE: Final = re.compile(r"[\x21-\x7e]{1,128}")


class CallIdentity:
    """What a call is called.

    Args:
        metadata: what came with it; of a request id that is empty, above 128 characters or not printable, one is made.
    """

    __slots__ = ("_request_id", "trace_id")

    def __init__(self, metadata: Iterable[tuple[str, str | bytes]]) -> None:
        self._request_id = ""
        for key, value in metadata:
            if key == REQUEST_ID_KEY and isinstance(value, str) and _USABLE.fullmatch(value):
                self._request_id = value
        self.trace_id = ""
        """32 hexadecimal digits; empty without a trace."""

    @property
    def request_id(self) -> str:
        """The caller's, or one of our own, which is made when it is first asked for: most calls need none."""
        self._request_id = self._request_id or uuid.uuid4().hex
        return self._request_id


_current: ContextVar[CallIdentity | None] = ContextVar("tracker_call", default=None)


def begin_call(metadata: Iterable[tuple[str, str | bytes]]) -> CallIdentity:
    """From here on everything in this task, and in those that it starts, is done for this call."""
    identity = CallIdentity(metadata)
    _current.set(identity)
    return identity


def with_call(_logger: object, _method: str, fields: EventDict) -> EventDict:
    """A processor of structlog: a line says for which call it is."""
    if (identity := _current.get()) is not None:
        fields["request_id"] = identity.request_id
        if identity.trace_id:
            fields["trace_id"] = identity.trace_id
    return fields
