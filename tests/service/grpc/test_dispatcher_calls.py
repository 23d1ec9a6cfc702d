"""Extending, cancelling, filtering, sealing, resetting, deleting and streaming, over a real gRPC server."""

import asyncio

import grpc
import pytest

from delayed_tracker.core.values.columns import ENTRY_ID_MAX
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc
from tests.service.harness.rpc import REF, add, details, opened, poll, refused, stats_of
from tests.service.harness.shell import KEY, Gate, elapse, failing, running_service, settle, until

LIMITS = ServiceLimits(batch_max=1_000)
FAR_MS = 1_000_000


@pytest.fixture
async def service():
    async with running_service(service_limits=LIMITS) as running:
        yield running


@pytest.fixture
async def epoch(service):
    return await opened(service)


def position(ledger_id, entry_id):
    return pb.Position(ledger_id=ledger_id, entry_id=entry_id)


async def sealed_bucket(service, epoch, ledger=1, count=5):
    """Return a stored bucket of five positions of one ledger, with distant deadlines."""
    far = service.clock.now_ms() + FAR_MS
    await service.stub.AddMessages(add(epoch, *((far + entry, ledger, entry) for entry in range(count))))
    await service.stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
    await settle()


async def snapshot_ids(service):
    return [stored.bucket_id for stored in await service.storage.inner.list_bucket_snapshots(*KEY)]


async def test_an_extended_lease_holds_longer(service, epoch):
    """The named positions, or all of them, get a new end; positions that are gone are stale or unknown."""
    stub, clock, now = service.stub, service.clock, service.clock.now_ms()
    await stub.AddMessages(add(epoch, (now + 1, 1, 0), (now + 1, 1, 1), (now + 1, 1, 2)))
    clock.advance(1)
    lease = await stub.PollScheduledMessages(poll(epoch, lease_ms=100))
    request = {"tracker": REF, "epoch": epoch, "lease_id": lease.lease_id}
    some = await stub.ExtendLease(pb.ExtendLeaseRequest(**request, ledger_ids=[1, 1], entry_ids=[0, 9], lease_ms=500))
    assert (some.extended_count, some.stale_offsets, some.unknown_offsets) == (1, [], [1])
    assert some.lease_expires_at_ms == now + 501
    clock.advance(200)
    returned = await stub.PollScheduledMessages(poll(epoch, lease_ms=5_000))
    assert returned.entry_ids == [1, 2]
    everything = await stub.ExtendLease(pb.ExtendLeaseRequest(**request, lease_ms=1_000))
    assert (everything.extended_count, everything.lease_expires_at_ms) == (1, now + 1_201)
    stale = await stub.ExtendLease(pb.ExtendLeaseRequest(**request, ledger_ids=[1], entry_ids=[1], lease_ms=500))
    assert (stale.extended_count, stale.stale_offsets) == (0, [0])
    await elapse(clock, 999)
    assert (await stats_of(service)).leased_count == 3
    await elapse(clock, 2)
    assert (await stats_of(service)).leased_count == 2


async def test_a_cancelled_position_is_not_delivered(service, epoch):
    """Each position is reported as cancelled, leased or unknown."""
    stub, clock, now = service.stub, service.clock, service.clock.now_ms()
    await stub.AddMessages(add(epoch, (now + 1, 1, 0), (now + 500, 1, 1)))
    clock.advance(1)
    lease = await stub.PollScheduledMessages(poll(epoch))
    assert lease.entry_ids == [0]
    request = pb.CancelMessagesRequest(tracker=REF, epoch=epoch, ledger_ids=[1, 1, 1], entry_ids=[0, 1, 2])
    cancelled = await stub.CancelMessages(request)
    assert (cancelled.cancelled_count, cancelled.leased_offsets, cancelled.unknown_offsets) == (1, [0], [2])
    again = await stub.CancelMessages(request)
    assert (again.cancelled_count, again.leased_offsets, again.unknown_offsets) == (0, [0], [1, 2])
    stats = await stats_of(service)
    assert (stats.pending_count, stats.leased_count, stats.cancelled_count) == (0, 1, 1)


async def test_filtered_ranges_leave_out_what_is_tracked(service, epoch):
    """The answer keeps the order of the request, leaves out leased positions too, and treats each range by itself."""
    stub, now = service.stub, service.clock.now_ms()
    await stub.AddMessages(add(epoch, *((now + FAR_MS, 1, entry) for entry in (3, 4, 7)), (now + 1, 2, 0)))
    service.clock.advance(1)
    await stub.PollScheduledMessages(poll(epoch))

    async def filtered(*ranges):
        rows = [pb.EntryRange(ledger_id=a, first_entry_id=b, last_entry_id=c) for a, b, c in ranges]
        answer = await stub.FilterEntries(pb.FilterEntriesRequest(tracker=REF, ranges=rows))
        return [(row.ledger_id, row.first_entry_id, row.last_entry_id) for row in answer.ranges]

    assert await filtered((2, 0, 0), (1, 0, 9)) == [(1, 0, 2), (1, 5, 6), (1, 8, 9)]
    assert await filtered((9, 5, 6), (9, 7, 8)) == [(9, 5, 6), (9, 7, 8)]
    assert await filtered((1, 3, 4)) == []
    widest = (9, ENTRY_ID_MAX - 9_999_999, ENTRY_ID_MAX)
    assert await filtered(widest) == [widest]


async def test_a_filter_with_too_long_an_answer_is_refused(service, epoch):
    """RESOURCE_EXHAUSTED states how many ranges an answer may have; a smaller request is answered."""
    stub, far = service.stub, service.clock.now_ms() + FAR_MS
    for half in (0, 1_000):
        await stub.AddMessages(add(epoch, *((far, 1, entry) for entry in range(half, half + 2_000, 2))))
    whole = pb.EntryRange(ledger_id=1, first_entry_id=0, last_entry_id=2_998)
    error, info, _ = await refused(stub.FilterEntries(pb.FilterEntriesRequest(tracker=REF, ranges=[whole])))
    assert (error.code(), info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "BATCH_TOO_LARGE")
    assert info.metadata["limit"] == "1000"
    part = pb.EntryRange(ledger_id=1, first_entry_id=0, last_entry_id=1_999)
    answer = await stub.FilterEntries(pb.FilterEntriesRequest(tracker=REF, ranges=[part]))
    assert len(answer.ranges) == 1_000


async def test_sealing_on_request_stores_what_there_is(service, epoch):
    """A bucket of any size is sealed on request, but an empty one is not."""
    stub, far = service.stub, service.clock.now_ms() + FAR_MS
    seal = pb.SealBucketRequest(tracker=REF, epoch=epoch)
    assert (await stub.SealBucket(seal)).sealed_count == 0
    await stub.AddMessages(add(epoch, (far, 1, 0), (far, 1, 1)))
    assert (await stub.SealBucket(seal)).sealed_count == 2
    await settle()
    (bucket,) = (await stub.ListBuckets(pb.ListBucketsRequest(tracker=REF))).buckets
    assert (bucket.state, bucket.tracked_count) == (pb.BUCKET_STATE_SEALED, 2)


async def test_a_reset_forgets_everything_and_takes_the_new_position(service, epoch):
    """A reset to a lower position works too: the epoch rises, waiting polls end, and no snapshot remains."""
    stub = service.stub
    await sealed_bucket(service, epoch)
    await stub.AdvanceMarkDelete(pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=epoch, mark_delete=position(1, 1)))
    waiting = stub.PollScheduledMessages(poll(epoch, wait_ms=60_000))
    await until(lambda: service.registry.waiting_poll_count == 1)
    reset = await stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=epoch, mark_delete=position(0, 7)))
    assert (reset.cleared_count, reset.epoch, reset.replay_from) == (3, epoch + 1, position(0, 8))
    error, info, _ = await refused(waiting)
    assert (error.code(), info.reason) == (grpc.StatusCode.ABORTED, "CLEARED")
    assert (await stats_of(service)).mark_delete == position(0, 7)
    assert await snapshot_ids(service) == []
    far = service.clock.now_ms() + FAR_MS
    added = await stub.AddMessages(add(reset.epoch, (far, 0, 7), (far, 0, 8)))
    assert (added.added_count, added.below_mark_delete_offsets) == (1, [0])
    reset = await stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=reset.epoch))
    assert (reset.cleared_count, reset.HasField("replay_from")) == (1, False)
    assert not (await stats_of(service)).HasField("mark_delete")


async def test_a_reset_while_a_snapshot_is_being_stored(service, epoch):
    """A snapshot that is stored after the reset is removed: it is neither tracked, nor catalogued, nor stored."""
    stub, storage = service.stub, service.storage
    storage.after["create_bucket_snapshot"] = gate = Gate()
    far = service.clock.now_ms() + FAR_MS
    await stub.AddMessages(add(epoch, *((far, 1, entry) for entry in range(5))))
    await stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
    await until(lambda: gate.held_count == 1)
    reset = await stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=epoch, mark_delete=position(0, 0)))
    assert reset.cleared_count == 5
    added = await stub.AddMessages(add(reset.epoch, (far, 1, 0)))
    assert added.added_count == 1
    gate.open()
    await until(lambda: service.registry.counters.results_forgotten == 1)
    await settle()
    assert await snapshot_ids(service) == []
    assert (await service.storage.inner.list(*KEY)).entries == ()
    assert (await stats_of(service)).pending_count == 1


async def test_a_tracker_that_is_not_loaded_is_reset_on_disk(service, epoch):
    """The last owner may reset a closed tracker; the epoch rises, and the next open finds nothing."""
    stub = service.stub
    await sealed_bucket(service, epoch)
    await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    error, _, _ = await refused(stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=epoch + 5)))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    reset = await stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=epoch, mark_delete=position(3, -1)))
    assert (reset.epoch, reset.cleared_count, reset.replay_from) == (epoch + 1, 5, position(3, 0))
    assert await snapshot_ids(service) == []
    reopened = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
    assert (reopened.recovered_count, reopened.epoch > epoch + 1) == (0, True)
    assert reopened.replay_from == position(3, 0)


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize(
    ("reset_to", "given", "replay_from"),
    [
        (position(3, 4), None, position(3, 5)),
        (position(3, 4), position(2, 9), position(3, 5)),
        (position(3, 4), position(4, 0), position(4, 1)),
        (None, None, None),
        (None, position(2, 9), position(2, 10)),
    ],
)
async def test_a_reset_position_is_where_the_next_open_replays_from(service, loaded, reset_to, given, replay_from):
    """The position lasts without a bucket and over two closes; an open may raise it, but not lower it."""
    stub = service.stub
    epoch = await opened(service, mark_delete=position(9, 9))
    await stub.AddMessages(add(epoch, *((service.clock.now_ms() + FAR_MS, 20, entry) for entry in range(5))))
    await stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
    await settle()
    if not loaded:
        await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    epoch = (await stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=epoch, mark_delete=reset_to))).epoch
    if loaded:
        await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    for _ in range(2):
        again = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests", mark_delete=given))
        assert again.recovered_count == 0
        assert (again.replay_from if again.HasField("replay_from") else None) == replay_from
        await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=again.epoch))


async def test_a_clear_of_what_is_not_loaded_keeps_the_mark_delete_position(service):
    """A clear drops messages, but not the mark-delete position of the cursor."""
    stub = service.stub
    epoch = await opened(service, mark_delete=position(9, 9))
    await stub.AddMessages(add(epoch, *((service.clock.now_ms() + FAR_MS, 20, entry) for entry in range(5))))
    await stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
    await settle()
    await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    await stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))
    again = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
    assert (again.recovered_count, again.replay_from) == (0, position(9, 10))


@pytest.mark.parametrize("by_owner", [True, False])
@pytest.mark.parametrize("loaded", [True, False])
async def test_a_deleted_tracker_leaves_nothing_but_its_epoch(service, epoch, loaded, by_owner):
    """Snapshots, catalogue entries and the listing are gone; a late writer of the old epoch stays fenced."""
    stub = service.stub
    await sealed_bucket(service, epoch)
    if loaded:
        await stub.AddMessages(add(epoch, (service.clock.now_ms() + FAR_MS, 9, 9)))
    else:
        await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    deleted = await stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=REF, epoch=epoch if by_owner else None))
    assert deleted.deleted_count == (6 if loaded else 5)
    assert await snapshot_ids(service) == []
    assert not (await stub.ListTrackers(pb.ListTrackersRequest())).trackers
    error, _, _ = await refused(stub.AddMessages(add(epoch, (1, 1, 1))))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert (await service.storage.inner.list(*KEY)).epoch > epoch
    assert await opened(service) > epoch + 1


async def test_deleting_what_never_was_is_harmless(service):
    """Deleting an unknown tracker deletes nothing and creates nothing."""
    assert (await service.stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=REF))).deleted_count == 0
    assert not (await service.stub.ListTrackers(pb.ListTrackersRequest())).trackers
    error, info, _ = await refused(service.stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=REF, epoch=4)))
    assert (error.code(), info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FENCED")


async def test_a_deletion_waits_for_the_recovery_under_way(service, epoch):
    """A dispatcher that opens the tracker during the recovery gets it, and loses it right after."""
    stub, storage = service.stub, service.storage
    await sealed_bucket(service, epoch)
    await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    storage.before["list_bucket_snapshots"] = gate = Gate()
    opening = stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="other"))
    await until(lambda: gate.held_count == 1)
    deleting = stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=REF))
    # A second call that must wait for the recovery shows that the first one has arrived.
    (row,) = (await stub.ListTrackers(pb.ListTrackersRequest())).trackers
    assert (row.open, row.recovering) == (True, True)
    gate.open()
    assert (await opening).recovered_count == 5
    assert (await deleting).deleted_count == 5
    assert await snapshot_ids(service) == []
    assert service.registry.tracker_count == 0


async def test_a_deletion_that_was_cut_off_may_be_repeated(service, epoch):
    """If the storage fails between catalogue and snapshots, a second call finishes the deletion."""
    stub, storage, clock = service.stub, service.storage, service.clock
    await sealed_bucket(service, epoch)
    await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    request = pb.DeleteTrackerRequest(tracker=REF, epoch=epoch)
    storage.before["delete_bucket_snapshot"] = failing(*[StorageUnavailable("the disk is away")] * 3)
    deleting = stub.DeleteTracker(request)
    await until(lambda: storage.calls.count("delete_bucket_snapshot") == 1)
    await elapse(clock, 1_000)
    error, info, found = await refused(deleting)
    assert (error.code(), info.reason, "RetryInfo" in found) == (
        grpc.StatusCode.UNAVAILABLE,
        "STORAGE_UNAVAILABLE",
        True,
    )
    await stub.DeleteTracker(request)
    assert await snapshot_ids(service) == []


async def test_a_deletion_goes_on_without_its_caller(service, epoch):
    """The deletion goes on after the caller's deadline; the next open finds nothing."""
    stub, storage = service.stub, service.storage
    await sealed_bucket(service, epoch)
    storage.before["forget"] = gate = Gate()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=REF), timeout=0.2)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    reopening = stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
    await until(lambda: gate.held_count == 1)
    gate.open()
    assert (await reopening).recovered_count == 0


def stream_request(*args, **kwargs):
    return pb.AddMessagesStreamRequest(add=add(*args, **kwargs))


async def test_a_stream_answers_each_request_in_order(service, epoch):
    """Tracker and epoch are only in the first request, and an empty batch is answered like any other."""
    far = service.clock.now_ms() + FAR_MS
    stream = service.stub.AddMessagesStream()
    await stream.write(stream_request(epoch, (far, 1, 0), (far, 1, 0)))
    for entry in range(1, 50):
        await stream.write(stream_request(0, (far, 1, entry), tracker=None))
    await stream.write(stream_request(epoch))
    await stream.done_writing()
    answers = [answer.added async for answer in stream]
    assert [answer.added_count for answer in answers] == [1] * 50 + [0]
    assert answers[0].duplicate_offsets == [1]
    assert (await stats_of(service)).added_count == 50


@pytest.mark.parametrize(
    ("second", "field"),
    [
        (lambda e: add(e, (1, 1, 1), tracker=pb.TrackerRef(topic="t", subscription="other")), "add.tracker"),
        (lambda e: add(e + 1, (1, 1, 1)), "add.epoch"),
        (lambda e: pb.AddMessagesRequest(deliver_at_ms=[1]), "deliver_at_ms"),
        (lambda e: add(0, (1, 1, ENTRY_ID_MAX + 1), tracker=None), "entry_ids[0]"),
    ],
)
async def test_a_stream_ends_with_the_first_error(service, epoch, second, field):
    """Requests before the bad one are applied; the bad one and later ones are not."""
    far = service.clock.now_ms() + FAR_MS
    adds = (add(epoch, (far, 1, 0)), second(epoch), add(epoch, (far, 1, 2)))
    answers, error = await asyncio.to_thread(sent, service.address, adds)
    assert [answer.added.added_count for answer in answers] == [1]
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    info, found = details(error)
    assert (info.reason, found["BadRequest"].field_violations[0].field) == ("INVALID_INPUT", field)
    assert (await stats_of(service)).added_count == 1


def sent(address, adds):
    """Send a stream of adds; return its answers and its error.

    Without asyncio, whose client loses the status of a stream that ends while a request is being written.
    """
    answers = []
    with grpc.insecure_channel(address) as channel:
        stub = tracker_pb2_grpc.DelayedDeliveryTrackerServiceStub(channel)
        try:
            # An error in the middle keeps the answers before it.
            answers.extend(stub.AddMessagesStream(pb.AddMessagesStreamRequest(add=each) for each in adds))
        except grpc.RpcError as error:
            return answers, error
    raise AssertionError("the stream should end with an error")


async def test_a_streams_first_request_needs_tracker_and_epoch(service, epoch):
    """A first request without tracker or epoch is refused, because no earlier request has them."""
    for request, field in (
        (pb.AddMessagesStreamRequest(), "tracker.topic"),
        (stream_request(0, (1, 1, 1)), "epoch"),
    ):
        stream = service.stub.AddMessagesStream()
        await stream.write(request)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stream.read()
        assert details(raised.value)[1]["BadRequest"].field_violations[0].field == field


async def test_a_stream_ends_at_bytes_that_are_no_request(service, epoch):
    """INVALID_ARGUMENT names the request; earlier requests are applied, and no traceback is logged."""
    far = service.clock.now_ms() + FAR_MS
    async with grpc.aio.insecure_channel(service.address) as channel:
        stream = channel.stream_stream("/delayed_tracker.v1.DelayedDeliveryTrackerService/AddMessagesStream")()
        await stream.write(stream_request(epoch, (far, 1, 0)).SerializeToString())
        await stream.read()
        await stream.write(b"\x0a\x05\xff")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stream.read()
    info, found = details(raised.value)
    assert (raised.value.code(), info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert found["BadRequest"].field_violations[0].field == "request"
    assert (await stats_of(service)).added_count == 1


async def test_a_stream_of_a_fenced_owner_ends(service, epoch):
    """A stream ends when another owner opens the tracker between two requests."""
    far = service.clock.now_ms() + FAR_MS
    stream = service.stub.AddMessagesStream()
    await stream.write(stream_request(epoch, (far, 1, 0)))
    await stream.read()
    await opened(service)
    await stream.write(stream_request(0, (far, 1, 1), tracker=None))
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stream.read()
    assert (raised.value.code(), details(raised.value)[0].reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FENCED")


async def test_a_stream_whose_answers_nobody_reads_holds_its_sender_back(service, epoch):
    """Once the answers fill the connection's window, the service reads no further requests."""
    # A fixed window fills sooner.
    channel = grpc.aio.insecure_channel(service.address, options=[("grpc.http2.bdp_probe", 0)])
    stream = tracker_pb2_grpc.DelayedDeliveryTrackerServiceStub(channel).AddMessagesStream()
    batch = stream_request(epoch, *((1, 1, entry) for entry in range(1_000)))
    written = 0

    async def write():
        nonlocal written
        while written < 20_000:
            await stream.write(batch)
            written += 1

    writing = asyncio.create_task(write())
    async with asyncio.timeout(20):
        applied, still = -1, 0
        while still < 200:
            count = (await stats_of(service)).due_on_offer_count
            still = still + 1 if count == applied else 0
            applied = count
    assert not writing.done()
    assert written < 20_000
    writing.cancel()
    stream.cancel()
    await asyncio.wait([writing])
    await channel.close()


async def test_an_idle_stream_does_not_keep_the_service_from_stopping(service, epoch):
    """An idle stream ends with SHUTTING_DOWN as soon as the service drains."""
    stream = service.stub.AddMessagesStream()
    await stream.write(stream_request(epoch, (service.clock.now_ms() + FAR_MS, 1, 0)))
    await stream.read()
    await service.registry.drain(0)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stream.read()
    assert (raised.value.code(), details(raised.value)[0].reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")


async def test_too_many_calls_at_once_are_refused():
    """RESOURCE_EXHAUSTED OVERLOADED has a time to retry; when a call has ended there is room again."""
    async with running_service(service_limits=ServiceLimits(calls_max=2, retry_after_ms=70)) as service:
        epoch = await opened(service)
        stream = service.stub.AddMessagesStream()
        await stream.write(stream_request(epoch))
        await stream.read()
        waiting = service.stub.PollScheduledMessages(poll(epoch, wait_ms=60_000))
        await until(lambda: service.registry.waiting_poll_count == 1)
        error, info, found = await refused(stats_of(service))
        assert (error.code(), info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert found["RetryInfo"].retry_delay.ToMilliseconds() == 70
        waiting.cancel()
        await until(lambda: service.registry.calls.open_count == 1)
        assert (await stats_of(service)).epoch == epoch
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF


async def test_a_reset_that_keeps_the_index_moves_the_cursor(service, epoch):
    """Positions above it stay, those dropped below the old one are added again, and the epoch rises."""
    stub, far = service.stub, service.clock.now_ms() + FAR_MS
    await stub.AddMessages(add(epoch, *((far, 1, entry) for entry in range(6))))
    await stub.AdvanceMarkDelete(pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=epoch, mark_delete=position(1, 3)))
    request = pb.ResetCursorRequest(tracker=REF, epoch=epoch, mark_delete=position(1, 1), keep_index=True)
    reset = await stub.ResetCursor(request)
    assert (reset.epoch, reset.cleared_count, reset.replay_from) == (epoch + 1, 0, position(1, 2))
    error, info, _ = await refused(stub.ResetCursor(request))
    assert (error.code(), info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FENCED")
    added = await stub.AddMessages(add(reset.epoch, *((far, 1, entry) for entry in range(6))))
    assert (added.added_count, added.below_mark_delete_offsets, added.duplicate_offsets) == (2, [0, 1], [4, 5])
    request.epoch, request.mark_delete.entry_id = reset.epoch, 4
    reset = await stub.ResetCursor(request)
    assert (reset.cleared_count, reset.replay_from) == (3, position(1, 5))
    request.epoch = reset.epoch
    request.ClearField("mark_delete")
    reset = await stub.ResetCursor(request)
    assert (reset.cleared_count, reset.HasField("replay_from")) == (0, False)
    assert (await stats_of(service)).pending_count == 1
    wrong = pb.ResetCursorRequest(
        tracker=REF, epoch=reset.epoch, mark_delete=pb.Position(ledger_id=-3), keep_index=True
    )
    error, _, _ = await refused(stub.ResetCursor(wrong))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
