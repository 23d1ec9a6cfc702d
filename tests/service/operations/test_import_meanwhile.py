"""Imports during changes of the tracker, lost callers and storage failures apply completely or not at all."""

import asyncio
from contextlib import suppress

import grpc
import pytest
from structlog.testing import capture_logs

from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.imports import FAR_MS, catalogued, imported, requests, stored_ids, used, world
from tests.service.harness.rpc import REF, add, opened, refused, stats_of
from tests.service.harness.shell import KEY, Gate, as_time_passes, failing, settle, until


class Arrival:
    """A hook that counts the calls that have come to it."""

    def __init__(self):
        self.count = 0

    async def __call__(self, *_args, **_kwargs):
        self.count += 1


async def half_sent(service, sent):
    """Start an import whose stream stops after its first bucket was stored."""
    stored = Arrival()
    service.storage.after["create_bucket_snapshot"] = stored
    call = service.stub.ImportSnapshots()
    for request in sent[:4]:
        await call.write(request)
    await until(lambda: stored.count == 1)
    await settle()
    return call


async def refused_with(service, call, rest):
    """Send the rest of an import, and return the reason of its refusal when it has ended in the service."""
    for request in rest:
        # After a refusal between two requests the call takes no more of them. If it ends during a write, gRPC's client
        # loses the reason.
        if not call.done():
            await call.write(request)
            await settle()
    with suppress(asyncio.InvalidStateError):
        await call.done_writing()
    _, info, _ = await refused(call)
    await until(lambda: not service.registry.imports)
    await settle()
    return info.reason


async def test_a_second_import_is_refused_while_one_is_under_way(service, two):
    """The second import is refused, and the first one goes on."""
    sent = requests(*two)
    call = await half_sent(service, sent)
    error, info, _ = await refused(imported(service, sent))
    assert (error.code(), info.reason) == (grpc.StatusCode.ABORTED, "IMPORT_UNDER_WAY")
    for request in sent[4:]:
        await call.write(request)
    await call.done_writing()
    assert (await call).tracked_count == 14
    assert (await imported(service, sent)).replaced_count == 14


async def test_a_caller_that_goes_away_leaves_nothing(service, two):
    """Snapshots of a cancelled import are deleted, and the next import may begin."""
    epoch = await opened(service)
    await used(service, epoch)
    before = await world(service)
    call = await half_sent(service, requests(*two))
    assert await stored_ids(service) > before[3]
    in_flight = await service.stub.VerifySnapshots(pb.VerifySnapshotsRequest(tracker=REF))
    assert not in_flight.orphan_bucket_ids
    call.cancel()
    await until(lambda: not service.registry.imports)
    await settle()
    assert await world(service) == before
    assert (await imported(service, requests(*two))).tracked_count == 14


@pytest.mark.parametrize("meanwhile", ["opened", "cleared", "closed", "deleted"])
async def test_an_import_is_fenced_by_who_changes_the_tracker_meanwhile(service, two, meanwhile):
    """The later change stays."""
    epoch = await opened(service)
    await used(service, epoch)
    sent = requests(*two)
    call = await half_sent(service, sent)
    match meanwhile:
        case "opened":
            await opened(service)
        case "cleared":
            await service.stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))
        case "closed":
            await service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
        case "deleted":
            await service.stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=REF, epoch=epoch))
    state = await catalogued(service)
    assert await refused_with(service, call, sent[4:]) in {"FENCED", "TRACKER_NOT_OPEN"}
    assert await catalogued(service) == state
    assert await stored_ids(service) == {entry.bucket_id for entry in state.entries}


@pytest.mark.parametrize("was_open", [True, False], ids=["closed", "new"])
async def test_who_opens_a_tracker_that_was_not_open_fences_the_import(service, two, was_open):
    """The import has loaded it, and its epoch is not the new owner's: what that owner was answered stays."""
    if was_open:
        epoch = await opened(service)
        await used(service, epoch)
        await service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    sent = requests(*two)
    call = await half_sent(service, sent)
    epoch = await opened(service)
    await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + FAR_MS, 2, 0)))
    pending = (await stats_of(service)).pending_count
    assert await refused_with(service, call, sent[4:]) == "FENCED"
    assert (await stats_of(service)).pending_count == pending
    assert (await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + FAR_MS, 3, 0)))).added_count == 1
    assert await stored_ids(service) == {entry.bucket_id for entry in (await catalogued(service)).entries}


async def test_who_opens_a_new_tracker_during_the_exchange_has_an_epoch_of_its_own(service, two):
    """The importer could not notice the new owner otherwise."""
    gate = exchange_held(service)
    importing = asyncio.ensure_future(imported(service, requests(*two)))
    await until(lambda: gate.held_count == 1)
    opening = asyncio.ensure_future(opened(service))
    await settle()
    gate.open()
    answer = await importing
    assert await opening > answer.epoch
    assert (await stats_of(service)).pending_count == 14


async def test_opens_wait_for_the_exchange(service, two):
    """An open during the catalogue write gets the imported tracker."""
    epoch = await opened(service)
    service.storage.before["replace"] = gate = Gate()
    importing = asyncio.ensure_future(imported(service, requests(*two)))
    await until(lambda: gate.held_count == 1)
    opening = asyncio.ensure_future(opened(service))
    assert (await service.stub.ContainsMessages(pb.ContainsMessagesRequest(tracker=REF))).tracked_offsets == []
    added = await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + FAR_MS, 20, 0)))
    assert added.added_count == 1
    assert not opening.done()
    gate.open()
    answer = await importing
    assert answer.replaced_count == 1
    assert await opening > answer.epoch
    assert (await stats_of(service)).pending_count == 14


def exchange_held(service):
    """Let the catalogue write of an import wait, and return what lets it go on."""
    gate = Gate()

    async def hook(*_args, add=(), **_kwargs):
        if add:
            await gate()

    service.storage.before["replace"] = hook
    return gate


@pytest.mark.parametrize("was_open", [True, False], ids=["open", "new"])
async def test_a_caller_that_goes_away_during_the_exchange_does_not_stop_it(service, two, was_open):
    """The exchange is one step for the tracker, with or without a caller, and whether it was open or not."""
    if was_open:
        await opened(service)
    gate = exchange_held(service)
    importing = asyncio.ensure_future(imported(service, requests(*two)))
    await until(lambda: gate.held_count == 1)
    importing.cancel()
    await until(lambda: not service.registry.imports)
    assert service.registry.find_host(KEY) is not None
    gate.open()
    await settle()
    assert (service.registry.find_host(KEY) is not None) == was_open
    assert await opened(service) > 2
    assert (await stats_of(service)).pending_count == 14


async def test_a_snapshot_that_is_being_stored_does_not_survive_the_exchange(service, two):
    """Positions of a snapshot that is being stored are lost to the import, and the replay adds them again."""
    epoch = await opened(service)
    now = service.clock.now_ms()
    service.storage.before["create_bucket_snapshot"] = gate = Gate()
    await service.stub.AddMessages(add(epoch, *((now + FAR_MS, 1, entry) for entry in range(5)), (now + FAR_MS, 2, 0)))
    await until(lambda: gate.held_count == 1)
    del service.storage.before["create_bucket_snapshot"]
    answer = await imported(service, requests(*two))
    gate.open()
    await settle()
    assert answer.replaced_count == 6
    assert len((await catalogued(service)).entries) == 2
    assert len(await stored_ids(service)) == 2
    service.registry.host(KEY)._gate.core.check()


# -- storage that fails ----------------------------------------------------------------------------------------------


async def test_a_create_that_fails_changes_nothing(service, two):
    """A failed create is not repeated, since the bytes of the stream are gone."""
    await opened(service)
    before = await world(service)
    service.storage.before["create_bucket_snapshot"] = failing(None, StorageUnavailable("down"))
    error, info, found = await refused(imported(service, requests(*two)))
    assert (error.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "STORAGE_UNAVAILABLE")
    assert "RetryInfo" in found
    await settle()
    assert await world(service) == before


ATTEMPTS = ServiceLimits().storage_attempts_max


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_exchange_that_fails_changes_nothing(service, two, when):
    """If a catalogue write is applied but reported as failed, it is taken back."""
    epoch = await opened(service)
    await used(service, epoch)
    before = await world(service)
    hooks = service.storage.before if when == "before" else service.storage.after
    hooks["replace"] = failing(*[StorageUnavailable("down")] * ATTEMPTS)
    error, info, _ = await as_time_passes(service.clock, refused(imported(service, requests(*two))))
    assert (error.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "STORAGE_UNAVAILABLE")
    after = await world(service)
    assert after[1:] == before[1:]
    assert after[0].pending_count == before[0].pending_count
    assert (await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + FAR_MS, 30, 0)))).added_count == 1


async def test_a_listing_that_fails_changes_nothing(service, two):
    """If the listing fails, the catalogue was not written yet."""
    await opened(service)
    before = await world(service)
    service.storage.before["list"] = failing(*[StorageUnavailable("down")] * ATTEMPTS)
    await as_time_passes(service.clock, refused(imported(service, requests(*two))))
    assert (await world(service))[1:] == before[1:]


async def test_another_process_that_owns_the_catalogue_wins(service, two):
    """The import is refused, and the tracker is closed here."""
    await opened(service)
    await service.storage.inner.replace(*KEY, remove=(), add=(), epoch=9, writer="another")
    with capture_logs():
        error, info, _ = await refused(imported(service, requests(*two)))
    assert (error.code(), info.reason) == (grpc.StatusCode.ABORTED, SnapshotConflict.reason)
    await until(lambda: not service.registry.tracker_count)
    assert await stored_ids(service) == set()


async def test_a_service_that_stops_imports_nothing_more(service, two):
    """A stream that has stopped does not delay the stop."""
    await opened(service)
    call = await half_sent(service, requests(*two))
    await service.registry.drain(1_000)
    error, info, _ = await refused(call)
    assert (error.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")


async def test_an_import_completes_what_an_earlier_one_has_left_to_undo(service, two):
    """The first one's write was applied without an answer, and its undo failed: a crash may not bring back both."""
    epoch = await opened(service)
    await used(service, epoch)
    service.storage.after["replace"] = failing(*[StorageUnavailable("down")] * ATTEMPTS)
    service.storage.before["replace"] = failing(*[None] * ATTEMPTS, *[StorageUnavailable("down")] * 10 * ATTEMPTS)
    await as_time_passes(service.clock, refused(imported(service, requests(*two))))
    assert service.registry.host(KEY)._gate.runner.writer.undoing
    counts = []

    async def count(*_args, **_kwargs):
        counts.append(len((await catalogued(service)).entries))

    del service.storage.before["replace"]
    service.storage.after["replace"] = count
    assert (await as_time_passes(service.clock, imported(service, requests(*two)))).tracked_count == 14
    await settle()
    assert counts == [1, 2, 2], "restored, then replaced, then the old bucket is deleted"
