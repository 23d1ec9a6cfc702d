"""The limit of open files is raised and divided among ports and storage."""

import resource

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.process.open_files import (
    OPEN_FILES_MIN,
    ConnectionCaps,
    OpenFilesLimitTooLow,
    open_files_limit,
    raise_open_files_limit,
)
from delayed_tracker.service.server import TrackerServer
from tests.service.harness.settings import settings_of


@pytest.mark.parametrize(
    ("limit", "caps"),
    [
        (128, ConnectionCaps(grpc=48, http=16)),
        (1_024, ConnectionCaps(grpc=576, http=192)),
        (20_000, ConnectionCaps(grpc=10_000, http=256)),
        (2**20, ConnectionCaps(grpc=10_000, http=256)),
    ],
)
def test_ports_share_what_storage_leaves(limit: int, caps: ConnectionCaps):
    """By default connections are bounded by the limit of open files and by a maximum for memory."""
    assert ConnectionCaps.within(limit, storage_operations_max=128) == caps


def test_configured_caps_are_kept():
    """The other port gets what the configured one leaves."""
    assert ConnectionCaps.within(1_024, storage_operations_max=128, grpc=700) == ConnectionCaps(grpc=700, http=68)
    assert ConnectionCaps.within(1_024, storage_operations_max=128, http=2) == ConnectionCaps(grpc=766, http=2)
    assert ConnectionCaps.within(1_024, storage_operations_max=128, grpc=3, http=5) == ConnectionCaps(grpc=3, http=5)


@pytest.mark.parametrize(
    ("grpc", "http", "key"),
    [(768, 0, "grpcConnectionsMax"), (0, 768, "httpConnectionsMax"), (500, 400, "grpcConnectionsMax")],
)
def test_caps_beyond_the_limit_are_refused(grpc: int, http: int, key: str):
    """The error names the key, the limit and the number of files left."""
    with pytest.raises(InvalidInput, match="of the limit of 1024 open files 768 are left") as refused:
        ConnectionCaps.within(1_024, storage_operations_max=128, grpc=grpc, http=http)
    assert refused.value.field == key


def test_what_is_open_already_is_not_given_to_connections():
    """Files that are open already are not available to ports, and a start without any left is refused."""
    caps = ConnectionCaps.within(1_024, storage_operations_max=128, open_count=664)
    assert caps == ConnectionCaps(grpc=126, http=42)
    with pytest.raises(OpenFilesLimitTooLow, match="the limit of open files is 1024, the service needs 1172"):
        ConnectionCaps.within(1_024, storage_operations_max=128, open_count=964)


def test_a_limit_no_service_can_work_with_is_refused():
    """A start with a limit that is too low is refused."""
    with pytest.raises(OpenFilesLimitTooLow, match="the limit of open files is 127, the service needs 128"):
        ConnectionCaps.within(OPEN_FILES_MIN - 1, storage_operations_max=1)


def test_the_soft_limit_is_raised_to_the_hard_one():
    """A limit that is already at the maximum is not changed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        for _ in range(2):
            raise_open_files_limit()
            expected = 2**20 if hard == resource.RLIM_INFINITY else min(hard, 2**20)
            assert open_files_limit() == expected
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_service_that_cannot_have_its_connections_does_not_start(monkeypatch):
    """The start is refused before anything is opened, with any soft limit."""
    settings = settings_of(storage_url="memory:", grpc_connections_max=500)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    with pytest.raises(InvalidInput, match="of the limit of 256 open files 128 are left"):
        await TrackerServer(settings).start()
