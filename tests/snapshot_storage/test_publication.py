"""Publications keep catalogue and snapshots in step while answers are lost, and epoch and mark-delete move on."""

from dataclasses import dataclass

import pytest

from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.protocol import LogMark, StoredThrough
from delayed_tracker.storage.publication import Publication, catalogue_entry
from tests.service.harness.shell import ControlledStorage, failing

TRACKER = ("persistent://public/default/orders", "workers")
FIRST, LAST = Position(1, 0), Position(1, 9)


@dataclass
class MovingClaim:
    """Claim of a tracker that lives on."""

    epoch: int = 1
    mark_delete: Position = BEFORE_ALL


@pytest.fixture
async def storage():
    storage = ControlledStorage()
    await storage.inner.start()
    yield storage
    await storage.inner.close()


async def _segments():
    yield b"segment"


async def _created(publication, claim):
    """Store a snapshot and return its catalogue entry."""
    bucket_id = await publication.create(b"metadata", _segments(), FIRST, LAST, epoch=claim.epoch)
    return catalogue_entry(bucket_id, FIRST, LAST, b"summary", seal_number=1, mark_delete=BEFORE_ALL)


async def _stored_ids(storage):
    return [stored.bucket_id for stored in await storage.inner.list_bucket_snapshots(*TRACKER)]


async def test_a_lost_answer_is_undone_at_once_though_the_epoch_has_moved_on(storage):
    """The write was applied, its answer was lost, and a clear raised the epoch on record in between."""
    claim = MovingClaim()
    publication = Publication(storage, TRACKER, writer="tests", claim=claim)
    old = await _created(publication, claim)
    await publication.publish([old], epoch=1)
    new = await _created(publication, claim)

    async def cleared_meanwhile(*_args, **_kwargs):
        storage.after.clear()
        claim.epoch = 2
        await storage.inner.replace(*TRACKER, remove=[], add=[], epoch=2, writer="tests", mark_delete=BEFORE_ALL)
        raise StorageUnavailable("the answer is lost")

    storage.after["replace"] = cleared_meanwhile
    with pytest.raises(StorageUnavailable):
        await publication.publish([new], remove=[old.bucket_id], replaced=[old], epoch=1)
    assert [entry.bucket_id for entry in (await storage.inner.list(*TRACKER)).entries] == [old.bucket_id]
    assert await _stored_ids(storage) == [old.bucket_id]
    assert publication.undoing == {}


async def test_an_undone_write_restores_the_mark_of_the_log(storage):
    """Records that the write made void count again: the buckets that they belong to are there again."""
    claim = MovingClaim()
    publication = Publication(storage, TRACKER, writer="tests", claim=claim)
    old = await _created(publication, claim)
    await publication.publish([old], epoch=1, mark=LogMark(2, Position(1, 9)))
    new = await _created(publication, claim)
    applied = []

    async def lost(*_args, **_kwargs):
        storage.after.clear()
        applied.append((await storage.inner.list(*TRACKER)).log_mark)
        raise StorageUnavailable("the answer is lost")

    storage.after["replace"] = lost
    with pytest.raises(StorageUnavailable):
        await publication.publish(
            [new],
            remove=[old.bucket_id],
            replaced=[old],
            epoch=1,
            mark=LogMark(5),
            replaced_mark=LogMark(2, Position(1, 9)),
        )
    assert applied == [LogMark(5)]
    assert (await storage.inner.list(*TRACKER)).log_mark == LogMark(2, Position(1, 9))


async def test_a_second_undo_keeps_the_mark_that_the_first_has_to_restore(storage):
    """A seal that fails during the same outage changes no mark: that of before the import is restored with its buckets."""
    claim = MovingClaim()
    publication = Publication(storage, TRACKER, writer="tests", claim=claim)
    before = LogMark(5, Position(9, 9), stored_through=Position(1, 1))
    old = await _created(publication, claim)
    await publication.publish([old], epoch=1, mark=before)
    imported, sealed = await _created(publication, claim), await _created(publication, claim)
    lost, down = StorageUnavailable("the answer is lost"), StorageUnavailable("down")
    storage.after["replace"] = failing(lost)
    storage.before["replace"] = failing(None, down, down, down)
    with pytest.raises(StorageUnavailable, match="the answer is lost"):
        await publication.publish(
            [imported], remove=[old.bucket_id], replaced=[old], epoch=1, mark=LogMark(50), replaced_mark=before
        )
    with pytest.raises(StorageUnavailable, match="down"):
        await publication.publish([sealed], epoch=1, mark=StoredThrough(Position(1, 1)))
    assert (await storage.inner.list(*TRACKER)).log_mark == LogMark(50)
    await publication.replace(remove=(), add=(), epoch=1, mark=StoredThrough(Position(1, 1)))
    state = await storage.inner.list(*TRACKER)
    assert [entry.bucket_id for entry in state.entries] == [old.bucket_id]
    assert state.log_mark == before


async def test_each_attempt_records_the_mark_delete_position_of_its_time(storage):
    """A repetition does not record a position from before the outage."""
    claim = MovingClaim()

    class Twice(Publication):
        async def attempt(self, operation):
            try:
                return await operation()
            except StorageUnavailable:
                claim.mark_delete = Position(7, 7)
                return await operation()

    publication = Twice(storage, TRACKER, writer="tests", claim=claim)
    storage.before["replace"] = failing(StorageUnavailable("down"))
    await publication.publish([await _created(publication, claim)], epoch=1)
    assert (await storage.inner.list(*TRACKER)).mark_delete == Position(7, 7)


async def test_a_conflict_is_noted_before_the_snapshots_are_deleted(storage):
    """Deleting may take its time: the caller learns first that another process owns the tracker."""
    claim = MovingClaim()
    seen = []

    class Noting(Publication):
        def fenced(self, epoch, error):
            seen.append((epoch, type(error), list(storage.calls)))

    publication = Noting(storage, TRACKER, writer="tests", claim=claim)
    entry = await _created(publication, claim)
    await storage.inner.replace(*TRACKER, remove=[], add=[], epoch=2, writer="other", mark_delete=BEFORE_ALL)
    with pytest.raises(SnapshotConflict):
        await publication.publish([entry], epoch=1)
    ((epoch, kind, calls),) = seen
    assert (epoch, kind) == (1, SnapshotConflict)
    assert "delete_bucket_snapshot" not in calls
    assert await _stored_ids(storage) == []
