"""Errors that nobody expects are logged with a traceback, and do not fill the disk."""

import asyncio

from structlog.testing import capture_logs

from delayed_tracker.service.telemetry.internal_errors import LINES_MAX, InternalErrors


async def test_some_lines_of_each_kind_in_a_minute(clock):
    """The rest is counted at the end of the minute; another kind has lines of its own."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(InternalErrors(clock).report)
    error, other = RuntimeError("a bug"), KeyError("another")
    with capture_logs() as logs:
        for _ in range(LINES_MAX + 5):
            loop.call_exception_handler({"message": "an effect failed", "exception": error})
        loop.call_exception_handler({"message": "an effect failed", "exception": other})
        loop.call_exception_handler({"message": "no exception at all"})
        clock.advance(60_000)
        await asyncio.sleep(0)
    kinds = [(line["kind"], line.get("suppressed")) for line in logs]
    assert kinds == [("RuntimeError", None)] * LINES_MAX + [("KeyError", None), ("NoneType", None), ("RuntimeError", 5)]
    assert (logs[0]["said"], logs[0]["exc_info"]) == ("an effect failed", error)
