"""Limits on unstored indexes: calls that are refused or answered, streams that wait, and how they go on."""

import asyncio
from dataclasses import replace

import grpc
import pytest

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import Overloaded
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.registry_life import open_tracker
from tests.service.harness.rpc import REF, add, details, opened, poll, refused, stats_of
from tests.service.harness.shell import (
    KEY,
    OTHER,
    TINY,
    ControlledStorage,
    as_time_passes,
    elapse,
    indexes,
    make_registry,
    running_service,
    settle,
    until,
)
from tests.service.metrics.scraping import parsed

FAR_MS = 1_000_000
LIMITS = ServiceLimits(unstored_indexes_max=40, tracker_unstored_indexes_max=20, retry_after_ms=70)
IN_MEMORY = replace(TINY, kind=TrackerKind.IN_MEMORY)
OTHER_REF = pb.TrackerRef(topic=OTHER.topic, subscription=OTHER.subscription)
THIRD = KEY._replace(subscription="third")


async def down(*_args, **_kwargs):
    raise StorageUnavailable("the disk is full")


def far(service, *positions):
    return [(service.clock.now_ms() + FAR_MS, ledger, entry) for ledger, entry in positions]


async def filled(service, epoch, *, count=20, ledger=1, tracker=REF):
    """Add so many positions of one ledger, one call each."""
    for entry in range(count):
        await service.stub.AddMessages(add(epoch, *far(service, (ledger, entry)), tracker=tracker))


@pytest.fixture
async def service():
    """Run a service whose storage refuses every write."""
    async with running_service(service_limits=LIMITS) as running:
        running.storage.before["create_bucket_snapshot"] = down
        yield running
        running.storage.before.clear()
        await elapse(running.clock, 10_000)


@pytest.fixture
async def epoch(service):
    return await opened(service)


# -- calls ---------------------------------------------------------------------------------------------------------------


async def test_a_call_beyond_the_maximum_of_a_tracker_is_refused(service, epoch):
    """RESOURCE_EXHAUSTED OVERLOADED has a time to retry; no index is added, and other trackers are not affected."""
    await filled(service, epoch)
    error, info, found = await refused(service.stub.AddMessages(add(epoch, *far(service, (1, 5), (1, 99)))))
    assert (error.code(), info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert "trackerUnstoredIndexesMax" in error.details()
    assert found["RetryInfo"].retry_delay.ToMilliseconds() == 70
    stats = await stats_of(service)
    assert (stats.added_count, stats.duplicate_count) == (20, 0)
    await filled(service, await opened(service, OTHER_REF), count=5, tracker=OTHER_REF)


async def test_a_call_beyond_the_maximum_of_all_trackers_is_refused(service, epoch):
    """The limit of all trackers also refuses an add to a tracker that is empty."""
    await filled(service, epoch)
    await filled(service, await opened(service, OTHER_REF), tracker=OTHER_REF)
    third = pb.TrackerRef(topic=THIRD.topic, subscription=THIRD.subscription)
    epoch = await opened(service, third)
    error, info, _ = await refused(service.stub.AddMessages(add(epoch, *far(service, (1, 0)), tracker=third)))
    assert info.reason == "OVERLOADED"
    assert "unstoredIndexesMax" in error.details()


async def test_a_full_tracker_answers_what_needs_no_room(service, epoch):
    """Tracked positions, due ones and those below the mark-delete position are answered, since they need no room."""
    await filled(service, epoch)
    now = service.clock.now_ms()
    rows = [*far(service, (1, 5)), (now - 1, 9, 0), (now - 1, 1, 7)]
    answer = await service.stub.AddMessages(add(epoch, *rows))
    assert (answer.duplicate_offsets, answer.due_offsets) == ([0], [1, 2])
    assert (await stats_of(service)).pending_count == 19


@pytest.mark.parametrize("freeing", ["ack", "cancel", "mark_delete", "hand_off", "clear"])
async def test_what_makes_room_is_never_refused(service, epoch, freeing):
    """Acks, cancels, hand-offs, the mark-delete position and a clear are accepted, and then an add is."""
    stub, now = service.stub, service.clock.now_ms()
    await stub.AddMessages(add(epoch, *((now + 1, 1, entry) for entry in range(20))))
    await refused(stub.AddMessages(add(epoch, *far(service, (2, 0)))))
    service.clock.advance(1)
    positions = {"ledger_ids": [1] * 10, "entry_ids": range(10)}
    if freeing == "ack":
        lease = await stub.PollScheduledMessages(poll(epoch))
        await stub.AckMessages(pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=lease.lease_id, **positions))
    elif freeing == "cancel":
        await stub.CancelMessages(pb.CancelMessagesRequest(tracker=REF, epoch=epoch, **positions))
    elif freeing == "mark_delete":
        mark_delete = pb.Position(ledger_id=1, entry_id=9)
        await stub.AdvanceMarkDelete(pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=epoch, mark_delete=mark_delete))
    elif freeing == "hand_off":
        await stub.PollScheduledMessages(poll(epoch, hand_off=True))
    else:
        epoch = (await stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))).epoch
    await elapse(service.clock, 1_100)
    assert (await stub.AddMessages(add(epoch, *far(service, (2, 0))))).added_count == 1


async def test_a_nack_with_a_new_deadline_needs_room_and_one_without_does_not(service, epoch):
    """A refused nack with a new deadline leaves the position leased."""
    stub, now = service.stub, service.clock.now_ms()
    await stub.AddMessages(add(epoch, *((now + 1, 1, entry) for entry in range(20))))
    service.clock.advance(1)
    lease = await stub.PollScheduledMessages(poll(epoch))
    nack = pb.NackMessagesRequest(
        tracker=REF, epoch=epoch, lease_id=lease.lease_id, ledger_ids=[1], entry_ids=[0], deliver_at_ms=now + FAR_MS
    )
    _, info, _ = await refused(stub.NackMessages(nack))
    assert info.reason == "OVERLOADED"
    assert (await stats_of(service)).leased_count == 10
    nack.ClearField("deliver_at_ms")
    assert (await stub.NackMessages(nack)).returned_count == 1


async def test_a_reschedule_needs_room(service, epoch):
    """A refused reschedule changes nothing, one without positions needs no room, and one is accepted when there is some."""
    stub = service.stub
    await filled(service, epoch)
    ((new_ms, _, _),) = far(service, (1, 0))
    request = pb.RescheduleMessagesRequest(
        tracker=REF, epoch=epoch, deliver_at_ms=[new_ms + 1], ledger_ids=[1], entry_ids=[0]
    )
    error, info, found = await refused(stub.RescheduleMessages(request))
    assert (error.code(), info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert found["RetryInfo"].retry_delay.ToMilliseconds() == 70
    assert (await stats_of(service)).rescheduled_count == 0
    empty = await stub.RescheduleMessages(pb.RescheduleMessagesRequest(tracker=REF, epoch=epoch))
    assert empty == pb.RescheduleMessagesResponse()
    await stub.CancelMessages(pb.CancelMessagesRequest(tracker=REF, epoch=epoch, ledger_ids=[1], entry_ids=[9]))
    await elapse(service.clock, 1_100)
    assert (await stub.RescheduleMessages(request)).rescheduled_count == 1


async def test_adds_go_on_when_the_storage_is_back(service, epoch):
    """A failed store is repeated without another event."""
    await filled(service, epoch)
    await refused(service.stub.AddMessages(add(epoch, *far(service, (2, 0)))))
    del service.storage.before["create_bucket_snapshot"]
    await elapse(service.clock, 1_000)
    assert (await service.stub.AddMessages(add(epoch, *far(service, (2, 0))))).added_count == 1
    assert service.registry.unstored.unstored_count == 1


async def test_a_process_full_of_filling_buckets_seals_them():
    """Buckets that are too small for an ordinary seal are sealed when they fill the process."""
    clock = ManualClock()
    limits = replace(TINY, min_index_count_per_bucket=50)
    registry = make_registry(ControlledStorage(), clock, limits=limits, service_limits=LIMITS)
    await registry.start()
    for key in (KEY, OTHER, THIRD):
        host, given = await open_tracker(registry, key)
        host.add(given.epoch, indexes(clock.now_ms(), *((1, entry, FAR_MS) for entry in range(15))))
    assert registry.unstored.unstored_count == 45
    await settle()
    assert registry.unstored.unstored_count == 30
    assert [len(host.buckets()) for host in registry.hosts()] == [1, 1, 1]
    host.add(given.epoch, indexes(clock.now_ms(), (1, 99, FAR_MS)))
    await registry.close()


async def test_adds_go_on_beside_a_tracker_that_cannot_be_stored():
    """One tracker whose snapshots are refused holds up the adds of the others for some seconds, not for ever."""
    clock, storage = ManualClock(), ControlledStorage()
    limits = replace(TINY, min_index_count_per_bucket=50)
    registry = make_registry(storage, clock, limits=limits, service_limits=LIMITS)
    await registry.start()
    failing_host, failing_epoch = await open_tracker(registry, KEY)

    async def refuse(*_args, topic, cursor, **_kwargs):
        if (topic, cursor) == KEY:
            raise StorageUnavailable("its disk is full")

    storage.before["create_bucket_snapshot"] = refuse
    failing_host.add(failing_epoch.epoch, indexes(clock.now_ms(), *((1, entry, FAR_MS) for entry in range(20))))
    given = {}
    for key in (OTHER, THIRD):
        host, opened_ = await open_tracker(registry, key)
        given[host] = opened_.epoch
        host.add(opened_.epoch, indexes(clock.now_ms(), *((1, entry, FAR_MS) for entry in range(10))))
    await settle()
    for host, epoch in given.items():
        with pytest.raises(Overloaded):
            host.add(epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await elapse(clock, 11_000)
    for host, epoch in given.items():
        assert host.add(epoch, indexes(clock.now_ms(), (2, 0, FAR_MS))).added_count == 1
    storage.before.clear()
    await elapse(clock, 10_000)
    await registry.close()


async def test_a_tracker_in_memory_counts_in_full():
    """In-memory indexes are never stored, so only removed ones make room, and new deadlines need none."""
    clock = ManualClock()
    registry = make_registry(ControlledStorage(), clock, limits=IN_MEMORY, service_limits=LIMITS)
    await registry.start()
    host, given = await open_tracker(registry)
    host.add(given.epoch, indexes(clock.now_ms(), *((1, entry, 100) for entry in range(20))))
    with pytest.raises(Overloaded):
        host.add(given.epoch, indexes(clock.now_ms(), (2, 0, 100)))
    clock.advance(100)
    delivery = await host.poll(given.epoch, max_count=5, wait_ms=0, lease_ms=1_000)
    nacked = PositionColumns.of([(1, 0)])
    later = host.nack(given.epoch, delivery.lease_id, nacked, deliver_at_ms=clock.now_ms() + FAR_MS)
    assert later.changed_count == 1
    moved = host.reschedule(given.epoch, indexes(clock.now_ms(), (1, 7, FAR_MS)))
    assert moved.rescheduled_count == 1
    host.ack(given.epoch, delivery.lease_id, PositionColumns.of([(1, 1)]))
    await elapse(clock, 1_100)
    assert host.add(given.epoch, indexes(clock.now_ms(), (2, 0, 100))).added_count == 1
    await registry.close()


async def test_a_tracker_that_is_closed_counts_no_more(service, epoch):
    """The indexes of a closed tracker no longer count, since its dispatcher replays them."""
    await filled(service, epoch)
    del service.storage.before["create_bucket_snapshot"]
    # A store that pauses between two attempts ends when the pause does.
    await as_time_passes(service.clock, service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=REF, epoch=epoch)))
    assert service.registry.unstored.unstored_count == 0


# -- streams -------------------------------------------------------------------------------------------------------------


def streamed(epoch, *rows, tracker=REF):
    return pb.AddMessagesStreamRequest(add=add(epoch, *rows, tracker=tracker))


async def held_back(service, epoch):
    """Return a stream to a full tracker that has sent one more batch."""
    await filled(service, epoch)
    stream = service.stub.AddMessagesStream()
    await stream.write(streamed(epoch, *far(service, (1, 20))))
    await until(lambda: service.registry.unstored.waiting_count == 1)
    return stream


async def test_a_stream_waits_and_goes_on_by_itself(service, epoch):
    """A stream waits without an error and without reading ahead, and then answers all requests in order."""
    stream = await held_back(service, epoch)
    for entry in range(21, 24):
        await stream.write(streamed(epoch, *far(service, (1, entry))))
    await stream.done_writing()
    await settle()
    assert (await stats_of(service)).added_count == 20
    del service.storage.before["create_bucket_snapshot"]
    await elapse(service.clock, 1_000)
    assert [answer.added.added_count async for answer in stream] == [1] * 4
    assert service.registry.unstored.waiting_count == 0


async def test_a_stream_is_answered_what_needs_no_room(service, epoch):
    """A stream answers requests that need no room, as a call does."""
    await filled(service, epoch)
    stream = service.stub.AddMessagesStream()
    await stream.write(streamed(epoch, *far(service, (1, 5))))
    assert (await stream.read()).added.duplicate_offsets == [0]
    stream.cancel()


@pytest.mark.parametrize(
    ("end", "code", "reason"),
    [
        ("open", grpc.StatusCode.FAILED_PRECONDITION, "FENCED"),
        ("close", grpc.StatusCode.NOT_FOUND, "TRACKER_NOT_OPEN"),
        ("stop", grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN"),
    ],
)
async def test_a_stream_that_waits_ends_with_its_tracker(service, epoch, end, code, reason):
    """A waiting stream ends when the tracker has a new owner, is closed, or the service stops."""
    stream = await held_back(service, epoch)
    ending = {
        "open": lambda: opened(service),
        "close": lambda: service.registry.close_tracker(KEY, epoch),
        "stop": lambda: service.registry.drain(0),
    }
    ended = asyncio.create_task(ending[end]())
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stream.read()
    assert (raised.value.code(), details(raised.value)[0].reason) == (code, reason)
    service.storage.before.clear()
    await elapse(service.clock, 10_000)
    await ended


async def test_a_caller_that_goes_away_waits_no_more(service, epoch):
    """A cancelled stream loses its place in the queue."""
    stream = await held_back(service, epoch)
    stream.cancel()
    await until(lambda: service.registry.unstored.waiting_count == 0)


# -- metrics
# -------------------------------------------------------------------------------------------------------------


async def test_the_metrics_tell_of_it(service, epoch):
    """The metrics show unstored indexes and their limit, refused calls and waiting streams."""
    metrics = ServiceMetrics(service.registry, version="1")
    stream = await held_back(service, epoch)
    await refused(service.stub.AddMessages(add(epoch, *far(service, (2, 0)))))
    samples = parsed((await metrics.scrape())[0].decode())
    found = {
        name: samples[f"delayed_tracker_{name}",]
        for name in ("unstored_indexes", "unstored_indexes_max", "refused_adds_total", "held_back_streams")
    }
    assert found == {
        "unstored_indexes": 20,
        "unstored_indexes_max": 40,
        "refused_adds_total": 1,
        "held_back_streams": 1,
    }
    stream.cancel()
