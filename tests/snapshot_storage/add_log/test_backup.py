"""A backup is a storage as it was at one moment, and a restore makes owners and claims of later times void."""

import contextlib
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.add_log import LogExtent
from delayed_tracker.storage.errors import (
    SnapshotConflict,
    SnapshotCorrupt,
    StorageFormatUnsupported,
    StorageInUse,
    StorageUnavailable,
)
from delayed_tracker.storage.protocol import CatalogueEntry, LogMark
from delayed_tracker.storage.sqlite.add_log import SqliteAddLog, log_path_of
from delayed_tracker.storage.sqlite.backup import backup_storage
from delayed_tracker.storage.sqlite.compact import compact_storage
from delayed_tracker.storage.sqlite.restore import EPOCH_STEP, restore_storage
from delayed_tracker.storage.sqlite.storage import SqliteStorage
from tests.snapshot_storage.add_log import log_files
from tests.snapshot_storage.add_log.log_files import append, part, records_of
from tests.snapshot_storage.sqlite import sqlite_files
from tests.snapshot_storage.sqlite.sqlite_files import ask, create, make_format

ENTRY = CatalogueEntry(1, Position(1, 0), Position(1, 9), b"summary", seal_number=1)


@contextlib.asynccontextmanager
async def both(path: Path) -> AsyncIterator[tuple[SqliteStorage, SqliteAddLog]]:
    async with sqlite_files.started(path) as storage, log_files.started(log_path_of(path)) as log:
        yield storage, log


def quiet(_done: int, _total: int) -> None:
    """Show no progress."""


def change(path: Path, number: int) -> None:
    """Append, record and cut in a log whose service runs, as another process does."""
    ask(log_path_of(path), f"UPDATE trackers SET last_number = {number}, cut_through = {number}")


# --- the moment ---


async def test_a_storage_in_use_is_copied_as_it_was_at_the_beginning(tmp_path):
    """Writes during the copy are in neither file; the storage goes on."""
    path, copy = tmp_path / "db", tmp_path / "copy"
    async with both(path) as (storage, log):
        bucket_id = await create(storage, [b"1" * 1_000_000] * 20)
        await append(log, part(1, *[b"x" * 100_000] * 100))
        await storage.replace("t", "c", remove=[], add=[ENTRY], epoch=1, mark=LogMark(5))
        done: list[tuple[int, int]] = []

        def write_meanwhile(so_far: int, total: int) -> None:
            done.append((so_far, total))
            ask(path, "UPDATE trackers SET log_number = 100")
            ask(path, "UPDATE entries SET payload = x'00'")
            ask(log_path_of(path), "DELETE FROM records")

        assert backup_storage(path, copy, force=False, progress=write_meanwhile) == [copy, log_path_of(copy)]
        assert (await storage.list("t", "c")).log_mark == LogMark(100)
    assert len(done) > 3
    assert done == sorted(done)
    assert done[-1][0] == done[-1][1]
    async with both(copy) as (storage, log):
        assert (await storage.list("t", "c")).log_mark == LogMark(5)
        assert await storage.get_bucket_snapshot_segments(bucket_id, 1, 20) == [b"1" * 1_000_000] * 20
        assert len(await records_of(log, after=5)) == 95
    assert not list(tmp_path.glob(".copy*"))


async def test_a_log_that_changes_between_the_beginnings_is_tried_again(tmp_path):
    """The copies are of one moment: neither has what the other presumes or lacks."""
    path, copy = tmp_path / "db", tmp_path / "copy"
    async with both(path) as (storage, log):
        await append(log, part(1, b"1"))
        await storage.replace("t", "c", remove=[], add=[], epoch=1)
        begun = []

        def change_twice(point: str) -> None:
            assert point == "backup.begun"
            begun.append(point)
            if len(begun) < 3:
                change(path, len(begun))
                ask(path, f"UPDATE trackers SET log_number = {len(begun)}")

        backup_storage(path, copy, force=False, progress=quiet, at_point=change_twice)
    assert len(begun) == 3
    assert ask(log_path_of(copy), "SELECT last_number FROM trackers") == [(2,)]
    assert ask(copy, "SELECT log_number FROM trackers") == [(2,)]


async def test_a_log_that_never_rests_is_an_error(tmp_path):
    """The tries are bounded, and nothing is left of them."""
    path = tmp_path / "db"
    async with both(path) as (_, log):
        await append(log, part(1, b"1"))
        numbers = iter(range(1_000))
        with pytest.raises(StorageUnavailable, match="try again when fewer adds arrive"):
            backup_storage(
                path, tmp_path / "copy", force=False, progress=quiet, at_point=lambda _: change(path, next(numbers))
            )
        await append(log, part(1, b"1"))
    assert not list(tmp_path.glob("*copy*"))


async def test_a_storage_without_a_log_is_copied_alone(tmp_path):
    """An older copy of a log is not left beside it."""
    path, copy = tmp_path / "db", tmp_path / "copy"
    log_path_of(copy).write_text("older")
    async with sqlite_files.started(path):
        pass
    with pytest.raises(InvalidInput, match=r"copy\.add-log exists; give another name, or --force"):
        backup_storage(path, copy, force=False, progress=quiet)
    assert backup_storage(path, copy, force=True, progress=quiet) == [copy]
    assert not log_path_of(copy).exists()


# --- the place of the copy ---


async def test_a_copy_never_takes_the_place_of_a_storage_that_is_open(tmp_path):
    """Neither its own storage, under any name, nor another one is overwritten."""
    path, other, link = tmp_path / "db", tmp_path / "other", tmp_path / "link"
    async with both(path), sqlite_files.started(other):
        link.hardlink_to(path)
        for target in (path, log_path_of(path), link):
            with pytest.raises(InvalidInput, match="belongs to the storage itself"):
                backup_storage(path, target, force=True, progress=quiet)
        with pytest.raises(StorageInUse):
            backup_storage(path, other, force=True, progress=quiet)
        (tmp_path / "directory").mkdir()
        for target, remedy in (
            (tmp_path / "directory", "name a file"),
            (tmp_path / "no" / "copy", "create the directory"),
        ):
            with pytest.raises(InvalidInput, match=remedy):
                backup_storage(path, target, force=True, progress=quiet)


async def test_what_is_no_storage_is_not_copied(tmp_path):
    """An empty file, another program's database, and a file that is not there."""
    path, copy = tmp_path / "db", tmp_path / "copy"
    with pytest.raises(InvalidInput, match="there is no such file"):
        backup_storage(path, copy, force=False, progress=quiet)
    path.touch()
    with pytest.raises(InvalidInput, match="the file is empty"):
        backup_storage(path, copy, force=False, progress=quiet)
    ask(path, "CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(StorageFormatUnsupported, match="another program"):
        backup_storage(path, copy, force=False, progress=quiet)
    assert not list(tmp_path.glob("*copy*"))


def ended_process() -> int:
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


async def test_what_a_killed_backup_has_left_is_removed_by_the_next(tmp_path):
    """Only what is old, and of a process that is gone: another backup may be under way."""
    path, copy = tmp_path / "db", tmp_path / "copy"
    async with both(path):
        pass
    gone = ended_process()
    left = tmp_path / f".copy.{gone}"
    kept = [tmp_path / f".copy.{os.getppid()}", tmp_path / ".copy.text", tmp_path / f".copys.{gone}"]
    for name in (left, *kept):
        name.write_bytes(b"half")
        os.utime(name, (0, 0))
    young = tmp_path / f".copy.add-log.{gone}"
    young.write_bytes(b"half")
    backup_storage(path, copy, force=False, progress=quiet)
    assert not left.exists()
    assert all(name.exists() for name in (*kept, young))


# --- restoring ---


async def backed_up(tmp_path: Path) -> Path:
    """Return a backup of a storage with two trackers, one of them in the log alone."""
    path, copy = tmp_path / "db", tmp_path / "copy"
    async with both(path) as (storage, log):
        assert await create(storage, [b"segment"] * 200) == ENTRY.bucket_id
        await storage.replace("t", "c", remove=[], add=[ENTRY], epoch=4, writer="w", mark=LogMark(1, Position(1, 9)))
        await log.take_over("t", "c", epoch=3, writer="w")
        await append(log, part(1, b"1", b"2", epoch=3), part(1, b"other", cursor="other", epoch=7))
    backup_storage(path, copy, force=False, progress=quiet)
    return copy


async def test_a_restored_storage_has_new_epochs_and_no_claims(tmp_path):
    """Content is that of the backup; both files have one epoch, far above all of the backup, which no writer has."""
    renewed = 4 + EPOCH_STEP
    copy, target = await backed_up(tmp_path), tmp_path / "restored"
    before = copy.read_bytes(), log_path_of(copy).read_bytes()
    restored = restore_storage(copy, target, force=False, progress=quiet)
    assert (restored.paths, restored.tracker_count) == ((target, log_path_of(target)), 2)
    assert (copy.read_bytes(), log_path_of(copy).read_bytes()) == before
    async with both(target) as (storage, log):
        state = await storage.list("t", "c")
        assert (state.epoch, state.entries, state.log_mark) == (renewed, (ENTRY,), LogMark(1))
        other = LogExtent("t", "other", 7 + EPOCH_STEP, 1, 5, 1)
        assert await log.extents() == [LogExtent("t", "c", renewed, 2, 2, 2), other]
        for epoch in (4, 5, 1_000, renewed):
            with pytest.raises(SnapshotConflict):
                await storage.replace("t", "c", remove=[], add=[], epoch=epoch, writer="w")
            assert await log.append([part(3, b"3", epoch=epoch)], writer="w") == [("t", "c")]
        await storage.replace("t", "c", remove=[], add=[], epoch=renewed + 1, writer="w")
        await append(log, part(3, b"3", epoch=renewed + 1))
        assert await records_of(log) == [b"1", b"2", b"3"]


async def test_an_existing_storage_is_replaced_only_when_asked(tmp_path):
    """With force both files are replaced, and a write-ahead log of the old one does not get into the new one."""
    copy, target = await backed_up(tmp_path), tmp_path / "db"
    with contextlib.closing(sqlite3.connect(target)) as crashed:
        crashed.execute("UPDATE trackers SET epoch = 99")
        crashed.commit()
        with pytest.raises(InvalidInput, match=r"db exists; give another, or --force to overwrite it"):
            restore_storage(copy, target, force=False, progress=quiet)
        assert (tmp_path / "db-wal").stat().st_size > 0
        restore_storage(copy, target, force=True, progress=quiet)
        assert not (tmp_path / "db-wal").exists()
    assert ask(target, "SELECT epoch FROM trackers") == [(4 + EPOCH_STEP,)]
    assert ask(target, "PRAGMA integrity_check") == [("ok",)]
    assert not list(tmp_path.glob(".db*"))


async def test_a_storage_that_is_open_is_neither_replaced_nor_compacted(tmp_path):
    """The lock of either file is enough; nothing is changed."""
    copy, target = await backed_up(tmp_path), tmp_path / "db"
    async with sqlite_files.started(target):
        with pytest.raises(StorageInUse, match=f"this process has {target} open already"):
            restore_storage(copy, target, force=True, progress=quiet)
        with pytest.raises(StorageInUse):
            compact_storage(target)
    async with log_files.started(log_path_of(target)) as log:
        with pytest.raises(StorageInUse, match=r"db\.add-log open already"):
            restore_storage(copy, target, force=True, progress=quiet)
        with pytest.raises(StorageInUse):
            compact_storage(target)
        assert await records_of(log) == [b"1", b"2"]


async def test_a_backup_of_an_older_format_is_brought_up_to_date(tmp_path):
    """The backup itself stays as it is."""
    copy, target = tmp_path / "copy", tmp_path / "restored"
    make_format(4, copy)
    restored = restore_storage(copy, target, force=False, progress=quiet)
    assert (restored.paths, restored.tracker_count) == ((target,), 2)
    assert (ask(copy, "PRAGMA user_version"), ask(target, "PRAGMA user_version")) == ([(4,)], [(6,)])
    async with sqlite_files.started(target) as storage:
        assert (await storage.list("persistent://shop/orders/events", "billing")).epoch == 3 + EPOCH_STEP


async def test_a_wrong_or_damaged_backup_changes_nothing(tmp_path):
    """Each fault of either file is named, and the storage stays as it was."""
    copy, target = await backed_up(tmp_path), tmp_path / "db"
    storage_before = target.read_bytes()
    sound = {path: path.read_bytes() for path in (copy, log_path_of(copy))}
    in_use = tmp_path / "copy-wal"
    in_use.touch()
    with pytest.raises(InvalidInput, match="copy-wal beside it says that it is in use"):
        restore_storage(copy, target, force=True, progress=quiet)
    in_use.unlink()
    for path, before in sound.items():
        damaged = bytearray(before)
        damaged[len(damaged) // 2 : len(damaged) // 2 + 40_000] = b"\xff" * 40_000
        for content, error, message in (
            (b"some text", StorageFormatUnsupported, "not a SQLite database"),
            (b"", StorageFormatUnsupported, "is empty"),
            (sound[copy if path != copy else log_path_of(copy)], StorageFormatUnsupported, "another program"),
            (bytes(damaged[: len(before)]), SnapshotCorrupt, "is damaged"),
        ):
            path.write_bytes(content)
            with pytest.raises(error, match=f"{path} .*{message}"):
                restore_storage(copy, target, force=True, progress=quiet)
            assert target.read_bytes() == storage_before
        path.write_bytes(before)
    ask(copy, "PRAGMA user_version = 9")
    with pytest.raises(StorageFormatUnsupported, match="format 9, this program reads up to 6"):
        restore_storage(copy, target, force=True, progress=quiet)
    for source, remedy in ((tmp_path / "none", "there is no such file"), (target, "this is the storage itself")):
        with pytest.raises(InvalidInput, match=remedy):
            restore_storage(source, target, force=True, progress=quiet)
    assert target.read_bytes() == storage_before


DAMAGE = {
    "UPDATE entries SET payload = zeroblob(length(payload)) WHERE entry_key = (SELECT max(entry_key) FROM entries)": (
        r"subscription 'c' of 't': bucket 1, entry \d+: it is missing, or its checksum does not match"
    ),
    "DELETE FROM snapshots": r"subscription 'c' of 't': there is no snapshot of bucket 1",
    "UPDATE catalogue SET last_entry_id = 8": r"subscription 'c' of 't': the catalogue entry of bucket 1 is damaged",
}
LOG_DAMAGE = {
    "UPDATE records SET payload = zeroblob(length(payload)) WHERE tracker_id = 1": (
        r"subscription 'c' of 't': records 2 to 2 of the add log are damaged or missing"
    ),
    "DELETE FROM records WHERE tracker_id = 2": (
        r"subscription 'other' of 't': records 1 to 1 of the add log are damaged or missing"
    ),
}


@pytest.mark.parametrize(
    ("of_log", "statement", "sentence"),
    [
        *((False, statement, sentence) for statement, sentence in DAMAGE.items()),
        *((True, statement, sentence) for statement, sentence in LOG_DAMAGE.items()),
    ],
)
async def test_damage_that_sqlite_does_not_see_is_found(tmp_path, of_log, statement, sentence):
    """Snapshots, catalogue entries and records that no snapshot contains are verified; the rest is restored only when asked."""
    copy, target = await backed_up(tmp_path), tmp_path / "restored"
    ask(log_path_of(copy) if of_log else copy, statement)
    with pytest.raises(
        SnapshotCorrupt, match=rf"copy is damaged \({sentence}.*\); name another backup, or give --accept-damage"
    ):
        restore_storage(copy, target, force=False, progress=quiet)
    assert not target.exists()
    restored = restore_storage(copy, target, force=False, accept_damage=True, progress=quiet)
    (found,) = restored.damage
    assert re.match(sentence, found)
    async with both(target) as (storage, _):
        assert (await storage.list("t", "c")).epoch == 4 + EPOCH_STEP


async def test_a_record_that_the_snapshots_contain_may_be_damaged(tmp_path):
    """No recovery reads it."""
    copy = await backed_up(tmp_path)
    ask(copy, "UPDATE trackers SET log_number = 2")
    ask(log_path_of(copy), "UPDATE records SET payload = zeroblob(length(payload)) WHERE tracker_id = 1")
    assert restore_storage(copy, tmp_path / "restored", force=False, progress=quiet).damage == ()


# --- compacting ---


async def test_compacting_returns_the_space_of_both_files(tmp_path):
    """Stored content stays, and later deletions still return space in steps."""
    path = tmp_path / "db"
    async with both(path) as (storage, log):
        kept = await create(storage, [b"kept"])
        await create(storage, [b"1" * 100_000] * 5)
        await append(log, part(1, b"2" * 500_000, b"kept"))
    ask(path, "DELETE FROM entries WHERE length(payload) > 10000")
    ask(log_path_of(path), "DELETE FROM records")
    database, logged = compact_storage(path)
    for file in (database, logged):
        assert file.bytes_before > 500_000
        assert file.bytes_after == file.path.stat().st_size < 250_000
    assert (database.path, logged.path) == (path, log_path_of(path))
    assert ask(path, "PRAGMA auto_vacuum") == ask(log_path_of(path), "PRAGMA auto_vacuum") == [(2,)]
    async with both(path) as (storage, _):
        assert await storage.get_bucket_snapshot_segments(kept, 1, 1) == [b"kept"]


async def test_what_is_no_storage_is_not_compacted(tmp_path):
    """A foreign file is left alone, without a lock file beside it."""
    path = tmp_path / "db"
    with pytest.raises(InvalidInput, match="there is no such file"):
        compact_storage(path)
    ask(path, "CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(StorageFormatUnsupported, match="another program"):
        compact_storage(path)
    assert list(tmp_path.iterdir()) == [path]
