"""The identity of the call for which the service does something: its request id, and its trace if there is one.

Log lines about all effects of a call carry this identity, also about effects after the answer: an add may seal a
bucket, which is stored later. Effects of timers belong to no call.
"""

import re
import uuid
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

from structlog.typing import EventDict

REQUEST_ID_KEY: Final = "x-request-id"
"""Metadata key of the caller's request id."""
_USABLE: Final = re.compile(r"[\x21-\x7e]{1,128}")


class CallIdentity:
    """Request id and trace id of one call.

    Args:
        metadata: the call's metadata. A request id that is empty, above 128 characters or not printable is replaced.
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
        """The caller's request id, or a generated one. It is generated on first use, since most calls need none."""
        self._request_id = self._request_id or uuid.uuid4().hex
        return self._request_id


_current: ContextVar[CallIdentity | None] = ContextVar("tracker_call", default=None)


def begin_call(metadata: Iterable[tuple[str, str | bytes]]) -> CallIdentity:
    """Set the identity of the call for this task and the tasks that it starts from now on."""
    identity = CallIdentity(metadata)
    _current.set(identity)
    return identity


def with_call(_logger: object, _method: str, fields: EventDict) -> EventDict:
    """Add the ids of the current call to a log line, as a processor of structlog."""
    if (identity := _current.get()) is not None:
        fields["request_id"] = identity.request_id
        if identity.trace_id:
            fields["trace_id"] = identity.trace_id
    return fields
