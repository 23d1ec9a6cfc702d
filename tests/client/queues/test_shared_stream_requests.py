"""Tests of batches that share the requests of a stream: fewer requests, and for each batch an answer of its own."""

import asyncio
from contextlib import aclosing

from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.client import AddAnswer, ClientSettings, DelayedTrackerClient
from delayed_tracker.client.queues.add_stream import SHARED_MAX, AddStream, StreamRoom
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import STREAM

REF = pb.TrackerRef(topic=TOPIC, subscription="billing")
DUE_EVERY = 3
"""The service of these tests calls each third entry due."""


def batch(*entries: int):
    return [1_000] * len(entries), [7] * len(entries), list(entries)


def entries_of(request: bytes) -> list[int]:
    return list(pb.AddMessagesStreamRequest.FromString(request).add.entry_ids)


def answer_to(entries: list[int]) -> pb.AddMessagesStreamResponse:
    due = [offset for offset, entry in enumerate(entries) if not entry % DUE_EVERY]
    return pb.AddMessagesStreamResponse(
        added=pb.AddMessagesResponse(added_count=len(entries) - len(due), due_offsets=due)
    )


def expected(entries: list[int]) -> AddAnswer:
    due = tuple(offset for offset, entry in enumerate(entries) if not entry % DUE_EVERY)
    return AddAnswer(len(entries) - len(due), due_offsets=due)


def sent(stream: AddStream) -> list[list[int]]:
    """Return the entries of the requests that are to be sent now."""
    requests = [entries_of(request) for request in stream.outgoing]
    stream.outgoing.clear()
    return requests


def test_single_positions_share_requests_while_one_is_unanswered():
    """The first is sent at once; 300 single positions take four requests instead of 300."""
    stream = AddStream(REF, 7, batch_max=10_000)
    for entry in range(300):
        stream.put(batch(entry))
    assert sent(stream) == [[0], [*range(1, 1 + SHARED_MAX)], [*range(1 + SHARED_MAX, 1 + 2 * SHARED_MAX)]]
    stream.complete()
    assert sent(stream) == [[*range(1 + 2 * SHARED_MAX, 300)]]


def test_the_last_answer_sends_what_waits():
    """Nothing waits while the service has nothing to do."""
    stream = AddStream(REF, 7, batch_max=10_000)
    for entry in range(3):
        stream.put(batch(entry))
    assert sent(stream) == [[0]]
    assert stream.answered(answer_to([0])) == [expected([0])]
    assert sent(stream) == [[1, 2]]
    assert stream.answered(answer_to([1, 2])) == [expected([1]), expected([2])]
    assert not stream.has_waiting


def test_a_large_batch_is_sent_alone_behind_what_waits():
    """The order of the batches is that of the requests."""
    stream = AddStream(REF, 7, batch_max=200)
    large = list(range(10, 10 + 450))
    for each in ([0], [1], [2], large, [9]):
        stream.put(batch(*each))
    assert sent(stream) == [[0], [1, 2], large[:200], large[200:400], large[400:]]
    stream.complete()
    assert sent(stream) == [[9]]


@given(st.lists(st.integers(0, 200), max_size=20), st.lists(st.booleans(), max_size=40))
def test_every_batch_gets_the_answer_of_a_request_of_its_own(counts, answers_first):
    """Whatever is answered when, the answers are those to the batches, in their order."""
    stream = AddStream(REF, 7, batch_max=150)
    batches, first = [], 0
    for count in counts:
        batches.append(list(range(first, first + count)))
        first += count
    unanswered: list[list[int]] = []
    answers: list[AddAnswer] = []
    choices = iter(answers_first)
    for entries in batches:
        stream.put(batch(*entries))
        unanswered += sent(stream)
        while unanswered and next(choices, False):
            answers += stream.answered(answer_to(unanswered.pop(0)))
            unanswered += sent(stream)
    stream.complete()
    unanswered += sent(stream)
    for entries in unanswered:
        answers += stream.answered(answer_to(entries))
    assert answers == [expected(entries) for entries in batches]
    stream.ended(all_sent=True)


def test_room_is_bounded_by_batches_and_by_positions():
    """Many small batches may be in flight, or a few large ones."""
    room = StreamRoom(ClientSettings(stream_batches_max=3, stream_positions_max=100))
    for _ in range(3):
        assert room.is_there
        room.take(1)
    assert not room.is_there
    room.release()
    room.take(98)
    assert not room.is_there
    room.release()
    room.release()
    assert room.is_there


async def test_what_waits_is_sent_without_another_answer(service):
    """A caller that does not read the answers delays no batch for longer than ``flush_delay_s``."""
    arrived = asyncio.Event()

    async def note(request, context):
        if len(service.requests_of(STREAM)) == 2:
            arrived.set()
        return answer_to(list(request.add.entry_ids))

    async def batches():
        for entry in range(3):
            yield batch(entry)
        await asyncio.Event().wait()

    service.on(STREAM, note)
    settings = ClientSettings(flush_delay_s=0.001)
    async with (
        DelayedTrackerClient.connect(service.address, settings=settings) as client,
        await client.open_tracker(TOPIC, "billing") as session,
        aclosing(session.add_stream(batches())) as answers,
    ):
        assert await anext(answers) == expected([0])
        await arrived.wait()
    assert [list(request.add.entry_ids) for request in service.requests_of(STREAM)] == [[0], [1, 2]]
