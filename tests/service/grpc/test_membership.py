"""The stream of all tracked positions over a real gRPC server: content, flow control, room, and the end at a barrier."""

import asyncio

import grpc
import numpy as np
import pytest
from pyroaring import BitMap

from delayed_tracker.core.inspect.membership_parts import LEDGERS_MAX, PART_BYTES
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.queries.membership import membership_parts
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.imports import imported, requests, snapshot
from tests.service.harness.rpc import REF, add, details, opened, poll, stats_of
from tests.service.harness.shell import KEY, as_time_passes, elapse, running_service, until

FAR_MS = 1_000_000
LARGE = TrackerLimits(strict=True, mutable_indexes_max=10**7, min_index_count_per_bucket=10**7)


def membership(epoch=None, tracker=REF):
    return pb.StreamMembershipRequest(tracker=tracker, epoch=epoch)


async def collected(stream) -> dict[int, BitMap]:
    """Read a stream to its end, and unite its bitmaps."""
    found: dict[int, BitMap] = {}
    async for answer in stream:
        assert answer.ledgers, "no message is empty"
        assert answer.ByteSize() <= PART_BYTES
        for ledger in answer.ledgers:
            found.setdefault(ledger.ledger_id, BitMap())
            found[ledger.ledger_id] |= BitMap.deserialize(ledger.entries)
    return found


async def ended(stream):
    """Read a stream that fails; return the code and the reason."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        async for _ in stream:
            pass
    return raised.value.code(), details(raised.value)[0].reason


ENTRIES = np.arange(7, 2**32, 2**15)
"""Entries of a ledger, two in each container, so that few of them make a large bitmap: of 850 KB."""


def fill(service, ledger_count):
    """Track a membership of several messages, which gRPC cannot buffer whole, without the network."""
    host = service.registry.host(KEY)
    for ledger_id in range(ledger_count):
        ledgers = np.full(len(ENTRIES), ledger_id, np.int64)
        deadlines = np.full(len(ENTRIES), service.clock.now_ms() + FAR_MS, np.int64)
        host.add(host.epoch, IndexColumns(deadlines, ledgers, ENTRIES))


@pytest.fixture
async def large():
    """Run a service whose tracker has 8 MB of bitmaps."""
    async with running_service(limits=LARGE) as service:
        service.epoch = await opened(service)
        fill(service, ledger_count=10)
        yield service


async def test_every_tracked_position_is_in_the_answer(service):
    """Stored, unstored and leased positions are, by ledger; consumed ones are not."""
    epoch, now = await opened(service), service.clock.now_ms()
    await service.stub.AddMessages(add(epoch, *((now + FAR_MS + entry, 1, entry) for entry in range(7))))
    await service.stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
    await service.stub.AddMessages(add(epoch, *((now + 1, 2, entry) for entry in range(4))))
    service.clock.advance(1)
    leased = await service.stub.PollScheduledMessages(poll(epoch, max_messages=3))
    await service.stub.AckMessages(
        pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=leased.lease_id, ledger_ids=[2], entry_ids=[1])
    )
    before = await stats_of(service)
    expected = {1: BitMap(range(7)), 2: BitMap([0, 2, 3])}
    for asked in (None, epoch):
        assert await collected(service.stub.StreamMembership(membership(asked))) == expected
    assert await stats_of(service) == before


async def test_an_empty_tracker_has_no_message_and_ends_well(service):
    """The stream of an empty tracker ends with OK, without a message."""
    await opened(service)
    stream = service.stub.StreamMembership(membership())
    assert await collected(stream) == {}
    assert await stream.code() is grpc.StatusCode.OK


async def test_who_may_not_read_it_is_refused(service):
    """An older epoch is fenced, one that there never was too, and a tracker that is not open is not found."""
    assert await ended(service.stub.StreamMembership(membership())) == (grpc.StatusCode.NOT_FOUND, "TRACKER_NOT_OPEN")
    first, second = await opened(service), await opened(service)
    fenced = (grpc.StatusCode.FAILED_PRECONDITION, "FENCED")
    assert await ended(service.stub.StreamMembership(membership(first))) == fenced
    assert await ended(service.stub.StreamMembership(membership(second + 1))) == fenced
    assert (await ended(service.stub.StreamMembership(membership(0))))[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_large_membership_comes_in_bounded_messages(large):
    """Messages are of about a mebibyte, and whoever reads them all has everything."""
    found = await collected(large.stub.StreamMembership(membership(large.epoch)))
    assert found == dict.fromkeys(range(10), BitMap(ENTRIES))


async def test_a_caller_who_does_not_read_stops_the_stream(large):
    """Only as much is made and held as gRPC takes ahead; the room is given back at the end of the call."""
    budget = large.registry.calls.answers.budget
    stream = large.stub.StreamMembership(membership())
    await anext(aiter(stream))
    await until(lambda: 0 < budget.held_bytes <= PART_BYTES)
    for _ in range(200):
        await asyncio.sleep(0.001)
    assert 0 < budget.held_bytes <= PART_BYTES
    assert large.registry.calls.requests.stream_count == 1
    left_over = [answer async for answer in stream]
    assert len(left_over) > 5, "most of it was made only now"
    await until(lambda: large.registry.calls.open_count == 0)
    assert (budget.held_bytes, large.registry.calls.requests.stream_count) == (0, 0)


async def test_a_caller_who_leaves_frees_everything(large):
    """A cancelled stream holds no room and follows no history."""
    stream = large.stub.StreamMembership(membership())
    await anext(aiter(stream))
    assert large.registry.host(KEY)._gate.histories._readings
    stream.cancel()
    await until(lambda: large.registry.calls.open_count == 0)
    assert large.registry.calls.answers.budget.held_bytes == 0
    assert not large.registry.host(KEY)._gate.histories._readings


async def test_a_stream_waits_for_room_and_other_calls_go_on(large):
    """Streams take turns for the room that answers have; nothing else waits for it."""
    limits = large.registry.service_limits
    budget = large.registry.calls.answers.budget
    with budget.hold("PeekMessages", budget.bytes_max - limits.message_bytes_max + 1):
        reading = asyncio.create_task(collected(large.stub.StreamMembership(membership())))
        await until(lambda: budget.waiting_count == 1)
        assert (await stats_of(large)).pending_count == 10 * len(ENTRIES)
        assert not reading.done()
    assert len(await reading) == 10


async def test_each_part_takes_an_iteration_of_the_event_loop(large):
    """However many streams are read, the loop makes at most one part before it serves its other tasks."""
    registry, made, most = large.registry, 0, 0

    async def read():
        nonlocal made
        async for _ in membership_parts(registry, registry.host(KEY), None):
            made += 1

    reading = [asyncio.create_task(read()) for _ in range(3)]
    while not all(each.done() for each in reading):
        before = made
        await asyncio.sleep(0)
        most = max(most, made - before)
    assert (most, made) == (1, 3 * 10)


async def _clear(service):
    await service.stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=service.epoch))


async def _reset(service):
    await service.stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=service.epoch))


async def _open(service):
    await opened(service)


async def _close(service):
    await service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=service.epoch))


async def _close_and_open(service):
    await _close(service)
    await opened(service)


async def _delete(service):
    await service.stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=REF))


async def _import(service):
    await imported(service, requests(snapshot((service.clock.now_ms() + FAR_MS, 1, 0))))


@pytest.mark.parametrize(
    ("barrier", "reason"),
    [
        (_clear, "CLEARED"),
        (_reset, "CLEARED"),
        (_delete, "CLEARED"),
        (_close, "CLOSED"),
        (_close_and_open, "CLOSED"),
        (_open, "FENCED"),
        (_import, "FENCED"),
    ],
)
async def test_a_barrier_ends_the_stream(large, barrier, reason):
    """A stream never goes on after a barrier, so no answer mixes two histories."""
    stream = large.stub.StreamMembership(membership(large.epoch))
    await anext(aiter(stream))
    await barrier(large)
    assert await ended(stream) == (grpc.StatusCode.ABORTED, reason)
    assert large.registry.calls.answers.budget.held_bytes == 0


async def test_a_service_that_stops_ends_the_stream(large):
    """The caller is told to try again."""
    stream = large.stub.StreamMembership(membership())
    await anext(aiter(stream))
    draining = asyncio.create_task(large.registry.drain(0))
    assert await ended(stream) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
    await as_time_passes(large.clock, draining)


async def test_changes_do_not_end_the_stream(large):
    """Adds, seals and acknowledgements go on; what is tracked all the while is in the answer."""
    stream = large.stub.StreamMembership(membership(large.epoch))
    await anext(aiter(stream))
    far = large.clock.now_ms() + FAR_MS
    await large.stub.AddMessages(add(large.epoch, (far, 3, 2**31)))
    host = large.registry.host(KEY)
    host.advance_mark_delete(large.epoch, Position(1, 10))
    host.seal(large.epoch)
    found = await collected(stream)
    assert all(found[ledger_id].issuperset(BitMap(ENTRIES)) for ledger_id in range(2, 10))


async def test_an_unloaded_tracker_is_brought_back_also_in_between():
    """A reader who pauses for so long that the tracker is unloaded reads on, in the same history."""
    idle_ms = 10_000
    limits = ServiceLimits(tracker_idle_unload_ms=idle_ms)
    async with running_service(service_limits=limits, add_log=MemoryAddLog()) as service:
        epoch = await opened(service)
        far = service.clock.now_ms() + FAR_MS
        count = 2 * LEDGERS_MAX
        await service.stub.AddMessages(add(epoch, *((far, ledger_id, 3) for ledger_id in range(count))))
        await elapse(service.clock, 2 * idle_ms)
        assert (await stats_of(service)).unloaded
        expected = {ledger_id: BitMap([3]) for ledger_id in range(count)}
        host = service.registry.host(KEY)
        assert await collected(service.stub.StreamMembership(membership(epoch))) == expected
        parts = membership_parts(service.registry, await service.registry.loaded_host(KEY), epoch)
        read = dict(await anext(parts))
        await elapse(service.clock, 2 * idle_ms)
        assert (await stats_of(service)).unloaded
        async for part in parts:
            read |= dict(part)
        assert {ledger_id: BitMap.deserialize(entries) for ledger_id, entries in read.items()} == expected
        assert service.registry.host(KEY) is host
