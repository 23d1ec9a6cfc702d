"""Verifying snapshots: its findings, the snapshots it must not report, and that it changes and opens nothing."""

import asyncio
import dataclasses

import pytest

from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, refused, stats_of
from tests.service.harness.shell import KEY, Gate, settle, until

FAR_MS = 1_000_000
COUNT = 12


@pytest.fixture
async def epoch(service):
    return await opened(service)


@pytest.fixture
async def far(service, epoch):
    """Add twelve positions 500 ms apart in a stored bucket of six segments, and one more in memory."""
    far = service.clock.now_ms() + FAR_MS
    await service.stub.AddMessages(add(epoch, *((far + 500 * entry, 1, entry) for entry in range(COUNT))))
    await seal(service, epoch)
    await settle()
    await service.stub.AddMessages(add(epoch, (far + 250, 2, 0)))
    return far


async def seal(service, epoch):
    await service.stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))


async def verified(service):
    return await service.stub.VerifySnapshots(pb.VerifySnapshotsRequest(tracker=REF))


async def orphan(service, epoch):
    """Store a snapshot that no catalogue names."""

    async def one():
        yield b"segment"

    return await service.storage.inner.create_bucket_snapshot(
        b"metadata", one(), bucket_key="k", topic=KEY.topic, cursor=KEY.subscription, epoch=epoch
    )


async def test_sound_snapshots_have_no_problems(service, epoch, far):
    """The verdict counts all rows of a snapshot, also those of consumed positions."""
    await service.stub.CancelMessages(pb.CancelMessagesRequest(tracker=REF, epoch=epoch, ledger_ids=[1], entry_ids=[0]))
    before = await stats_of(service)
    found = await verified(service)
    (verdict,) = found.snapshots
    assert (verdict.bucket_id, verdict.index_count, verdict.problems) == (1, COUNT, [])
    assert (verdict.segment_count, verdict.bytes) == (6, await service.storage.inner.get_bucket_snapshot_length(1))
    assert not found.orphan_bucket_ids
    assert await stats_of(service) == before


@pytest.mark.parametrize("entry", range(7))
async def test_a_flipped_byte_is_found_wherever_it_is(service, far, entry):
    """Damage in the metadata or any segment is found, even if the storage's own checksum did not detect it."""
    stored = service.storage.inner._snapshots[1]
    flipped = bytearray(stored.entries[entry])
    flipped[-1] ^= 1
    entries = [*stored.entries[:entry], bytes(flipped), *stored.entries[entry + 1 :]]
    service.storage.inner._snapshots[1] = dataclasses.replace(stored, entries=entries)
    (verdict,) = (await verified(service)).snapshots
    assert verdict.problems
    assert (await stats_of(service)).pending_count == COUNT + 1


async def test_missing_and_orphaned_snapshots_are_named(service, epoch, far):
    """An entry without a snapshot and a snapshot without an entry are both reported."""
    unknown = await orphan(service, epoch)
    await service.storage.inner.delete_bucket_snapshot(1)
    found = await verified(service)
    assert list(found.orphan_bucket_ids) == [unknown]
    (verdict,) = found.snapshots
    assert "missing" in verdict.problems[0]


async def test_a_catalogue_that_contradicts_its_snapshot_is_found(service, epoch, far):
    """Summary, range and consumed positions are compared with the rows."""
    storage = service.storage.inner
    (entry,) = (await storage.list(*KEY)).entries
    for change, words in (
        ({"summary": b"\x01what"}, "summary of it does not decode"),
        ({"consumed": b"what"}, "consumed positions"),
        ({"last": entry.first}, "leave the catalogue's"),
    ):
        await storage.replace(*KEY, remove=[1], add=[dataclasses.replace(entry, **change)], epoch=epoch)
        (verdict,) = (await verified(service)).snapshots
        assert words in " ".join(verdict.problems)
    await storage.replace(*KEY, remove=[1], add=(), epoch=epoch)
    found = await verified(service)
    assert "the catalogue does not name it" in found.snapshots[0].problems[0]


async def test_what_is_drained_during_a_verification_is_left_out(service, epoch, far):
    """A snapshot that is deleted during the verification is not reported."""
    service.storage.before["get_bucket_snapshot_metadata"] = gate = Gate()
    verifying = service.stub.VerifySnapshots(pb.VerifySnapshotsRequest(tracker=REF))
    await until(lambda: gate.held_count == 1)
    await service.stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))
    gate.open()
    found = await verifying
    assert (list(found.snapshots), list(found.orphan_bucket_ids)) == ([], [])


class TestNotOpen:
    """A tracker that is not open is verified from its catalogue alone."""

    async def test_what_is_stored_is_verified_and_nothing_is_opened(self, service, epoch, far):
        """Problems and orphans are found without a new epoch."""
        await service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
        unknown = await orphan(service, epoch)
        found = await verified(service)
        (verdict,) = found.snapshots
        assert (verdict.bucket_id, verdict.index_count, verdict.problems) == (1, COUNT, [])
        assert list(found.orphan_bucket_ids) == [unknown]
        assert service.registry.tracker_count == 0
        assert (await service.storage.inner.list(*KEY)).epoch == epoch
        await service.storage.inner.delete_bucket_snapshot(1)
        (verdict,) = (await verified(service)).snapshots
        assert "missing" in verdict.problems[0]

    async def test_what_nobody_ever_opened_is_not_found(self, service):
        """A mistyped name is an error and not an empty result."""
        _, info, _ = await refused(verified(service))
        assert info.reason == "TRACKER_NOT_OPEN"

    async def test_one_that_is_being_recovered_is_verified_too(self, service, epoch, far):
        """During a recovery snapshots are verified, and those that the recovery will delete are not reported."""
        await service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
        unknown = await orphan(service, epoch)
        service.storage.before["delete_bucket_snapshot"] = gate = Gate()
        opening = asyncio.create_task(opened(service))
        await until(lambda: gate.held_count == 1)
        found = await verified(service)
        assert (len(found.snapshots), list(found.orphan_bucket_ids)) == (1, [])
        gate.open()
        await opening
        assert [snapshot.bucket_id for snapshot in await service.storage.inner.list_bucket_snapshots(*KEY)] != [unknown]


class TestUnderWay:
    """A snapshot is not an orphan while this service is about to catalogue or delete it."""

    @pytest.mark.parametrize(("when", "operation"), [("after", "create_bucket_snapshot"), ("before", "replace")])
    async def test_one_that_is_not_yet_catalogued(self, service, epoch, far, when, operation):
        """A snapshot is not reported while its creation or its catalogue entry is in flight."""
        gate = getattr(service.storage, when)[operation] = Gate()
        await seal(service, epoch)
        await until(lambda: gate.held_count == 1)
        assert len(await service.storage.inner.list_bucket_snapshots(*KEY)) == 2
        found = await verified(service)
        assert [verdict.bucket_id for verdict in found.snapshots] == [1]
        assert list(found.orphan_bucket_ids) == []
        gate.open()

    async def test_one_that_is_catalogued_during_the_look(self, service, epoch, far):
        """A snapshot is not reported if the catalogue was read before its entry was written."""
        service.storage.after["list"] = looks = _HeldAt(2)
        verifying = asyncio.create_task(verified(service))
        service.storage.before["list_bucket_snapshots"] = listing = Gate()
        await until(lambda: listing.held_count == 1)
        service.storage.before["replace"] = writing = Gate()
        await seal(service, epoch)
        await until(lambda: writing.held_count == 1)
        listing.open()
        await until(lambda: looks.held_count == 1)
        writing.open()
        await settle()
        assert len((await service.storage.inner.list(*KEY)).entries) == 2
        looks.open()
        found = await verifying
        assert [verdict.problems for verdict in found.snapshots] == [[]]
        assert list(found.orphan_bucket_ids) == []

    @pytest.mark.parametrize("waiting", [True, False])
    async def test_one_that_is_not_yet_deleted(self, service, epoch, far, waiting):
        """A snapshot without an entry is not reported while its deletion is in flight, or if it ends meanwhile."""
        service.storage.before["delete_bucket_snapshot"] = gate = Gate()
        service.storage.after["list_bucket_snapshots"] = listed = _HeldAt(1)
        clearing = asyncio.create_task(_cleared(service, epoch))
        await until(lambda: gate.held_count == 1)
        assert (await service.storage.inner.list(*KEY)).entries == ()
        verifying = asyncio.create_task(verified(service))
        await until(lambda: listed.held_count == 1)
        if not waiting:
            gate.open()
            await clearing
        listed.open()
        found = await verifying
        assert (list(found.snapshots), list(found.orphan_bucket_ids)) == ([], [])
        gate.open()
        await clearing


async def _cleared(service, epoch):
    return await service.stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))


class _HeldAt(Gate):
    """Gate that holds only one of its callers, counted from 1."""

    def __init__(self, number):
        super().__init__()
        self._left = number

    async def __call__(self, *args, **kwargs):
        self._left -= 1
        if not self._left:
            await super().__call__(*args, **kwargs)
