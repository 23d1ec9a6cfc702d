"""The add log in SQLite beyond its contract: damage, failed writes, space, and files of other programs."""

import asyncio
import os
import resource
import shutil
import sqlite3
import threading

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.add_log import LogExtent, LoggedRecord, LogPage
from delayed_tracker.storage.errors import LogBroken, StorageFormatUnsupported, StorageInUse, StorageUnavailable
from delayed_tracker.storage.sqlite.add_log import open_sqlite_log
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from tests.snapshot_storage.add_log.log_files import append, part, records_of, started
from tests.snapshot_storage.sqlite.sqlite_files import ask

MEBIBYTE = 1 << 20


# --- rows and damage ---


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE records SET payload = payload || x'00' WHERE first_number = 3",
        "UPDATE records SET payload = 'text' WHERE first_number = 3",
        "UPDATE records SET crc32c = crc32c + 1 WHERE first_number = 3",
        "UPDATE records SET count = 1000000000 WHERE first_number = 3",
        "UPDATE records SET count = 'x' WHERE first_number = 3",
        "UPDATE records SET first_number = 4 WHERE first_number = 3",
        "UPDATE records SET tracker_id = 2 WHERE first_number = 3",
        "DELETE FROM records WHERE first_number = 3",
    ],
)
async def test_a_damaged_row_is_reported_and_hides_nothing(tmp_path, damage):
    """Its numbers are a corrupt range, every other record is read, and a cut removes it."""
    path = tmp_path / "log"
    async with started(path) as log:
        for first in (1, 3, 5):
            await append(log, part(first, b"%d" % first, b"%d" % (first + 1)))
        await append(log, part(1, b"other", cursor="other"))
    ask(path, damage)
    first, second, fifth, sixth = (LoggedRecord(number, b"%d" % number) for number in (1, 2, 5, 6))
    async with started(path) as log:
        assert await log.read("t", "c", after=0, bytes_max=100) == LogPage(
            (first, second, fifth, sixth), ((3, 4),), True
        )
        extent = await log.take_over("t", "c", epoch=9, writer="next")
        assert extent.page == LogPage((first, second, fifth, sixth), ((3, 4),), True)
        assert extent.page.above(2) == LogPage((fifth, sixth), ((3, 4),), True)
        assert extent.page.above(3) == LogPage((fifth, sixth), ((4, 4),), True)
        assert extent.page.above(5) == LogPage((sixth,), (), True)
        assert await log.read("t", "c", after=3, bytes_max=1) == LogPage((fifth,), ((4, 4),), False)
        # The range belongs to the page with the record behind it: no page but the last ends with a range.
        assert await log.read("t", "c", after=1, bytes_max=1) == LogPage((second,), (), False)
        assert await records_of(log, "other") == [b"other"]
        await log.cut([("t", "c", 4)])
        assert await records_of(log) == [b"5", b"6"]
        await log.cut([("t", "c", 6)])
        assert await log.extents() == [LogExtent("t", "other", 1, 1, 5)]


async def test_damage_at_the_end_is_a_range_of_the_last_page(tmp_path):
    """The last numbers are known although their rows are gone."""
    path = tmp_path / "log"
    async with started(path) as log:
        await append(log, part(1, b"1"))
        await append(log, part(2, b"2", b"3"))
    ask(path, "DELETE FROM records WHERE first_number = 2")
    async with started(path) as log:
        assert await log.read("t", "c", after=0, bytes_max=1) == LogPage((LoggedRecord(1, b"1"),), ((2, 3),), True)
        assert await log.read("t", "c", after=1, bytes_max=1) == LogPage((), ((2, 3),), True)


async def test_many_bytes_of_records_are_left_to_be_read(tmp_path):
    """The writer's thread, which all trackers share, reads a few records at most."""
    async with started(tmp_path / "log") as log:
        await append(log, part(1, bytes(64 * 1024), b"x"))
        extent = await log.take_over("t", "c", epoch=9, writer="next")
        assert (extent.record_bytes, extent.page) == (64 * 1024 + 1, None)


async def test_a_large_part_takes_rows_of_a_bounded_size(tmp_path):
    """A row has records of up to about a mebibyte, or a single larger one."""
    path = tmp_path / "log"
    records = [bytes([number]) * 300_000 for number in range(20)] + [bytes(2 * MEBIBYTE), b"last"]
    async with started(path) as log:
        await append(log, part(1, *records))
        assert await records_of(log) == records
    rows = ask(path, "SELECT count, length(payload) FROM records ORDER BY first_number")
    assert [count for count, _ in rows] == [3, 3, 3, 3, 3, 3, 2, 1, 1]
    assert all(count == 1 or size < MEBIBYTE + 4_096 for count, size in rows)


# --- writing ---


async def test_the_event_loop_goes_on_while_a_commit_waits(tmp_path):
    """A slow commit blocks neither the event loop nor reads, which do not see it before its end."""
    async with started(tmp_path / "log") as log:
        await append(log, part(1, b"1"))
        reached, go_on = threading.Event(), threading.Event()

        def wait_there(point: str) -> None:
            assert point == "append.commit"
            reached.set()
            assert go_on.wait(30)

        log.at_point = wait_there
        appending = asyncio.create_task(append(log, part(2, b"2")))
        await asyncio.to_thread(reached.wait, 30)
        assert await records_of(log) == [b"1"]
        go_on.set()
        await appending
        assert await records_of(log) == [b"1", b"2"]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC])
async def test_after_a_failed_fsync_nothing_is_written_any_more(tmp_path, code):
    """Every later write raises the same error, also in the object that is started again; reads go on, and a new object
    writes.
    """
    path = tmp_path / "log"

    def fail(_point: str) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = code
        raise error

    async with started(path) as log:
        await append(log, part(1, b"1"))
        log.at_point = fail
        with pytest.raises(LogBroken, match=r"log: a write could not be made durable .*restart the service"):
            await append(log, part(2, b"2"))
        log.at_point = lambda _point: None
        for _ in range(2):
            with pytest.raises(LogBroken, match="disk I/O error"):
                await append(log, part(2, b"2"))
            with pytest.raises(LogBroken):
                await log.take_over("t", "c", epoch=2, writer="w")
            with pytest.raises(LogBroken):
                await log.cut([("t", "c", 1)])
            assert await records_of(log) == [b"1"]
            await log.close()
            await log.start()
    async with started(path) as log:
        await append(log, part(2, b"2"))
        assert await records_of(log) == [b"1", b"2"]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_FULL])
async def test_a_write_that_failed_otherwise_may_be_repeated(tmp_path, code):
    """The log is unavailable, nothing of the commit is stored, and the repetition succeeds."""
    async with started(tmp_path / "log") as log:

        def fail_once(_point: str) -> None:
            log.at_point = lambda _point: None
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = code
            raise error

        log.at_point = fail_once
        with pytest.raises(StorageUnavailable, match="free space"):
            await append(log, part(1, b"1"))
        assert await records_of(log) == []
        await append(log, part(1, b"1"))
        assert await records_of(log) == [b"1"]


async def test_a_full_disk_is_unavailable_and_changes_nothing(tmp_path):
    """The append fails, earlier records stay, and appends succeed again when there is space."""
    async with started(tmp_path / "log") as log:
        await append(log, part(1, b"1"))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        try:
            with pytest.raises(StorageUnavailable, match="free space"):
                await append(log, part(2, bytes(MEBIBYTE)))
            assert await records_of(log) == [b"1"]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        await append(log, part(2, bytes(MEBIBYTE)))
        assert await records_of(log, after=1) == [bytes(MEBIBYTE)]


async def test_a_new_tracker_that_was_rolled_back_leaves_no_id_behind(tmp_path):
    """The next new tracker gets its number in the file. The repetition must not add its records to that one."""
    async with started(tmp_path / "log") as log:
        await log.take_over("t", "known", epoch=1, writer="w")
        with pytest.raises(InvalidInput, match="go on with 1"):
            await append(log, part(1, b"1"), part(9, b"gap", cursor="known"))
        await log.take_over("t", "next", epoch=1, writer="w")
        await append(log, part(1, b"1"))
        await append(log, part(1, b"one", cursor="next"))
        assert await records_of(log) == [b"1"]
        assert await records_of(log, "next") == [b"one"]


# --- space ---


async def test_cut_records_give_their_space_back(tmp_path):
    """The file shrinks while the log is open and closing copies the write-ahead log into it."""
    path = tmp_path / "log"
    async with started(path) as log:
        for number in range(1, 41):
            await append(log, part(number, os.urandom(500_000)))
        full = await log.size_bytes()
        for number in range(1, 41):
            await log.cut([("t", "c", number)])
    assert full > 20_000_000
    assert path.stat().st_size < 2_000_000
    assert not path.with_name("log-wal").exists()


async def test_the_write_ahead_log_stays_bounded_under_pages_that_break_off(tmp_path):
    """A page that ends before the last record leaves no transaction open that would keep the checkpoints from going on."""
    path = tmp_path / "log"
    largest = 0
    async with started(path) as log:
        for number in range(1, 81):
            await append(log, part(number, os.urandom(500_000)))
            await log.read("t", "c", after=0, bytes_max=1)
            await log.cut([("t", "c", number - 3)] if number > 3 else [])
            largest = max(largest, path.with_name("log-wal").stat().st_size)
    assert largest < 20_000_000


# --- whose file it is ---


async def test_the_log_is_beside_the_storage_and_has_its_own_lock(tmp_path):
    """Storage and log are open together; a second opener of the log is refused."""
    storage = SqliteStorage(tmp_path / "db")
    log = open_sqlite_log(str(tmp_path / "db"))
    await storage.start()
    await log.start()
    assert {path.name for path in tmp_path.iterdir()} >= {"db", "db.lock", "db.add-log", "db.add-log.lock"}
    with pytest.raises(StorageInUse, match=r"this process has .*db\.add-log open already"):
        await open_sqlite_log(str(tmp_path / "db")).start()
    await log.close()
    await storage.close()


async def test_files_that_are_no_log_are_refused_and_left_alone(tmp_path):
    """The snapshots' file, another program's database, a text file, and a log of a newer format."""
    path = tmp_path / "log"
    storage = SqliteStorage(path)
    await storage.start()
    await storage.close()
    await _refused(path, "database of another program")
    path.unlink()
    ask(path, "CREATE TABLE bookmarks (url TEXT)")
    await _refused(path, "database of another program")
    path.write_text("some text\n")
    await _refused(path, "not a SQLite database")
    path.unlink()
    async with started(path):
        pass
    ask(path, "PRAGMA user_version = 3")
    await _refused(path, "format 3, this program reads up to 2")


async def _refused(path, message: str) -> None:
    before = path.read_bytes()
    with pytest.raises(StorageFormatUnsupported, match=message):
        async with started(path):
            pass
    assert path.read_bytes() == before


async def test_names_and_paths_that_cannot_be_are_refused(tmp_path):
    """Half a surrogate pair is no name; paths are checked as those of the storage."""
    async with started(tmp_path / "log") as log:
        for topic, cursor, field in (("\ud800", "c", "topic"), ("t", "\udfff", "cursor")):
            with pytest.raises(InvalidInput, match=field):
                await log.read(topic, cursor, after=0, bytes_max=1)
            with pytest.raises(InvalidInput, match=field):
                await log.take_over(topic, cursor, epoch=1, writer="w")
            with pytest.raises(InvalidInput, match=field):
                await log.cut([(topic, cursor, 1)])
        with pytest.raises(InvalidInput, match="cursor"):
            await append(log, part(1, b"1"), part(1, b"1", cursor="\udfff"))
        assert await log.extents() == []
    for rest, remedy in (("", "write sqlite:PATH"), (":memory:", "write sqlite:PATH"), ("~/db", "write the path out")):
        with pytest.raises(InvalidInput, match=remedy):
            open_sqlite_log(rest)


# --- identity ---


async def test_a_copied_file_is_another_log(tmp_path):
    """Its records are there, its id is new, and stays from then on; the original keeps its own, also when it is moved."""
    path, moved, copy = (tmp_path / name for name in ("log", "moved", "copy"))
    async with started(path) as log:
        await append(log, part(1, b"one"))
        original = await log.log_id()
    shutil.copy(path, copy)
    path.rename(moved)
    async with started(copy) as log:
        assert await records_of(log) == [b"one"]
        copied = await log.log_id()
    async with started(copy) as log:
        assert await log.log_id() == copied != original
    async with started(moved) as log:
        assert await log.log_id() == original


async def test_a_log_of_the_first_format_gets_an_id(tmp_path):
    """Its records stay, and so does the id from then on."""
    path = tmp_path / "log"
    async with started(path) as log:
        await append(log, part(1, b"one"))
    ask(path, "DROP TABLE identity")
    ask(path, "PRAGMA user_version = 1")
    async with started(path) as log:
        assert await records_of(log) == [b"one"]
        log_id = await log.log_id()
    async with started(path) as log:
        assert await log.log_id() == log_id
    assert ask(path, "PRAGMA user_version") == [(2,)]
