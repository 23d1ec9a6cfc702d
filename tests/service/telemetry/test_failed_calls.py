"""Log lines of calls that fail by a fault of the service."""

import grpc
from structlog.testing import capture_logs

from delayed_tracker.service.telemetry.failed_calls import LINES_MAX
from delayed_tracker.service.telemetry.log_rate_limiter import MINUTE_MS
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import refused
from tests.service.harness.shell import failing, running_service

METHOD = "/delayed_tracker.v1.DelayedDeliveryTrackerService/ListTrackers"


async def test_a_call_that_fails_again_and_again_does_not_fill_the_log():
    """Each class of error has a hundred lines a minute; one more counts the others."""
    async with running_service() as service:
        faults = [*(ZeroDivisionError("a bug") for _ in range(300)), KeyError("another")]
        service.storage.before["trackers"] = failing(*faults)
        with capture_logs() as logs:
            for _ in faults:
                error, _, _ = await refused(service.stub.ListTrackers(pb.ListTrackersRequest()))
                assert error.code() is grpc.StatusCode.INTERNAL
            failed = [line for line in logs if line["event"] == "call failed"]
            assert [type(line["exc_info"]) for line in failed] == [ZeroDivisionError] * LINES_MAX + [KeyError]
            service.clock.advance(MINUTE_MS)
    assert logs[-1] == {
        "event": "call failed",
        "log_level": "error",
        "method": METHOD,
        "error": "ZeroDivisionError",
        "suppressed": len(faults) - 1 - LINES_MAX,
    }
