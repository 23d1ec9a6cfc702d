"""The settings name a storage and an add log: that of the storage, or one on the instance's own disk."""

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.process.backends import add_log_of
from delayed_tracker.service.server import TrackerServer
from delayed_tracker.storage.errors import AddLogMissing, UnknownStorageScheme
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.sqlite.add_log import SqliteAddLog
from tests.service.harness.settings import settings_of


def test_the_log_is_that_of_the_storage_unless_another_is_named(tmp_path):
    """A storage without a log takes one beside it, or does without."""
    shared = f"file://{tmp_path / 'shared'}"
    assert isinstance(add_log_of(settings_of(storage_url="memory:")), MemoryAddLog)
    assert isinstance(
        add_log_of(settings_of(storage_url=shared, add_log_url=f"sqlite:{tmp_path / 'adds'}")), SqliteAddLog
    )
    assert add_log_of(settings_of(storage_url=shared, durable_adds=False)) is None


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("", AddLogMissing, r"bucketSnapshotStorageUrl: .*'file' has no add log; set addLogUrl=sqlite:PATH"),
        ("file:///tmp/shared", AddLogMissing, "addLogUrl: .*'file' has no add log"),
        ("ftp:x", UnknownStorageScheme, "addLogUrl: .*'ftp' is not one of"),
        ("sqlite:", InvalidInput, "addLogUrl"),
    ],
)
def test_a_wrong_log_is_an_error_that_names_the_setting(tmp_path, url, error, message):
    """The error says which of the two URLs to change."""
    with pytest.raises(error, match=message):
        add_log_of(settings_of(storage_url=f"file://{tmp_path / 'shared'}", add_log_url=url))


@pytest.mark.parametrize("add_log_url", ["", "memory:"])
async def test_a_named_log_belongs_to_the_instance(add_log_url):
    """Catalogues record its id; a storage's own log has none there."""
    listening = {"grpc_listen_address": "127.0.0.1:0", "http_listen_address": "127.0.0.1:0"}
    server = TrackerServer(settings_of(storage_url="memory:", add_log_url=add_log_url, **listening))
    await server.trackers.start()
    try:
        assert bool(server.trackers.access.log_id) == bool(add_log_url)
    finally:
        await server.trackers.close()
