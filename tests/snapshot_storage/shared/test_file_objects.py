"""Objects as files: whole or absent, on disk when the call returns, and shared by processes."""

import asyncio
import fcntl
import itertools
import multiprocessing
import os
import tracemalloc
from pathlib import Path
from uuid import uuid4

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import SnapshotConflict, StorageFormatUnsupported, StorageUnavailable
from delayed_tracker.storage.objects import file_objects
from delayed_tracker.storage.objects.file_objects import FileObjects, _Draft
from delayed_tracker.storage.objects.opening import open_file
from delayed_tracker.storage.objects.present_objects import FORMAT, FORMAT_KEY
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.shared.document_store import Stale
from delayed_tracker.storage.testing.contract_tools import create, entry_of, started
from tests.snapshot_storage.shared.object_bounds import check_bounds

ROUNDS = 20


def files_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def storage_in(directory: Path) -> ObjectStorage:
    return ObjectStorage(FileObjects(directory))


@pytest.mark.parametrize("rest", ["", "relative", "//host/path", "/one-slash", "///"])
def test_a_url_without_an_absolute_path_is_refused(rest):
    """The error shows the form of the URL."""
    with pytest.raises(InvalidInput, match="file:///DIR"):
        open_file(rest)


async def test_a_place_that_cannot_be_one_is_refused(tmp_path):
    """A file, a directory below a missing one, and one with other files are refused; nothing is written there."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInput, match="no directory"):
        await storage_in(tmp_path / "file").start()
    with pytest.raises(InvalidInput, match="create the directory"):
        await storage_in(tmp_path / "a" / "b").start()
    with pytest.raises(StorageFormatUnsupported, match="'file'"):
        await storage_in(tmp_path).start()
    assert files_in(tmp_path) == ["file"]


async def test_what_an_ended_process_left_is_swept(tmp_path):
    """A start deletes unfinished files of processes that have ended, not those of a living one."""
    async with started(lambda name: storage_in(tmp_path / name), "shared"):
        (living,) = (tmp_path / "shared" / "unfinished").iterdir()
        (living / "7").write_bytes(b"in the making")
        ended = living.with_name(uuid4().hex)
        ended.mkdir()
        (ended / "0").write_bytes(b"cut off")
        objects = FileObjects(tmp_path / "shared")
        await objects.start()
        assert objects.swept_count == 1
        assert (living / "7").exists()
        assert not ended.exists()
        await objects.close()


async def test_what_others_left_beside_it_stays(tmp_path):
    """A start neither fails for files, folders and links that no process of ours made there, nor deletes them."""
    unfinished = tmp_path / "shared" / "unfinished"
    async with started(lambda name: storage_in(tmp_path / name), "shared"):
        pass
    ended, linked = unfinished / uuid4().hex, tmp_path / "linked"
    for folder in (unfinished / "notes", ended / "7", linked):
        folder.mkdir(parents=True)
    strange = [
        unfinished / "stray",
        unfinished / uuid4().hex,
        unfinished / "notes" / "0",
        ended / "7" / "0",
        ended / "mine",
        linked / "0",
    ]
    for file in (*strange, ended / "0"):
        file.touch()
    (unfinished / uuid4().hex).symlink_to(linked)
    objects = FileObjects(tmp_path / "shared")
    await objects.start()
    await objects.close()
    assert objects.swept_count == 1
    assert all(file.exists() for file in strange)
    assert not (ended / "0").exists()


@pytest.mark.parametrize("moment", ["opened", "locked"])
async def test_a_process_that_ends_while_another_one_starts(tmp_path, monkeypatch, moment):
    """The folder of a process that ends is removed after the start has listed it; that does not matter."""
    async with started(lambda name: storage_in(tmp_path / name), "shared"):
        pass
    ended = tmp_path / "shared" / "unfinished" / uuid4().hex
    ended.mkdir()
    open_file, lock = os.open, fcntl.flock

    def open_late(path, flags, *mode):
        if moment == "opened" and path == ended:
            ended.rmdir()
        return open_file(path, flags, *mode)

    def lock_late(descriptor, operation):
        if moment == "locked" and Path(f"/proc/self/fd/{descriptor}").resolve() == ended:
            ended.rmdir()
        lock(descriptor, operation)

    monkeypatch.setattr(os, "open", open_late)
    monkeypatch.setattr(fcntl, "flock", lock_late)
    async with started(lambda name: storage_in(tmp_path / name), "shared"):
        assert not ended.exists()


async def test_a_directory_that_another_process_makes_meanwhile(tmp_path, monkeypatch):
    """A start takes a directory that was missing a moment before, and one that gets its format meanwhile."""
    shared = tmp_path / "shared"
    is_directory, entries = Path.is_dir, Path.iterdir

    def is_directory_before(path):
        answer = is_directory(path)
        if not shared.exists():
            shared.mkdir()
        return answer

    def entries_after(path):
        if path == shared:
            (shared / FORMAT_KEY).write_bytes(FORMAT)
        return entries(path)

    with monkeypatch.context() as context:
        context.setattr(Path, "is_dir", is_directory_before)
        async with started(lambda _: storage_in(shared), ""):
            pass
    (shared / FORMAT_KEY).unlink()
    monkeypatch.setattr(Path, "iterdir", entries_after)
    async with started(lambda _: storage_in(shared), ""):
        assert (shared / FORMAT_KEY).exists()


async def test_what_is_read_has_bounds(tmp_path, monkeypatch):
    """Files and ranges above their bounds are refused before they are read, as in every store of objects."""
    objects = FileObjects(tmp_path / "bounds")
    await objects.start()
    await check_bounds(objects, file_objects, monkeypatch)
    await objects.close()


async def test_a_listing_tells_that_a_file_was_replaced(tmp_path):
    """Another version is listed after a write, also of the same size and at once."""
    objects = FileObjects(tmp_path / "versions")
    await objects.start()
    version, listed = None, []
    for number in range(20):
        version = await objects.put_if("c/document", b"%02d" % number, version)
        (found,) = await objects.listing("c/")
        assert await objects.listing("c/") == [found]
        listed.append(found.version)
    await objects.close()
    assert all(before != after for before, after in itertools.pairwise(listed))


async def test_a_write_beside_a_huge_file_needs_little_memory(tmp_path):
    """A compare and swap compares a file of any size by pieces."""
    objects = FileObjects(tmp_path / "huge")
    await objects.start()
    await objects.put_if("c/document", b"first", None)
    os.truncate(tmp_path / "huge" / "c" / "document", 2**26)
    tracemalloc.start()
    with pytest.raises(Stale):
        await objects.put_if("c/document", b"second", None)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    await objects.close()
    assert peak_bytes < 2**22


async def test_a_failed_sync_of_a_directory_ends_all(tmp_path, monkeypatch):
    """After a failed fsync nothing is read as durable that may not be, until the process is started anew."""
    async with started(lambda name: storage_in(tmp_path / name), "sync") as storage:
        sync = os.fsync

        def fail(descriptor):
            if Path(f"/proc/self/fd/{descriptor}").is_dir():
                raise OSError(5, "Input/output error")
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(StorageUnavailable, match="restart"):
            await storage.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=1)
        monkeypatch.undo()
        with pytest.raises(StorageUnavailable, match="fsync failed"):
            await storage.list("topic", "cursor")


async def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    """A write that fails is an error with the remedy; the document stays, and no part of the new one does."""
    async with started(lambda name: storage_in(tmp_path / name), "full") as storage:
        await storage.replace("topic", "cursor", remove=[], add=[entry_of(1)], epoch=1)
        before = files_in(tmp_path)

        def fail(_descriptor):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as context:
            context.setattr(os, "fsync", fail)
            with pytest.raises(StorageUnavailable, match="free space"):
                await storage.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=1)
            with pytest.raises(StorageUnavailable, match="free space"):
                await create(storage, [b"1"])
        assert files_in(tmp_path) == before
        await storage.replace("topic", "cursor", remove=[], add=[entry_of(3)], epoch=1)
        assert [entry.bucket_id for entry in (await storage.list("topic", "cursor")).entries] == [1, 3]


async def test_a_long_create_is_written_as_it_comes(tmp_path):
    """Segments of a large bucket are on their way to the disk before the last one is there."""
    sizes = []

    async def segments():
        for _ in range(6):
            yield bytes(512 * 1024)
            unfinished = (tmp_path / "long" / "unfinished").rglob("*")
            sizes.append(sum(path.stat().st_size for path in unfinished if path.is_file()))

    async with started(lambda name: storage_in(tmp_path / name), "long") as storage:
        bucket_id = await storage.create_bucket_snapshot(
            b"m", segments(), bucket_key="key", topic="topic", cursor="cursor", epoch=1
        )
        assert await storage.get_bucket_snapshot_length(bucket_id) == 6 * 512 * 1024 + 1
    assert sizes[-1] >= 2**20


def test_nothing_is_written_after_a_draft_was_discarded(tmp_path):
    """Jobs of a cancelled create that come late, in another thread, leave no file."""
    published = []
    draft = _Draft(tmp_path / "object", tmp_path / "unfinished")
    draft.write(b"early")
    draft.discard()
    draft.write(b"late")
    draft.finish(lambda temporary, path: published.append(path))
    assert (published, files_in(tmp_path)) == ([], [])


def _compete(directory: Path, process: int) -> None:
    """Claim the tracker again and again, and add an entry under each epoch that was won."""

    async def run():
        storage = storage_in(directory)
        await storage.start()
        for number in range(1, ROUNDS + 1):
            epoch = (await storage.list("topic", "cursor")).epoch + 1
            try:
                await storage.replace(
                    "topic",
                    "cursor",
                    remove=[],
                    add=[entry_of(1_000 * process + number)],
                    epoch=epoch,
                    writer=str(process),
                )
            except SnapshotConflict:
                continue
            (directory / f"won.{epoch}.{process}.{number}").touch(exist_ok=False)
        await storage.close()

    asyncio.run(run())


async def test_processes_compete_for_a_tracker(tmp_path):
    """Each epoch is won by one process, and what the winners have added is in the catalogue, and nothing else."""
    directory = tmp_path / "shared"
    async with started(lambda _: storage_in(directory), "") as storage:
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=_compete, args=(directory, number)) for number in (1, 2)]
        for process in processes:
            process.start()
        for process in processes:
            await asyncio.to_thread(process.join)
        assert [process.exitcode for process in processes] == [0, 0]
        won = [path.name.split(".")[1:] for path in directory.glob("won.*")]
        state = await storage.list("topic", "cursor")
    assert len({epoch for epoch, _, _ in won}) == len(won) == state.epoch
    added = {1_000 * int(process) + int(number) for _, process, number in won}
    assert {entry.bucket_id for entry in state.entries} == added


def _killed_in_a_put(directory: Path) -> None:
    async def run():
        storage = storage_in(directory)
        await storage.start()

        async def segments():
            for _ in range(5):
                yield bytes(2**20)
            os._exit(9)

        await storage.create_bucket_snapshot(
            b"m", segments(), bucket_key="key", topic="topic", cursor="cursor", epoch=1
        )

    asyncio.run(run())


async def test_a_killed_create_leaves_nothing_visible(tmp_path):
    """A snapshot that a kill cut off is not listed, and its bytes go at the next start."""
    killed = multiprocessing.get_context("spawn").Process(target=_killed_in_a_put, args=(tmp_path / "killed",))
    killed.start()
    await asyncio.to_thread(killed.join)
    assert killed.exitcode == 9
    assert len(files_in(tmp_path / "killed" / "unfinished")) == 1
    async with started(lambda name: storage_in(tmp_path / name), "killed") as storage:
        assert await storage.list_bucket_snapshots("topic", "cursor") == []
        assert files_in(tmp_path / "killed" / "unfinished") == []
