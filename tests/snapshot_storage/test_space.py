"""A storage reports the space that it uses and the space that is left."""

import os

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.capabilities import ReportsSpace, StorageSpace
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.objects.file_objects import SPACE_AGE_MAX_S, FileObjects
from delayed_tracker.storage.objects.opening import FileStorage
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage, parse_fault_plan
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from tests.snapshot_storage.sqlite.sqlite_files import create


async def test_sqlite_counts_its_file_and_its_log(tmp_path):
    storage = SqliteStorage(tmp_path / "tracker.db")
    await storage.start()
    before = await storage.space()
    await create(storage, [b"x" * 100_000])
    after = await storage.space()
    files = ("tracker.db", "tracker.db-wal")
    assert after.used_bytes == sum((tmp_path / name).stat().st_size for name in files)
    assert after.used_bytes >= before.used_bytes + 100_000
    system = os.statvfs(tmp_path)
    assert 0 < after.free_bytes <= system.f_blocks * system.f_frsize
    await storage.close()


async def test_sqlite_says_so_where_it_cannot_look(tmp_path):
    storage = SqliteStorage(tmp_path / "tracker.db")
    with pytest.raises(StorageUnavailable, match="not open"):
        await storage.space()


async def test_files_are_counted_once_a_minute(tmp_path):
    """Counting takes a look at every file, so that the answer may be a minute old; the free space is that of now."""
    now_s = 0.0
    objects = FileObjects(tmp_path / "files", clock=lambda: now_s)
    storage = FileStorage(objects)
    assert isinstance(storage, ReportsSpace)
    with pytest.raises(StorageUnavailable, match="not open"):
        await storage.space()
    await storage.start()
    before = await storage.space()
    await create(storage, [b"x" * 100_000])
    now_s = SPACE_AGE_MAX_S - 1
    assert (await storage.space()).used_bytes == before.used_bytes
    now_s = SPACE_AGE_MAX_S
    after = await storage.space()
    assert after.used_bytes == sum(path.stat().st_size for path in (tmp_path / "files").rglob("*") if path.is_file())
    assert after.used_bytes >= before.used_bytes + 100_000
    assert 0 < after.free_bytes <= os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    await storage.close()


def test_a_storage_in_memory_knows_no_bounds():
    assert not isinstance(ObjectStorage(MemoryObjects()), ReportsSpace)
    assert not isinstance(MemoryStorage(), ReportsSpace)


async def test_little_space_can_be_planned(tmp_path):
    storage = FaultyStorage(SqliteStorage(tmp_path / "tracker.db"), parse_fault_plan("free_bytes=7"))
    await storage.start()
    used_bytes = (tmp_path / "tracker.db").stat().st_size + (tmp_path / "tracker.db-wal").stat().st_size
    assert await storage.space() == StorageSpace(used_bytes, 7)
    storage.plan = FaultPlan()
    assert (await storage.space()).free_bytes > 7
    await storage.close()
    with pytest.raises(StorageUnavailable):
        await FaultyStorage(MemoryStorage(), FaultPlan()).space()
    with pytest.raises(InvalidInput, match="free_bytes"):
        parse_fault_plan("free_bytes=-1")
