"""Calls on an unloaded tracker over a real gRPC server: each brings it back, and the callers notice nothing."""

import asyncio

import grpc
import pytest

from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, poll, refused
from tests.service.harness.shell import KEY, elapse, running_service, until

IDLE_MS = 10_000
FAR_MS = 1_000_000
LIMITS = ServiceLimits(tracker_idle_unload_ms=IDLE_MS)


@pytest.fixture
async def service():
    async with running_service(service_limits=LIMITS, add_log=MemoryAddLog()) as running:
        yield running


@pytest.fixture
async def epoch(service):
    """Return the epoch of a tracker with three positions that is unloaded."""
    epoch = await opened(service)
    far = service.clock.now_ms() + FAR_MS
    await service.stub.AddMessages(add(epoch, *((far + entry, 1, entry) for entry in range(3))))
    await elapse(service.clock, 2 * IDLE_MS)
    assert (await stats(service)).unloaded
    return epoch


async def stats(service):
    return await service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF))


async def test_stats_and_the_list_show_the_state_and_leave_it(service, epoch):
    found = await stats(service)
    assert (found.epoch, found.owner, found.pending_count, found.added_count) == (epoch, "tests", 3, 3)
    assert (found.mutable_count, found.memory_bytes) == (0, 0)
    (listed,) = (await service.stub.ListTrackers(pb.ListTrackersRequest())).trackers
    assert (listed.open, listed.unloaded, listed.pending_count, listed.epoch) == (True, True, 3, epoch)
    assert (await stats(service)).unloaded


POSITION = {"ledger_ids": [1], "entry_ids": [1]}
CALLS = {
    "AddMessages": lambda epoch, now: add(epoch, (now + FAR_MS, 2, 0)),
    "PollScheduledMessages": lambda epoch, now: poll(epoch),
    "AckMessages": lambda epoch, now: pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=0, **POSITION),
    "NackMessages": lambda epoch, now: pb.NackMessagesRequest(tracker=REF, epoch=epoch, lease_id=0, **POSITION),
    "CancelMessages": lambda epoch, now: pb.CancelMessagesRequest(tracker=REF, epoch=epoch, **POSITION),
    "RescheduleMessages": lambda epoch, now: pb.RescheduleMessagesRequest(
        tracker=REF, epoch=epoch, deliver_at_ms=[now + 2 * FAR_MS], **POSITION
    ),
    "AdvanceMarkDelete": lambda epoch, now: pb.AdvanceMarkDeleteRequest(
        tracker=REF, epoch=epoch, mark_delete=pb.Position(ledger_id=1, entry_id=0)
    ),
    "SealBucket": lambda epoch, now: pb.SealBucketRequest(tracker=REF, epoch=epoch),
    "ClearMessages": lambda epoch, now: pb.ClearMessagesRequest(tracker=REF, epoch=epoch),
    "ContainsMessages": lambda epoch, now: pb.ContainsMessagesRequest(tracker=REF, **POSITION),
    "NextDeliveryTime": lambda epoch, now: pb.NextDeliveryTimeRequest(tracker=REF),
    "ListBuckets": lambda epoch, now: pb.ListBucketsRequest(tracker=REF),
    "FilterEntries": lambda epoch, now: pb.FilterEntriesRequest(
        tracker=REF, ranges=[pb.EntryRange(ledger_id=1, first_entry_id=0, last_entry_id=9)]
    ),
    "PeekMessages": lambda epoch, now: pb.PeekMessagesRequest(tracker=REF, max_messages=5),
    "ExplainMessage": lambda epoch, now: pb.ExplainMessageRequest(
        tracker=REF, position=pb.Position(ledger_id=1, entry_id=1)
    ),
    "ResetCursor": lambda epoch, now: pb.ResetCursorRequest(
        tracker=REF, epoch=epoch, mark_delete=pb.Position(ledger_id=1, entry_id=0), keep_index=True
    ),
    "OpenTracker": lambda epoch, now: pb.OpenTrackerRequest(tracker=REF, owner="next"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_each_call_brings_the_tracker_back(service, epoch, name):
    call = getattr(service.stub, name)(CALLS[name](epoch, service.clock.now_ms()))
    if name in {"AckMessages", "NackMessages"}:
        error, _, _ = await refused(call)  # no lease has the number 0
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    else:
        await call
    found = await stats(service)
    assert not found.unloaded
    assert service.registry.idle.reload_count == 1
    service.registry.host(KEY).core_for_reading().check()


async def test_a_long_poll_brings_the_tracker_back_once_and_gets_what_falls_due(service, epoch):
    """While the poll waits, the tracker stays in memory."""
    waiting = asyncio.ensure_future(service.stub.PollScheduledMessages(poll(epoch, wait_ms=60_000)))
    await until(lambda: service.registry.waiting_poll_count == 1)
    await elapse(service.clock, 2 * IDLE_MS)
    now = service.clock.now_ms()
    await service.stub.AddMessages(add(epoch, (now + 1_000, 3, 0)))
    await elapse(service.clock, 1_000)
    assert (await waiting).ledger_ids == [3]
    assert service.registry.idle.reload_count == 1


async def test_a_stream_of_adds_finds_the_tracker_again(service, epoch):
    """The tracker may leave memory between two requests of one stream."""
    stream = service.stub.AddMessagesStream()
    for number in range(2):
        far = service.clock.now_ms() + FAR_MS
        await stream.write(pb.AddMessagesStreamRequest(add=add(epoch, (far, 5, number))))
        assert (await stream.read()).added.added_count == 1
        # The service looks for room once more when the answer was taken.
        while not (await stats(service)).unloaded:
            await elapse(service.clock, IDLE_MS)
    await stream.done_writing()
    assert (await stats(service)).pending_count == 5


async def test_a_storage_that_is_down_refuses_the_call_for_now(service, epoch):
    async def down(*_args, **_kwargs):
        raise StorageUnavailable("down")

    service.storage.before["list"] = down
    before = service.storage.calls.count("list")
    call = asyncio.ensure_future(refused(service.stub.NextDeliveryTime(pb.NextDeliveryTimeRequest(tracker=REF))))
    await until(lambda: service.storage.calls.count("list") > before)
    await elapse(service.clock, 1_000)
    error, _, _ = await call
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    del service.storage.before["list"]
    found = await service.stub.NextDeliveryTime(pb.NextDeliveryTimeRequest(tracker=REF))
    assert found.HasField("next_delivery_at_ms")
