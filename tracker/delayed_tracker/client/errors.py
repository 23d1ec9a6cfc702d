"""What a dispatcher can be told: the service's error reasons as exceptions, sorted by what the caller does next.

::

    DelayedTrackerError
    +-- TrackerCallError          any call that failed; .reason, .metadata, .retry_after_s
        +-- InvalidArgument       change the request; .violations
        |   +-- BatchTooLarge     send, or ask for, less at once
        +-- Fenced                somebody opened the tracker after you
        +-- TrackerNotOpen        open it (again)
        +-- NotFound              no such topic or message in the ledgers; it may come to be
        +-- Unanswerable          the service, or the topic, is not made for the question
        +-- ImportRefused         somebody else imports into the tracker, or it keeps no snapshots
        +-- Cleared               the tracker was cleared or closed while the call waited
        +-- Unavailable           try again after .retry_after_s
        |   +-- Overloaded        the service asks for less
        |   +-- CallTimedOut      no answer in time; the call may have been applied
        +-- DataLoss              stored bytes are missing or corrupt
        +-- ServiceFault          anything else: a fault of the service, or of a proxy in between
    InvalidInput                  a value this client refused before sending it
    SessionClosed                 the session, or its client, was closed by this program
    NotConnected                  the client was not entered as a context
    WrongEventLoop                called from another event loop than the client's own

A failed call applied nothing, except after CallTimedOut and Unavailable, where the answer may be what got lost.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from delayed_tracker.core.values.errors import DelayedTrackerError, FieldViolation

ERROR_DOMAIN = "delayed-tracker"

_STATUS_DETAILS_KEY = "grpc-status-details-bin"

# gRPC refuses such messages before our service, or this client, sees them, and has no reason of ours to give.
_TOO_LARGE = re.compile(
    r"(?:(?P<side>CLIENT|SERVER): )?(?P<what>Received|Sent) message larger than max \((?P<size>\d+) vs\. (?P<limit>\d+)\)"
)

_METADATA_TOO_LARGE = re.compile(
    r"metadata size exceeds (?:soft|hard) limit \((?:value length )?(?P<size>\d+) vs\. (?P<limit>\d+)\)"
)


class TrackerCallError(DelayedTrackerError):
    """Base of what a call to the service can raise."""

    reason = "CALL_FAILED"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, metadata=metadata)
        if reason:
            self.reason = reason
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s


class InvalidArgument(TrackerCallError):
    """The request is malformed; ``violations`` names fields and offsets. Nothing of it was applied."""

    reason = "INVALID_INPUT"


class BatchTooLarge(InvalidArgument):
    """More positions in one call than the service takes; send them in smaller batches."""

    reason = "BATCH_TOO_LARGE"


class Fenced(TrackerCallError):
    """Somebody opened the tracker after you; open it again only if you should own it."""

    reason = "FENCED"


class TrackerNotOpen(TrackerCallError):
    """The service has not loaded this tracker; open it and replay from where the answer says."""

    reason = "TRACKER_NOT_OPEN"


class NotFound(TrackerCallError):
    """The ledgers have no such topic, or no such message yet; see to the name, or ask again when more was published."""

    reason = "TOPIC_NOT_FOUND"


class Unanswerable(TrackerCallError):
    """The service has no ledgers to read, or the topic is one that cannot answer; the message says what to change."""

    reason = "LEDGER_SOURCE_NOT_SET"


class ImportRefused(TrackerCallError):
    """The tracker takes no snapshots now (``IMPORT_UNDER_WAY``) or never (``TRACKER_IN_MEMORY``)."""

    reason = "IMPORT_REFUSED"


class Cleared(TrackerCallError):
    """The tracker was cleared, reset, deleted or closed while the call waited; open it again."""

    reason = "CLEARED"


class Unavailable(TrackerCallError):
    """The service cannot answer now (recovering, stopping, unreachable); try again after ``retry_after_s``."""

    reason = "UNAVAILABLE"


class Overloaded(Unavailable):
    """The service is at a limit (``LEASES_EXHAUSTED``, ``OVERLOADED``); try again, with less, after a while."""

    reason = "OVERLOADED"


class CallTimedOut(Unavailable):
    """No answer within the call's time; it may or may not have been applied. Repeating it is harmless."""

    reason = "DEADLINE_EXCEEDED"


class DataLoss(TrackerCallError):
    """Stored bytes are missing or corrupt: rebuild the tracker from the ledgers, or give the service other copies of
    these.
    """

    reason = "DATA_LOSS"


class ServiceFault(TrackerCallError):
    """The service failed in a way it does not explain; its log does."""

    reason = "INTERNAL"


class SessionClosed(DelayedTrackerError):
    """The session, or its client, was left or closed by the program that holds it; open the tracker again."""

    reason = "SESSION_CLOSED"


class NotConnected(DelayedTrackerError):
    """A client was used that was not entered as a context. Nothing was sent."""

    reason = "NOT_CONNECTED"

    def __init__(self, statement: str) -> None:
        super().__init__(f"this client is not connected: enter it, `{statement}`")


class WrongEventLoop(DelayedTrackerError):
    """An asyncio client was called from another event loop than the one it was made in. Nothing was sent."""

    reason = "WRONG_EVENT_LOOP"

    def __init__(self) -> None:
        super().__init__(
            "this client belongs to another event loop: connect within this one, hand the call over with"
            " asyncio.run_coroutine_threadsafe, or use delayed_tracker.client.blocking"
        )


_BY_REASON: Mapping[str, type[TrackerCallError]] = {
    "FENCED": Fenced,
    "TRACKER_NOT_OPEN": TrackerNotOpen,
    "IMPORT_UNDER_WAY": ImportRefused,
    "TRACKER_IN_MEMORY": ImportRefused,
    "CLEARED": Cleared,
    "CLOSED": Cleared,
    "BATCH_TOO_LARGE": BatchTooLarge,
    "LEASES_EXHAUSTED": Overloaded,
    "OVERLOADED": Overloaded,
    "RECOVERING": Unavailable,
    "SHUTTING_DOWN": Unavailable,
    "TRACKER_BROKEN": Unavailable,
    "STORAGE_UNAVAILABLE": Unavailable,
    "TOPIC_NOT_FOUND": NotFound,
    "NAMESPACE_NOT_FOUND": NotFound,
    "MESSAGE_INDEX_INVALID": NotFound,
    "MESSAGE_NOT_FOUND": NotFound,
    "LEDGER_SOURCE_NOT_SET": Unanswerable,
    "PARTITIONED_TOPIC": Unanswerable,
    "BROKER_METADATA_MISSING": Unanswerable,
    "BROKER_METADATA_DISABLED": Unanswerable,
}

# For answers without a reason of ours: from gRPC itself, or from a proxy.
_BY_CODE: Mapping[grpc.StatusCode, type[TrackerCallError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.NOT_FOUND: TrackerNotOpen,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: CallTimedOut,
    grpc.StatusCode.DATA_LOSS: DataLoss,
}


# What gRPC says of a call that the service did not answer is about sockets; this is what it means.
_UNEXPLAINED: Mapping[grpc.StatusCode, str] = {
    grpc.StatusCode.UNAVAILABLE: "the service cannot be reached, or went away during the call ({}); try again",
    grpc.StatusCode.DEADLINE_EXCEEDED: "no answer in time ({}); the call may have been applied: try again",
    grpc.StatusCode.UNIMPLEMENTED: "no delayed-tracker of this version answers there ({}); see which service listens",
}


class FailedCall(Protocol):
    """How a call ended, as both of gRPC's APIs tell it."""

    def code(self) -> grpc.StatusCode:
        """The status code."""
        ...

    def details(self) -> str | None:
        """The status message."""
        ...

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Key and value of each trailer."""
        ...


def call_error(error: FailedCall) -> TrackerCallError:
    """The exception for a failed call: by the reason the service gave, else by the status code.

    Args:
        error: what the gRPC call raised, or the call itself.
    Returns: an exception to be raised ``from error``.
    """
    reason = ""
    metadata: dict[str, str] = {}
    violations: list[FieldViolation] = []
    retry_after_s: float | None = None
    for detail in _status_details(error):
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            if info.domain == ERROR_DOMAIN:
                reason = info.reason
                metadata = dict(info.metadata)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            violations += [FieldViolation(row.field, row.description) for row in bad.field_violations]
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_after_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    if not reason and (too_large := _TOO_LARGE.search(error.details() or "")):
        return _message_too_large(**too_large.groupdict())
    if not reason and (too_large := _METADATA_TOO_LARGE.search(error.details() or "")):
        return _metadata_too_large(**too_large.groupdict())
    kind = _BY_REASON.get(reason) or _BY_CODE.get(error.code(), ServiceFault)
    said = error.details() or error.code().name
    return kind(
        said if reason else _UNEXPLAINED.get(error.code(), "{}").format(said),
        reason=reason,
        metadata=metadata,
        violations=violations,
        retry_after_s=retry_after_s,
    )


def _message_too_large(side: str | None, what: str, size: str, limit: str) -> TrackerCallError:
    metadata = {"size_bytes": size, "limit_bytes": limit}
    if side == "CLIENT" and what == "Received":
        message = f"the answer has {size} bytes, and this client takes {limit}; ask for less in one call"
        return BatchTooLarge(message, metadata=metadata)
    name = "request" if what == "Received" else "answer"
    return BatchTooLarge(
        f"the {name} has {size} bytes, and the service's limit is {limit}; send or ask for less in one call, or raise "
        "grpcMessageBytesMax in the service's configuration",
        metadata=metadata,
    )


def _metadata_too_large(size: str, limit: str) -> TrackerCallError:
    return InvalidArgument(
        f"the metadata of the call or of its answer has {size} bytes, and the limit is {limit}; send less metadata: what "
        "proxies and interceptors add counts, too",
        metadata={"size_bytes": size, "limit_bytes": limit},
    )


def _status_details(error: FailedCall) -> list[AnyMessage]:
    for key, value in error.trailing_metadata() or ():
        if key == _STATUS_DETAILS_KEY and isinstance(value, bytes):
            try:
                return list(status_pb2.Status.FromString(value).details)
            except DecodeError:
                # Not written by the service: the status code still says what to do.
                return []
    return []
