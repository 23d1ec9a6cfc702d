"""Checks, repairs and sizes of whole storages: what they find, what they leave alone, and who is fenced."""

import dataclasses

import pytest

from delayed_tracker.core.values.changes import OfferedThrough
from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.codec.log_records import decode_change
from delayed_tracker.storage.errors import SnapshotConflict, StorageFormatUnsupported, StorageUnavailable
from delayed_tracker.storage.maintenance.checking import CheckedTracker, StorageCheck, check_storage
from delayed_tracker.storage.maintenance.copy_marker import begin_copy
from delayed_tracker.storage.maintenance.opening import WholeStorage, opened_storage
from delayed_tracker.storage.maintenance.repairing import repair_tracker
from delayed_tracker.storage.maintenance.sizes import measure_storage
from delayed_tracker.storage.maintenance.working import ATTEMPTS_MAX, Retries
from delayed_tracker.storage.protocol import NO_LOG, LogMark
from tests.snapshot_storage.shared.maintenance.stores import (
    KEY,
    OWNER,
    add_bucket,
    at_once,
    ignore,
    in_memory,
    log_records,
    marked,
    stored_bucket,
    uncut,
)

DELETED = ("persistent://t/ns/old", "gone")
LOST = ("persistent://t/ns/old", "lost")


async def checked(storage: WholeStorage) -> StorageCheck:
    return await check_storage(storage.snapshots, progress=ignore, attempt=at_once)


async def only(storage: WholeStorage) -> CheckedTracker:
    (tracker,) = (await checked(storage)).trackers
    return tracker


async def repaired(storage: WholeStorage):
    found = await only(storage)
    assert not found.is_sound
    done = await repair_tracker(storage, found, writer="repair", attempt=at_once)
    assert done is not None
    return done


@pytest.fixture
async def storage():
    """Yield a storage with three buckets, of ledgers 1 to 3, and a log with a claim."""
    async with in_memory() as made:
        for ledger in (1, 2, 3):
            await add_bucket(made.snapshots, ledger, seal=ledger)
        await marked(made.snapshots, LogMark(0, Position(3, 8)))
        yield made


async def damage(storage: WholeStorage, bucket_id: int, part: int) -> None:
    """Flip a bit of an entry of a snapshot that the storage's own checksums do not cover."""
    stored = storage.snapshots._snapshots[bucket_id]
    entries = list(stored.entries)
    entries[part] = entries[part][:-1] + bytes([entries[part][-1] ^ 1])
    storage.snapshots._snapshots[bucket_id] = dataclasses.replace(stored, entries=tuple(entries))


async def test_a_sound_storage_is_counted(storage):
    """All buckets, segments, rows and bytes are read, and nothing is changed."""
    before = await storage.snapshots.list(*KEY)
    found = await only(storage)
    assert found.is_sound
    lengths = [await storage.snapshots.get_bucket_snapshot_length(entry.bucket_id) for entry in before.entries]
    assert (found.snapshot_count, found.segment_count, found.index_count) == (3, 9, 27)
    assert found.byte_count == sum(lengths)
    assert await storage.snapshots.list(*KEY) == before


@pytest.mark.parametrize("part", range(4))
async def test_damage_is_found_and_dropped(storage, part):
    """A flipped bit in any part of a snapshot loses its bucket: the claim goes back to before it, the others stay."""
    await log_records(storage.log)
    first, second, third = (await storage.snapshots.list(*KEY)).entries
    await damage(storage, second.bucket_id, part)
    (verdict,) = (await only(storage)).unsound
    assert (verdict.bucket_id, verdict.is_lost) == (second.bucket_id, True)
    done = await repaired(storage)
    assert (done.dropped, done.mended, done.swept, done.epoch) == ([second.bucket_id], [], [], 2)
    state = await storage.snapshots.list(*KEY)
    assert state.entries == (first, third)
    assert state.log_mark == LogMark(0, Position(2, -1))
    *records, last = map(decode_change, await uncut(storage))
    assert (len(records), last) == (3, OfferedThrough(Position(2, -1)))
    assert {each.bucket_id for each in await storage.snapshots.list_bucket_snapshots(*KEY)} == {1, 3}
    assert (await only(storage)).is_sound
    with pytest.raises(SnapshotConflict):
        await storage.snapshots.replace(*KEY, remove=(), add=(), epoch=1, writer=OWNER)


async def test_a_missing_snapshot_is_dropped_without_a_log(storage):
    """The claim in the mark is all there is; one that ends before the loss stays."""
    bare = dataclasses.replace(storage, log=None)
    _, second, third = (await storage.snapshots.list(*KEY)).entries
    for lost, offered in ((third, Position(3, -1)), (second, Position(2, -1))):
        await storage.snapshots.delete_bucket_snapshot(lost.bucket_id)
        assert (await repaired(bare)).offered_through == offered
    await marked(storage.snapshots, LogMark(0, Position(0, 5)), epoch=4)
    await storage.snapshots.delete_bucket_snapshot(1)
    assert (await repaired(bare)).offered_through == Position(0, 5)
    assert (await storage.snapshots.list(*KEY)).entries == ()


async def test_the_log_on_an_instances_disk_counts_no_more(storage):
    """Its claims, which the repair cannot take back, would hide what was lost from the dispatcher."""
    bare = dataclasses.replace(storage, log=None)
    second = (await storage.snapshots.list(*KEY)).entries[1]
    await marked(storage.snapshots, LogMark(7, Position(3, 8), "disk-1", Position(3, 4)))
    await storage.snapshots.delete_bucket_snapshot(second.bucket_id)
    assert (await repaired(bare)).offered_through == Position(2, -1)
    state = await storage.snapshots.list(*KEY)
    assert state.log_mark == LogMark(0, Position(2, -1), NO_LOG, Position(2, -1))


async def test_a_wrong_entry_is_written_anew(storage):
    """Summary, range and consumed positions come from the snapshot, which is sound: nothing is offered again."""
    first, second, third = (await storage.snapshots.list(*KEY)).entries
    for change, expected in (
        ({"summary": first.summary}, second),
        ({"summary": b"\x01what"}, second),
        ({"last": second.first}, second),
        ({"consumed": b"what"}, dataclasses.replace(second, consumed=b"")),
    ):
        epoch = (await storage.snapshots.list(*KEY)).epoch
        wrong = dataclasses.replace(second, **change)
        await storage.snapshots.replace(*KEY, remove=[2], add=[wrong], epoch=epoch)
        done = await repaired(storage)
        assert (done.dropped, done.mended, done.offered_through) == ([], [2], Position(3, 8))
        assert (await storage.snapshots.list(*KEY)).entries == (first, expected, third)
        assert (await only(storage)).is_sound


async def test_orphans_of_older_epochs_are_swept(storage):
    """One of the present epoch may be on its way into the catalogue, and stays."""
    old = await stored_bucket(storage.snapshots, 4, epoch=1)
    await storage.snapshots.replace(*KEY, remove=(), add=(), epoch=5, writer=OWNER)
    new = await stored_bucket(storage.snapshots, 5, epoch=5)
    assert (await only(storage)).orphans == [old.bucket_id]
    # The repair claims epoch 6, and the snapshot of epoch 5 can never be committed from then on.
    assert (await repaired(storage)).swept == [old.bucket_id, new.bucket_id]
    assert (await only(storage)).is_sound


async def test_what_changes_during_a_check_is_left_out(storage):
    """A bucket that is merged away, and its snapshot, are no problem; the new one is not read."""
    read = storage.snapshots.list_bucket_snapshots

    async def merged(*key: str):
        stored = await read(*key)
        entry = await stored_bucket(storage.snapshots, 6, epoch=2, seal=4)
        await storage.snapshots.replace(*key, remove=[1, 2], add=[entry], epoch=2, writer="next")
        for bucket_id in (1, 2):
            await storage.snapshots.delete_bucket_snapshot(bucket_id)
        return stored

    storage.snapshots.list_bucket_snapshots = merged
    found = await only(storage)
    assert found.is_sound
    assert (found.epoch, found.snapshot_count) == (2, 1)


async def test_an_owner_that_is_faster_than_the_repair_keeps_the_tracker(storage):
    """The repair ends with a conflict and deletes nothing."""
    await storage.snapshots.delete_bucket_snapshot(2)
    found = await only(storage)
    take_over = storage.log.take_over

    async def reopened(*key: str, epoch: int, writer: str):
        extent = await take_over(*key, epoch=epoch, writer=writer)
        await storage.snapshots.replace(*key, remove=(), add=(), epoch=epoch + 1, writer="next")
        return extent

    storage.log.take_over = reopened
    with pytest.raises(SnapshotConflict, match="another process has opened 'billing'"):
        await repair_tracker(storage, found, writer="repair", attempt=at_once)
    assert len((await storage.snapshots.list(*KEY)).entries) == 3


async def test_trackers_that_no_catalogue_knows_are_found(storage):
    """Snapshots that a deleted tracker has left are orphans; a tracker whose catalogue is gone is reported, and not touched."""
    await storage.snapshots.replace(*DELETED, remove=(), add=(), epoch=3, writer=OWNER)
    await stored_bucket(storage.snapshots, 1, key=DELETED, epoch=2)
    await storage.snapshots.forget(*DELETED, epoch=3, writer=OWNER)
    await stored_bucket(storage.snapshots, 1, key=LOST)
    deleted, lost, sound = (await checked(storage)).trackers
    assert (deleted.key, len(deleted.orphans), deleted.problem) == (DELETED, 1, "")
    assert (lost.key, lost.problem) == (LOST, "No catalogue knows it, and it has 1 snapshots.")
    assert sound.is_sound
    assert await repair_tracker(storage, lost, writer="repair", attempt=at_once) is None
    assert len(await storage.snapshots.list_bucket_snapshots(*LOST)) == 1
    done = await repair_tracker(storage, deleted, writer="repair", attempt=at_once)
    assert done is not None
    assert len(done.swept) == 1
    assert await storage.snapshots.list_bucket_snapshots(*DELETED) == []
    assert DELETED not in await storage.snapshots.trackers()


@pytest.mark.parametrize("scheme", ["sqlite:", "file://"])
async def test_damaged_catalogues_are_found_in_files(tmp_path, scheme):
    """A damaged catalogue entry is dropped and ends the claim; a damaged document is reported."""
    url = f"{scheme}{tmp_path / 'storage'}"
    async with opened_storage("URL", url, creates=True) as storage:
        for ledger in (1, 2):
            await add_bucket(storage.snapshots, ledger, seal=ledger)
        await marked(storage.snapshots, LogMark(0, Position(3, 8)))
        assert (await only(storage)).is_sound
        if scheme == "sqlite:":

            def flip(connection) -> None:
                connection.execute("UPDATE catalogue SET crc32c = crc32c + 1 WHERE bucket_id = 1")
                connection.commit()

            await storage.snapshots._opened().write(flip)
            assert (await only(storage)).unsound[0].problems == ["Its catalogue entry fails its checksum."]
            done = await repaired(storage)
            assert (done.dropped, done.offered_through) == ([1], None)
            assert (await only(storage)).is_sound
        else:
            (document,) = (path for path in (tmp_path / "storage" / "c").rglob("*") if path.is_file())
            document.write_bytes(b"damaged!" + document.read_bytes()[8:])
            assert "Its catalogue cannot be read" in (await only(storage)).problem
            (size,) = await measure_storage(storage, progress=ignore, attempt=at_once)
            assert size.problem


@pytest.mark.parametrize("scheme", ["sqlite:", "file://"])
async def test_snapshots_without_a_catalogue_are_found_in_files(tmp_path, scheme):
    """Each backend lists what it has, whatever its catalogues say."""
    async with opened_storage("URL", f"{scheme}{tmp_path / 'storage'}", creates=True) as storage:
        await add_bucket(storage.snapshots, 1)
        assert (await checked(storage)).is_sound
        await stored_bucket(storage.snapshots, 1, key=LOST)
        found = await checked(storage)
        assert [tracker.key for tracker in found.trackers if tracker.problem] == [LOST]
        assert found.nameless == ()


async def test_an_unfinished_copy_is_not_checked(storage):
    """Its mark is no tracker, and must not be repaired."""
    async with in_memory() as target:
        await begin_copy(target.snapshots, "memory", "sqlite:/source", at_once)
        with pytest.raises(StorageFormatUnsupported, match="storage copy --from sqlite:/source"):
            await checked(target)
        assert await measure_storage(target, progress=ignore, attempt=at_once) == []


async def test_sizes_are_those_of_catalogue_and_log(storage):
    """Nothing but catalogue, listing and extents is read, except where an entry has no summary."""
    await log_records(storage.log)
    extra = await stored_bucket(storage.snapshots, 4, epoch=1)
    lengths = [await storage.snapshots.get_bucket_snapshot_length(number) for number in (1, 2, 3)]

    async def refused(*_: object) -> bytes:
        raise AssertionError("stat reads no snapshot")

    storage.snapshots.get_bucket_snapshot_metadata = refused
    storage.snapshots.get_bucket_snapshot_segments = refused
    (size,) = await measure_storage(storage, progress=ignore, attempt=at_once)
    assert (size.bucket_count, size.snapshot_count, size.snapshot_bytes) == (3, 4, sum(lengths))
    assert (size.remaining_count, size.epoch, size.writer) == (3 * 8, 1, OWNER)
    assert size.mark_delete == Position(0, 7)
    (extent,) = await storage.log.extents()
    assert size.log_bytes == extent.record_bytes > 0
    await storage.snapshots.replace(
        *KEY, remove=(), add=[dataclasses.replace(extra, summary=b"")], epoch=1, mark_delete=Position(1, 3)
    )
    (size,) = await measure_storage(storage, progress=ignore, attempt=at_once)
    assert (size.bucket_count, size.remaining_count) == (4, None)
    assert size.snapshot_bytes == sum(lengths) + await storage.snapshots.get_bucket_snapshot_length(extra.bucket_id)


async def test_retries_are_bounded():
    """An operation is repeated with growing pauses, and the last error is raised."""
    pauses: list[float] = []
    calls = 0

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def fails() -> None:
        nonlocal calls
        calls += 1
        raise StorageUnavailable("away")

    with pytest.raises(StorageUnavailable):
        await Retries(sleep=sleep)(fails)
    assert (calls, len(pauses)) == (ATTEMPTS_MAX, ATTEMPTS_MAX - 1)
    assert pauses[-1] > pauses[0]
