"""Snapshots as objects: what each operation costs, and damage of any byte."""

import pytest

from delayed_tracker.storage.errors import (
    SnapshotCorrupt,
    SnapshotNotFound,
    StorageFormatUnsupported,
    StorageInUse,
    StorageUnavailable,
)
from delayed_tracker.storage.objects.keys import ObjectKey
from delayed_tracker.storage.objects.present_objects import FORMAT_KEY
from delayed_tracker.storage.objects.storage import ObjectStorage
from delayed_tracker.storage.testing.contract_tools import create, entry_of
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from delayed_tracker.storage.testing.shared_faults import FaultyObjects, SharedFaults


async def opened(store: MemoryObjects) -> tuple[ObjectStorage, SharedFaults]:
    faults = SharedFaults()
    storage = ObjectStorage(FaultyObjects(store, faults))
    await storage.start()
    faults.counts.clear()
    return storage, faults


def only_snapshot(store: MemoryObjects) -> str:
    (key,) = (key for key in store.content if key.endswith(".s"))
    return key


async def read_all(storage: ObjectStorage, bucket_id: int) -> tuple[bytes, list[bytes], int]:
    return (
        await storage.get_bucket_snapshot_metadata(bucket_id),
        await storage.get_bucket_snapshot_segments(bucket_id, 1, 3),
        await storage.get_bucket_snapshot_length(bucket_id),
    )


async def test_requests_of_each_operation():
    """A seal is two writes, a first load two reads and a further one a single read, wherever the snapshot is known from."""
    store = MemoryObjects()
    storage, faults = await opened(store)
    bucket_id = await create(storage, [b"1", b"2", b"3"])
    await storage.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1)
    await storage.close()
    assert faults.counts == {"put": 1, "read": 3, "write": 1, "list": 1}
    again, faults = await opened(store)
    await again.list("topic", "cursor")
    assert faults.counts == {"read": 1}
    faults.counts.clear()
    assert await again.get_bucket_snapshot_segments(bucket_id, 2, 3) == [b"2", b"3"]
    assert faults.counts == {"get": 2}
    assert await again.get_bucket_snapshot_segments(bucket_id, 1, 1) == [b"1"]
    assert faults.counts == {"get": 3}
    await again.delete_bucket_snapshot(bucket_id)
    await again.delete_bucket_snapshot(bucket_id)
    assert faults.counts == {"get": 3, "delete": 1}


@pytest.mark.parametrize("listed", [False, True])
async def test_every_flipped_byte_is_found(listed):
    """Whichever byte of an object is changed, no read returns other bytes; its error names the object."""
    store = MemoryObjects()
    storage, _ = await opened(store)
    bucket_id = await create(storage, [b"one", b"", b"three"])
    if not listed:
        await storage.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1)
    key = only_snapshot(store)
    whole = store.content[key]
    expected = await read_all(storage, bucket_id)
    for place in range(len(whole)):
        octets = bytearray(whole)
        octets[place] ^= 1 << place % 8
        store.content[key] = bytes(octets)
        reader, _ = await opened(store)
        if not listed:
            await reader.list("topic", "cursor")
        with pytest.raises((SnapshotCorrupt, StorageFormatUnsupported), match=key):
            await read_all(reader, bucket_id)
    store.content[key] = whole
    assert await read_all(reader, bucket_id) == expected


async def test_an_object_that_is_cut_or_longer_is_damaged():
    """Any other length than the one that was written is found."""
    store = MemoryObjects()
    storage, _ = await opened(store)
    bucket_id = await create(storage, [b"one", b"two", b"three"])
    await storage.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1)
    key = only_snapshot(store)
    whole = store.content[key]
    for octets in (*(whole[:end] for end in range(len(whole))), whole[:5] + whole):
        store.content[key] = octets
        for known in (False, True):
            reader, _ = await opened(store)
            if known:
                await reader.list("topic", "cursor")
            with pytest.raises(SnapshotCorrupt, match=key):
                await read_all(reader, bucket_id)


async def test_an_object_under_another_name_is_damaged():
    """Bytes of one snapshot do not pass for another one."""
    store = MemoryObjects()
    storage, _ = await opened(store)
    first, second = await create(storage, [b"1", b"2", b"3"]), await create(storage, [b"4", b"5", b"6"])
    keys = {ObjectKey.parse(key).number: key for key in store.content if key.endswith(".s")}
    store.content[keys[first]] = store.content[keys[second]]
    with pytest.raises(SnapshotCorrupt, match="trailer"):
        await storage.get_bucket_snapshot_metadata(first)


async def test_what_another_process_deleted_is_not_found():
    """A reader that knows a snapshot learns that it is gone, and does not look for it again."""
    store = MemoryObjects()
    storage, faults = await opened(store)
    bucket_id = await create(storage, [b"1"])
    assert await storage.get_bucket_snapshot_segments(bucket_id, 1, 1) == [b"1"]
    other, _ = await opened(store)
    await other.delete_bucket_snapshot(bucket_id)
    for _ in range(2):
        with pytest.raises(SnapshotNotFound):
            await storage.get_bucket_snapshot_segments(bucket_id, 1, 1)
    assert faults.counts.get("list", 0) == 0


async def test_another_programs_place_is_refused():
    """A store with another format is left alone, and the storage can be started once."""
    store = MemoryObjects()
    await store.put_if(FORMAT_KEY, b"delayed-tracker objects 2\n", None)
    with pytest.raises(StorageFormatUnsupported, match="objects 2"):
        await ObjectStorage(store).start()
    storage, _ = await opened(MemoryObjects())
    with pytest.raises(StorageInUse):
        await storage.start()


async def test_an_entry_keeps_what_is_known_of_its_snapshot():
    """A process that replaces an entry without knowing the snapshot leaves the pointer, so that nobody has to list."""
    store = MemoryObjects()
    storage, _ = await opened(store)
    bucket_id = await create(storage, [b"1"])
    await storage.replace("topic", "cursor", remove=[], add=[entry_of(bucket_id)], epoch=1)
    other, _ = await opened(store)
    await other.replace("topic", "cursor", remove=[bucket_id], add=[entry_of(bucket_id)], epoch=2)
    reader, faults = await opened(store)
    await reader.list("topic", "cursor")
    assert await reader.get_bucket_snapshot_segments(bucket_id, 1, 1) == [b"1"]
    assert "list" not in faults.counts


async def test_a_create_whose_reply_is_lost_is_undone():
    """An object that the store has although the create failed is deleted, if the store can be reached."""
    store = MemoryObjects()
    storage, faults = await opened(store)
    faults.drop_reply("put")
    with pytest.raises(StorageUnavailable, match="done nevertheless"):
        await create(storage, [b"1"])
    assert [key for key in store.content if key.endswith(".s")] == []


async def test_foreign_objects_are_passed_over():
    """An object with a name that is none of ours is neither listed nor read."""
    store = MemoryObjects()
    storage, _ = await opened(store)
    bucket_id = await create(storage, [b"1"])
    folder = only_snapshot(store).rpartition("/")[0]
    store.content[f"{folder}/notes.txt"] = b"mine"
    assert [stored.bucket_id for stored in await storage.list_bucket_snapshots("topic", "cursor")] == [bucket_id]
