"""Snapshots as objects: what each operation costs, and damage of any byte."""

import asyncio
import tracemalloc
from dataclasses import replace

import pytest

from delayed_tracker.storage.errors import (
    SnapshotCorrupt,
    SnapshotNotFound,
    StorageFormatUnsupported,
    StorageInUse,
    StorageUnavailable,
)
from delayed_tracker.storage.objects import pointers
from delayed_tracker.storage.objects.keys import SNAPSHOT, KnownObject, ObjectKey, folder_of
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


async def test_snapshots_of_very_many_trackers_are_known():
    """A snapshot of which a catalogue told long ago, and 200,000 others since, is read without a listing."""
    store = MemoryObjects()
    storage, _ = await opened(store)
    bucket_id = await create(storage, [b"1", b"2"])
    pointer = storage.pointer_of(bucket_id)
    reader, faults = await opened(store)
    reader.learn("topic", "cursor", bucket_id, pointer)
    assert await reader.get_bucket_snapshot_segments(bucket_id, 1, 1) == [b"1"]
    for number in range(1, 200_101):
        reader.learn("topic", f"cursor {number // 3}", number, pointer)
    faults.counts.clear()
    assert await reader.get_bucket_snapshot_segments(bucket_id, 2, 2) == [b"2"]
    assert faults.counts == {"get": 1}


def test_what_is_known_of_snapshots_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """The ones that were used last are kept with all that is known of them; the others go, and what is gone is nowhere."""
    monkeypatch.setattr(pointers, "OBJECTS_MAX", 100)
    known = pointers.KnownObjects()
    objects = [
        KnownObject(
            ObjectKey(f"t/{number % 7}/", number, 2**64 - 1 - number % 3, number, SNAPSHOT), 2**40 + number, number
        )
        for number in range(1, 1_001)
    ]
    for number, each in enumerate(objects, 1):
        known.add(each)
        assert known.get(1) == objects[0]  # used again and again
        assert [known.get(last) for last in range(max(1, number - 40), number + 1)] == objects[
            max(0, number - 41) : number
        ]
    kept = [each for each in objects if known.get(each.key.number) == each]
    assert 100 <= len(kept) <= 200
    known.deleted(1)
    known.deleted(1_000)
    assert known.get(1) is None
    assert known.get(1_000) is None
    known.add(replace(objects[998], tail_bytes=0))  # a listing, which does not show the index
    assert known.get(999) == objects[998]


def test_a_known_snapshot_takes_some_hundred_bytes():
    """The place of each snapshot takes little memory, however many there are."""
    key = ObjectKey(folder_of("persistent://tenant/namespace/topic", "cursor"), 2**40, 2**63, 0, SNAPSHOT)
    ids = [2**62 + number for number in range(30_000)]
    known = pointers.KnownObjects()
    tracemalloc.start()
    for number in ids:
        known.add(KnownObject(replace(key, number=number), 10**9, 10**6))
    used_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used_bytes < 120 * len(ids)


def test_trackers_that_come_and_go_leave_nothing(monkeypatch: pytest.MonkeyPatch):
    """The last of a tracker's snapshots takes with it what is known of the tracker."""
    monkeypatch.setattr(pointers, "DELETED_MAX", 10)
    known = pointers.KnownObjects()
    tracemalloc.start()
    for number in range(20_000):
        key = ObjectKey(folder_of(f"topic {number // 2}", "cursor"), 1, 1, number, SNAPSHOT)
        known.add(KnownObject(key, 1_000, 0))
        known.add(KnownObject(key, 1_000, 100))
        if number == 10_000:
            before_bytes = tracemalloc.get_traced_memory()[0]
        known.deleted(number)
    used_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used_bytes < before_bytes + 100_000


async def with_unknown_snapshots(count: int) -> tuple[ObjectStorage, SharedFaults, list[int]]:
    """Return a storage that has heard of none of the snapshots in its store, and their ids."""
    store = MemoryObjects()
    writer, _ = await opened(store)
    bucket_ids = [await create(writer, [b"1"]) for _ in range(count)]
    return *(await opened(store)), bucket_ids


def read_first(storage: ObjectStorage, bucket_ids: list[int]) -> list[asyncio.Task[list[bytes]]]:
    return [asyncio.create_task(storage.get_bucket_snapshot_segments(bucket_id, 1, 1)) for bucket_id in bucket_ids]


async def test_searches_share_a_listing():
    """Reads of snapshots that nobody told of wait for one listing; one of a snapshot that is missing waits for another."""
    storage, faults, bucket_ids = await with_unknown_snapshots(10)
    hold = faults.hold("list")
    reading = read_first(storage, [*bucket_ids, 7, 8])
    await hold.reached.wait()
    await asyncio.sleep(0)
    hold.go_on.set()
    answers = await asyncio.gather(*reading, return_exceptions=True)
    assert answers[:10] == [[b"1"]] * 10
    assert [type(answer) for answer in answers[10:]] == [SnapshotNotFound] * 2
    assert faults.counts["list"] == 2


async def test_searches_share_an_outage():
    """A listing that fails is the answer of those that wait for it; the next read lists again."""
    storage, faults, bucket_ids = await with_unknown_snapshots(10)
    hold = faults.hold("list")
    faults.fail_before("list")
    faults.fail_before("list")
    reading = read_first(storage, bucket_ids)
    await hold.reached.wait()
    await asyncio.sleep(0)
    hold.go_on.set()
    answers = await asyncio.gather(*reading, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StorageUnavailable] * 10
    assert faults.counts["list"] == 2
    assert await storage.get_bucket_snapshot_segments(bucket_ids[0], 1, 1) == [b"1"]
    assert faults.counts["list"] == 3


async def test_a_search_that_is_cancelled_leaves_the_others():
    """If the read goes away whose listing the others wait for, the next of them lists."""
    storage, faults, bucket_ids = await with_unknown_snapshots(3)
    hold = faults.hold("list")
    reading = read_first(storage, bucket_ids)
    await hold.reached.wait()
    await asyncio.sleep(0)
    reading[0].cancel()
    answers = await asyncio.gather(*reading, return_exceptions=True)
    assert answers[1:] == [[b"1"]] * 2
    assert faults.counts["list"] == 2


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
    store.content[f"{folder}/{'f' * 16}.{1:016x}.{1:016x}.s"] = b"mine"
    assert [stored.bucket_id for stored in await storage.list_bucket_snapshots("topic", "cursor")] == [bucket_id]
