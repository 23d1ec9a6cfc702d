"""Streams of adds over an add log whose commits a test holds: what is read ahead, and what is answered."""

import asyncio

import grpc
import pytest

from delayed_tracker.service.grpc.servicer import STREAM_ANSWER_BYTES_MAX, STREAM_UNANSWERED_MAX
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import add, opened, stats_of
from tests.service.harness.shell import ControlledStorage, Gate, elapse, failing, running_service, settle, until

FAR_MS = 1_000_000


@pytest.fixture
def log():
    return ControlledStorage(MemoryAddLog())


@pytest.fixture
async def service(log):
    async with running_service(add_log=log) as running:
        yield running
        log.open_gates()


async def begin_stream(service, epoch, count):
    """Send requests of one position each over a stream, and return it; the service may not have read them yet."""
    far = service.clock.now_ms() + FAR_MS
    stream = service.stub.AddMessagesStream()
    for entry in range(count):
        await stream.write(pb.AddMessagesStreamRequest(add=add(epoch, (far, 1, entry))))
    await stream.done_writing()
    return stream


async def added_count(service):
    return (await stats_of(service)).added_count


async def test_requests_are_added_while_those_before_wait_for_their_commit(service, log):
    """So they share commits; at most a stated number waits, and answers keep the order of the requests."""
    epoch, count = await opened(service), 3 * STREAM_UNANSWERED_MAX
    log.before["append"] = gate = Gate()
    stream = await begin_stream(service, epoch, count)
    async with asyncio.timeout(10):
        while await added_count(service) < STREAM_UNANSWERED_MAX:
            await settle()
    reading = asyncio.ensure_future(stream.read())
    await settle()
    assert (await added_count(service), reading.done()) == (STREAM_UNANSWERED_MAX, False)
    gate.open()
    answers = [await reading, *[await stream.read() for _ in range(count - 1)]]
    assert [answer.added.added_count for answer in answers] == [1] * count
    assert service.registry.log.commit_count < count


async def test_a_failed_commit_ends_the_stream(service, log):
    """No answer is sent for what is not durable; the caller repeats it."""
    epoch = await opened(service)
    gate, fail = Gate(), failing(StorageUnavailable("no"))

    async def fail_later(*_args, **_kwargs):
        await gate()
        await fail()

    log.before["append"] = fail_later
    stream = await begin_stream(service, epoch, 3)  # a write to a stream that has ended would raise INTERNAL
    gate.open()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stream.read()
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    await elapse(service.clock, 10_000)  # the record is written again
    assert service.registry.log.pending_bytes == 0


async def test_a_request_with_an_error_ends_the_stream_after_the_answers_before_it(service, log):
    """Adds before the error are answered when they are durable."""
    epoch = await opened(service)
    log.before["append"] = gate = Gate()
    stream = service.stub.AddMessagesStream()
    far = service.clock.now_ms() + FAR_MS
    for request in (add(epoch, (far, 1, 0)), pb.AddMessagesRequest(deliver_at_ms=[1])):
        await stream.write(pb.AddMessagesStreamRequest(add=request))
    await until(lambda: gate.held_count == 1)
    gate.open()
    assert (await stream.read()).added.added_count == 1
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stream.read()
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_none_is_read_behind_a_long_answer(service, log):
    """Answers that wait for a caller that does not read are bounded in bytes, too."""
    epoch, count = await opened(service), STREAM_ANSWER_BYTES_MAX
    far = service.clock.now_ms() + FAR_MS
    log.before["append"] = gate = Gate()
    stream = service.stub.AddMessagesStream()
    await stream.write(pb.AddMessagesStreamRequest(add=add(epoch, *[(far, 1, 0)] * count)))
    await stream.write(pb.AddMessagesStreamRequest(add=add(epoch, (far, 1, 1))))
    await until(lambda: gate.held_count == 1)
    await settle()
    assert await added_count(service) == 1
    gate.open()
    assert len((await stream.read()).added.duplicate_offsets) == count - 1
    assert (await stream.read()).added.added_count == 1
