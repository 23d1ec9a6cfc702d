"""A storage has one opener at a time, under any name of the file; the lock ends with its process."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from delayed_tracker.storage.errors import StorageInUse, StorageUnavailable
from delayed_tracker.storage.sqlite.storage import open_sqlite
from tests.snapshot_storage.sqlite.sqlite_files import create, started

HOLDER = textwrap.dedent(
    """
    import asyncio, sys
    from delayed_tracker.storage.sqlite.storage import open_sqlite

    async def hold():
        storage = open_sqlite(sys.argv[1])
        await storage.start()
        print("open", flush=True)
        await asyncio.Event().wait()

    asyncio.run(hold())
    """
)


async def test_a_second_opener_in_this_process_is_refused(tmp_path):
    """A second opener is refused, also through a symbolic link; after the first has closed, the next may open."""
    path = tmp_path / "db"
    link = tmp_path / "link"
    async with started(path) as storage:
        link.symlink_to(path)
        for name in (path, link):
            with pytest.raises(StorageInUse, match=f"this process has {path} open already"):
                await open_sqlite(str(name)).start()
        with pytest.raises(StorageInUse, match="close it first"):
            await storage.start()
    async with started(path):
        pass


@pytest.mark.slow
async def test_another_process_keeps_us_out_until_it_is_killed(tmp_path):
    """The message names the process; after kill -9 the file opens at once."""
    path = tmp_path / "db"
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLDER, str(path), stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"open\n"
        with pytest.raises(StorageInUse, match=f"process {holder.pid} has {path} open already"):
            await open_sqlite(str(path)).start()
    finally:
        holder.kill()
    assert await holder.wait() == -signal.SIGKILL
    async with started(path):
        assert (tmp_path / "db.lock").read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("alias", ["hard link", "renamed", "renamed beside its lock"])
async def test_a_file_is_opened_once_under_all_its_names(tmp_path, alias):
    """A hard link in another directory, and the file itself after a rename, are refused; the first opener continues."""
    path, other = tmp_path / "db", tmp_path / "elsewhere" / "db"
    other.parent.mkdir()
    async with started(path) as storage:
        if alias == "hard link":
            other.hardlink_to(path)
        else:
            path.rename(other)
        if alias == "renamed beside its lock":
            other.with_name("db.lock").touch()
        with pytest.raises(StorageInUse, match=f"this process has {other} open already under another name"):
            await open_sqlite(str(other)).start()
        if alias != "hard link":
            other.rename(path)
        await create(storage, [b"1"])
        assert record_locks_of(path) > 0
    async with started(path) as again:
        assert len(await again.list_bucket_snapshots("t", "c")) == 1


@pytest.mark.slow
async def test_another_process_keeps_us_out_of_a_hard_link(tmp_path):
    """The message shows how to find the process; after kill -9 the file opens at once."""
    path, link = tmp_path / "db", tmp_path / "link"
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLDER, str(path), stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"open\n"
        link.hardlink_to(path)
        with pytest.raises(StorageInUse, match=f"another process has {link} open already.*fuser {link}"):
            await open_sqlite(str(link)).start()
        assert not link.with_name("link.lock").exists()
    finally:
        holder.kill()
    assert await holder.wait() == -signal.SIGKILL
    async with started(path):
        pass


def record_locks_of(path):
    """Return the number of record locks that this process has on a file."""
    inode = str(path.stat().st_ino)
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(
        "POSIX" in row and str(os.getpid()) in row and any(word.rpartition(":")[2] == inode for word in row)
        for row in rows
    )


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
async def test_a_file_that_was_taken_away_is_read_on_and_refuses_writes(tmp_path, replaced):
    """Writes to a file without its name are refused, as the next start would not read them, until it is put back."""
    path, aside = tmp_path / "db", tmp_path / "aside"
    async with started(path) as storage:
        bucket_id = await create(storage, [b"1"])
        path.rename(aside)
        if replaced:
            path.write_bytes(b"")
        with pytest.raises(StorageUnavailable, match="removed or replaced"):
            await create(storage, [b"2"])
        with pytest.raises(StorageUnavailable, match="removed or replaced"):
            await storage.replace("t", "c", remove=(), add=(), epoch=1)
        assert await storage.get_bucket_snapshot_segments(bucket_id, 1, 1) == [b"1"]
        aside.rename(path)
        await create(storage, [b"2"])
        assert len(await storage.list_bucket_snapshots("t", "c")) == 2
