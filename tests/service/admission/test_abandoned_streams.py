"""A client that stops reading and leaves does not disturb other calls, and leaves no trace above debug in the log."""

import io

import grpc
import pytest

from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc
from tests.service.harness.rpc import add, opened, stats_of
from tests.service.harness.shell import until

COUNT = 20_000
SMALL_WINDOW = (("grpc.http2.bdp_probe", 0),)
"""The client's flow control stays at 64 KiB: the second answer of 20,000 offsets does not fit."""


async def stalled(service, stub, *, metadata=()):
    """Return a stream whose second answer waits for a client that does not read."""
    epoch = await opened(service)
    call = stub.AddMessagesStream(metadata=metadata)
    due = pb.AddMessagesStreamRequest(add=add(epoch, *((1, 1, entry) for entry in range(COUNT))))
    for _ in range(2):
        await call.write(due)
    while (await stats_of(service)).due_on_offer_count < 2 * COUNT:
        pass
    return call


@pytest.mark.parametrize("log_format", ["json", "console"])
async def test_a_client_that_leaves_without_reading_is_at_most_one_debug_line(service, written_log, log_format):
    """The call counts as cancelled, and neither a traceback nor metadata is logged."""
    log: io.StringIO = written_log(log_format, "debug")
    async with grpc.aio.insecure_channel(service.address, options=SMALL_WINDOW) as channel:
        stub = tracker_pb2_grpc.DelayedDeliveryTrackerServiceStub(channel)
        call = await stalled(service, stub, metadata=(("authorization", "Bearer secret"),))
        written_before = len(log.getvalue())
        call.cancel()
        await until(lambda: service.registry.calls.open_count == 0)
    await stats_of(service)
    lines = log.getvalue()[written_before:].splitlines()
    about_it = [line for line in lines if "AddMessagesStream" in line or "Error" in line or "Traceback" in line]
    assert len(about_it) <= 1
    assert all("debug" in line for line in about_it)
    assert "secret" not in log.getvalue()
    assert "ExecuteBatchError" not in log.getvalue()
