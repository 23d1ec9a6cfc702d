"""A bucket, container or directory that is away for a while: an outage, after which everything is as before."""

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from delayed_tracker.storage.errors import SnapshotConflict, SnapshotNotFound, StorageUnavailable
from delayed_tracker.storage.objects.file_objects import FileObjects
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.testing.contract_tools import create, entry_of, started
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from delayed_tracker.storage.testing.shared_faults import FaultyObjects, SharedFaults

SEGMENTS = [b"1", b"2", b"3"]


async def opened(store: MemoryObjects, **options) -> tuple[ObjectStorage, SharedFaults]:
    faults = SharedFaults()
    storage = ObjectStorage(FaultyObjects(store, faults), **options)
    await storage.start()
    faults.counts.clear()
    return storage, faults


async def commit(storage: ObjectStorage, *bucket_ids: int, epoch: int = 1) -> None:
    entries = [replace(entry_of(bucket_id), summary=bytes(600)) for bucket_id in bucket_ids]
    await storage.replace("topic", "cursor", remove=[], add=entries, epoch=epoch)


@contextmanager
def away(store: MemoryObjects):
    """Let an empty store take the place of this one."""
    content, store.content = store.content, {}
    try:
        yield
        assert store.content == {}, "something was written into the empty store"
    finally:
        store.content = content


@pytest.mark.parametrize("document_bytes_max", [10, 10**6], ids=["rows_in_a_blob", "rows_in_the_document"])
async def test_a_store_that_is_away_has_lost_nothing(document_bytes_max):
    """Reads and commits are refused while it is away, and none of them is remembered when it is back."""
    store = MemoryObjects()
    owner, _ = await opened(store, document_bytes_max=document_bytes_max)
    bucket_id = await create(owner, SEGMENTS)
    await commit(owner, bucket_id)
    state = await owner.list("topic", "cursor")
    other, _ = await opened(store, document_bytes_max=document_bytes_max)
    with away(store), pytest.raises(StorageUnavailable, match="neither"):
        await other.replace("topic", "cursor", remove=[], add=[], epoch=2)
    assert await other.list("topic", "cursor") == state
    for storage in (owner, other):
        reads = (
            partial(storage.list, "topic", "cursor"),
            partial(storage.get_bucket_snapshot_length, bucket_id),
            partial(storage.get_bucket_snapshot_metadata, bucket_id),
            partial(storage.get_bucket_snapshot_segments, bucket_id, 1, 3),
        )
        for read in reads:
            with away(store), pytest.raises(StorageUnavailable, match=r"memory has neither .* directory back"):
                await read()
        answers = [await read() for read in reads]
        assert answers[0] == state
        assert answers[3] == SEGMENTS


async def test_a_store_that_is_away_deletes_nothing():
    """A deletion fails and is tried again; else the snapshot would be there for good, and no sweep would find it."""
    store = MemoryObjects()
    storage, _ = await opened(store)
    bucket_id = await create(storage, SEGMENTS)
    with away(store), pytest.raises(StorageUnavailable, match="neither"):
        await storage.delete_bucket_snapshot(bucket_id)
    assert [each.bucket_id for each in await storage.list_bucket_snapshots("topic", "cursor")] == [bucket_id]
    await storage.delete_bucket_snapshot(bucket_id)
    await storage.delete_bucket_snapshot(bucket_id)
    assert await storage.list_bucket_snapshots("topic", "cursor") == []


async def test_a_search_of_a_store_that_is_away_finds_an_outage():
    """A snapshot of which the process knows the id alone is looked for in a listing, which an empty store answers, too."""
    store = MemoryObjects()
    owner, _ = await opened(store)
    bucket_id = await create(owner, SEGMENTS)
    other, _ = await opened(store)
    with away(store), pytest.raises(StorageUnavailable, match="neither"):
        await other.get_bucket_snapshot_metadata(bucket_id)
    assert await other.get_bucket_snapshot_segments(bucket_id, 1, 3) == SEGMENTS


async def test_a_commit_to_a_store_that_is_away_begins_no_new_catalogue():
    """A process that knows the catalogue is refused, and goes on with the same one; an older owner stays fenced."""
    store = MemoryObjects()
    owner, _ = await opened(store)
    await commit(owner, 1, epoch=5)
    with away(store), pytest.raises(StorageUnavailable):
        await owner.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=5)
    with pytest.raises(SnapshotConflict):
        await owner.replace("topic", "cursor", remove=[], add=[entry_of(2)], epoch=4)
    await owner.replace("topic", "cursor", remove=[], add=[entry_of(3)], epoch=5)
    assert [entry.bucket_id for entry in (await owner.list("topic", "cursor")).entries] == [1, 3]


@pytest.mark.parametrize("operation", ["snapshot", "catalogue"])
async def test_a_store_that_comes_back_between_two_reads_has_lost_nothing(operation):
    """A read that found nothing is repeated once the store is known to be there."""
    store = MemoryObjects()
    storage, faults = await opened(store)
    bucket_id = await create(storage, SEGMENTS)
    await commit(storage, bucket_id)
    state = await storage.list("topic", "cursor")
    if operation == "snapshot":
        hold = faults.hold("read")
        call = asyncio.create_task(storage.get_bucket_snapshot_segments(bucket_id, 1, 3))
    else:
        faults.hold("read").go_on.set()
        hold = faults.hold("read")
        call = asyncio.create_task(storage.list("topic", "cursor"))
    reached = asyncio.create_task(hold.reached.wait())
    with away(store):
        await asyncio.wait({reached, call}, return_when=asyncio.FIRST_COMPLETED)
    hold.go_on.set()
    assert await call == (SEGMENTS if operation == "snapshot" else state)


async def test_what_is_missing_costs_two_requests_more():
    """The format object and the missing one are read, once for each snapshot; what is there costs nothing more."""
    store = MemoryObjects()
    storage, faults = await opened(store)
    bucket_id = await create(storage, SEGMENTS)
    other, _ = await opened(store)
    await other.delete_bucket_snapshot(bucket_id)
    faults.counts.clear()
    for _ in range(2):
        with pytest.raises(SnapshotNotFound):
            await storage.get_bucket_snapshot_segments(bucket_id, 1, 3)
    assert faults.counts == {"get": 2, "read": 1}
    faults.counts.clear()
    assert (await storage.list("topic", "new")).epoch == 0
    assert faults.counts == {"read": 3}


async def test_a_directory_that_is_away_has_lost_nothing(tmp_path):
    """A directory that is moved away and back is an outage for reads, commits and listings."""
    directory, elsewhere = tmp_path / "shared", tmp_path / "elsewhere"
    async with started(lambda _: ObjectStorage(FileObjects(directory)), "") as storage:
        bucket_id = await create(storage, SEGMENTS)
        await storage.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1)
        state = await storage.list("topic", "cursor")
        directory.rename(elsewhere)
        with pytest.raises(StorageUnavailable, match=rf"{directory} has neither t/.* nor 'format'"):
            await storage.get_bucket_snapshot_segments(bucket_id, 1, 3)
        with pytest.raises(StorageUnavailable, match=rf"{directory} has neither c/.* nor 'format'"):
            await storage.list("topic", "cursor")
        with pytest.raises(StorageUnavailable):
            await storage.replace("topic", "cursor", remove=[], add=[entry_of(7)], epoch=1)
        for listing in (
            storage.list_bucket_snapshots("topic", "cursor"),
            storage.trackers(),
            storage.snapshot_places(),
            storage.get_bucket_snapshot_metadata(99),
        ):
            with pytest.raises(StorageUnavailable, match=rf"{directory} has lost unfinished/\w+: mount it"):
                await listing
        elsewhere.rename(directory)
        assert await storage.list("topic", "cursor") == state
        assert await storage.trackers() == [("topic", "cursor")]
        assert await storage.get_bucket_snapshot_segments(bucket_id, 1, 3) == SEGMENTS
