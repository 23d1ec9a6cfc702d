"""Tests of closing the client while its calls are in flight: other tasks get SessionClosed, and are not cancelled."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from delayed_tracker.client import DelayedTrackerClient, Position, SessionClosed, SnapshotToImport, TrackerSession
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import SERVICE, STREAM, ScriptedService

PLACE = Position(1, 1)


class Silent:
    """Answers that never come; ``arrived`` is set when the service has a request."""

    def __init__(self, service: ScriptedService) -> None:
        self.arrived = asyncio.Event()
        for method in SERVICE.methods:
            if method.name != "OpenTracker":
                service.on(method.name, self._answer)
        service.on("StreamMembership", self._membership)

    async def _answer(self, request, context):
        self.arrived.set()
        await asyncio.Event().wait()

    async def _membership(self, request, context):
        yield pb.StreamMembershipResponse()
        self.arrived.set()
        await asyncio.Event().wait()


async def lasting() -> AsyncIterator[tuple[list[int], list[int], list[int]]]:
    yield [1], [1], [1]
    await asyncio.Event().wait()


async def read(answers: AsyncIterator[object]) -> None:
    async for _ in answers:
        pass


CALLS = {
    "stats": lambda client, session: session.stats(),
    "poll": lambda client, session: session.poll(10, wait_ms=20_000),
    "add": lambda client, session: session.add(1, 1, 1),
    "add_columns": lambda client, session: session.add_columns([1], [1], [1]),
    "ack": lambda client, session: session.ack(1, [1], [1]),
    "membership": lambda client, session: read(session.membership()),
    "add_stream": lambda client, session: read(session.add_stream(lasting())),
    "import": lambda client, session: client.import_snapshots(
        TOPIC, "billing", [SnapshotToImport(PLACE, PLACE, 1, [(b"metadata", 0)])], bucket_count=1
    ),
}


async def begun(service: ScriptedService, client: DelayedTrackerClient, call: str) -> "asyncio.Task[object]":
    """Make a call in a task of its own; return when the service has it."""
    silent = Silent(service)
    session: TrackerSession = await client.open_tracker(TOPIC, "billing")
    caller = asyncio.create_task(CALLS[call](client, session))
    async with asyncio.timeout(10):
        await silent.arrived.wait()
    return caller


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_in_flight_learns_that_the_client_was_closed(service, call):
    """The caller gets SessionClosed with what is known of its call; nobody has cancelled it."""
    async with DelayedTrackerClient.connect(service.address) as client:
        caller = await begun(service, client, call)
    async with asyncio.timeout(10):
        await asyncio.wait([caller])
    assert not caller.cancelled()
    with pytest.raises(SessionClosed, match="closed while the call was under way; it may have been applied"):
        caller.result()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
async def test_a_caller_that_was_cancelled_stays_cancelled(service, call, is_closed):
    """A cancellation by the program is none of the client's, also if the client is closed in the same moment."""
    async with DelayedTrackerClient.connect(service.address) as client:
        caller = await begun(service, client, call)
        caller.cancel()
        if not is_closed:
            await asyncio.wait([caller])
    await asyncio.wait([caller], timeout=10)
    assert caller.cancelled()


async def test_a_time_limit_of_the_program_stays_one(service):
    """``asyncio.timeout`` around a call ends it with TimeoutError."""
    async with DelayedTrackerClient.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")
        Silent(service)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await session.stats()


async def test_an_import_that_is_being_written_learns_that_the_client_was_closed(service):
    """An import ends in the same way while its snapshots are read and written."""
    Silent(service)
    is_read = asyncio.Event()

    def snapshots():
        for _ in range(10_000):
            yield SnapshotToImport(PLACE, PLACE, 1, [(bytes(100_000), 0)])
            is_read.set()

    async with DelayedTrackerClient.connect(service.address) as client:
        importing = asyncio.create_task(client.import_snapshots(TOPIC, "billing", snapshots(), bucket_count=10_000))
        await is_read.wait()
    async with asyncio.timeout(10):
        await asyncio.wait([importing])
    with pytest.raises(SessionClosed, match="it may have been applied"):
        importing.result()


def test_the_calls_of_this_test_cover_every_kind():
    """Each way in which a call streams is among the calls."""
    methods = {method.name: (method.client_streaming, method.server_streaming) for method in SERVICE.methods}
    tried = ("GetTrackerStats", "StreamMembership", "ImportSnapshots", STREAM)
    assert {methods[name] for name in tried} == set(methods.values())
