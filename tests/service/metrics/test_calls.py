"""Calls over gRPC are counted by method and status, under the metric names of gRPC's ecosystem."""

import asyncio

import grpc
import pytest

from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, poll, refused
from tests.service.harness.shell import running_service, until
from tests.service.metrics.scraping import label_values, scraped, summed

SERVICE = "grpc_service=delayed_tracker.v1.DelayedDeliveryTrackerService"


def counted(samples, method, kind="unary"):
    """Return the calls that were started, and those that ended by status, without zeros."""
    labels = (f"grpc_method={method}", SERVICE, f"grpc_type={kind}")
    handled = {
        key[1].removeprefix("grpc_code="): value
        for key, value in samples.items()
        if key[0] == "grpc_server_handled_total" and key[2:] == labels and value
    }
    assert samples["grpc_server_handling_seconds_count", *labels] == sum(handled.values())
    return samples["grpc_server_started_total", *labels], handled


async def test_calls_are_counted_by_status():
    """Successful, refused, cancelled and open calls are counted separately."""
    async with running_service() as service:
        epoch = await opened(service)
        await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + 10**6, 1, 1)))
        await refused(service.stub.AddMessages(add(epoch + 1, (1, 1, 1))))
        await refused(service.stub.AddMessages(add(0, (1, 1, 1))))
        waiting = service.stub.PollScheduledMessages(poll(epoch, wait_ms=60_000))
        await until(lambda: service.registry.waiting_poll_count == 1)
        samples = await scraped(service.registry)
        assert counted(samples, "PollScheduledMessages") == (1, {})
        assert samples["delayed_tracker_waiting_polls",] == samples["delayed_tracker_open_calls",] == 1
        waiting.cancel()
        await until(lambda: service.registry.calls.open_count == 0)
        samples = await scraped(service.registry)
        assert counted(samples, "AddMessages") == (3, {"OK": 1, "FailedPrecondition": 1, "InvalidArgument": 1})
        assert counted(samples, "PollScheduledMessages") == (1, {"Canceled": 1})


async def test_a_stream_is_one_call():
    """A stream with any number of messages counts as one call."""
    async with running_service() as service:
        epoch = await opened(service)
        now_ms = service.clock.now_ms()

        async def requests():
            for entry in range(3):
                yield pb.AddMessagesStreamRequest(add=add(epoch, (now_ms + 10**6, 1, entry)))

        answers = [answer async for answer in service.stub.AddMessagesStream(requests())]
        assert len(answers) == 3
        await until(lambda: service.registry.calls.open_count == 0)
        samples = await scraped(service.registry)
        assert counted(samples, "AddMessagesStream", "bidi_stream") == (1, {"OK": 1})


async def test_an_answer_in_parts_is_one_call():
    """A stream of answers counts as one call, of its own type."""
    async with running_service() as service:
        await opened(service)
        assert [answer async for answer in service.stub.StreamMembership(pb.StreamMembershipRequest(tracker=REF))] == []
        await until(lambda: service.registry.calls.open_count == 0)
        samples = await scraped(service.registry)
        assert counted(samples, "StreamMembership", "server_stream") == (1, {"OK": 1})


async def test_every_status_stands_from_the_beginning():
    """All statuses have a sample from the start, in Go's spelling, so that the first failure shows as a rise."""
    async with running_service() as service:
        samples = await scraped(service.registry)
        codes = label_values(samples, "grpc_server_handled_total")["grpc_code"]
        assert len(codes) == len(grpc.StatusCode)
        assert {"OK", "Canceled", "DeadlineExceeded", "Internal", "Unavailable"} <= codes
        assert summed(samples, "grpc_server_handled_total") == 0
        assert "PeekMessages" in label_values(samples, "grpc_server_started_total")["grpc_method"]


async def test_how_long_a_call_takes_is_measured_by_the_service():
    """The duration of a call is measured from its first step to its answer."""
    async with running_service() as service:
        epoch = await opened(service)
        waiting = asyncio.ensure_future(service.stub.PollScheduledMessages(poll(epoch, wait_ms=4_000)))
        await until(lambda: service.registry.waiting_poll_count == 1)
        service.clock.advance(4_000)
        await waiting
        await until(lambda: service.registry.calls.open_count == 0)
        samples = await scraped(service.registry)
        labels = ("grpc_method=PollScheduledMessages", SERVICE, "grpc_type=unary")
        assert samples["grpc_server_handling_seconds_sum", *labels] == pytest.approx(4)
