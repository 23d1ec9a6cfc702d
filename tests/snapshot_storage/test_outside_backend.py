"""A backend outside the project is found by its entry point: files in a directory, under ``shelf``."""

import sys
from pathlib import Path

import pytest

from delayed_tracker.service.clock import ManualClock
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageInUse
from delayed_tracker.storage.registry import open_storage, storage_schemes
from delayed_tracker.storage.testing.contract import CONTRACT_CHECKS
from tests.service.harness.shell import KEY, bucketful, make_registry
from tests.snapshot_storage.sqlite.sqlite_files import create

SHELF = Path(__file__).with_name("shelf")


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """Install the backend as pip does: a module and its dist-info on the path."""
    monkeypatch.syspath_prepend(SHELF)
    yield
    sys.modules.pop("shelf_backend", None)


def test_its_scheme_is_known():
    """The scheme is listed beside ours."""
    assert {"memory", "shelf", "sqlite"} <= set(storage_schemes())


@pytest.mark.parametrize("check", CONTRACT_CHECKS, ids=lambda check: check.__name__)
async def test_it_keeps_the_contract(tmp_path, check):
    """The backend passes every check of the contract."""
    await check(lambda name: open_storage(f"shelf:{tmp_path / name}"))


async def test_it_is_opened_once(tmp_path):
    """A second opener is refused."""
    first, second = (open_storage(f"shelf:{tmp_path}") for _ in range(2))
    await first.start()
    with pytest.raises(StorageInUse):
        await second.start()
    await first.close()
    await second.start()
    await second.close()


async def test_it_notices_damage(tmp_path):
    """One changed byte in a file is detected."""
    storage = open_storage(f"shelf:{tmp_path}")
    await storage.start()
    bucket_id = await create(storage, [b"segment"])
    path = tmp_path / "snapshots" / str(bucket_id)
    path.write_bytes(path.read_bytes().replace(b'"epoch": 1', b'"epoch": 2'))
    with pytest.raises(SnapshotCorrupt):
        await storage.get_bucket_snapshot_segments(bucket_id, 1, 1)
    await storage.close()


async def test_trackers_live_on_it(tmp_path):
    """A registry on this backend seals, closes, and recovers."""
    clock = ManualClock()
    for expected in (0, 5):
        registry = make_registry(open_storage(f"shelf:{tmp_path}"), clock)
        await registry.start()
        opened = await registry.open(KEY, owner="tests", mark_delete=None)
        assert opened.recovered_count == expected
        if not expected:
            registry.host(KEY).add(opened.epoch, bucketful(clock.now_ms(), 1))
            registry.host(KEY).add(opened.epoch, bucketful(clock.now_ms(), 2, count=1))
        await registry.close_tracker(KEY, opened.epoch)
        await registry.close()
