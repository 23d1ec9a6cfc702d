"""Tests of the client's tokens with the real service: its refusals as errors, and tokens that end or are replaced."""

import asyncio
import time

import pytest

from delayed_tracker.client import ClientCredentials, PermissionDenied, Unauthenticated
from tests.client.harness.shells import Batches
from tests.service.harness.shell import until
from tests.service.security.secured import SUBSCRIPTION, TOPIC, secured
from tests.service.security.tokens import OTHER_SECRET, token


@pytest.fixture
async def service(tmp_path):
    async with secured(tmp_path) as running:
        yield running


def in_an_hour_ms() -> int:
    return int(time.time() * 1_000) + 3_600_000


async def test_a_dispatcher_with_the_right_token_does_all_its_calls(service, shell):
    """Adds, streams, polls and acknowledgements pass the guard."""
    credentials = ClientCredentials(token=token("shop"))
    async with shell.connect(str(service.bound.grpc), credentials=credentials) as client:
        session = await client.open_tracker(TOPIC, SUBSCRIPTION)
        assert (await session.add_columns([in_an_hour_ms()], [7], [0])).added_count == 1
        async for answer in session.add_stream(Batches(([in_an_hour_ms()], [7], [1]))):
            assert answer.added_count == 1
        lease = await session.poll(10)
        await lease.ack()
        await session.close()


@pytest.mark.parametrize("given", [None, "tampered", "of another key", "expired"])
async def test_a_credential_that_does_not_count_is_unauthenticated(service, shell, given):
    """The error has the service's reason, and never the token."""
    tokens = {
        None: None,
        "tampered": token("shop")[:-4] + "AAAA",
        "of another key": token("shop", key=OTHER_SECRET),
        "expired": token("shop", exp=int(time.time()) - 3_600),
    }
    shown = tokens[given]
    async with shell.connect(str(service.bound.grpc), credentials=ClientCredentials(token=shown)) as client:
        with pytest.raises(Unauthenticated) as caught:
            await client.open_tracker(TOPIC, SUBSCRIPTION)
    assert caught.value.reason == "UNAUTHENTICATED"
    assert shown is None or shown not in f"{caught.value} {caught.value.metadata} {caught.value.__cause__!r}"


async def test_a_missing_permission_names_who_what_and_where(service, shell):
    """Single calls and streams of adds say the same."""
    credentials = ClientCredentials(token=token("reader"))
    async with shell.connect(str(service.bound.grpc), credentials=credentials) as client:
        with pytest.raises(PermissionDenied) as caught:
            await client.open_tracker(TOPIC, SUBSCRIPTION)
    error = caught.value
    assert (error.principal, error.action, error.topic) == ("reader", "dispatch", TOPIC)


@pytest.mark.slow
async def test_a_poll_goes_on_when_its_token_ends_and_there_is_another(service, shell):
    """The service ends the wait with the token. The client repeats the call, once, and the caller notices nothing."""
    lasting, ends_s, asked = token("shop"), [], []

    def supply() -> str:
        # The first token ends soon after the first question, whenever that is.
        ends_s.append(int(time.time()) + 3)
        asked.append(token("shop", exp=ends_s[0]) if time.time() < ends_s[0] else lasting)
        return asked[-1]

    async with shell.connect(str(service.bound.grpc), credentials=ClientCredentials(token=supply)) as client:
        session = await client.open_tracker(TOPIC, SUBSCRIPTION)
        await session.add_columns([in_an_hour_ms()], [7], [0])
        polling = asyncio.create_task(session.poll(1, wait_ms=60_000))
        await until(lambda: asked[-1] == lasting, within_s=60)
        # Due only now, so that the poll has outlasted its token.
        assert (await session.reschedule([int(time.time() * 1_000)], [7], [0])).rescheduled_count == 1
        lease = await polling
        assert list(lease.messages) == [(7, 0)]
        assert asked[0] != lasting
        await lease.ack()
        await session.close()
