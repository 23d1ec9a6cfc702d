"""The URL of a storage leads to the add log beside it."""

import sys

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.errors import AddLogMissing, UnknownStorageScheme
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.sqlite.add_log import SqliteAddLog
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog


async def test_each_of_our_storages_has_a_log(tmp_path):
    """Each scheme gives its log, not started; faulty wraps the log of the URL behind it."""
    assert isinstance(open_add_log("memory:"), MemoryAddLog)
    assert isinstance(open_add_log(f"sqlite:{tmp_path / 'db'}"), SqliteAddLog)
    wrapped = open_add_log(f"faulty:error_before=0.5,topic=a%3Bb;faulty:;sqlite:{tmp_path / 'a;b'}")
    assert isinstance(wrapped, FaultyAddLog)
    assert (wrapped.plan.error_before, wrapped.plan.topic) == (0.5, "a;b")
    assert list(tmp_path.iterdir()) == []
    await wrapped.start()
    assert (tmp_path / "a;b.add-log").exists()
    await wrapped.close()


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        (
            "ftp:/x",
            UnknownStorageScheme,
            r"'ftp' is not one of az, bookkeeper, file, gs, memory, .*such as sqlite:PATH",
        ),
        ("/var/lib/tracker.db", InvalidInput, "write SCHEME:REST"),
        ("memory:x", InvalidInput, "write memory: alone"),
        ("faulty:seed=1", InvalidInput, "write faulty:OPTIONS;URL"),
        ("faulty:exit=lunch;memory:", InvalidInput, "lunch"),
    ],
)
def test_wrong_urls_are_named_with_a_remedy(url, error, message):
    """The messages are those of the storage."""
    with pytest.raises(error, match=message):
        open_add_log(url)
    with pytest.raises(error, match=message):
        open_storage(url)


def test_a_storage_without_a_log_says_so(tmp_path, monkeypatch):
    """The message names the setting and the storages that have a log, without the one for tests."""
    (tmp_path / "logless.py").write_text("from delayed_tracker.storage.memory import open_memory as open_logless\n")
    metadata = tmp_path / "logless-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: logless\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[delayed_tracker.snapshot_storage]\nlogless = logless:open_logless\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "logless", raising=False)
    assert open_storage("logless:")
    for url in ("logless:", "faulty:seed=1;logless:"):
        with pytest.raises(
            AddLogMissing,
            match=r"'logless' has no add log; set addLogUrl=sqlite:PATH, or trackerDurableAdds=false, .*: bookkeeper, memory, sqlite$",
        ):
            open_add_log(url)
