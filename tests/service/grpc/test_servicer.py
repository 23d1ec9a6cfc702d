"""Every call of the API over a real gRPC server on a loopback port."""

import asyncio

import grpc
import pytest
from structlog.testing import capture_logs

from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, poll, refused
from tests.service.harness.shell import elapse, failing, running_service, settle, until

LIMITS = ServiceLimits(batch_max=100_000, poll_messages_max=100, poll_wait_max_ms=60_000)


@pytest.fixture
async def service():
    async with running_service(service_limits=LIMITS) as running:
        yield running


@pytest.fixture
async def epoch(service):
    return (await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))).epoch


async def test_the_whole_life_of_a_few_positions(service, epoch):
    """Positions are added, polled, acked, given back, trimmed and cleared; answers and counters are consistent."""
    stub, clock = service.stub, service.clock
    now = clock.now_ms()
    added = await stub.AddMessages(
        add(epoch, (now + 100, 1, 0), (now - 1, 1, 1), (now + 100, 1, 0), (now + 200, 1, 2), (now + 90_000, 1, 3))
    )
    assert (added.added_count, added.due_offsets, added.duplicate_offsets) == (3, [1], [2])
    contains = pb.ContainsMessagesRequest(tracker=REF, ledger_ids=[1, 1, 1], entry_ids=[0, 1, 2])
    assert (await stub.ContainsMessages(contains)).tracked_offsets == [0, 2]
    upcoming = await stub.NextDeliveryTime(pb.NextDeliveryTimeRequest(tracker=REF))
    assert (upcoming.next_delivery_at_ms, upcoming.server_time_ms) == (now + 100, now)

    clock.advance(200)
    polled = await stub.PollScheduledMessages(poll(epoch, lease_ms=5_000))
    assert (polled.ledger_ids, polled.entry_ids) == ([1, 1], [0, 2])
    assert polled.deliver_at_ms == [now + 100, now + 200]
    assert polled.lease_expires_at_ms == now + 200 + 5_000
    assert polled.next_delivery_at_ms == now + 90_000
    assert not polled.replay_required

    acked = await stub.AckMessages(
        pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=polled.lease_id, ledger_ids=[1, 1], entry_ids=[0, 7])
    )
    assert (acked.acked_count, acked.unknown_offsets) == (1, [1])
    nacked = await stub.NackMessages(
        pb.NackMessagesRequest(
            tracker=REF,
            epoch=epoch,
            lease_id=polled.lease_id,
            ledger_ids=[1, 1],
            entry_ids=[2, 3],
            deliver_at_ms=now + 1_000,
        )
    )
    assert (nacked.returned_count, nacked.stale_offsets) == (1, [1])

    buckets = await stub.ListBuckets(pb.ListBucketsRequest(tracker=REF))
    assert [bucket.state for bucket in buckets.buckets] == [pb.BUCKET_STATE_MUTABLE]
    assert not buckets.buckets[0].HasField("bucket_id")
    trimmed = await stub.AdvanceMarkDelete(
        pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=epoch, mark_delete=pb.Position(ledger_id=1, entry_id=2))
    )
    assert (trimmed.trimmed_count, trimmed.mark_delete) == (1, pb.Position(ledger_id=1, entry_id=2))
    below = await stub.AddMessages(add(epoch, (now + 9_000, 1, 2)))
    assert below.below_mark_delete_offsets == [0]

    stats = await stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF))
    assert (stats.owner, stats.epoch, stats.pending_count, stats.leased_count) == ("tests", epoch, 1, 0)
    assert (stats.added_count, stats.acked_count, stats.trimmed_count) == (3, 1, 1)
    assert (stats.due_on_offer_count, stats.duplicate_count) == (1, 1)
    assert stats.handed_out_count == 2
    assert stats.memory_bytes > stats.membership_bytes > 0
    assert stats.mark_delete == pb.Position(ledger_id=1, entry_id=2)
    assert stats.next_delivery_at_ms == now + 90_000

    cleared = await stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))
    assert (cleared.cleared_count, cleared.epoch) == (1, epoch + 1)
    upcoming = await stub.NextDeliveryTime(pb.NextDeliveryTimeRequest(tracker=REF))
    assert not upcoming.HasField("next_delivery_at_ms")
    await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=cleared.epoch))
    _, info, _ = await refused(stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF)))
    assert info.reason == "TRACKER_NOT_OPEN"


async def test_open_tells_where_to_replay_from_and_what_was_recovered(service, epoch):
    """The replay starts at mark-delete + 1, or is absent if that is unknown; sealed buckets survive a close."""
    stub, now = service.stub, service.clock.now_ms()
    await stub.AddMessages(add(epoch, *((now + 1_000_000, 7, entry) for entry in range(5)), (now + 1_000_000, 8, 0)))
    await settle()
    (sealed, _) = (await stub.ListBuckets(pb.ListBucketsRequest(tracker=REF))).buckets
    assert sealed.state == pb.BUCKET_STATE_SEALED
    assert (sealed.first, sealed.last) == (pb.Position(ledger_id=7), pb.Position(ledger_id=7, entry_id=4))
    assert (sealed.tracked_count, sealed.segment_count, sealed.bucket_id) == (5, 2, 1)
    await stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch))
    opened = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
    assert (opened.recovered_count, opened.bucket_count) == (5, 1)
    assert not opened.HasField("replay_from")
    mark_delete = pb.Position(ledger_id=7, entry_id=1)
    opened = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests", mark_delete=mark_delete))
    assert opened.replay_from == pb.Position(ledger_id=7, entry_id=2)
    before_first = pb.Position(ledger_id=9, entry_id=-1)
    opened = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests", mark_delete=before_first))
    assert opened.replay_from == pb.Position(ledger_id=9, entry_id=0)


@pytest.mark.parametrize(
    ("topic", "subscription"),
    [
        ("persistent://tenant/ns/" + "t" * 177, "with space/slash/100%/ünïcode"),
        ("x", "%2F"),
        ("t" * 4096, "s" * 4096),
        ("\N{SNOWMAN}" * 1365, "\N{SNOWMAN}" * 1365),
    ],
)
async def test_names_are_kept_verbatim(service, topic, subscription):
    """Names may contain spaces, slashes and percent signs, and may be long."""
    ref = pb.TrackerRef(topic=topic, subscription=subscription)
    await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=ref, owner="tests"))
    assert (await service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=ref))).owner == "tests"
    _, info, _ = await refused(
        service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=pb.TrackerRef(topic=topic, subscription="%")))
    )
    assert info.reason == "TRACKER_NOT_OPEN"


async def test_every_call_that_changes_something_is_fenced(service, epoch):
    """Changes with the old epoch fail with FAILED_PRECONDITION; reading calls need no epoch."""
    stub = service.stub
    new = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="other"))
    for method, request in (
        ("CloseTracker", pb.CloseTrackerRequest(tracker=REF, epoch=epoch)),
        ("AddMessages", add(epoch, (1, 1, 1))),
        ("PollScheduledMessages", poll(epoch)),
        ("AckMessages", pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=1)),
        ("NackMessages", pb.NackMessagesRequest(tracker=REF, epoch=epoch, lease_id=1)),
        ("AdvanceMarkDelete", pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=epoch, mark_delete=pb.Position())),
        ("ClearMessages", pb.ClearMessagesRequest(tracker=REF, epoch=epoch)),
        ("ResetCursor", pb.ResetCursorRequest(tracker=REF, epoch=epoch)),
        ("DeleteTracker", pb.DeleteTrackerRequest(tracker=REF, epoch=epoch)),
        ("ExtendLease", pb.ExtendLeaseRequest(tracker=REF, epoch=epoch, lease_id=1, lease_ms=5)),
        ("CancelMessages", pb.CancelMessagesRequest(tracker=REF, epoch=epoch)),
        ("RescheduleMessages", pb.RescheduleMessagesRequest(tracker=REF, epoch=epoch)),
        ("SealBucket", pb.SealBucketRequest(tracker=REF, epoch=epoch)),
    ):
        error, info, _ = await refused(getattr(stub, method)(request))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert (info.reason, info.metadata["owner"], info.metadata["epoch"]) == ("FENCED", "other", str(new.epoch))
    await stub.ContainsMessages(pb.ContainsMessagesRequest(tracker=REF))


async def test_a_waiting_poll_is_answered_when_something_becomes_due(service, epoch):
    """The call waits until the clock reaches the deadline."""
    call = service.stub.PollScheduledMessages(poll(epoch, wait_ms=60_000))
    await until(lambda: service.registry.waiting_poll_count == 1)
    await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + 500, 1, 0)))
    assert not call.done()
    service.clock.advance(500)
    assert (await call).entry_ids == [0]


async def test_a_wait_is_capped_and_ends_empty(service, epoch):
    """A poll may request any wait, but the service's maximum applies."""
    call = service.stub.PollScheduledMessages(poll(epoch, wait_ms=2**32 - 1))
    await until(lambda: service.registry.waiting_poll_count == 1)
    service.clock.advance(LIMITS.poll_wait_max_ms)
    answer = await call
    assert (answer.lease_id, answer.entry_ids) == (0, [])


async def test_a_cancelled_call_takes_nothing(service, epoch):
    """If the caller leaves while it waits, the position stays for the next poll, with a lease or without."""
    call = service.stub.PollScheduledMessages(poll(epoch, wait_ms=60_000, hand_off=True))
    await until(lambda: service.registry.waiting_poll_count == 1)
    call.cancel()
    await until(lambda: service.registry.waiting_poll_count == 0)
    await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + 5, 1, 0)))
    service.clock.advance(5)
    answer = await service.stub.PollScheduledMessages(poll(epoch, hand_off=True))
    assert (answer.entry_ids, answer.lease_id) == ([0], 0)


async def test_a_call_whose_deadline_passes_takes_nothing(service, epoch):
    """A call that ends by the client's deadline takes no position."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await service.stub.PollScheduledMessages(poll(epoch, wait_ms=60_000, hand_off=True), timeout=0.05)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: service.registry.waiting_poll_count == 0)


async def test_polls_that_wait_learn_of_clear_close_and_new_owners(service, epoch):
    """Waiting polls end with ABORTED and the reason."""
    stub = service.stub
    endings = (
        ("CLEARED", lambda e: stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=e))),
        ("FENCED", lambda _: stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="other"))),
        ("CLOSED", lambda e: stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=e))),
    )
    for reason, end in endings:
        call = stub.PollScheduledMessages(poll(epoch, wait_ms=60_000))
        await until(lambda: service.registry.waiting_poll_count == 1)
        answer = await end(epoch)
        error, info, _ = await refused(call)
        assert (error.code(), info.reason) == (grpc.StatusCode.ABORTED, reason)
        epoch = getattr(answer, "epoch", None)


async def test_an_unavailable_storage_is_told_with_a_time_to_retry(service):
    """The call fails with UNAVAILABLE and RetryInfo, and succeeds later."""
    service.storage.before["list"] = failing(*[StorageUnavailable("the disk is away")] * 3)
    call = service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
    await until(lambda: service.registry.recovering_count == 1)
    await elapse(service.clock, 1_000)
    error, info, details = await refused(call)
    assert (error.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "STORAGE_UNAVAILABLE")
    assert details["RetryInfo"].retry_delay.ToMilliseconds() > 0
    await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))


async def test_a_stopping_service_says_so(service, epoch):
    """Every call fails with UNAVAILABLE SHUTTING_DOWN and a time to retry."""
    await service.registry.drain(0)
    error, info, details = await refused(service.stub.AddMessages(add(epoch, (1, 1, 1))))
    assert (error.code(), info.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
    assert "RetryInfo" in details


async def test_a_bug_is_logged_once_and_explained_to_nobody(service):
    """The answer is INTERNAL without details; the log has them."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    service.storage.before["list"] = failing(ZeroDivisionError("secret"))
    with capture_logs() as logged:
        error, info, details = await refused(
            service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))
        )
    assert (error.code(), info.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in error.details()
    assert not details
    (line,) = (line for line in logged if line["log_level"] == "error")
    assert (line["log_level"], type(line["exc_info"])) == ("error", ZeroDivisionError)
    assert line["method"].endswith("/OpenTracker")
