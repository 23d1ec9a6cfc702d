"""The status of each error."""

import base64
import urllib.parse

import grpc
import pytest

from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput, InvariantViolation
from delayed_tracker.ledger.errors import (
    BrokerMetadataMissing,
    LedgerFileInvalid,
    MessageIndexInvalid,
    MessageNotFound,
    NamespaceNotFound,
    PartitionedTopic,
    TopicNotFound,
)
from delayed_tracker.service import errors
from delayed_tracker.service.grpc.status import as_ranges, code_of, code_of_kind, status_of
from delayed_tracker.storage import errors as storage_errors
from delayed_tracker.storage.errors import (
    LogBroken,
    SnapshotConflict,
    SnapshotCorrupt,
    SnapshotNotFound,
    SnapshotTooLarge,
    StorageFormatUnsupported,
    StorageUnavailable,
)
from tests.service.harness.shell import KEY

_CASES = [
    (InvalidInput("epoch", 0, "give one"), "INVALID_ARGUMENT"),
    (errors.TrackerNotOpen(KEY), "NOT_FOUND"),
    (errors.Fenced(KEY, given_epoch=1, epoch=2, owner=""), "FAILED_PRECONDITION"),
    (errors.ImportRejected("cut short"), "INVALID_ARGUMENT"),
    (errors.Unauthenticated("the token has expired"), "UNAUTHENTICATED"),
    (errors.PermissionDenied("shop", "read", topic="t", subscription="s"), "PERMISSION_DENIED"),
    (errors.ImportUnderWay(KEY), "ABORTED"),
    (errors.TrackerInMemory(), "FAILED_PRECONDITION"),
    (errors.PollEnded(KEY, "CLEARED"), "ABORTED"),
    (errors.BatchTooLarge("ledger_ids", 3, 2), "RESOURCE_EXHAUSTED"),
    (errors.AnswerTooLarge("ranges", 2), "RESOURCE_EXHAUSTED"),
    (errors.LeasesExhausted("full", retry_after_ms=5), "RESOURCE_EXHAUSTED"),
    (errors.Overloaded("full", retry_after_ms=5), "RESOURCE_EXHAUSTED"),
    (errors.QuotaExceeded("shop", "callsPerSecond", retry_after_ms=5), "RESOURCE_EXHAUSTED"),
    (errors.Recovering("wait", retry_after_ms=5), "UNAVAILABLE"),
    (errors.ShuttingDown("bye", retry_after_ms=5), "UNAVAILABLE"),
    (errors.TrackerBroken(KEY), "UNAVAILABLE"),
    (StorageUnavailable("away"), "UNAVAILABLE"),
    (errors.LedgerSourceNotSet(), "FAILED_PRECONDITION"),
    (errors.BrokerMetadataDisabled(), "FAILED_PRECONDITION"),
    (errors.EntryTooLarge("1:2", 9, 8), "RESOURCE_EXHAUSTED"),
    (BrokerMetadataMissing("topic"), "FAILED_PRECONDITION"),
    (PartitionedTopic("topic", ["topic-partition-0"]), "FAILED_PRECONDITION"),
    (MessageIndexInvalid(-1), "NOT_FOUND"),
    (MessageNotFound("topic", 1), "NOT_FOUND"),
    (TopicNotFound("no such"), "NOT_FOUND"),
    (NamespaceNotFound("no such"), "NOT_FOUND"),
    (LedgerFileInvalid("bad"), "DATA_LOSS"),
    (SnapshotConflict("newer"), "ABORTED"),
    (SnapshotNotFound("gone"), "DATA_LOSS"),
    (SnapshotCorrupt("bad"), "DATA_LOSS"),
    (SnapshotTooLarge("an entry"), "RESOURCE_EXHAUSTED"),
    (StorageFormatUnsupported("newer"), "FAILED_PRECONDITION"),
    (LogBroken("a failed fsync"), "UNAVAILABLE"),
    (InvariantViolation("ours"), "INTERNAL"),
    (ZeroDivisionError("ours"), "INTERNAL"),
]


@pytest.mark.parametrize(("error", "code"), _CASES, ids=[type(error).__name__ for error, _ in _CASES])
def test_each_error_has_its_code_and_reason(error, code):
    """The code states the kind of remedy, and ErrorInfo the reason; INTERNAL has no details."""
    assert code_of(error) is grpc.StatusCode[code]
    status = status_of(error)
    assert status.code == grpc.StatusCode[code].value[0]
    if code == "INTERNAL":
        assert "ours" not in str(status)
    else:
        assert status.message == error.message
        assert error.reason in str(status.details[0])


def test_every_error_of_the_service_is_mapped():
    """Every error class has a status code."""
    kinds = {type(error) for error, _ in _CASES}
    bases = {errors.ServiceError, errors.Retryable}
    ours = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, DelayedTrackerError) and kind is not DelayedTrackerError
    }
    assert ours - bases <= kinds


def test_every_error_of_the_storage_is_mapped_or_refuses_the_start():
    """An error that a call can end with has a status code other than INTERNAL, with a reason and a remedy."""
    at_start = {
        storage_errors.StorageInUse,
        storage_errors.UnknownStorageScheme,
        storage_errors.StorageBackendMissing,
        storage_errors.AddLogMissing,
    }
    ours = {
        kind
        for kind in vars(storage_errors).values()
        if isinstance(kind, type) and issubclass(kind, storage_errors.StorageError)
    }
    assert ours - {storage_errors.StorageError} - at_start == {
        kind for kind in ours if code_of_kind(kind) is not grpc.StatusCode.INTERNAL
    }


@pytest.mark.parametrize(
    ("offsets", "short"), [([], ""), ([3], "3"), ([3, 7, 8, 9], "3,7-9"), ([0, 1, 3, 4], "0-1,3-4")]
)
def test_offsets_are_written_as_ranges(offsets, short):
    """Consecutive offsets become a range."""
    assert as_ranges(offsets) == short


@pytest.mark.parametrize("letter", ["a", "\U0001f600", "\x1b", "漢"])
@pytest.mark.parametrize(
    "error_of",
    [
        pytest.param(lambda name: errors.TrackerNotOpen(errors.TrackerKey(name, name), stored=False), id="not open"),
        pytest.param(
            lambda name: errors.Fenced(errors.TrackerKey(name, name), given_epoch=1, epoch=2, owner=name), id="fenced"
        ),
        pytest.param(lambda name: InvalidInput("owner", name, "give a shorter one"), id="a bad value"),
        pytest.param(lambda name: MessageNotFound(name, 1), id="a topic"),
    ],
)
def test_a_status_fits_the_trailers_of_any_client(letter, error_of):
    """Most clients refuse more than 8 KiB of metadata, some of them at random, so no name makes a status longer."""
    status = status_of(error_of(letter * 4_096), "r" * 128)
    # The size on the wire: the message is percent-encoded, the details are in base64.
    size = len(urllib.parse.quote(status.message)) + len(base64.b64encode(status.SerializeToString()))
    assert size < 8_000
