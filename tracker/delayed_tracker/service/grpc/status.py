"""Maps errors to gRPC statuses with google.rpc details. This is the only mapping of errors to codes.

Details travel in a trailer, and trailers are small: gRPC begins to refuse them at 8 KiB. So only the first few bad
offsets are rows of BadRequest. Up to ``OFFSETS_REPORTED_MAX`` are in the metadata of ErrorInfo as ranges, ``offsets`` =
"3,7-9", with the number of all bad offsets in ``offset_count``.
"""

from collections.abc import Sequence
from typing import Final

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from delayed_tracker.core.values.errors import VALUE_BYTES_MAX, DelayedTrackerError, InvalidInput, without_middle
from delayed_tracker.ledger.errors import (
    BrokerMetadataMissing,
    LedgerError,
    LedgerNotFound,
    MessageIndexInvalid,
    MessageNotFound,
    MetadataUnavailable,
    PartitionedTopic,
    SubscriptionNotFound,
    TopicNotFound,
)
from delayed_tracker.service.errors import (
    AnswerTooLarge,
    BatchTooLarge,
    BrokerMetadataDisabled,
    EntryTooLarge,
    Fenced,
    ImportRejected,
    ImportUnderWay,
    LeasesExhausted,
    LedgerSourceNotSet,
    Overloaded,
    PermissionDenied,
    PollEnded,
    QuotaExceeded,
    Recovering,
    Retryable,
    ShuttingDown,
    TrackerBroken,
    TrackerInMemory,
    TrackerNotOpen,
    Unauthenticated,
)
from delayed_tracker.storage.errors import (
    LogBroken,
    SnapshotConflict,
    SnapshotCorrupt,
    SnapshotNotFound,
    SnapshotTooLarge,
    StorageFormatUnsupported,
    StorageUnavailable,
)

ERROR_DOMAIN: Final = "delayed-tracker"
STORAGE_RETRY_AFTER_MS: Final = 1_000
VIOLATION_ROWS_MAX: Final = 10
MESSAGE_BYTES_MAX: Final = 1_000
"""A longer message loses its middle. The trailer has it twice, once with three bytes for each non-ASCII character."""

CODES: Final[tuple[tuple[type[DelayedTrackerError], grpc.StatusCode], ...]] = (
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (PermissionDenied, grpc.StatusCode.PERMISSION_DENIED),
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (ImportRejected, grpc.StatusCode.INVALID_ARGUMENT),
    (TrackerNotOpen, grpc.StatusCode.NOT_FOUND),
    (Fenced, grpc.StatusCode.FAILED_PRECONDITION),
    (TrackerInMemory, grpc.StatusCode.FAILED_PRECONDITION),
    (ImportUnderWay, grpc.StatusCode.ABORTED),
    (PollEnded, grpc.StatusCode.ABORTED),
    (BatchTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (AnswerTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (LeasesExhausted, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (QuotaExceeded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Recovering, grpc.StatusCode.UNAVAILABLE),
    (ShuttingDown, grpc.StatusCode.UNAVAILABLE),
    (TrackerBroken, grpc.StatusCode.UNAVAILABLE),
    (StorageUnavailable, grpc.StatusCode.UNAVAILABLE),
    (LogBroken, grpc.StatusCode.UNAVAILABLE),
    (EntryTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (BrokerMetadataDisabled, grpc.StatusCode.FAILED_PRECONDITION),
    (LedgerSourceNotSet, grpc.StatusCode.FAILED_PRECONDITION),
    (BrokerMetadataMissing, grpc.StatusCode.FAILED_PRECONDITION),
    (PartitionedTopic, grpc.StatusCode.FAILED_PRECONDITION),
    (MessageIndexInvalid, grpc.StatusCode.NOT_FOUND),
    (MessageNotFound, grpc.StatusCode.NOT_FOUND),
    (TopicNotFound, grpc.StatusCode.NOT_FOUND),
    (SubscriptionNotFound, grpc.StatusCode.NOT_FOUND),
    (LedgerNotFound, grpc.StatusCode.NOT_FOUND),
    (MetadataUnavailable, grpc.StatusCode.UNAVAILABLE),
    (LedgerError, grpc.StatusCode.DATA_LOSS),
    (SnapshotConflict, grpc.StatusCode.ABORTED),
    (SnapshotNotFound, grpc.StatusCode.DATA_LOSS),
    (SnapshotCorrupt, grpc.StatusCode.DATA_LOSS),
    (SnapshotTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (StorageFormatUnsupported, grpc.StatusCode.FAILED_PRECONDITION),
)


def code_of(error: Exception) -> grpc.StatusCode:
    """Return the status code of an error; INTERNAL for faults of the service itself."""
    return code_of_kind(type(error))


def code_of_kind(kind: type[Exception]) -> grpc.StatusCode:
    """Return the status code of errors of a class; INTERNAL for faults of the service itself."""
    return next((code for base, code in CODES if issubclass(kind, base)), grpc.StatusCode.INTERNAL)


def status_of(error: Exception, request_id: str = "") -> status_pb2.Status:
    """Return the whole status: code, one sentence, ErrorInfo and further details. INTERNAL gives no reason.

    Args:
        error: the error that ended the call.
        request_id: identifies the call in log lines; empty if they do not name it.
    """
    code = code_of(error)
    if code is grpc.StatusCode.INTERNAL or not isinstance(error, DelayedTrackerError):
        message = "internal error; see the log of the service"
        details: list[Message] = [error_details_pb2.ErrorInfo(reason=DelayedTrackerError.reason, domain=ERROR_DOMAIN)]
    else:
        message = without_middle(error.message, MESSAGE_BYTES_MAX)
        metadata = {key: without_middle(value, VALUE_BYTES_MAX) for key, value in error.metadata.items()}
        if isinstance(error, InvalidInput) and error.offsets:
            metadata |= {"offsets": as_ranges(error.offsets), "offset_count": str(error.offset_count)}
        details = [error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN, metadata=metadata)]
        details += _helpful_details(error)
    if request_id:
        details.append(error_details_pb2.RequestInfo(request_id=request_id))
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status


def _helpful_details(error: DelayedTrackerError) -> list[Message]:
    match error:
        case InvalidInput():
            bad = error_details_pb2.BadRequest()
            for row in error.violations[:VIOLATION_ROWS_MAX]:
                bad.field_violations.add(field=row.field, description=row.description)
            return [bad]
        case TrackerNotOpen():
            resource = error_details_pb2.ResourceInfo(
                resource_type="delayed_tracker.v1.Tracker",
                resource_name=str(error.key),
                description="see ListTrackers for those there are"
                if error.stored is False
                else "open it with OpenTracker",
            )
            return [resource]
        case Retryable():
            return [_retry_info(error.retry_after_ms)]
        case StorageUnavailable():
            return [_retry_info(STORAGE_RETRY_AFTER_MS)]
        case _:
            return []


def _retry_info(after_ms: int) -> error_details_pb2.RetryInfo:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(after_ms)
    return retry


def as_ranges(offsets: Sequence[int]) -> str:
    """Return ascending offsets as ranges: "3,7-9"."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
