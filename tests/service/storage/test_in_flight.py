"""Bytes of requests and answers in a running service: counted, waiting and refused calls."""

import asyncio

import grpc
import pytest

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, poll, refused, stats_of
from tests.service.harness.shell import running_service, until

MIB = 2**20
SEAT = MIB
LIMITS = ServiceLimits(
    message_bytes_max=SEAT, request_bytes_in_flight_max=4 * SEAT, answer_bytes_in_flight_max=4 * SEAT, streams_max=2
)
ADD = "/delayed_tracker.v1.DelayedDeliveryTrackerService/AddMessages"
NACK = "/delayed_tracker.v1.DelayedDeliveryTrackerService/NackMessages"
CONTAINS = "/delayed_tracker.v1.DelayedDeliveryTrackerService/ContainsMessages"


@pytest.fixture
async def service():
    async with running_service(limits=TrackerLimits(), service_limits=LIMITS) as running:
        yield running


@pytest.fixture
def requests(service):
    return service.registry.calls.requests.budget


@pytest.fixture
def answers(service):
    return service.registry.calls.answers.budget


def rows(service, count, *, delay_ms=10_000):
    """Return rows to add, due at the same time."""
    return [(service.clock.now_ms() + delay_ms, 1, entry) for entry in range(count)]


async def test_a_call_is_read_when_there_is_room_for_its_request(service, requests):
    """A call waits for room for its request, while calls of other methods are answered."""
    epoch = await opened(service)
    held = requests.hold("AddMessages", 3 * SEAT)
    waiting = service.stub.AddMessages(add(epoch, (2**42, 1, 1)))
    await until(lambda: requests.waiting_count == 1)
    assert (await stats_of(service)).added_count == 0
    held.release()
    assert (await waiting).added_count == 1
    await until(lambda: requests.held_bytes == 0)


@pytest.mark.slow
async def test_a_call_for_which_there_is_no_room_in_time_is_overloaded():
    """A call without room in time is refused with a time to retry, and its request is not read."""
    limits = ServiceLimits(
        message_bytes_max=SEAT, request_bytes_in_flight_max=SEAT, receive_max_ms=500, retry_after_ms=7
    )
    async with running_service(service_limits=limits) as service:
        epoch = await opened(service)
        budget = service.registry.calls.requests.budget
        with budget.hold("ImportSnapshots", SEAT):
            error, info, found = await refused(service.stub.AddMessages(add(epoch, (2**42, 1, 1))))
        assert (error.code(), info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert found["RetryInfo"].retry_delay.ToMilliseconds() == 7
        assert (await stats_of(service)).added_count == 0


async def test_a_request_that_does_not_arrive_gives_its_seat_back():
    """A call whose request does not arrive gives its seat to others."""
    limits = ServiceLimits(message_bytes_max=SEAT, request_bytes_in_flight_max=SEAT, receive_max_ms=20)
    async with running_service(service_limits=limits) as service, grpc.aio.insecure_channel(service.address) as channel:
        silent = channel.stream_unary(ADD)()
        error, info, _ = await refused(silent)
        assert (error.code(), info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert "did not arrive within 20 ms" in error.details()
        await until(lambda: service.registry.calls.requests.budget.held_bytes == 0)


async def test_calls_that_send_no_request_stop_no_others(service, requests):
    """Silent calls leave their seats to others, and one of them whose request comes late is still answered."""
    epoch = await opened(service)
    service.registry.calls.requests.seats.seconds = 0.05
    async with grpc.aio.insecure_channel(service.address) as channel:
        silent = [channel.stream_unary(method)() for method in (ADD, ADD, ADD, NACK)]
        await until(lambda: requests.held_bytes == 4 * SEAT)
        assert (await service.stub.AddMessages(add(epoch, (2**42, 1, 1)), timeout=10)).added_count == 1
        await until(lambda: requests.held_bytes == 0)
        await silent[0].write(add(epoch, (2**42, 1, 2)).SerializeToString())
        assert pb.AddMessagesResponse.FromString(await silent[0]).added_count == 1
        for call in silent[1:]:
            call.cancel()


async def test_a_call_without_a_request_is_refused(service):
    """A call that ends without a request is refused."""
    async with grpc.aio.insecure_channel(service.address) as channel:
        call = channel.stream_unary(ADD)()
        await call.done_writing()
        error, _, found = await refused(call)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert found["BadRequest"].field_violations[0].field == "request"


async def test_a_waiting_poll_holds_no_more_than_its_request(service, requests):
    """A waiting poll counts only with the bytes of its request, so ten thousand take a megabyte or two."""
    epoch = await opened(service)
    request = poll(epoch, wait_ms=60_000)
    waiting = service.stub.PollScheduledMessages(request)
    await until(lambda: service.registry.waiting_poll_count == 1)
    assert requests.held_bytes == request.ByteSize() < 150
    waiting.cancel()
    await until(lambda: requests.held_bytes == 0)


async def test_a_stream_holds_nothing_while_it_waits_for_its_next_message(service, requests):
    """A message of a stream counts only until the next one is read."""
    epoch = await opened(service)
    stream = service.stub.AddMessagesStream()
    for entry in range(2):
        await stream.write(pb.AddMessagesStreamRequest(add=add(epoch, (2**42, 1, entry))))
        assert (await stream.read()).added.added_count == 1
        await until(lambda: requests.held_bytes == 0)
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF


async def test_a_stream_that_sends_nothing_leaves_its_seat(service, requests):
    """A silent stream gives its seat back, and its next message is still read."""
    service.registry.calls.requests.stream_seats.seconds = 0.05
    epoch = await opened(service)
    stream = service.stub.AddMessagesStream()
    await until(lambda: requests.held_bytes == SEAT)
    await until(lambda: requests.held_bytes == 0)
    await stream.write(pb.AddMessagesStreamRequest(add=add(epoch, (2**42, 1, 1))))
    assert (await stream.read()).added.added_count == 1
    stream.cancel()


async def test_a_stream_is_held_back_while_there_is_no_room(service, requests):
    """A stream without room is not refused; its next message is read when there is room."""
    epoch = await opened(service)
    with requests.hold("ImportSnapshots", 4 * SEAT):
        stream = service.stub.AddMessagesStream()
        await stream.write(pb.AddMessagesStreamRequest(add=add(epoch, (2**42, 1, 1))))
        await until(lambda: service.registry.calls.requests.stream_count == 1)
        reading = asyncio.ensure_future(stream.read())
        assert not (await asyncio.wait([reading], timeout=0.05))[0]
    assert (await reading).added.added_count == 1
    stream.cancel()


async def test_a_stream_too_many_is_refused(service):
    """A stream above the limit is refused, and open streams go on."""
    epoch = await opened(service)
    streams = [service.stub.AddMessagesStream() for _ in range(2)]
    await until(lambda: service.registry.calls.requests.stream_count == 2)
    error, info, _ = await refused(service.stub.AddMessagesStream().read())
    assert (error.code(), info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    for entry, stream in enumerate(streams):
        await stream.write(pb.AddMessagesStreamRequest(add=add(epoch, (2**42, 1, entry))))
        assert (await stream.read()).added.added_count == 1
        stream.cancel()


@pytest.mark.slow
async def test_an_answer_counts_until_its_caller_has_taken_it(service, answers):
    """The answer to a caller that does not read counts as in flight."""
    epoch = await opened(service)
    await service.stub.AddMessages(add(epoch, *rows(service, 60_000)))
    request = pb.ContainsMessagesRequest(tracker=REF, ledger_ids=[1] * 60_000, entry_ids=range(60_000))
    still = [("grpc.http2.bdp_probe", 0)]
    async with grpc.aio.insecure_channel(service.address, options=still) as channel:
        call = channel.unary_stream(CONTAINS)(request.SerializeToString())
        await until(lambda: answers.held_bytes > 0)
        encoded = await call.read()
        await until(lambda: answers.held_bytes == 0)
        assert len(pb.ContainsMessagesResponse.FromString(encoded).tracked_offsets) == 60_000


async def test_a_poll_whose_answer_has_no_room_takes_nothing(service, answers):
    """While untaken answers fill the room, a poll takes no positions, and they stay for the next poll."""
    epoch = await opened(service)
    await service.stub.AddMessages(add(epoch, *rows(service, 5)))
    service.clock.advance(20_000)
    with answers.hold("ReadEntries", 4 * SEAT):
        error, info, _ = await refused(service.stub.PollScheduledMessages(poll(epoch)))
        assert (error.code(), info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
    assert len((await service.stub.PollScheduledMessages(poll(epoch))).entry_ids) == 5


async def test_methods_that_list_wait_for_room_for_their_answers(service, answers):
    """A method that lists waits until there is room for the largest answer."""
    held = answers.hold("ListTrackers", 3 * SEAT)
    listing = service.stub.ListTrackers(pb.ListTrackersRequest())
    await until(lambda: answers.waiting_count == 1)
    held.release()
    assert not (await listing).trackers


async def test_a_page_of_trackers_fits_into_an_answer():
    """Long names make pages shorter than requested, and the pages contain everything once."""
    limits = ServiceLimits(message_bytes_max=10_000, request_bytes_in_flight_max=MIB)
    async with running_service(service_limits=limits) as service:
        topics = [f"{number}{'n' * 1_900}" for number in range(5)]
        for topic in topics:
            await opened(service, pb.TrackerRef(topic=topic, subscription="s"))
        found, token = [], ""
        while not found or token:
            page = await service.stub.ListTrackers(pb.ListTrackersRequest(page_size=5, page_token=token))
            assert page.ByteSize() <= limits.message_bytes_max
            assert len(page.trackers) <= 2
            found += [row.tracker.topic for row in page.trackers]
            token = page.next_page_token
        assert found == topics
