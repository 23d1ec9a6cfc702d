"""Tests of sessions that the program ends, and of sessions that it drops."""

import asyncio
import gc
import threading
import weakref

import grpc
import pytest

from delayed_tracker.client import AddResult, ClientSettings, DelayedTrackerClient, SessionClosed, Unavailable, blocking
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import abort
from tests.client.harness.shells import Batches

ENDS = {
    "leave": lambda session: session.leave(),
    "close": lambda session: session.close(),
    "delete": lambda session: session.delete(),
}
CALLS = {
    "add": lambda session: session.add(1, 1, 1),
    "add_columns": lambda session: session.add_columns([1], [1], [1]),
    "offers": lambda session: session.offers(),
    "add_stream": lambda session: anext(aiter(session.add_stream(Batches()))),
    "poll": lambda session: session.poll(1),
    "poll_hand_off": lambda session: session.poll_hand_off(1),
    "ack": lambda session: session.ack(1, [1], [1]),
    "ack_whole": lambda session: session.ack_whole(1, [1], [1]),
    "nack": lambda session: session.nack(1, [1], [1]),
    "extend": lambda session: session.extend(1, 1_000),
    "cancel": lambda session: session.cancel([1], [1]),
    "reschedule": lambda session: session.reschedule([1], [1], [1]),
    "advance_mark_delete": lambda session: session.advance_mark_delete(1, 1),
    "reset_cursor": lambda session: session.reset_cursor(None),
    "clear": lambda session: session.clear(),
    "seal": lambda session: session.seal(),
    "delete": lambda session: session.delete(),
    "contains": lambda session: session.contains([1], [1]),
    "filter_entries": lambda session: session.filter_entries([]),
    "next_delivery_time": lambda session: session.next_delivery_time(),
    "stats": lambda session: session.stats(),
    "buckets": lambda session: session.buckets(),
    "peek": lambda session: session.peek(1),
    "explain": lambda session: session.explain(1, 1),
    "histogram": lambda session: session.histogram(from_ms=0, step_ms=1, bar_count=1),
    "verify": lambda session: session.verify(),
    "membership": lambda session: anext(aiter(session.membership())),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_session_that_was_ended_makes_no_calls(service, client, end):
    """No call of an ended session sends anything, however it ended, and ending it again does nothing."""
    service.on("CloseTracker", pb.CloseTrackerResponse())
    service.on("DeleteTracker", pb.DeleteTrackerResponse())
    session = await client.open_tracker(TOPIC, "billing")
    await end(session)
    sent_count = len(service.requests)
    for call in CALLS.values():
        with pytest.raises(SessionClosed, match="open the tracker again"):
            await call(session)
    await session.close()
    await session.leave()
    assert len(service.requests) == sent_count


async def test_every_call_of_a_session_is_among_those_that_are_refused(session):
    """The list of refused calls contains every call of a session."""
    session = getattr(session, "used", session)
    methods = {name for name in dir(session) if not name.startswith("_") and callable(getattr(session, name))}
    assert methods == {*CALLS, "close", "leave"} | ({"add_soon"} & methods)


async def test_leaving_the_block_ends_the_session_and_not_the_tracker(service, client):
    """The tracker stays open on the service, and a lease of the session can no longer be settled."""
    service.on(
        "PollScheduledMessages",
        pb.PollScheduledMessagesResponse(lease_id=5, deliver_at_ms=[10], ledger_ids=[3], entry_ids=[1]),
    )
    async with await client.open_tracker(TOPIC, "billing") as session:
        lease = await session.poll(1)
    for call in (session.poll(1), lease.ack()):
        with pytest.raises(SessionClosed, match="open the tracker again"):
            await call
    assert [name for name, _ in service.requests] == ["OpenTracker", "PollScheduledMessages"]


@pytest.mark.parametrize("method", ["CloseTracker", "DeleteTracker"])
async def test_an_end_that_failed_can_be_repeated(service, client, method):
    """The service still has the tracker, so the session can repeat the end, and nothing else."""
    answers = {"CloseTracker": pb.CloseTrackerResponse(), "DeleteTracker": pb.DeleteTrackerResponse(deleted_count=1)}

    async def fail(request, context):
        await abort(context, grpc.StatusCode.UNAVAILABLE, "away")

    service.on(method, fail)
    session = await client.open_tracker(TOPIC, "billing")
    end = session.close if method == "CloseTracker" else session.delete
    with pytest.raises(Unavailable):
        await end()
    with pytest.raises(SessionClosed):
        await session.poll(1)
    service.on(method, answers[method])
    await end()
    await session.close()
    assert [name for name, _ in service.requests] == ["OpenTracker", method, method]


@pytest.mark.parametrize("method", ["CloseTracker", "DeleteTracker"])
async def test_an_end_that_was_cancelled_while_adds_were_sent_can_be_repeated(service, method):
    """The tracker would stay loaded otherwise, and the program believe that it is not."""
    answers = {"CloseTracker": pb.CloseTrackerResponse(), "DeleteTracker": pb.DeleteTrackerResponse(deleted_count=1)}
    service.on(method, answers[method])
    arrived, answered = asyncio.Event(), asyncio.Event()

    async def answer_late(request, context):
        arrived.set()
        await answered.wait()
        return pb.AddMessagesResponse(added_count=1)

    service.on("AddMessages", answer_late)
    async with DelayedTrackerClient.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")
        adding = asyncio.ensure_future(session.add(1, 1, 1))
        await arrived.wait()
        end = session.close if method == "CloseTracker" else session.delete
        ending = asyncio.ensure_future(end())
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        answered.set()
        await end()
        await asyncio.wait([adding])
    assert [name for name, _ in service.requests] == ["OpenTracker", "AddMessages", method]


async def test_a_session_that_is_dropped_goes_without_a_word(service):
    """A session that is dropped after adds, a poll and an ack leaves no object and no asyncio warning."""
    said: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    service.on("AddMessages", pb.AddMessagesResponse(added_count=1))
    service.on("AckMessages", pb.AckMessagesResponse(acked_count=1, acked_counts=[1]))
    service.on(
        "PollScheduledMessages",
        pb.PollScheduledMessagesResponse(lease_id=5, deliver_at_ms=[10], ledger_ids=[3], entry_ids=[1]),
    )
    async with DelayedTrackerClient.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")
        dropped = weakref.ref(session)
        assert await session.add(1, 1, 1) is AddResult.ADDED
        async with await session.poll(1) as lease:
            assert lease
        del lease
        session = await client.open_tracker(TOPIC, "billing")
        gc.collect()
        assert dropped() is None
        assert await session.add(1, 1, 2) is AddResult.ADDED
        del session
        gc.collect()
        await asyncio.sleep(0)
    assert said == []


async def test_adds_of_a_session_that_is_dropped_are_sent_and_warned_of(service):
    """Accepted adds of a dropped session are sent, and a warning requests to close the session."""
    answered = asyncio.Event()

    async def answer_late(request, context):
        await answered.wait()
        return pb.AddMessagesResponse(added_count=1)

    service.on("AddMessages", answer_late)
    loop = asyncio.get_running_loop()

    def drop() -> list[AddResult]:
        settings = ClientSettings(flush_count=1)
        with blocking.DelayedTrackerClient.connect(service.address, settings=settings) as client:
            session = client.open_tracker(TOPIC, "billing")
            outcomes = [session.add_soon(1, 1, entry) for entry in range(2)]
            while not outcomes[0].running():
                threading.Event().wait(0.001)
            with pytest.warns(ResourceWarning, match="1 in all: close the session"):
                del session
            loop.call_soon_threadsafe(answered.set)
            return [outcome.result() for outcome in outcomes]

    assert await asyncio.to_thread(drop) == [AddResult.ADDED] * 2
