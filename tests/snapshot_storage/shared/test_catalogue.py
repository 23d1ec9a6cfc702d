"""The shared catalogue: what a commit costs, large values and documents, damage, and what is swept."""

import asyncio
import random
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt, SnapshotTooLarge, StorageUnavailable
from delayed_tracker.storage.objects.documents import ObjectBlobs, ObjectDocuments
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.shared import catalogue, parts
from delayed_tracker.storage.shared.catalogue import SharedCatalogue
from delayed_tracker.storage.shared.parts import PARTS_MAX
from delayed_tracker.storage.testing.contract_tools import entry_of
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from delayed_tracker.storage.testing.shared_faults import FaultyObjects, SharedFaults

KIB = 1024


class Process:
    """A catalogue over objects in memory, with faults."""

    def __init__(self, store: MemoryObjects | None = None, *, instance: int = 1, max_bytes: int = 256 * KIB) -> None:
        self.store = MemoryObjects() if store is None else store
        self.faults = SharedFaults()
        self.sleeps: list[float] = []
        objects = FaultyObjects(self.store, self.faults)
        chance = random.Random(instance)
        self.catalogue = SharedCatalogue(
            ObjectDocuments(objects, max_bytes=max_bytes),
            ObjectBlobs(objects, instance, lambda: chance.getrandbits(62)),
            sleep=self._sleep,
            chance=chance,
        )

    async def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)

    async def replace(self, *entries: CatalogueEntry, epoch: int = 1, remove=(), writer="") -> None:
        await self.catalogue.replace("topic", "cursor", remove=remove, add=entries, epoch=epoch, writer=writer)

    async def entries(self) -> tuple[CatalogueEntry, ...]:
        return (await self.catalogue.list("topic", "cursor")).entries

    def blobs(self) -> list[str]:
        return sorted(key for key in self.store.content if key.startswith("t/"))

    def document(self) -> str:
        (key,) = (key for key in self.store.content if key.startswith("c/"))
        return key


def with_summary(bucket_id: int, size: int) -> CatalogueEntry:
    return replace(entry_of(bucket_id), summary=random.Random(bucket_id).randbytes(size))


async def test_a_commit_is_one_write():
    """A commit that follows another of the same process reads nothing and writes one document."""
    process = Process()
    await process.replace(entry_of(1))
    await process.catalogue.finish()
    process.faults.counts.clear()
    await process.replace(entry_of(2))
    await process.catalogue.finish()
    assert process.faults.counts == {"write": 1}


async def test_a_claim_is_answered_with_the_catalogue_that_was_listed_before():
    """A recovery reads the document and its parts once: the claim of the epoch is answered from what it replaced."""
    owner = Process()
    await owner.replace(with_summary(1, 600), with_summary(2, 10))
    other = Process(owner.store, instance=2)
    listed = await other.catalogue.list("topic", "cursor")
    other.faults.counts.clear()
    claimed = await other.catalogue.replace("topic", "cursor", remove=(), add=(), epoch=2, writer="other")
    await other.catalogue.finish()
    assert claimed == replace(listed, epoch=2)
    assert other.faults.counts == {"write": 1, "list": 1}


async def test_a_claim_is_answered_with_what_an_earlier_owner_has_committed_meanwhile():
    """The earlier owner commits after the list: the claim is answered with that commit, or with nothing."""
    owner = Process()
    await owner.replace(with_summary(1, 600))
    other = Process(owner.store, instance=2)
    await other.catalogue.list("topic", "cursor")
    await owner.replace(with_summary(2, 10))
    claimed = await other.catalogue.replace("topic", "cursor", remove=(), add=(), epoch=2, writer="other")
    assert claimed is not None
    assert [entry.bucket_id for entry in claimed.entries] == [1, 2]
    third = Process(owner.store, instance=3)
    await third.catalogue.list("topic", "cursor")
    await other.replace(with_summary(3, 600), epoch=2, writer="other")
    assert await third.catalogue.replace("topic", "cursor", remove=(), add=(), epoch=3, writer="third") is None
    assert [entry.bucket_id for entry in (await third.catalogue.list("topic", "cursor")).entries] == [1, 2, 3]


async def test_what_is_kept_of_listed_catalogues_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """The catalogues that were listed last are kept; those of before are read again by their next commit."""
    monkeypatch.setattr("delayed_tracker.storage.shared.catalogue.KNOWN_BYTES_MAX", 10_000)
    process = Process()
    for number in range(20):
        await process.catalogue.list("topic", f"cursor {number}")
    assert 0 < len(process.catalogue._known) < 10
    assert process.catalogue._known_bytes <= 10_000
    await process.catalogue.replace("topic", "cursor 0", remove=(), add=[with_summary(1, 20_000)], epoch=1)
    await process.catalogue.list("topic", "cursor 0")
    assert process.catalogue._known_bytes <= 10_000


async def test_calls_that_wait_are_written_together():
    """Calls that arrive during a write share the next one, and each has its own answer."""
    process = Process()
    await process.replace(epoch=2, writer="owner")
    hold = process.faults.hold("write")
    first = asyncio.create_task(process.replace(entry_of(1), epoch=2))
    await hold.reached.wait()
    others = [
        asyncio.create_task(process.replace(entry_of(number), epoch=epoch, writer=writer))
        for number, epoch, writer in ((2, 2, "owner"), (3, 1, "owner"), (4, 2, "stranger"), (5, 2, ""))
    ]
    await asyncio.sleep(0)
    process.faults.counts.clear()
    hold.go_on.set()
    answers = await asyncio.gather(first, *others, return_exceptions=True)
    assert [type(answer) for answer in answers] == [
        type(None),
        type(None),
        SnapshotConflict,
        SnapshotConflict,
        type(None),
    ]
    assert process.faults.counts == {"write": 1}
    assert [entry.bucket_id for entry in await process.entries()] == [1, 2, 5]


async def test_a_store_that_minds_gets_one_write_at_a_time():
    """Between two writes of one document the catalogue waits as long as the store needs."""
    store = MemoryObjects()
    store.min_interval_s = 1.05
    process = Process(store)
    await process.replace(entry_of(1))
    await process.replace(entry_of(2))
    await process.catalogue.finish()
    assert process.sleeps == [1.05, 1.05]


async def test_a_cancelled_call_is_written_nevertheless():
    """A caller that goes away leaves the others' answers as they are."""
    process = Process()
    hold = process.faults.hold("write")
    calls = [asyncio.create_task(process.replace(entry_of(number))) for number in (1, 2)]
    await hold.reached.wait()
    calls[0].cancel()
    hold.go_on.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert calls[0].cancelled()
    assert [entry.bucket_id for entry in await process.entries()] == [1, 2]


async def test_other_processes_that_are_always_faster_end_in_an_error():
    """A commit that loses every race waits longer and longer, and gives up."""
    process, others = Process(), Process(instance=2)
    others.store.content, others.store._versions = process.store.content, process.store._versions
    write = process.store.put_if

    async def second(key, content, expected):
        process.store._versions[key] = process.store._versions.get(key, 0) + 1
        return await write(key, content, expected)

    await process.replace(entry_of(1))
    process.store.put_if = second
    with pytest.raises(StorageUnavailable, match="12 times"):
        await process.replace(entry_of(2))
    assert len(process.sleeps) == 10


async def test_large_values_are_in_parts_of_which_there_are_few():
    """Parts are merged before they are many, and blobs that no row needs are deleted."""
    process = Process()
    entries = [with_summary(number, 600 + 10 * number) for number in range(1, 61)]
    for entry in entries:
        await process.replace(entry)
        await process.catalogue.finish()
        assert len(process.blobs()) <= PARTS_MAX + 1
    assert await process.entries() == tuple(entries)
    assert len(process.store.content[process.document()]) < 60 * 110
    for entry in entries:
        await process.replace(remove=[entry.bucket_id])
    await process.catalogue.finish()
    assert process.blobs() == []


async def test_a_part_ends_before_it_is_too_large_to_be_read(monkeypatch: pytest.MonkeyPatch):
    """Values of one commit are in several parts then, which no later commit reads or writes again."""
    monkeypatch.setattr(parts, "PART_BYTES_MAX", 10 * KIB, raising=False)
    process = Process()
    entries = [with_summary(number, 3 * KIB) for number in range(1, 61)]
    await process.replace(*entries)
    assert max(len(process.store.content[key]) for key in process.blobs()) <= 10 * KIB
    assert len(process.blobs()) > PARTS_MAX
    assert sorted(await process.entries(), key=lambda entry: entry.bucket_id) == entries
    await process.catalogue.finish()
    process.faults.counts.clear()
    await process.replace(entry_of(100))
    await process.catalogue.finish()
    assert process.faults.counts == {"write": 1}


async def test_a_value_that_could_not_be_read_back_is_refused(monkeypatch: pytest.MonkeyPatch):
    """The catalogue stays as it was, and takes what comes next."""
    monkeypatch.setattr(catalogue, "BLOB_BYTES_MAX", 5 * KIB, raising=False)
    process = Process()
    await process.replace(with_summary(1, KIB))
    with pytest.raises(SnapshotTooLarge, match=r"6144 bytes, and one of more than 5120 could not be read back"):
        await process.replace(with_summary(2, 6 * KIB))
    await process.replace(with_summary(3, KIB))
    assert await process.entries() == (with_summary(1, KIB), with_summary(3, KIB))


async def test_a_part_that_is_mostly_unused_is_written_anew():
    """Space of removed buckets is given back before the last bucket of a part goes."""
    process = Process()
    entries = [with_summary(number, 40 * KIB) for number in range(1, 5)]
    await process.replace(*entries)
    await process.replace(remove=[1, 2, 3])
    await process.catalogue.finish()
    (blob,) = process.blobs()
    assert len(process.store.content[blob]) == 40 * KIB
    assert await process.entries() == (entries[3],)


async def test_small_values_move_to_parts_when_the_document_is_large():
    """Consumed positions of a few hundred bytes for each of 1,000 buckets do not fill the document."""
    process = Process()
    for start in range(1, 1_001, 100):
        await process.replace(*(with_summary(number, 400) for number in range(start, start + 100)))
    assert len(process.store.content[process.document()]) < 230 * KIB
    assert len(await process.entries()) == 1_000


async def test_a_large_document_has_its_rows_in_a_blob():
    """A document above the bound is replaced as atomically as others, and leaves one blob, not one for each commit."""
    process = Process(max_bytes=1_000)
    for number in range(1, 41):
        await process.replace(entry_of(number))
    await process.catalogue.finish()
    assert len(process.store.content[process.document()]) < 500
    assert len(process.blobs()) == 1
    assert await Process(process.store, instance=2).entries() == tuple(map(entry_of, range(1, 41)))
    await process.replace(remove=range(2, 41))
    await process.catalogue.finish()
    assert process.blobs() == []


async def test_every_flipped_byte_of_a_blob_is_found():
    """A damaged summary reads as none, damaged consumed positions make the entry corrupt, a damaged body is an error."""
    process = Process()
    await process.replace(replace(with_summary(1, 600), consumed=bytes(600)))
    (blob,) = process.blobs()
    whole = process.store.content[blob]
    for place in range(len(whole)):
        process.store.content[blob] = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        state = await process.catalogue.list("topic", "cursor")
        if place < 600:
            assert [(entry.summary, entry.consumed) for entry in state.entries] == [(b"", bytes(600))]
        else:
            assert (state.entries, state.corrupt) == ((), (1,))
    del process.store.content[blob]
    assert (await process.catalogue.list("topic", "cursor")).corrupt == (1,)


async def test_a_merge_of_parts_does_not_hide_damage():
    """A damaged value stays damaged when the values beside it are written anew, and they stay sound."""
    process = Process()
    await process.replace(replace(with_summary(1, 600), consumed=bytes(600)))
    (blob,) = process.blobs()
    process.store.content[blob] = process.store.content[blob][:-1] + b"\xff"
    entries = [with_summary(number, 1_300) for number in range(2, 31)]
    for entry in entries:
        await process.replace(entry)
    state = await process.catalogue.list("topic", "cursor")
    assert (state.entries, state.corrupt) == (tuple(entries), (1,))


async def test_a_lost_body_is_damage():
    """A document whose rows are gone does not pass for an empty one."""
    process = Process(max_bytes=10)
    await process.replace(entry_of(1))
    (blob,) = process.blobs()
    del process.store.content[blob]
    with pytest.raises(SnapshotCorrupt, match="lost its rows"):
        await process.entries()


async def test_a_damaged_row_does_not_hide_others_and_can_be_removed():
    """A commit keeps a damaged row, until its bucket is removed."""
    process = Process()
    await process.replace(entry_of(1), entry_of(2))
    key = process.document()
    process.store.content[key] = process.store.content[key][:-1] + b"\xff"
    other = Process(process.store, instance=2)
    await other.replace(entry_of(3))
    state = await other.catalogue.list("topic", "cursor")
    assert ([entry.bucket_id for entry in state.entries], state.corrupt) == ([1, 3], (2,))
    await other.replace(remove=[2])
    assert (await other.catalogue.list("topic", "cursor")).corrupt == ()


async def test_a_moved_document_is_not_read():
    """The document of another tracker under this name is an error that names both."""
    process = Process()
    await process.replace(entry_of(1))
    key = process.document()
    await process.catalogue.replace("other", "cursor", remove=[], add=[], epoch=1)
    (other,) = (name for name in process.store.content if name.startswith("c/") and name != key)
    process.store.content[key] = process.store.content[other]
    with pytest.raises(SnapshotCorrupt, match=r"'other'.*'topic'"):
        await process.entries()


async def test_a_claim_sweeps_blobs_of_older_epochs():
    """A claim deletes what a fenced writer has left, however new it is; the new owner's blobs stay."""
    former = Process(max_bytes=100)
    await former.replace(with_summary(1, 600), epoch=1)
    hold = former.faults.hold("write")
    writing = asyncio.create_task(former.replace(with_summary(2, 600), with_summary(3, 600), epoch=1))
    await hold.reached.wait()
    before = former.blobs()
    owner = Process(former.store, instance=2, max_bytes=100)
    await owner.replace(epoch=2)
    await owner.catalogue.finish()
    assert len(before) == 4
    assert len(owner.blobs()) == 2
    assert await owner.entries() == (with_summary(1, 600),)
    hold.go_on.set()
    with pytest.raises(SnapshotConflict):
        await writing


async def test_forgotten_trackers_cost_one_read_each():
    """A list of trackers reads only the documents that may be forgotten, or whose names are too long, and each once."""
    process = Process()
    for topic in ("a", "b", "x" * 300):
        await process.catalogue.replace(topic, "cursor", remove=[], add=[], epoch=1, mark_delete=Position(1, 1))
    await process.catalogue.forget("b", "cursor", epoch=2)
    await process.catalogue.finish()
    process.faults.counts.clear()
    assert await process.catalogue.trackers() == [("a", "cursor"), ("x" * 300, "cursor")]
    assert process.faults.counts == {"list": 2, "read": 2}
    assert await process.catalogue.trackers() == [("a", "cursor"), ("x" * 300, "cursor")]
    assert process.faults.counts == {"list": 4, "read": 2}


async def test_a_forgotten_tracker_that_changed_is_read_again():
    """One that another process opens again, or forgets, is read by the next list of trackers, and once."""
    process = Process()
    for topic in ("a", "b", "c"):
        await process.catalogue.forget(topic, "cursor", epoch=1)
    other = Process(process.store, instance=2)
    assert await other.catalogue.trackers() == []
    for epoch, opened in ((2, True), (3, False), (4, True)):
        if opened:
            await process.catalogue.replace("b", "cursor", remove=[], add=[], epoch=epoch)
        else:
            await process.catalogue.forget("b", "cursor", epoch=epoch)
        other.faults.counts.clear()
        for _ in range(2):
            assert await other.catalogue.trackers() == ([("b", "cursor")] if opened else [])
        assert other.faults.counts == {"list": 4, "read": 1}


async def test_a_tracker_that_changes_while_trackers_are_listed_is_read_again():
    """A document is newer than the listing when it is read: that it is forgotten is not taken for true of an older document, or newer."""
    process = Process()
    await process.catalogue.forget("a", "cursor", epoch=1)
    other = Process(process.store, instance=2)
    hold = other.faults.hold("read")
    listing = asyncio.create_task(other.catalogue.trackers())
    await hold.reached.wait()
    await process.catalogue.replace("a", "cursor", remove=[], add=[], epoch=2)
    hold.go_on.set()
    assert await listing == [("a", "cursor")]
    await process.catalogue.forget("a", "cursor", epoch=3)
    assert await other.catalogue.trackers() == []


async def test_what_is_kept_of_forgotten_trackers_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """Those beyond the bound are read by each list of trackers, and what is gone makes room."""
    monkeypatch.setattr("delayed_tracker.storage.shared.catalogue.SEEN_MAX", 3)
    process = Process()
    for number in range(5):
        await process.catalogue.forget(f"topic {number}", "cursor", epoch=1)
    reads = []
    for _ in range(2):
        process.faults.counts.clear()
        assert await process.catalogue.trackers() == []
        reads.append(process.faults.counts["read"])
    for path in list(process.catalogue._seen):
        del process.store.content[f"c/{path}"]
    for _ in range(2):
        process.faults.counts.clear()
        assert await process.catalogue.trackers() == []
        reads.append(process.faults.counts.get("read", 0))
    assert reads == [5, 2, 2, 0]


async def test_a_thousand_buckets_take_some_ninety_kilobytes():
    """A catalogue of 1,000 buckets with summaries of 1 KB is one small document and few blobs."""
    process = Process()
    for start in range(1, 1_001, 50):
        await process.replace(*(with_summary(number, KIB) for number in range(start, start + 50)))
    await process.catalogue.finish()
    assert len(process.store.content[process.document()]) < 90 * KIB
    assert len(process.blobs()) <= PARTS_MAX + 1
