"""Requests and refusals of the API, for the tests of its calls."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.shell import KEY

REF = pb.TrackerRef(topic=KEY.topic, subscription=KEY.subscription)


def add(epoch, *rows, tracker=REF):
    """Return a request with (deliver at, ledger, entry) rows."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pb.AddMessagesRequest(
        tracker=tracker, epoch=epoch, deliver_at_ms=columns[0], ledger_ids=columns[1], entry_ids=columns[2]
    )


def poll(epoch, **kwargs):
    return pb.PollScheduledMessagesRequest(tracker=REF, epoch=epoch, **{"max_messages": 10, **kwargs})


def details(error):
    """Return code, ErrorInfo, and the other details by type."""
    trailers = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    found = {}
    for packed in status.details:
        kind = packed.type_url.rsplit(".", 1)[1]
        detail = getattr(error_details_pb2, kind)()
        packed.Unpack(detail)
        assert kind not in found
        found[kind] = detail
    info = found.pop("ErrorInfo")
    assert info.domain == "delayed-tracker"
    assert found.pop("RequestInfo").request_id
    return info, found


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    info, found = details(raised.value)
    return raised.value, info, found


async def opened(service, ref=REF, **kwargs):
    """Open a tracker and return its epoch."""
    return (await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=ref, owner="tests", **kwargs))).epoch


async def stats_of(service, ref=REF):
    """Return the counters of a tracker."""
    return await service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=ref))
