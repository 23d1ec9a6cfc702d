"""Tests of a stream of adds, over both shells."""

from contextlib import aclosing

import grpc
import pytest

from delayed_tracker.client import ClientSettings, Fenced, InvalidInput
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.aio.test_session import reason
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import STREAM, abort
from tests.client.harness.shells import Batches


def batch(*entries: int):
    return [1_000] * len(entries), [7] * len(entries), list(entries)


def answer(**counts) -> pb.AddMessagesStreamResponse:
    return pb.AddMessagesStreamResponse(added=pb.AddMessagesResponse(**counts))


async def collect(stream, into: list) -> None:
    async for row in stream:
        into.append(row)  # noqa: PERF401  # answers before an error are kept


async def first_is_due(request, context):
    return answer(
        added_count=max(len(request.add.ledger_ids) - 1, 0), due_offsets=[0] if request.add.ledger_ids else []
    )


async def test_each_batch_has_one_answer(service, session):
    """A batch that was sent in several requests (batch_max is 4), and an empty batch, each have one answer."""
    service.on(STREAM, first_is_due)
    stream = session.add_stream(Batches(batch(0, 1), batch(*range(6)), batch()))
    answers = [row async for row in stream]
    assert [(row.added_count, row.due_offsets) for row in answers] == [(1, (0,)), (4, (0, 4)), (0, ())]
    requests = service.requests_of(STREAM)
    assert [list(request.add.entry_ids) for request in requests] == [[0, 1], [0, 1, 2, 3], [4, 5], []]
    assert [request.add.epoch for request in requests] == [7, 0, 0, 0]
    assert [request.add.tracker.topic for request in requests] == [TOPIC, "", "", ""]


async def test_a_stream_of_nothing_ends(service, session):
    """A stream without batches has no answers."""
    assert [row async for row in session.add_stream(Batches())] == []


async def test_an_error_of_the_service_ends_the_stream(service, shell):
    """Batches that were answered before the error are applied."""

    async def second_is_fenced(request, context):
        if request.add.entry_ids[0]:
            await abort(context, grpc.StatusCode.FAILED_PRECONDITION, "not yours any more", reason("FENCED"))
        return answer(added_count=1)

    service.on(STREAM, second_is_fenced)
    answers = []
    async with (
        shell.connect(service.address) as client,
        await client.open_tracker(TOPIC, "billing") as session,
    ):
        with pytest.raises(Fenced, match="not yours"):
            await collect(session.add_stream(Batches(*(batch(entry) for entry in range(100)))), answers)
    assert len(answers) == 1


async def test_an_error_of_the_service_beside_a_write_is_the_error_of_the_stream(service, shell):
    """The service ends the stream while a large batch is being written: its reason is raised, each time."""

    async def fenced(request, context):
        await abort(context, grpc.StatusCode.FAILED_PRECONDITION, "not yours any more", reason("FENCED"))

    service.on(STREAM, fenced)
    large = batch(*range(10_000))
    async with (
        shell.connect(service.address) as client,
        await client.open_tracker(TOPIC, "billing") as session,
    ):
        for _ in range(40):
            with pytest.raises(Fenced, match="not yours"):
                await collect(session.add_stream(Batches(*[large] * 20)), [])


@pytest.mark.parametrize(
    "bad", [batch(-1), ([1], [1, 2], [1]), KeyError("the ledger went away")], ids=["range", "length", "own"]
)
async def test_an_error_of_the_batches_is_raised_after_the_answers_before_it(service, session, bad):
    """Nothing of the bad batch is sent."""
    service.on(STREAM, first_is_due)
    answers = []
    with pytest.raises(KeyError if isinstance(bad, KeyError) else InvalidInput):
        await collect(session.add_stream(Batches(batch(0, 1), batch(2, 3), bad, batch(4))), answers)
    assert len(answers) == 2
    assert len(service.requests_of(STREAM)) == 2


async def test_a_stream_asks_for_no_more_than_it_may_have_on_its_way(service, shell):
    """With two unanswered batches, the third waits until an answer is read."""
    service.on(STREAM, first_is_due)
    settings = ClientSettings(stream_batches_max=2)
    async with (
        shell.connect(service.address, settings=settings) as client,
        await client.open_tracker(TOPIC, "billing") as session,
    ):
        batches = Batches(*(batch(entry) for entry in range(50)))
        async with aclosing(session.add_stream(batches)) as answers:
            for taken in range(1, 5):
                await anext(answers)
                # One batch more than the limit was read, and waits.
                assert batches.asked_count <= taken + 2 + 1
    assert batches.asked_count < 50
