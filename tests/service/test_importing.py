"""Importing snapshots: all of them or nothing, in one step, whatever goes wrong on the way."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import google_crc32c
import grpc
import pytest
from structlog.testing import capture_logs

from delayed_tracker.v1 import tracker_pb2 as pb
from snapshot_storage.errors import SnapshotConflict, StorageUnavailable
from tests.service.imports import entries_of, requests, snapshot
from tests.service.rpc import REF, add, opened, poll, refused, stats_of
from tests.service.shell import KEY, TINY, Gate, elapse, failing, make_registry, running_service, settle, until
from tracker.client.answers import Position
from tracker.core.limits import TrackerKind
from tracker.service.errors import TrackerInMemory
from tracker.service.importing import ImportTerms, SnapshotImport
from tracker.service.limits import ServiceLimits

FAR_MS = 1_000_000


@pytest.fixture
async def service():
    async with running_service() as running:
        yield running


@pytest.fixture
def two(service):
    """Two buckets that are far from due, of ledgers 10 and 11."""
    far = service.clock.now_ms() + FAR_MS
    return [snapshot(*((far + 400 * entry, ledger, entry) for entry in range(7))) for ledger in (10, 11)]


async def used(service, epoch):
    """A tracker with a stored bucket of ledger 1, one position in memory and one that is leased."""
    now = service.clock.now_ms()
    await service.stub.AddMessages(add(epoch, *((now + FAR_MS, 1, entry) for entry in range(5)), (now + 5, 2, 0)))
    await settle()
    await elapse(service.clock, 5)
    polled = await service.stub.PollScheduledMessages(poll(epoch))
    await service.stub.AddMessages(add(epoch, (now + FAR_MS, 2, 1)))
    assert polled.entry_ids == [0]
    return polled.lease_id


def imported(service, sent):
    return service.stub.ImportSnapshots(iter(sent))


async def catalogued(service):
    return await service.storage.inner.list(*KEY)


async def stored_ids(service):
    return {found.bucket_id for found in await service.storage.inner.list_bucket_snapshots(*KEY)}


async def world(service):
    """Everything that an import must not change if it fails."""
    stats = await stats_of(service)
    state = await catalogued(service)
    return stats, state.entries, state.epoch, await stored_ids(service)


async def test_an_import_takes_the_place_of_everything(service, two):
    """Snapshots, memory and leases go; what was imported is tracked, and stored as it came."""
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
    service.registry.host(KEY)._core.check()


async def test_what_was_imported_is_delivered(service, two):
    """In order, and never early."""
    await imported(service, requests(*two))
    epoch = await opened(service)
    await elapse(service.clock, FAR_MS)
    first = await service.stub.PollScheduledMessages(poll(epoch, max_messages=100))
    assert (first.ledger_ids, first.entry_ids) == ([10, 11], [0, 0])
    await elapse(service.clock, 400 * 6)
    rest = await service.stub.PollScheduledMessages(poll(epoch, max_messages=100))
    assert len(rest.entry_ids) == 12


async def test_dispatchers_of_the_old_epoch_are_fenced_and_open_again(service, two):
    """A waiting poll ends, every verb is refused, and an open tells where to replay from."""
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
    """It is recovered for the import, and recovers with what was imported."""
    answer = await imported(service, requests(*two))
    await until(lambda: not service.registry.tracker_count)
    again = await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
    assert (again.recovered_count, again.bucket_count) == (14, 2)
    assert again.epoch > answer.epoch


async def test_no_buckets_empty_the_tracker(service):
    """What a topic without delayed messages is rebuilt to."""
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
    """The cursor has moved on since the ledgers were read."""
    epoch = await opened(service)
    await service.stub.AdvanceMarkDelete(
        pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=epoch, mark_delete=pb.Position(ledger_id=10, entry_id=6))
    )
    answer = await imported(service, requests(*two, mark_delete=Position(3, 0)))
    assert (answer.bucket_count, answer.tracked_count) == (1, 7)
    assert answer.replay_from == pb.Position(ledger_id=10, entry_id=7)


async def test_an_expected_epoch_must_be_the_trackers(service, two):
    """Loaded or not; 0 is that of a tracker nobody ever opened."""
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


# -- streams that are wrong ------------------------------------------------------------------------------------------


def _without(number):
    return lambda sent: sent[:number] + sent[number + 1 :]


def _flip(entry):
    def change(sent):
        encoded = bytearray(sent[2].entries.entries[entry])
        encoded[-1] ^= 1
        sent[2].entries.entries[entry] = bytes(encoded)
        return sent

    return change


def _set(path, value):
    def change(sent):
        *owners, field = path.split(".")
        message = sent[1 if owners[0] == "bucket" else 0]
        for owner in owners:
            message = getattr(message, owner)
        setattr(message, field, value)
        return sent

    return change


WRONG_STREAMS = {
    "nothing": (lambda _: [], "the stream ended where its header belongs"),
    "no header": (_without(0), "send the header that belongs here"),
    "no end": (lambda sent: sent[:-1], "the stream ended where its end belongs"),
    "cut short": (lambda sent: sent[:2], "the stream ended where its entries belong"),
    "a bucket is missing": (lambda sent: sent[:3], "the stream ended where its bucket belongs"),
    "no description": (_without(1), "send the bucket that belongs here"),
    "an end too early": (lambda sent: [*sent[:3], sent[-1]], "send the bucket that belongs here"),
    "flipped metadata": (_flip(0), "entry 0 of bucket 0 fails its checksum"),
    "flipped segment": (_flip(2), "entry 2 of bucket 0 fails its checksum"),
    "order": (lambda sent: [sent[0], *sent[3:5], *sent[1:3], sent[5]], "bucket 1 begins at 10:0"),
    "no entries": (_set("bucket.entry_count", 0), "count the metadata and every segment"),
    "fewer entries": (_set("bucket.entry_count", 3), "give 1 to 3, which is what is missing"),
    "other range": (_set("bucket.last.entry_id", 7), "its positions are 10:0 to 10:6"),
    "negative": (_set("bucket.first.ledger_id", -1), "bucket.first.ledger_id"),
    "too many buckets": (_set("header.bucket_count", 100_001), "give at most 100000"),
    "no owner": (_set("header.owner", ""), "owner"),
}


@pytest.mark.parametrize("case", WRONG_STREAMS)
async def test_a_wrong_stream_changes_nothing(service, two, case):
    """It is refused with what is wrong, and what was stored of it is deleted."""
    epoch = await opened(service)
    await used(service, epoch)
    before = await world(service)
    change, fault = WRONG_STREAMS[case]
    error, info, _ = await refused(imported(service, change(requests(*two))))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert info.reason in {"INVALID_INPUT", "IMPORT_REJECTED"}
    assert fault in error.details()
    await settle()
    assert await world(service) == before
    assert not service.registry.imports


def _rows(far):
    return [(far + 400 * entry, 10, entry) for entry in range(7)]


def _wrong_bucket(case, far):
    """Entries whose checksums hold and which contradict themselves."""
    entries = entries_of(_rows(far))
    other = entries_of([(at_ms + 1, ledger, entry) for at_ms, ledger, entry in _rows(far)])
    match case:
        case "metadata is none":
            return [b"\xff\xff", *entries[1:]]
        case "segments of others":
            return [entries[0], *other[1:]]
        case "a segment is none":
            return [*entries[:2], b"\x0a\x05\xff", *entries[3:]]
        case "a row less":
            return [*entries[:-2], *entries_of(_rows(far)[3:5], count_max=9)[1:], entries[-1]]
        case "order":
            return [entries[0], entries[2], entries[1], *entries[3:]]
        case "twice":
            return entries_of([*_rows(far), (far + 90_000, 10, 0)])
        case "another form":
            # A field that nobody knows: valid protobuf, and not what the service writes.
            return [*entries[:-1], entries[-1] + b"\x98\x06\x01"]
        case "more metadata":
            return [entries[0] + other[0], *entries[1:], *other[1:]]
    raise AssertionError(case)


WRONG_BUCKETS = {
    "metadata is none": "do not decode",
    "segments of others": "are not those of its metadata",
    "a segment is none": "do not decode",
    "a row less": "rows where the metadata counts",
    "order": "are not those of its metadata",
    "twice": "it holds a position twice",
    "another form": "not encoded as this service encodes them",
    "more metadata": "do not ascend",
}


@pytest.mark.parametrize("case", WRONG_BUCKETS)
async def test_a_bucket_that_contradicts_itself_changes_nothing(service, two, case):
    """Also if every checksum holds."""
    epoch = await opened(service)
    await used(service, epoch)
    before = await world(service)
    sent = requests(*two)
    entries = _wrong_bucket(case, service.clock.now_ms() + FAR_MS)
    sent[1].bucket.entry_count = len(entries)
    del sent[2].entries.entries[:], sent[2].entries.crc32c[:]
    sent[2:3] = _alone(entries)
    error, info, _ = await refused(imported(service, sent))
    assert (error.code(), info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "IMPORT_REJECTED")
    assert WRONG_BUCKETS[case] in error.details()
    await settle()
    assert await world(service) == before


def _alone(entries):
    """Every entry as a part of its own."""
    return [
        pb.ImportSnapshotsRequest(entries=pb.ImportedEntries(entries=[entry], crc32c=[google_crc32c.value(entry)]))
        for entry in entries
    ]


async def test_entries_may_come_in_any_portions(service, two):
    """One by one as well as all at once."""
    sent = requests(two[0])
    sent[2:3] = _alone(list(sent[2].entries.entries))
    assert (await imported(service, sent)).tracked_count == 7


# -- what happens meanwhile ------------------------------------------------------------------------------------------


async def half_sent(service, sent):
    """An import whose stream stands still after its first bucket was stored."""
    call = service.stub.ImportSnapshots()
    for request in sent[:4]:
        await call.write(request)
    await until(lambda: "create_bucket_snapshot" in service.storage.calls)
    await settle()
    return call


async def test_a_second_import_is_refused_while_one_is_under_way(service, two):
    """The first one goes on."""
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
    """What was stored is deleted, and the next import may begin."""
    epoch = await opened(service)
    await used(service, epoch)
    before = await world(service)
    call = await half_sent(service, requests(*two))
    assert await stored_ids(service) > before[3]
    under_way = await service.stub.VerifySnapshots(pb.VerifySnapshotsRequest(tracker=REF))
    assert not under_way.orphan_bucket_ids
    call.cancel()
    await until(lambda: not service.registry.imports)
    await settle()
    assert await world(service) == before
    assert (await imported(service, requests(*two))).tracked_count == 14


@pytest.mark.parametrize("meanwhile", ["opened", "cleared", "closed", "deleted"])
async def test_an_import_is_fenced_by_who_changes_the_tracker_meanwhile(service, two, meanwhile):
    """What the later one did stays."""
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
    for request in sent[4:]:
        # Refused between two requests, the call takes no more of them; and of one that it ends while it is being written,
        # gRPC's client forgets why.
        if not call.done():
            await call.write(request)
            await settle()
    with suppress(asyncio.InvalidStateError):
        await call.done_writing()
    _, info, _ = await refused(call)
    assert info.reason in {"FENCED", "TRACKER_NOT_OPEN"}
    await until(lambda: not service.registry.imports)
    await settle()
    assert await catalogued(service) == state
    assert await stored_ids(service) == {entry.bucket_id for entry in state.entries}


async def test_opens_wait_for_the_exchange(service, two):
    """Whoever asks while the catalogue is written owns what was imported."""
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


async def test_a_caller_that_goes_away_during_the_exchange_does_not_stop_it(service, two):
    """It is one step for the tracker, whoever waits for it."""
    await opened(service)
    service.storage.before["replace"] = gate = Gate()
    importing = imported(service, requests(*two))
    await until(lambda: gate.held_count == 1)
    importing.cancel()
    await settle()
    gate.open()
    await until(lambda: not service.registry.imports)
    assert await opened(service) > 2
    assert (await stats_of(service)).pending_count == 14


async def test_a_snapshot_that_is_being_stored_does_not_survive_the_exchange(service, two):
    """Its positions were only in memory: the replay brings them again."""
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
    service.registry.host(KEY)._core.check()


# -- storage that fails ----------------------------------------------------------------------------------------------


async def test_a_create_that_fails_changes_nothing(service, two):
    """It is not tried again, for what came through the stream has gone."""
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
    """Also if the write was made all the same: then it is taken back."""
    epoch = await opened(service)
    await used(service, epoch)
    before = await world(service)
    hooks = service.storage.before if when == "before" else service.storage.after
    hooks["replace"] = failing(*[StorageUnavailable("down")] * ATTEMPTS)
    refusal = asyncio.ensure_future(refused(imported(service, requests(*two))))
    while not refusal.done():
        await elapse(service.clock, 100)
    error, info, _ = refusal.result()
    assert (error.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "STORAGE_UNAVAILABLE")
    after = await world(service)
    assert after[1:] == before[1:]
    assert after[0].pending_count == before[0].pending_count
    assert (await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + FAR_MS, 30, 0)))).added_count == 1


async def test_a_listing_that_fails_changes_nothing(service, two):
    """The catalogue was not written yet."""
    await opened(service)
    before = await world(service)
    service.storage.before["list"] = failing(*[StorageUnavailable("down")] * ATTEMPTS)
    refusal = asyncio.ensure_future(refused(imported(service, requests(*two))))
    while not refusal.done():
        await elapse(service.clock, 100)
    assert (await world(service))[1:] == before[1:]


async def test_another_process_that_owns_the_catalogue_wins(service, two):
    """The import is refused, and the tracker is closed as everywhere."""
    await opened(service)
    await service.storage.inner.replace(*KEY, remove=(), add=(), epoch=9, writer="another")
    with capture_logs():
        error, info, _ = await refused(imported(service, requests(*two)))
    assert (error.code(), info.reason) == (grpc.StatusCode.ABORTED, SnapshotConflict.reason)
    await until(lambda: not service.registry.tracker_count)
    assert await stored_ids(service) == set()


async def test_a_service_that_stops_imports_nothing_more(service, two):
    """A stream that stands still does not hold it up."""
    await opened(service)
    call = await half_sent(service, requests(*two))
    await service.registry.drain(1_000)
    error, info, _ = await refused(call)
    assert (error.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")


async def test_trackers_in_memory_import_nothing(clock, storage):
    """They keep no snapshots, and would delete these at the next open."""
    registry = make_registry(storage, clock, limits=replace(TINY, kind=TrackerKind.IN_MEMORY))
    await registry.start()
    with pytest.raises(TrackerInMemory):
        await SnapshotImport(registry, KEY, ImportTerms("tests")).run(_no_buckets())
    await registry.close()


async def _no_buckets():
    return
    yield
