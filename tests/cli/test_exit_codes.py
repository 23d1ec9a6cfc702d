"""Tests that the exit codes stay the same."""

import pytest

from delayed_tracker.bookkeeper.metadata.errors import ZooKeeperUnavailable
from delayed_tracker.cli.entry import run_installed
from delayed_tracker.cli.exit_codes import ExitCode, exit_code_of
from delayed_tracker.client import PermissionDenied, TlsFailed, TrackerCallError, Unauthenticated
from delayed_tracker.cluster.errors import (
    BackupInvalid,
    BackupUnusable,
    BrokerUnavailable,
    ClusterNodeInvalid,
    CursorChanged,
    GcStateInvalid,
    GcStateUnusable,
    TooManyTrackers,
    TopicLoaded,
    TopicTerminated,
)
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.service.grpc.status import CODES
from delayed_tracker.service.process.listen import AddressInUse, AddressUnusable
from delayed_tracker.service.settings.address import Address
from delayed_tracker.service.settings.load import InvalidSettings
from delayed_tracker.storage.errors import (
    AddLogMissing,
    LogBroken,
    SnapshotCorrupt,
    SnapshotNotFound,
    StorageBackendMissing,
    StorageFormatUnsupported,
    StorageInUse,
    StorageUnavailable,
    UnknownStorageScheme,
)

ADDRESS = Address("127.0.0.1", 1)
FAILURES = {"INTERNAL", "SNAPSHOT_NOT_FOUND", "SNAPSHOT_TOO_LARGE"}
"""Reasons after which neither the command nor its surroundings can be changed by a script."""


def test_numbers_never_change():
    """Scripts compare with these numbers."""
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "FAILURE": 1,
        "USAGE": 2,
        "ADDRESS_IN_USE": 3,
        "STORAGE_UNUSABLE": 4,
        "SERVICE_UNAVAILABLE": 5,
        "TRACKER_CONFLICT": 6,
        "BAD_DATA": 7,
        "ACCESS_REFUSED": 8,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidSettings([]), 2),
        (InvalidInput("field", 1, "give 2"), 2),
        (UnknownStorageScheme("x"), 2),
        (StorageBackendMissing("x"), 2),
        (AddressUnusable("key", ADDRESS, "why"), 2),
        (AddressInUse("key", ADDRESS), 3),
        (StorageInUse("x"), 4),
        (StorageFormatUnsupported("x"), 4),
        (StorageUnavailable("x"), 4),
        (SnapshotCorrupt("x"), 4),
        (AddLogMissing("x"), 2),
        (LogBroken("x"), 4),
        (TopicLoaded("persistent://t/ns/x", "http://broker:8080"), 6),
        (CursorChanged("x"), 6),
        (TopicTerminated("persistent://t/ns/x"), 2),
        (BrokerUnavailable("http://broker:8080", "x"), 5),
        (ZooKeeperUnavailable("/", "x"), 5),
        (ClusterNodeInvalid("x"), 7),
        (BackupInvalid("x"), 7),
        (BackupUnusable("x"), 4),
        (GcStateInvalid("x"), 7),
        (GcStateUnusable("x"), 4),
        (TooManyTrackers("x"), 2),
        (TlsFailed("x"), 8),
        (Unauthenticated("x"), 8),
        (PermissionDenied("x"), 8),
        (SnapshotNotFound("x"), 1),
        (DelayedTrackerError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: DelayedTrackerError, code: int):
    """Errors with different remedies have different exit codes."""
    assert exit_code_of(error) == code


@pytest.mark.parametrize("reason", sorted({kind.reason for kind, _ in CODES} - FAILURES))
def test_each_answer_of_the_service_has_an_exit_code(reason: str):
    """A supervisor learns from the number what it can do; only a few have none of their own."""
    error = TrackerCallError("x", reason=reason)
    assert exit_code_of(error) is not ExitCode.FAILURE


def test_an_interrupt_while_packages_are_imported_ends_quietly(capsys):
    """As at any later time: status 130 and no message."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        run_installed(interrupted, "delayed-tracker", "")
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""
