"""Rescheduling over a real gRPC server: from memory and from snapshots, polls that wait, and a start after a crash."""

from dataclasses import replace

import pytest

from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, poll, stats_of
from tests.service.harness.shell import TINY, elapse, running_service, settle, until

LIMITS = ServiceLimits(batch_max=1_000)
FAR_MS = 1_000_000


@pytest.fixture
async def service():
    async with running_service(service_limits=LIMITS) as running:
        yield running


@pytest.fixture
async def epoch(service):
    return await opened(service)


def reschedule(epoch, *rows):
    deadlines, ledgers, entries = zip(*rows, strict=True)
    return pb.RescheduleMessagesRequest(
        tracker=REF, epoch=epoch, deliver_at_ms=deadlines, ledger_ids=ledgers, entry_ids=entries
    )


async def test_each_position_is_answered(service, epoch):
    """Each offset is rescheduled, or in one of the lists; a repetition gives the same answer."""
    stub, clock, now = service.stub, service.clock, service.clock.now_ms()
    await stub.AddMessages(add(epoch, (now + 1, 1, 0), (now + FAR_MS, 1, 1), (now + FAR_MS, 1, 2)))
    clock.advance(1)
    lease = await stub.PollScheduledMessages(poll(epoch))
    assert lease.entry_ids == [0]
    rows = [(now + 500, 1, entry) for entry in (0, 1, 9, 1)]
    request = reschedule(epoch, *rows, (now, 1, 2))
    first = await stub.RescheduleMessages(request)
    assert first == pb.RescheduleMessagesResponse(
        rescheduled_count=2, due_offsets=[4], duplicate_offsets=[3], leased_offsets=[0], unknown_offsets=[2]
    )
    assert await stub.RescheduleMessages(request) == first
    stats = await stats_of(service)
    assert (stats.pending_count, stats.leased_count, stats.added_count, stats.rescheduled_count) == (2, 1, 3, 4)
    polled = await stub.PollScheduledMessages(poll(epoch))
    assert (polled.deliver_at_ms, polled.entry_ids, polled.next_delivery_at_ms) == ([now], [2], now + 500)


async def test_a_deadline_beyond_the_maximum_stays_as_it_was():
    """The answer names the offset, and the position is due when it was before."""
    async with running_service(limits=replace(TINY, max_delay_ms=5_000)) as service:
        epoch, now = await opened(service), service.clock.now_ms()
        await service.stub.AddMessages(add(epoch, (now + 4_000, 1, 0), (now + 4_000, 1, 1)))
        request = reschedule(epoch, (now + 5_001, 1, 0), (now + 5_000, 1, 1))
        answer = await service.stub.RescheduleMessages(request)
        assert answer == pb.RescheduleMessagesResponse(rescheduled_count=1, beyond_max_delay_offsets=[0])
        await elapse(service.clock, 4_000)
        assert (await service.stub.PollScheduledMessages(poll(epoch))).entry_ids == [0]


async def test_a_waiting_poll_gets_what_becomes_due_sooner(service, epoch):
    """A position in a snapshot on disk is brought forward, and a poll that waits answers it at the new time, once."""
    stub, clock, now = service.stub, service.clock, service.clock.now_ms()
    await stub.AddMessages(add(epoch, *((now + FAR_MS, 1, entry) for entry in range(3))))
    await stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
    await settle()
    call = stub.PollScheduledMessages(poll(epoch, wait_ms=60_000))
    await until(lambda: service.registry.waiting_poll_count == 1)
    assert (await stub.RescheduleMessages(reschedule(epoch, (now + 500, 1, 1)))).rescheduled_count == 1
    assert not call.done()
    clock.advance(500)
    answer = await call
    assert (answer.deliver_at_ms, answer.entry_ids) == ([now + 500], [1])
    ack = pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=answer.lease_id, ledger_ids=[1], entry_ids=[1])
    assert (await stub.AckMessages(ack)).acked_count == 1
    await elapse(clock, FAR_MS)
    assert (await stub.PollScheduledMessages(poll(epoch))).entry_ids == [0, 2]
    call = stub.PollScheduledMessages(poll(epoch, wait_ms=60_000))
    await until(lambda: service.registry.waiting_poll_count == 1)
    later = service.clock.now_ms() + FAR_MS
    await stub.AddMessages(add(epoch, (later, 2, 0)))
    due = await stub.RescheduleMessages(reschedule(epoch, (0, 2, 0)))
    assert due.due_offsets == [0]
    assert (await call).ledger_ids == [2]
