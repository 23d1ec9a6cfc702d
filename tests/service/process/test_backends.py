"""The settings name a storage and an add log: that of the storage, or one on the instance's own disk."""

import sys

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.process.backends import add_log_of, require_urls, storage_of
from delayed_tracker.service.server import TrackerServer
from delayed_tracker.storage.errors import AddLogMissing, StorageBackendMissing, UnknownStorageScheme
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


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"storage_url": "tape:0"}, UnknownStorageScheme, "bucketSnapshotStorageUrl: .*'tape' is not one of az, bookk"),
        (
            {"storage_url": "file:dir"},
            InvalidInput,
            "bucketSnapshotStorageUrl: 'file:dir' is not valid; write file:///",
        ),
        ({"storage_url": "file:///dir"}, AddLogMissing, "bucketSnapshotStorageUrl: .*set addLogUrl=sqlite:PATH"),
        ({"add_log_url": "tape:0"}, UnknownStorageScheme, "addLogUrl: .*'tape' is not one of az, bookkeeper"),
        ({"ledger_source_url": "foo:bar"}, InvalidInput, "ledgerSourceUrl: 'foo:bar' .*; known schemes are bookkeeper"),
        ({"ledger_source_url": "ledger:/a ledger:/b?c=d"}, InvalidInput, "ledgerSourceUrl: .*; options of ledger are"),
    ],
)
def test_urls_are_refused_by_what_they_say(given, error, message):
    """Nothing is opened for it. The error has the setting, its value and the remedy."""
    with pytest.raises(error, match=message):
        require_urls(settings_of(**given))


def test_urls_of_places_that_are_not_there_yet_are_accepted(tmp_path):
    """The places may be on another machine; nothing is made for them."""
    require_urls(
        settings_of(
            storage_url="bookkeeper:zk://nowhere.invalid:2181/ledgers",
            add_log_url=f"sqlite:{tmp_path / 'none' / 'adds'}",
            ledger_source_url=f"ledger:{tmp_path / 'none'} bookkeeper+zk:nowhere.invalid:2181",
        )
    )
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_not_installed_is_missed_when_the_service_starts(monkeypatch):
    """The settings may be for another machine."""
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    monkeypatch.delitem(sys.modules, "delayed_tracker.storage.objects.cloud", raising=False)
    given = settings_of(storage_url="s3://bucket/place", add_log_url="memory:")
    require_urls(given)
    with pytest.raises(StorageBackendMissing, match="'obstore"):
        storage_of(given)
