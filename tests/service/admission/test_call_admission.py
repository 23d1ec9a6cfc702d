"""Streams at the stop of the service: a wait is cut short, a write is not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from delayed_tracker.service.admission.call_admission import CallAdmission
from delayed_tracker.service.errors import ShuttingDown
from delayed_tracker.service.limits import ServiceLimits


async def never() -> AsyncIterator[str]:
    await asyncio.Event().wait()
    yield "never"


async def two() -> AsyncIterator[str]:
    yield "first"
    yield "second"


async def test_a_stream_that_waits_for_a_request_ends_when_the_service_stops():
    calls = CallAdmission(ServiceLimits())
    waiting = asyncio.ensure_future(anext(calls.requests_until_stopping(never())))
    await asyncio.sleep(0)
    calls.stop()
    with pytest.raises(ShuttingDown):
        await waiting


async def test_a_stream_that_answers_is_not_cancelled_by_the_stop():
    """The stop does not cancel a stream while it writes an answer, since gRPC could not end such a call."""
    calls = CallAdmission(ServiceLimits())
    requests = calls.requests_until_stopping(two())
    assert await anext(requests) == "first"
    calls.stop()
    await asyncio.sleep(0)  # a stop that cuts off more than the wait would cancel the stream here
    with pytest.raises(ShuttingDown):
        await anext(requests)


async def test_a_stream_opened_after_the_stop_is_refused():
    calls = CallAdmission(ServiceLimits())
    calls.stop()
    with pytest.raises(ShuttingDown):
        await anext(calls.requests_until_stopping(never()))


async def test_a_stream_ends_with_its_requests():
    assert [each async for each in CallAdmission(ServiceLimits()).requests_until_stopping(two())] == ["first", "second"]
