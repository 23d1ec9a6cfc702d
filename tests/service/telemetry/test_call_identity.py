"""The identity of calls: request ids in log lines and in errors."""

import io
import json
import logging
import re

import pytest
import structlog
from google.rpc import error_details_pb2, status_pb2

from delayed_tracker.service.telemetry.call_identity import CallIdentity
from delayed_tracker.service.telemetry.logs import configure_logging
from delayed_tracker.service.telemetry.storage_log import STORE_FAILED
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, refused
from tests.service.harness.shell import failing, running_service, until


@pytest.fixture
def lines():
    """Collect the log lines as JSON objects, and restore the logging configuration afterwards."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers, root.level
    configure_logging("json", "info", stream=stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def request_id_in(error):
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    found = error_details_pb2.RequestInfo()
    (packed,) = (detail for detail in status.details if detail.Is(found.DESCRIPTOR))
    packed.Unpack(found)
    return found.request_id


async def test_lines_and_errors_of_a_call_carry_its_request_id(lines):
    """Lines about work that goes on after the answer have the caller's id, too."""
    async with running_service() as service:
        request = pb.OpenTrackerRequest(tracker=REF, owner="tests")
        epoch = (await service.stub.OpenTracker(request, metadata=(("x-request-id", "open-1"),))).epoch
        service.storage.before["create_bucket_snapshot"] = failing(*[StorageUnavailable("gone")] * 3)
        rows = [(service.clock.now_ms() + 1_000_000, ledger, 0) for ledger in (1, 1, 1)]
        await service.stub.AddMessages(add(epoch, *rows), metadata=(("x-request-id", "add-1"),))
        sealing = service.stub.SealBucket(
            pb.SealBucketRequest(tracker=REF, epoch=epoch), metadata=(("x-request-id", "seal-1"),)
        )
        await sealing
        for _ in range(2):
            await until(lambda: service.clock.next_timer_in_ms() is not None)
            service.clock.advance(400)
        await until(lambda: len(lines()) > 1)
        unknown = pb.GetTrackerStatsRequest(tracker=pb.TrackerRef(topic="t", subscription="s"))
        error, _, _ = await refused(service.stub.GetTrackerStats(unknown, metadata=(("x-request-id", "stats-1"),)))
    assert request_id_in(error) == "stats-1"
    ids = {line["event"]: line["request_id"] for line in lines() if "request_id" in line}
    assert (ids["tracker opened"], ids[STORE_FAILED]) == ("open-1", "seal-1")


async def test_a_call_without_a_request_id_is_given_one(lines):
    """A call without a request id gets one, which is equal in the log line and the error."""
    async with running_service() as service:
        service.storage.before["list"] = failing(ZeroDivisionError("a bug"))
        error, _, _ = await refused(service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests")))
        await opened(service)
    (failed,) = (line for line in lines() if line["event"] == "call failed")
    (was_opened,) = (line for line in lines() if line["event"] == "tracker opened")
    assert re.fullmatch("[0-9a-f]{32}", failed["request_id"])
    assert request_id_in(error) == failed["request_id"] != was_opened["request_id"]


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", "tab\t", b"bytes"])
def test_ids_that_would_spoil_a_line_are_replaced(given):
    """An id with unusual characters or length is replaced, so that callers cannot forge fields or fill the log."""
    assert re.fullmatch("[0-9a-f]{32}", CallIdentity([("x-request-id", given)]).request_id)


def test_an_id_is_made_once():
    """The id is generated once, and metadata of other keys is ignored."""
    identity = CallIdentity([("user-agent", "x")])
    assert identity.request_id == identity.request_id != CallIdentity([]).request_id
    assert CallIdentity([("x-request-id", "x" * 128)]).request_id == "x" * 128
