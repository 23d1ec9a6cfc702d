"""Tests of internal tasks that the program cancels, as in ``for task in asyncio.all_tasks(): task.cancel()``.

A task that is cancelled before its first step runs nothing of its coroutine. Whoever waits for it gets an error all the
same, and the session goes on.
"""

import asyncio

import pytest

from delayed_tracker.client import AddAnswer, AddResult, DelayedTrackerClient, Position, SessionClosed
from delayed_tracker.client.aio.add_buffer import AddBuffer
from delayed_tracker.client.aio.shared_acks import SharedAcks
from delayed_tracker.client.aio.shared_adds import SharedAdds
from delayed_tracker.client.aio.shared_polls import SharedPolls
from delayed_tracker.client.model.answers import AckAnswer, DueMessages
from delayed_tracker.client.queues.ack_queue import LeaseAck
from delayed_tracker.client.queues.importing import SnapshotToImport
from delayed_tracker.client.queues.poll_queue import PollResult, PollTerms
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.service.harness.shell import until

ACK = LeaseAck(1, 7, 1, lambda: (b"", b""))
ROW = (b"\0" * 8, b"\0" * 8, b"\0" * 8)
NOTHING = PollResult(0, 0, DueMessages([], [], [], None, 10, False), 1)


async def ended(*callers: asyncio.Task) -> list[object]:
    """Return the results or errors of callers; those that wait for ever fail the test."""
    async with asyncio.timeout(10):
        return await asyncio.gather(*callers, return_exceptions=True)


async def cancel_new_task(callers: list[asyncio.Task]) -> None:
    """Cancel the task that the callers have made, in the iteration of the event loop in which they made it."""
    known = asyncio.all_tasks()
    await until(lambda: asyncio.all_tasks() - known)
    assert not any(caller.done() for caller in callers)
    for task in asyncio.all_tasks() - known:
        task.cancel()


def acks() -> SharedAcks:
    async def send(sent):
        return [AckAnswer(each.count) for each in sent]

    return SharedAcks(send, batch_max=lambda: 100)


def polls() -> SharedPolls:
    async def send(shares, wait_ms, terms):
        return [NOTHING for _ in shares]

    async def give_back(taken):
        raise AssertionError(taken)

    return SharedPolls(send, give_back, share_max=100, epoch=lambda: 1)


@pytest.mark.parametrize(
    ("make", "call"),
    [(acks, lambda shared: shared.ack(ACK)), (polls, lambda shared: shared.poll(1, 0, PollTerms(None)))],
    ids=["acks", "polls"],
)
async def test_a_shared_call_that_is_cancelled_before_it_began(make, call):
    """The callers that wait learn that the session ended, and the next call is made."""
    shared = make()
    callers = [asyncio.create_task(call(shared)) for _ in range(3)]
    await cancel_new_task(callers)
    for outcome in await ended(*callers):
        assert isinstance(outcome, SessionClosed)
        assert "ended" in str(outcome)
    assert not isinstance((await ended(asyncio.create_task(call(shared))))[0], BaseException)


async def test_a_caller_that_was_cancelled_along_with_its_call():
    """A caller that was cancelled stays so, and acknowledges again in its clean-up."""
    shared = acks()
    caller = asyncio.create_task(shared.ack(ACK))
    await cancel_new_task([caller])
    caller.cancel()
    (outcome,) = await ended(caller)
    assert isinstance(outcome, asyncio.CancelledError)
    assert await ended(asyncio.create_task(shared.ack(ACK))) == [AckAnswer(1)]


async def test_adds_whose_call_is_cancelled_before_it_began():
    """The batches of the call learn that they were not sent, those after it are sent."""
    gates = [asyncio.Event() for _ in range(2)]
    counts = []

    async def send(columns, count, claim):
        counts.append(count)
        await gates[min(len(counts), 2) - 1].wait()
        return AddAnswer(added_count=count)

    shared = SharedAdds(send, batch_max=lambda: 2)

    def adding() -> "asyncio.Task[AddAnswer]":
        return asyncio.create_task(shared.add(ROW, 1))

    first, *together, later = [adding() for _ in range(4)]
    await asyncio.sleep(0)
    gates[0].set()
    await cancel_new_task([*together, later])
    gates[1].set()
    assert (await ended(first)) == [AddAnswer(added_count=1)]
    for outcome in await ended(*together):
        assert isinstance(outcome, SessionClosed)
        assert "before this add was sent" in str(outcome)
    assert await ended(later, adding()) == [AddAnswer(added_count=1)] * 2
    assert counts == [1, 1, 1]


async def test_buffered_adds_whose_sender_is_cancelled_before_it_began():
    """The buffered adds learn that they were not sent, although no other add and no close follows; the next is sent."""

    async def send(*columns):
        return AddAnswer(added_count=len(columns[0]))

    buffer = AddBuffer(send, flush_count=2, flush_delay_s=0.0, buffer_max=10)
    adds = [asyncio.create_task(buffer.add(1, 1, entry)) for entry in range(2)]
    await cancel_new_task(adds)
    for outcome in await ended(*adds):
        assert isinstance(outcome, SessionClosed)
        assert "before this add was sent" in str(outcome)
    assert await ended(asyncio.create_task(buffer.add(1, 1, 3))) == [AddResult.ADDED]


async def cancel_named(name: str, *, turns: int) -> None:
    """Cancel the task of a coroutine of this name, this many iterations of the event loop after it was made."""

    def found() -> list[asyncio.Task]:
        return [task for task in asyncio.all_tasks() if task.get_coro().__name__ == name]

    await until(found)
    for _ in range(turns):
        await asyncio.sleep(0)
    found()[0].cancel()


@pytest.mark.parametrize("name", ["send", "_put_all"])
@pytest.mark.parametrize("turns", [0, 1, 30], ids=["before its first step", "at once", "while it waits"])
async def test_a_stream_whose_task_is_cancelled(service, name, turns):
    """A stream that can send no more ends with an error; it neither waits for ever nor ends as if all was sent."""
    service.on("AddMessagesStream", pb.AddMessagesStreamResponse(added=pb.AddMessagesResponse(added_count=1)))

    async def batches():
        yield [1], [1], [1]
        await asyncio.Event().wait()

    async with DelayedTrackerClient.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")

        async def read() -> list[AddAnswer]:
            return [answer async for answer in session.add_stream(batches())]

        reader = asyncio.create_task(read())
        await cancel_named(name, turns=turns)
        (outcome,) = await ended(reader)
        assert isinstance(outcome, SessionClosed)
        assert "may be tracked" in str(outcome)


@pytest.mark.parametrize("turns", [0, 1, 30], ids=["before its first step", "at once", "while it writes"])
async def test_an_import_whose_writer_is_cancelled(service, turns):
    """An import that can send no more ends with an error, before its time limit."""
    service.on("ImportSnapshots", pb.ImportSnapshotsResponse(epoch=8))
    place = Position(1, 1)
    snapshots = (SnapshotToImport(place, place, 1, [(bytes(100_000), 0)]) for _ in range(1_000))
    async with DelayedTrackerClient.connect(service.address) as client:
        importing = asyncio.create_task(client.import_snapshots(TOPIC, "billing", snapshots, bucket_count=1_000))
        await cancel_named("_send", turns=turns)
        (outcome,) = await ended(importing)
        assert isinstance(outcome, SessionClosed)
