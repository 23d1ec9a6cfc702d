"""Offers in reading order, over a real service: their claim is where the next dispatcher begins."""

import asyncio

import grpc
import pytest

from delayed_tracker.client import (
    ClientSettings,
    DelayedTrackerClient,
    InvalidInput,
    OpenAnswer,
    Position,
    ServiceFault,
    SessionClosed,
)
from delayed_tracker.client.blocking import DelayedTrackerClient as BlockingClient
from delayed_tracker.client.rules.session import SessionRules
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import abort
from tests.service.harness.shell import KEY, running_service


def rows(*entries: int, ledger_id: int = 7):
    return [2**50] * len(entries), [ledger_id] * len(entries), list(entries)


@pytest.fixture
async def durable():
    async with running_service(add_log=MemoryAddLog()) as running:
        yield running


async def test_a_dispatcher_goes_on_where_the_one_before_was(durable):
    """Offers and passed ranges move the claim; the next session replays behind it."""
    async with DelayedTrackerClient.connect(durable.address) as client:
        async with await client.open_tracker(*KEY) as session:
            offers = session.offers()
            assert await offers.claim() is None
            answer = await offers.offer(Position(7, 9), *rows(3, 4))
            assert (answer.added_count, answer.offered_through) == (2, Position(7, 9))
            offers.passed(Position(7, 30))
            assert offers.offered_through == Position(7, 30)
            together = (offers.offer(Position(7, 40 + each), *rows(40 + each)) for each in range(10))
            assert sum(answer.added_count for answer in await asyncio.gather(*together)) == 10
            assert await offers.claim() == Position(7, 49)
        async with await client.open_tracker(*KEY) as session:
            assert session.opened.replay_from == Position(7, 50)
            assert await session.contains([7, 7], [3, 49]) == [True, True]


async def test_threads_offer_too(durable):
    """The blocking client has the same object, and threads may share it."""
    await asyncio.to_thread(_offer_in_a_thread, durable.address)


def _offer_in_a_thread(address: str) -> None:
    with BlockingClient.connect(address) as client, client.open_tracker(*KEY) as session:
        offers = session.offers()
        assert offers.offer(Position(7, 9), *rows(3)).offered_through == Position(7, 9)
        offers.passed(Position(8, -1))
        assert offers.claim() == Position(8, -1)
        assert session.add_columns([], [], [], offered_through=Position(8, 5)).offered_through == Position(8, 5)
        assert client.open_tracker(*KEY).opened.replay_from == Position(8, 6)


async def test_claims_end_with_the_epoch(durable):
    """After a clear the old object refuses, and a new one begins without a claim."""
    async with DelayedTrackerClient.connect(durable.address) as client, await client.open_tracker(*KEY) as session:
        offers = session.offers()
        await offers.offer(Position(7, 9), *rows(3))
        await session.clear()
        for refused in (offers.claim, lambda: offers.offer(Position(7, 10), *rows())):
            with pytest.raises(InvalidInput, match=r"session\.offers") as raised:
                await refused()
            assert raised.value.field == "epoch"
        again = session.offers()
        assert (again.offered_through, await again.claim()) == (None, None)
        await session.close()
        with pytest.raises(SessionClosed):
            await again.claim()


async def test_values_that_no_claim_can_have_are_refused(durable):
    """The error names the field, and nothing is sent."""
    async with DelayedTrackerClient.connect(durable.address) as client, await client.open_tracker(*KEY) as session:
        offers = session.offers()
        with pytest.raises(InvalidInput) as refused:
            await offers.offer(Position(-1, 0), *rows(3))
        assert refused.value.field == "read_through.ledger_id"
        with pytest.raises(InvalidInput) as refused:
            offers.passed(Position(7, 2**32))
        assert refused.value.field == "read_through.entry_id"
        with pytest.raises(InvalidInput) as refused:
            await session.add_columns(*rows(3), offered_through=Position(7, -2))
        assert refused.value.field == "offered_through.entry_id"
        assert await session.contains([7], [3]) == [False]


async def test_only_the_last_of_several_calls_carries_the_claim(service):
    """Rows that need several calls are claimed by the last; a failure of an earlier one leaves them unclaimed."""
    calls = []

    async def second_fails(request, context):
        calls.append(request)
        if len(calls) == 2:
            await abort(context, grpc.StatusCode.INTERNAL, "the service says no")
        return pb.AddMessagesResponse(added_count=len(request.ledger_ids))

    service.on("AddMessages", second_fails)
    settings = ClientSettings(batch_max=4, connect_timeout_s=30.0, call_timeout_s=30.0)
    async with DelayedTrackerClient.connect(service.address, settings=settings) as client:
        session = await client.open_tracker(TOPIC, "workers")
        offers = session.offers()
        with pytest.raises(ServiceFault):
            await offers.offer(Position(7, 9), *rows(*range(6)))
        assert offers.offered_through is None
        await offers.offer(Position(7, 12), *rows(12))
        await offers.offer(Position(7, 9), *rows(*range(6)))
        assert offers.offered_through == Position(7, 12)
    claims = [request.offered_through.entry_id if request.HasField("offered_through") else None for request in calls]
    assert claims == [None, 9, None, None, 12]


def test_a_claim_of_an_epoch_that_has_ended_is_not_sent():
    """A batch that waited while the tracker was cleared is added under the new epoch, without its claim."""
    rules = SessionRules(ClientSettings(), TOPIC, "workers", OpenAnswer(7, None, 0, 0))
    claim = rules.claim(Position(7, 9))
    for epoch, is_sent in ((7, True), (8, False)):
        rules.epoch = epoch
        encoded = next(rules.add_packed((b"", b"", b""), 0, claim)).request
        request = pb.AddMessagesRequest.FromString(encoded)
        assert (request.epoch, request.HasField("offered_through")) == (epoch, is_sent)
