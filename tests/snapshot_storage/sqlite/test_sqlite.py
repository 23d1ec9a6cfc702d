"""The SQLite backend beyond the contract: threads, space, damage, and files of other programs."""

import asyncio
import contextlib
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.codec.codec import decode_segments
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported, StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, LogMark
from delayed_tracker.storage.sqlite.blocks import BLOCK_BYTES
from delayed_tracker.storage.sqlite.schema import SNAPSHOTS_SCHEMA
from delayed_tracker.storage.sqlite.storage import SqliteStorage, open_sqlite
from delayed_tracker.storage.summary import decode_summary
from tests.snapshot_storage.sqlite.sqlite_files import ask, create, each, make_format, started

OPEN = """
import asyncio, sys
from delayed_tracker.storage.sqlite.storage import open_sqlite
asyncio.run(open_sqlite(sys.argv[1]).start())
"""
ENTRY = CatalogueEntry(1, Position(1, 0), Position(1, 9), b"summary", b"consumed", Position(1, 2), 12)
OLD_TRACKER = ("persistent://shop/orders/events", "billing")
"""Tracker of the file in an older format."""
PAGE_BYTES = 16_384


# --- threads ---


async def test_the_event_loop_goes_on_while_the_writer_works(tmp_path):
    """A slow write blocks neither the event loop nor reads."""
    async with started(tmp_path / "db") as storage:
        bucket_id = await create(storage, [b"1"])
        reached, go_on = threading.Event(), threading.Event()

        def wait_there(point: str) -> None:
            assert threading.current_thread() is not threading.main_thread()
            reached.set()
            assert go_on.wait(30), point

        storage.at_point = wait_there
        deleting = asyncio.create_task(storage.delete_bucket_snapshot(bucket_id))
        await asyncio.to_thread(reached.wait, 30)
        assert await storage.get_bucket_snapshot_segments(bucket_id, 1, 1) == [b"1"]
        go_on.set()
        await deleting
        assert await storage.list_bucket_snapshots("t", "c") == []


async def test_a_create_cancelled_during_its_commit_leaves_nothing(tmp_path):
    """The thread finishes its transaction, and the snapshot is removed before the cancellation continues."""
    async with started(tmp_path / "db") as storage:
        reached, go_on = threading.Event(), threading.Event()

        def wait_there(_point: str) -> None:
            reached.set()
            assert go_on.wait(30)

        storage.at_point = wait_there
        creating = asyncio.create_task(create(storage, [b"1"]))
        await asyncio.to_thread(reached.wait, 30)
        creating.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await creating
        assert await storage.list_bucket_snapshots("t", "c") == []
    assert ask(tmp_path / "db", "SELECT count(*) FROM entries") == [(0,)]


async def test_closing_finishes_what_was_accepted(tmp_path):
    """A replace that the writer has begun is in the file when close returns."""
    async with started(tmp_path / "db") as storage:
        writing = asyncio.create_task(storage.replace("t", "c", remove=[], add=[ENTRY], epoch=1))
        await asyncio.sleep(0)
        await storage.close()
        await writing
    async with started(tmp_path / "db") as storage:
        assert (await storage.list("t", "c")).entries == (ENTRY,)


async def test_a_create_overtaken_by_close_leaves_nothing(tmp_path):
    """A create whose segments are still arriving fails, and the next start deletes its rows."""
    async with started(tmp_path / "db", chunk_bytes=1) as storage:

        async def closing_midway():
            yield b"1"
            yield b"2"
            await storage.close()
            yield b"3"

        with pytest.raises(StorageUnavailable):
            await storage.create_bucket_snapshot(b"m", closing_midway(), bucket_key="k", topic="t", cursor="c", epoch=1)
    async with started(tmp_path / "db") as storage:
        assert storage.swept_count == 1
        assert await storage.list_bucket_snapshots("t", "c") == []
    assert ask(tmp_path / "db", "SELECT count(*) FROM entries") == [(0,)]


# --- space ---


async def test_deleted_snapshots_give_their_space_back(tmp_path):
    """The file shrinks, and close copies the log into it."""
    path = tmp_path / "db"
    async with started(path) as storage:
        bucket_ids = [await create(storage, [os.urandom(100_000)] * 20) for _ in range(10)]
        await storage.close()
        full = path.stat().st_size
        await storage.start()
        for bucket_id in bucket_ids:
            await storage.delete_bucket_snapshot(bucket_id)
    assert full > 20_000_000
    assert path.stat().st_size < 2_000_000
    assert not path.with_name("db-wal").exists()


@pytest.mark.parametrize("entry_bytes", [1, 33, 420, 2_000], ids="{}-byte entries".format)
async def test_small_entries_fill_their_pages(tmp_path, entry_bytes):
    """A row adds to its entries only their lengths and a few percent of a page."""
    path = tmp_path / "db"
    async with started(path):
        pass
    empty_bytes = path.stat().st_size
    async with started(path) as storage:
        count = 2_000_000 // (entry_bytes + 4)
        await create(storage, [bytes(entry_bytes)] * count)
    assert path.stat().st_size - empty_bytes < 2_000_000 * (1.02 + entry_bytes / PAGE_BYTES)
    assert ask(path, "SELECT max(length(payload) + length(lengths)) FROM entries")[0][0] <= BLOCK_BYTES


def test_a_connection_caches_little(tmp_path):
    """The cache is set as a number of pages: from a size in bytes SQLite would make four times as much."""
    with contextlib.closing(SNAPSHOTS_SCHEMA.connect(tmp_path / "db")) as connection:
        SNAPSHOTS_SCHEMA.prepare(connection, tmp_path / "db")
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        (cached_pages,) = connection.execute("PRAGMA cache_size").fetchone()
    assert page_bytes == PAGE_BYTES
    assert 0 < cached_pages * page_bytes <= 1024 * 1024


async def test_the_log_stays_bounded_under_steady_work(tmp_path):
    """Checkpoints keep up while readers come and go: 80 MB are written, the log has a few."""
    path = tmp_path / "db"
    log_max = 0
    async with started(path) as storage:
        for _ in range(40):
            bucket_id = await create(storage, [os.urandom(100_000)] * 20)
            await storage.get_bucket_snapshot_segments(bucket_id, 1, 20)
            await storage.delete_bucket_snapshot(bucket_id)
            log_max = max(log_max, path.with_name("db-wal").stat().st_size)
    assert log_max < 20_000_000


async def test_a_full_disk_is_unavailable_and_changes_nothing(tmp_path):
    """The create fails, earlier snapshots stay readable, and creates succeed again when there is space."""
    async with started(tmp_path / "db") as storage:
        kept = await create(storage, [b"1"])
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
        try:
            with pytest.raises(StorageUnavailable, match=r"db: .*; check the disk's free space"):
                await create(storage, [bytes(100_000)] * 20)
            assert await storage.get_bucket_snapshot_segments(kept, 1, 1) == [b"1"]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        again = await create(storage, [bytes(100_000)] * 20)
        assert [found.bucket_id for found in await storage.list_bucket_snapshots("t", "c")] == [kept, again]


# --- damage ---


async def test_every_damaged_part_of_an_entry_is_corrupt(tmp_path):
    """A damaged payload or checksum and a row under a wrong key are corrupt; entries in other rows stay readable."""
    path = tmp_path / "db"
    for damage in (
        "UPDATE entries SET payload = x'00' || substr(payload, 2) WHERE entry_key & 0xffffff = 2",
        "UPDATE entries SET crc32c = crc32c + 1 WHERE entry_key & 0xffffff = 2",
        "UPDATE entries SET payload = (SELECT min(payload) FROM entries) WHERE entry_key & 0xffffff = 2",
        "UPDATE entries SET payload = 'text' WHERE entry_key & 0xffffff = 2",
        "DELETE FROM entries WHERE entry_key & 0xffffff = 2",
    ):
        async with started(path, block_bytes=1) as storage:
            bucket_id = await create(storage, [b"one", b"two", b"three"])
        ask(path, damage)
        async with started(path) as storage:
            for first, last in ((2, 2), (1, 3)):
                with pytest.raises(SnapshotCorrupt, match=f"bucket {bucket_id}"):
                    await storage.get_bucket_snapshot_segments(bucket_id, first, last)
            assert await storage.get_bucket_snapshot_segments(bucket_id, 3, 3) == [b"three"]
            assert await storage.get_bucket_snapshot_metadata(bucket_id) == b"metadata"
            await storage.delete_bucket_snapshot(bucket_id)


@pytest.mark.parametrize(
    "column",
    [
        "first_ledger_id",
        "last_entry_id",
        "mark_delete_entry_id",
        "summary",
        "consumed",
        "crc32c",
        "bucket_id",
        "tracker_id",
        "seal_number",
    ],
)
async def test_every_damaged_part_of_a_catalogue_entry_is_corrupt(tmp_path, column):
    """A damaged catalogue entry is named as corrupt, can be removed, and does not hide the others."""
    path = tmp_path / "db"
    other = CatalogueEntry(2, Position(2, 0), Position(2, 9), b"summary")
    async with started(path) as storage:
        await storage.replace("t", "c", remove=[], add=[ENTRY, other], epoch=1)
        await storage.replace("t", "elsewhere", remove=[], add=[], epoch=1)
    damaged = "'x'" if column in ("summary", "consumed") else "2" if column == "tracker_id" else f"{column} + 5"
    ask(path, f"UPDATE catalogue SET {column} = {damaged} WHERE bucket_id = 1")
    async with started(path) as storage:
        cursor = "elsewhere" if column == "tracker_id" else "c"
        (corrupt,) = (await storage.list("t", cursor)).corrupt
        assert (await storage.list("t", "c")).entries == (other,)
        await storage.replace("t", cursor, remove=[corrupt], add=[], epoch=1)
        assert (await storage.list("t", "c")) == CatalogueState(1, (other,))


async def test_a_damaged_page_is_corrupt(tmp_path):
    """SQLite itself detects a damaged page, and the message names the file."""
    path = tmp_path / "db"
    async with started(path) as storage:
        bucket_id = await create(storage, [bytes([number]) * 8_000 for number in range(50)])
    stored = bytearray(path.read_bytes())
    for page in range(8, len(stored) // PAGE_BYTES):
        stored[page * PAGE_BYTES : page * PAGE_BYTES + 100] = b"\xff" * 100
    path.write_bytes(stored)
    async with started(path) as storage:
        with pytest.raises(SnapshotCorrupt, match=str(path)):
            await storage.get_bucket_snapshot_segments(bucket_id, 1, 50)


# --- whose file it is ---


async def test_a_newer_format_is_refused_and_left_alone(tmp_path):
    """The message names both versions."""
    path = tmp_path / "db"
    async with started(path):
        pass
    ask(path, "PRAGMA user_version = 7")
    before = path.read_bytes()
    with pytest.raises(StorageFormatUnsupported, match="format 7, this program reads up to 6"):
        await open_sqlite(str(path)).start()
    assert path.read_bytes() == before


async def test_a_file_of_the_first_format_is_brought_up_to_date(tmp_path):
    """The content of the file stays, and the new columns can be written."""
    path = tmp_path / "db"
    make_format(3, path)
    for column in ("writer", "mark_delete_ledger_id", "mark_delete_entry_id"):
        ask(path, f"ALTER TABLE trackers DROP COLUMN {column}")
    ask(path, "ALTER TABLE entries DROP COLUMN lengths")
    ask(path, "PRAGMA user_version = 1")
    async with started(path) as storage:
        found = await storage.list(*OLD_TRACKER)
        assert [entry.seal_number for entry in found.entries] == [1, 2, None]
        await storage.replace(*OLD_TRACKER, remove=[], add=[ENTRY], epoch=4, writer="w", mark_delete=Position(1, 1))
    async with started(path) as storage:
        now = await storage.list(*OLD_TRACKER)
        assert (now.epoch, now.mark_delete, now.entries[0]) == (4, Position(1, 1), ENTRY)


async def test_a_checkpoint_that_a_power_failure_ended_is_completed(tmp_path):
    """The file lacks pages that its header counts; the write-ahead log has them."""
    path, torn = tmp_path / "db", tmp_path / "torn"
    async with started(path) as storage:
        bucket_id = await create(storage, [b"one" * 50_000, b"two" * 50_000])
        log = path.with_name("db-wal").read_bytes()
    whole = path.read_bytes()  # the close has copied all of the log
    torn.write_bytes(whole[: len(whole) // 2 + 100])
    torn.with_name("torn-wal").write_bytes(log)
    async with started(torn) as storage:
        assert await storage.get_bucket_snapshot_segments(bucket_id, 1, 2) == [b"one" * 50_000, b"two" * 50_000]


async def test_a_file_of_the_second_format_keeps_its_snapshots(tmp_path):
    """A file with a row for each entry keeps them, and new snapshots are added in blocks."""
    path = tmp_path / "db"
    async with started(path, block_bytes=1) as storage:
        old = await create(storage, [b"one", b"two", b"three"])
    ask(path, "ALTER TABLE entries DROP COLUMN lengths")
    ask(path, "ALTER TABLE catalogue DROP COLUMN seal_number")
    claims = ("offered_ledger_id", "offered_entry_id", "stored_ledger_id", "stored_entry_id")
    for column in ("log_number", "log_id", *claims):
        ask(path, f"ALTER TABLE trackers DROP COLUMN {column}")
    ask(path, "PRAGMA user_version = 2")
    async with started(path) as storage:
        new = await create(storage, [b"four", b"five"])
        assert await storage.get_bucket_snapshot_segments(old, 2, 3) == [b"two", b"three"]
        assert await storage.get_bucket_snapshot_segments(new, 1, 2) == [b"four", b"five"]


async def test_entries_of_the_third_format_are_numbered_by_their_bucket_ids(tmp_path):
    """Snapshots and entries stay as they were; an entry without a summary is foreign and gets no number.

    An entry that was damaged is still detected as damaged.
    """
    path = tmp_path / "db"
    make_format(3, path)
    for _ in range(2):
        async with started(path) as storage:
            found = await storage.list(*OLD_TRACKER)
            assert [(entry.bucket_id, entry.seal_number) for entry in found.entries] == [(1, 1), (2, 2), (3, None)]
            assert (found.epoch, found.corrupt, found.mark_delete) == (2, (4,), Position(0, 5))
            assert (found.entries[1].first, found.entries[1].last) == (Position(1, 0), Position(2, 0))
            assert found.entries[1].mark_delete == Position(0, 5)
            assert [len(decode_summary(entry.summary).bits) for entry in found.entries[:2]] == [2, 2]
            segments = await storage.get_bucket_snapshot_segments(2, 1, 2)
            assert decode_segments(segments).deliver_at_ms.tolist() == [990_000, 5_000_000]
    assert ask(path, "PRAGMA user_version") == [(6,)]


async def test_trackers_of_the_fourth_format_begin_without_a_log_mark(tmp_path):
    """Entries, epochs and snapshots stay as they were, and marks can be written."""
    path = tmp_path / "db"
    make_format(4, path)
    mark = LogMark(5, Position(2, 1), "log", Position(1, 8))
    entry = CatalogueEntry(1, Position(1, 0), Position(2, 0), b"summary", b"consumed", Position(0, 5), 7)
    async with started(path) as storage:
        assert await storage.list(*OLD_TRACKER) == CatalogueState(3, (entry,), (), Position(0, 5), LogMark())
        assert await storage.list(OLD_TRACKER[0], "audit") == CatalogueState(2)
        assert await storage.trackers() == [OLD_TRACKER]
        assert await storage.get_bucket_snapshot_segments(1, 1, 2) == [b"one", b"two"]
        await storage.replace(*OLD_TRACKER, remove=[], add=[], epoch=4, mark=mark)
    async with started(path) as storage:
        assert await storage.list(*OLD_TRACKER) == CatalogueState(4, (entry,), (), Position(0, 5), mark)
    assert ask(path, "PRAGMA user_version") == [(6,)]


@pytest.mark.parametrize("damage", ["'text'", "NULL", "crc32c + (1 << 32)", "-1"])
async def test_a_checksum_that_is_none_does_not_keep_an_older_file_from_being_opened(tmp_path, damage):
    """An entry with a damaged checksum stays damaged, and the others are updated."""
    path = tmp_path / "db"
    make_format(3, path)
    ask(path, "CREATE TABLE loose AS SELECT * FROM catalogue")
    ask(path, "DROP TABLE catalogue")
    ask(path, "ALTER TABLE loose RENAME TO catalogue")
    ask(path, f"UPDATE catalogue SET crc32c = {damage} WHERE bucket_id = 2")
    async with started(path) as storage:
        found = await storage.list(*OLD_TRACKER)
        assert ([entry.bucket_id for entry in found.entries], sorted(found.corrupt)) == ([1, 3], [2, 4])


async def test_another_programs_database_is_refused_and_left_alone(tmp_path):
    """A database of another program is detected by its tables or by its application id."""
    path = tmp_path / "db"
    for statement in ("CREATE TABLE bookmarks (url TEXT)", "PRAGMA application_id = 0x47504B47"):
        ask(path, statement)
        before = path.read_bytes()
        with pytest.raises(StorageFormatUnsupported, match="database of another program"):
            await open_sqlite(str(path)).start()
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]
        path.unlink()


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    """A configuration file given by mistake is not changed."""
    path = tmp_path / "db"
    path.write_text("bucketSnapshotStorageUrl=sqlite:db\n")
    with pytest.raises(StorageFormatUnsupported, match="not a SQLite database"):
        await open_sqlite(str(path)).start()
    assert path.read_text() == "bucketSnapshotStorageUrl=sqlite:db\n"
    assert list(tmp_path.iterdir()) == [path]


async def test_an_empty_file_becomes_a_storage(tmp_path):
    """An empty file is accepted: it may have been created to set its permissions."""
    (tmp_path / "db").touch()
    async with started(tmp_path / "db") as storage:
        assert await create(storage, [b"1"]) == 1


async def test_a_creation_cut_short_is_finished(tmp_path):
    """A crash between the first page and the tables leaves an empty database, which is accepted."""
    with contextlib.closing(sqlite3.connect(tmp_path / "db")) as connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
    async with started(tmp_path / "db") as storage:
        assert await create(storage, [b"1"]) == 1
    assert ask(tmp_path / "db", "PRAGMA auto_vacuum") == [(2,)]


async def test_paths_that_cannot_be_are_named_with_a_remedy(tmp_path):
    """Invalid paths are refused: missing directories, files and directories in a wrong place, long names, no path."""
    (tmp_path / "file").touch()
    for path, remedy in (
        (tmp_path / "missing" / "too" / "db", f"create the directory {tmp_path / 'missing'} first"),
        (tmp_path / "file" / "db", f"{tmp_path / 'file'} is not a directory"),
        (tmp_path, "name a file in it"),
        (tmp_path / ("a" * 300), "File name too long; give a shorter one"),
        (tmp_path / ("a" * 252), "File name too long; give a shorter one"),
        (tmp_path / ("a" * 300) / "db", "File name too long; give a shorter one"),
    ):
        with pytest.raises(InvalidInput, match=remedy):
            await open_sqlite(str(path)).start()
    for rest, remedy in (("", "write sqlite:PATH"), (":memory:", "write sqlite:PATH"), ("~/db", "write the path out")):
        with pytest.raises(InvalidInput, match=remedy):
            open_sqlite(rest)


async def test_the_directory_of_the_file_is_created(tmp_path):
    """One missing level is created, so the default path works in an empty working directory."""
    async with started(tmp_path / "data" / "db") as storage:
        assert await create(storage, [b"1"]) == 1


async def test_a_place_that_takes_no_files_is_unavailable():
    """The message names the path and the remedy; /proc refuses root as well."""
    with pytest.raises(StorageUnavailable, match=r"/proc/self/db: .*writable for this user"):
        await SqliteStorage(Path("/proc/self/db")).start()


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root needs setpriv")
async def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    """The file is refused at the start, not at the first snapshot; the test drops root's right to write every file."""
    async with started(tmp_path / "db"):
        pass
    (tmp_path / "db").chmod(0o444)
    command = [sys.executable, "-c", OPEN, str(tmp_path / "db")]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert "StorageUnavailable" in ended.stderr
    assert "make the file and its directory writable" in ended.stderr


async def test_half_a_surrogate_pair_is_no_name(tmp_path):
    """Half a surrogate pair has no UTF-8 form, so the error names the field."""
    async with started(tmp_path / "db") as storage:
        with pytest.raises(InvalidInput, match="topic"):
            await storage.list("\ud800", "c")
        with pytest.raises(InvalidInput, match="cursor"):
            await storage.create_bucket_snapshot(b"m", each([]), bucket_key="k", topic="t", cursor="\udfff", epoch=1)


async def test_undoing_a_failed_create_spares_the_next_one(tmp_path):
    """Undoing a create does not touch the next one, which may get the id that was rolled back."""
    async with started(tmp_path / "db") as storage:

        def fail_once(_point: str) -> None:
            storage.at_point = lambda _point: None
            raise sqlite3.OperationalError("disk I/O error")

        storage.at_point = fail_once
        failing, following = await asyncio.gather(
            create(storage, [b"1"]), create(storage, [b"2"]), return_exceptions=True
        )
        assert isinstance(failing, StorageUnavailable)
        assert await storage.get_bucket_snapshot_segments(following, 1, 1) == [b"2"]
