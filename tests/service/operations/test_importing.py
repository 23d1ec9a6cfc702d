"""Imported snapshots replace the content of a tracker in one step."""

import asyncio
from dataclasses import replace

import grpc
import pytest

from delayed_tracker.client.model.answers import Position
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.errors import TrackerInMemory
from delayed_tracker.service.operations.importing import ImportTerms, SnapshotImport
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.imports import FAR_MS, catalogued, imported, requests, snapshot, stored_ids, used, world
from tests.service.harness.rpc import REF, add, opened, poll, refused, stats_of
from tests.service.harness.shell import KEY, TINY, elapse, make_registry, until


async def test_an_import_takes_the_place_of_everything(service, two):
    """Snapshots, memory and leases are removed; the imported snapshots are tracked, and stored unchanged."""
    epoch = await opened(service)
    await used(service, epoch)
    answer = await imported(service, requests(*two, mark_delete=Position(10, 1)))
    assert (answer.bucket_count, answer.tracked_count, answer.replaced_count) == (2, 12, 7)
    assert answer.replay_from == pb.Position(ledger_id=10, entry_id=2)
    state = await catalogued(service)
    assert (state.epoch, state.mark_delete) == (answer.epoch, (10, 1))
    assert [(entry.first, entry.last) for entry in state.entries] == [((10, 0), (10, 6)), ((11, 0), (11, 6))]
    assert await stored_ids(service) == {entry.bucket_id for entry in state.entries}
    for entry, bucket in zip(state.entries, two, strict=True):
        stored = await service.storage.inner.get_bucket_snapshot_segments(entry.bucket_id, 1, bucket.entry_count - 1)
        metadata = await service.storage.inner.get_bucket_snapshot_metadata(entry.bucket_id)
        assert [metadata, *stored] == [payload for payload, _ in bucket.entries]
    stats = await stats_of(service)
    assert (stats.pending_count, stats.leased_count, stats.mutable_count, stats.bucket_count) == (12, 0, 0, 2)
    assert (stats.owner, stats.cleared_count, stats.recovered_count, stats.trimmed_count) == ("importer", 7, 12, 0)
    verified = await service.stub.VerifySnapshots(pb.VerifySnapshotsRequest(tracker=REF))
    assert [list(verdict.problems) for verdict in verified.snapshots] == [[], []]
    service.registry.host(KEY)._gate.core.check()


async def test_what_was_imported_is_delivered(service, two):
    """Imported positions are delivered in order, and never early."""
    await imported(service, requests(*two))
    epoch = await opened(service)
    await elapse(service.clock, FAR_MS)
    first = await service.stub.PollScheduledMessages(poll(epoch, max_messages=100))
    assert (first.ledger_ids, first.entry_ids) == ([10, 11], [0, 0])
    await elapse(service.clock, 400 * 6)
    rest = await service.stub.PollScheduledMessages(poll(epoch, max_messages=100))
    assert len(rest.entry_ids) == 12


async def test_dispatchers_of_the_old_epoch_are_fenced_and_open_again(service, two):
    """A waiting poll ends, every call with the old epoch is refused, and an open returns the replay position."""
    epoch = await opened(service)
    waiting = asyncio.ensure_future(service.stub.PollScheduledMessages(poll(epoch, wait_ms=60_000)))
    await until(lambda: service.registry.waiting_poll_count == 1)
    answer = await imported(service, requests(*two, mark_delete=Position(9, 4)))
    error, info, _ = await refused(waiting)
    assert (error.code(), info.reason) == (grpc.StatusCode.ABORTED, "FENCED")
    error, info, _ = await refused(service.stub.AddMessages(add(epoch, (1, 12, 0))))
    assert (error.code(), info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FENCED")
    assert info.metadata["owner"] == "importer"
    again = await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
    assert again.epoch > answer.epoch
    assert again.replay_from == answer.replay_from == pb.Position(ledger_id=9, entry_id=5)


async def test_a_tracker_nobody_opened_is_imported_and_not_left_open(service, two):
    """The tracker is recovered for the import and closed again, and recovers later with the imported positions."""
    answer = await imported(service, requests(*two))
    await until(lambda: not service.registry.tracker_count)
    again = await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
    assert (again.recovered_count, again.bucket_count) == (14, 2)
    assert again.epoch > answer.epoch


async def test_no_buckets_empty_the_tracker(service):
    """An import without buckets empties the tracker, as for a topic without delayed messages."""
    epoch = await opened(service)
    await used(service, epoch)
    answer = await imported(service, requests())
    assert (answer.bucket_count, answer.tracked_count, answer.replaced_count) == (0, 0, 7)
    assert await stored_ids(service) == set()


async def test_what_is_due_or_acknowledged_is_not_tracked(service):
    """A bucket that is wholly acknowledged is deleted again; due segments are left to the replay."""
    now = service.clock.now_ms()
    gone = snapshot((now + FAR_MS, 1, 0))
    partly = snapshot((now - 5, 2, 0), (now - 4, 2, 1), (now + FAR_MS, 2, 2), step_ms=1, count_max=1)
    await opened(service)
    answer = await imported(service, requests(gone, partly, mark_delete=Position(1, 7)))
    assert (answer.bucket_count, answer.tracked_count) == (1, 1)
    await until(lambda: len(service.storage.inner._snapshots) == 1)
    assert len((await catalogued(service)).entries) == 1


async def test_a_higher_mark_delete_of_the_tracker_stays(service, two):
    """The cursor may move on after the ledgers were read, so a higher mark-delete position stays."""
    epoch = await opened(service)
    await service.stub.AdvanceMarkDelete(
        pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=epoch, mark_delete=pb.Position(ledger_id=10, entry_id=6))
    )
    answer = await imported(service, requests(*two, mark_delete=Position(3, 0)))
    assert (answer.bucket_count, answer.tracked_count) == (1, 7)
    assert answer.replay_from == pb.Position(ledger_id=10, entry_id=7)


async def test_an_expected_epoch_must_be_the_trackers(service, two):
    """The expected epoch is checked for open and closed trackers; 0 is that of a new tracker."""
    answer = await imported(service, requests(*two, expected_epoch=0))
    await until(lambda: not service.registry.tracker_count)
    for given in (0, answer.epoch - 1, answer.epoch + 1):
        error, info, _ = await refused(imported(service, requests(*two, expected_epoch=given)))
        assert (error.code(), info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FENCED")
    epoch = await opened(service)
    before = await world(service)
    error, info, _ = await refused(imported(service, requests(*two, expected_epoch=epoch - 1)))
    assert info.metadata == {"given_epoch": str(epoch - 1), "epoch": str(epoch), "owner": "tests"}
    assert await world(service) == before
    await imported(service, requests(*two, expected_epoch=epoch))


async def test_trackers_in_memory_import_nothing(clock, storage):
    """In-memory trackers have no snapshots, and would delete imported ones at the next open."""
    registry = make_registry(storage, clock, limits=replace(TINY, kind=TrackerKind.IN_MEMORY))
    await registry.start()
    with pytest.raises(TrackerInMemory):
        await SnapshotImport(registry, KEY, ImportTerms("tests")).run(_no_buckets())
    await registry.close()


async def _no_buckets():
    return
    yield
