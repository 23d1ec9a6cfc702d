"""Errors of the client: the service's error reasons as exceptions, grouped by the caller's next step.

::

    DelayedTrackerError
    +-- TrackerCallError          any failed call; .reason, .metadata, .retry_after_s
        +-- InvalidArgument       change the request; .violations
        |   +-- BatchTooLarge     send less, or request less, in one call
        +-- Unauthenticated       give another token or certificate
        +-- PermissionDenied      ask an operator for a rule; .principal, .action, .topic
        +-- Fenced                another client opened the tracker later
        +-- TrackerNotOpen        open it (again)
        +-- NotFound              the ledgers have no such topic or message; it may exist later
        +-- QueryNotSupported          the service, or the topic, does not support the query
        +-- ImportRefused         another import into the tracker is in flight, or it keeps no snapshots
        +-- Cleared               the tracker was cleared or closed while the call waited
        +-- Unavailable           try again after .retry_after_s
        |   +-- Overloaded        the service, or the caller's quota, is at a limit; send or request less
        |   +-- TlsFailed         client and service do not agree on TLS; change the address or the certificates
        |   +-- CallTimedOut      no answer in time; the call may have been applied
        +-- DataLoss              stored bytes are missing or corrupt
        +-- ServiceFault          any other failure of the service, or of a proxy between
    InvalidInput                  the client refused a value before it sent anything
    SessionClosed                 this program closed the session or its client
    NotConnected                  the client was not entered as a context
    WrongEventLoop                the call came from an event loop that is not the client's
    WrongProcess                  the blocking client was connected before a fork
    WrongThread                   a callback made a call that would wait for the thread that it runs in
    ThreadNotStarted              the system gave the blocking client no thread; nothing was sent

A failed call applied nothing, except after CallTimedOut and Unavailable: then perhaps only the answer was lost.
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

# gRPC refuses such messages before the service, or this client, receives them. The error then has no reason of the
# service.
_TOO_LARGE = re.compile(
    r"(?:(?P<side>CLIENT|SERVER): )?(?P<what>Received|Sent) message larger than max \((?P<size>\d+) vs\. (?P<limit>\d+)\)"
)

_METADATA_TOO_LARGE = re.compile(
    r"metadata size exceeds (?:soft|hard) limit \((?:value length )?(?P<size>\d+) vs\. (?P<limit>\d+)\)"
)


class TrackerCallError(DelayedTrackerError):
    """Base of the errors that a call to the service raises."""

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
    """The request is malformed; ``violations`` contains fields and offsets. The service applied nothing of it."""

    reason = "INVALID_INPUT"


class BatchTooLarge(InvalidArgument):
    """One call has more positions than the service accepts; send them in smaller batches."""

    reason = "BATCH_TOO_LARGE"


class Unauthenticated(TrackerCallError):
    """The service does not accept the token or the certificate, or got none; give another one. Nothing was applied.

    The client repeats a call once if its token has been replaced meanwhile. A stream or a poll also ends with this error
    when its token expires.
    """

    reason = "UNAUTHENTICATED"

    @property
    def principal(self) -> str:
        """Role of a credential that was valid before; empty if the caller is unknown."""
        return self.metadata.get("principal", "")


class PermissionDenied(TrackerCallError):
    """The principal may not take this action on this topic; ask an operator for a rule. Nothing was applied."""

    reason = "PERMISSION_DENIED"

    @property
    def principal(self) -> str:
        """Role that the service found in the credential."""
        return self.metadata.get("principal", "")

    @property
    def action(self) -> str:
        """Action that no rule grants: dispatch, read, payload, metrics or admin."""
        return self.metadata.get("action", "")

    @property
    def topic(self) -> str:
        """Topic of the call; empty if it has none."""
        return self.metadata.get("topic", "")


class Fenced(TrackerCallError):
    """Another client opened the tracker later, perhaps at another instance of the service, whose storage then refuses this
    one's (``SNAPSHOT_CONFLICT``); open it again only if this program should own it.
    """

    reason = "FENCED"


class TrackerNotOpen(TrackerCallError):
    """The service has not loaded this tracker; open it and replay from the position in the answer."""

    reason = "TRACKER_NOT_OPEN"


class NotFound(TrackerCallError):
    """The ledgers have no such topic, or no such message yet; check the name, or try again when more was published."""

    reason = "TOPIC_NOT_FOUND"


class QueryNotSupported(TrackerCallError):
    """The service has no ledgers to read, or the topic does not support the query; the message contains the remedy."""

    reason = "LEDGER_SOURCE_NOT_SET"


class ImportRefused(TrackerCallError):
    """The tracker takes no snapshots now (``IMPORT_UNDER_WAY``), never (``TRACKER_IN_MEMORY``), or none with entries as
    large as these (``SNAPSHOT_TOO_LARGE``).
    """

    reason = "IMPORT_REFUSED"


class Cleared(TrackerCallError):
    """The tracker was cleared, reset, deleted or closed while the call waited; open it again."""

    reason = "CLEARED"


class Unavailable(TrackerCallError):
    """The service cannot answer now (recovering, stopping, unreachable); try again after ``retry_after_s``."""

    reason = "UNAVAILABLE"


class Overloaded(Unavailable):
    """A limit is reached: of the tracker (``LEASES_EXHAUSTED``), of the service (``OVERLOADED``), or of the caller's
    principal (``QUOTA_EXCEEDED``, with ``metadata["limit"]``); try again later, with less.
    """

    reason = "OVERLOADED"


class TlsFailed(Unavailable):
    """Client and service do not agree on TLS: one of them speaks plain gRPC, or a certificate is not accepted."""

    reason = "TLS_FAILED"


class CallTimedOut(Unavailable):
    """The call had no answer in time; it may or may not have been applied. Repeating it is harmless."""

    reason = "DEADLINE_EXCEEDED"


class DataLoss(TrackerCallError):
    """Stored bytes are missing or corrupt; rebuild the tracker from the ledgers, or restore the bytes from a copy."""

    reason = "DATA_LOSS"


class ServiceFault(TrackerCallError):
    """The service failed without a reason for the client; see the log of the service."""

    reason = "INTERNAL"


class SessionClosed(DelayedTrackerError):
    """The session, or its client, was left or closed by this program; open the tracker again."""

    reason = "SESSION_CLOSED"


class NotConnected(DelayedTrackerError):
    """The client was used before it was entered as a context. Nothing was sent."""

    reason = "NOT_CONNECTED"

    def __init__(self, statement: str) -> None:
        super().__init__(f"this client is not connected: enter it, `{statement}`")


class WrongEventLoop(DelayedTrackerError):
    """An asyncio client was called from an event loop that is not its own. Nothing was sent."""

    reason = "WRONG_EVENT_LOOP"

    def __init__(self) -> None:
        super().__init__(
            "this client belongs to another event loop: connect within this one, hand the call over with"
            " asyncio.run_coroutine_threadsafe, or use delayed_tracker.client.blocking"
        )


class WrongProcess(DelayedTrackerError):
    """A blocking client was called in another process than the one that connected. Nothing was sent."""

    reason = "WRONG_PROCESS"

    def __init__(self) -> None:
        super().__init__(
            "this client was connected in another process, and neither its connection nor its threads outlive a fork:"
            " connect, and open the tracker, in this process"
        )


class WrongThread(DelayedTrackerError):
    """A callback of a future of ``add_soon`` made a call that would wait for its own thread. Nothing was sent."""

    reason = "WRONG_THREAD"

    def __init__(self) -> None:
        super().__init__(
            "this callback runs in the thread that sends the buffered adds, and the call would wait for that thread: use"
            " add_soon, or hand the call over to another thread"
        )


class ThreadNotStarted(DelayedTrackerError):
    """The blocking client could not start a thread that it needs for the call. The call can be made again."""

    reason = "THREAD_NOT_STARTED"

    def __init__(self) -> None:
        super().__init__(
            "no thread could be started: the program is ending, or has as many threads as it may have; end some or raise"
            " the limit (of the user, the container or the unit), and make the call again"
        )


_BY_REASON: Mapping[str, type[TrackerCallError]] = {
    "UNAUTHENTICATED": Unauthenticated,
    "PERMISSION_DENIED": PermissionDenied,
    "FENCED": Fenced,
    "SNAPSHOT_CONFLICT": Fenced,
    "TRACKER_NOT_OPEN": TrackerNotOpen,
    "IMPORT_UNDER_WAY": ImportRefused,
    "TRACKER_IN_MEMORY": ImportRefused,
    "SNAPSHOT_TOO_LARGE": ImportRefused,
    "CLEARED": Cleared,
    "CLOSED": Cleared,
    "BATCH_TOO_LARGE": BatchTooLarge,
    "LEASES_EXHAUSTED": Overloaded,
    "OVERLOADED": Overloaded,
    "QUOTA_EXCEEDED": Overloaded,
    "RECOVERING": Unavailable,
    "SHUTTING_DOWN": Unavailable,
    "TRACKER_BROKEN": Unavailable,
    "STORAGE_UNAVAILABLE": Unavailable,
    "TOPIC_NOT_FOUND": NotFound,
    "NAMESPACE_NOT_FOUND": NotFound,
    "MESSAGE_INDEX_INVALID": NotFound,
    "MESSAGE_NOT_FOUND": NotFound,
    "LEDGER_SOURCE_NOT_SET": QueryNotSupported,
    "PARTITIONED_TOPIC": QueryNotSupported,
    "BROKER_METADATA_MISSING": QueryNotSupported,
    "BROKER_METADATA_DISABLED": QueryNotSupported,
}

# For failures without a reason of the service: from gRPC itself, or from a proxy.
_BY_CODE: Mapping[grpc.StatusCode, type[TrackerCallError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.NOT_FOUND: TrackerNotOpen,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: CallTimedOut,
    grpc.StatusCode.DATA_LOSS: DataLoss,
}


# gRPC describes a call without an answer in terms of sockets. These messages give the meaning and the remedy.
_UNEXPLAINED: Mapping[grpc.StatusCode, str] = {
    grpc.StatusCode.UNAVAILABLE: "the service cannot be reached, or went away during the call ({}); try again",
    grpc.StatusCode.DEADLINE_EXCEEDED: "no answer in time ({}); the call may have been applied: try again",
    grpc.StatusCode.UNAUTHENTICATED: "the service, or a proxy, refuses the credential ({}); give another one",
    grpc.StatusCode.PERMISSION_DENIED: "the service, or a proxy, refuses the call ({}); ask its operator",
    grpc.StatusCode.UNIMPLEMENTED: "no delayed-tracker of this version answers there ({}); see which service listens",
}


_REASON_LOST = "Internal error from Core"
"""gRPC's asyncio client reports this if a stream ends while a request is being written; the status is lost."""


class FailedCall(Protocol):
    """A failed call with its status, in the form that both APIs of gRPC have."""

    def code(self) -> grpc.StatusCode:
        """Return the status code."""
        ...

    def details(self) -> str | None:
        """Return the status message."""
        ...

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """Return key and value of each trailer."""
        ...


def call_error(error: FailedCall) -> TrackerCallError:
    """Return the exception for a failed call: by the reason of the service, otherwise by the status code.

    Args:
        error: the exception of the gRPC call, or the call itself.
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
    if not reason and error.details() == _REASON_LOST:
        return Unavailable(
            "the stream ended while a request was being sent, and gRPC lost the reason; make the call again"
        )
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
                # The service did not write these details; the status code is enough.
                return []
    return []
