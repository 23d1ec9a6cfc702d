"""Tests of the service config: the calls that gRPC may repeat, and the calls that wait for an unreachable service."""

import asyncio
import contextlib
import json

import grpc
import pytest

from delayed_tracker.client import ClientSettings, ServiceFault, Unavailable
from delayed_tracker.client.model.channel import require_address, service_config
from delayed_tracker.client.model.diagnosis import tls_fault
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import LEDGERS, SERVICE, STREAM, ScriptedService, scripted_service
from tests.client.harness.shells import Batches, Shell, until_disconnected

NEVER_REPEATED = {
    "CloseTracker",
    "PollScheduledMessages",
    "ClearMessages",
    "DeleteTracker",
    "AddMessagesStream",
    "CancelMessages",
    "ResetCursor",
    "SealBucket",
    "ImportSnapshots",
    "StreamMembership",
}


async def one_ledger(request, context):
    """Answer with the membership of one ledger."""
    yield pb.StreamMembershipResponse(ledgers=[{"ledger_id": 1}])


def test_each_method_is_repeated_or_has_a_reason_not_to_be():
    """Every method is in the list of repeated calls or of those that must not be repeated."""
    config = json.loads(service_config(ClientSettings()))["methodConfig"]
    named = [name for row in config if "retryPolicy" in row for name in row["name"]]
    assert {"service": LEDGERS.full_name} in named
    retried = {name["method"] for name in named if name["service"] == SERVICE.full_name}
    assert retried | NEVER_REPEATED == {method.name for method in SERVICE.methods}
    assert not retried & NEVER_REPEATED


@pytest.mark.parametrize("wait", [True, False])
def test_every_call_waits_or_none_does(wait):
    """The service's default and the repeated calls have the same setting, and only streams never wait."""
    config = json.loads(service_config(ClientSettings(wait_for_ready=wait)))["methodConfig"]
    assert {"service": SERVICE.full_name} in config[1]["name"]
    streams = {method.name for method in SERVICE.methods if method.client_streaming or method.server_streaming}
    names = {name["method"] for name in config[2]["name"]}
    assert names == streams == {STREAM, "ImportSnapshots", "StreamMembership"}
    assert [row["waitForReady"] for row in config] == [wait, wait, False]


@pytest.mark.slow
async def test_a_call_waits_for_a_service_that_is_started_again(service: ScriptedService, shell):
    """A poll, which is never repeated, is sent when the service is reachable again."""
    async with shell.connect(service.address, settings=ClientSettings(call_timeout_s=30.0)) as client:
        session = await client.open_tracker(TOPIC, "billing")
        await service.stop()
        await until_disconnected(client)
        polled = asyncio.create_task(session.poll(1))
        service.on("PollScheduledMessages", pb.PollScheduledMessagesResponse(server_time_ms=5))
        await service.start(service.address)
        assert (await polled).messages.server_time_ms == 5
        await session.leave()


@pytest.mark.slow
async def test_calls_that_do_not_wait_fail_at_once(service: ScriptedService, shell):
    """Without ``wait_for_ready``, calls to an unreachable service fail at once."""
    settings = ClientSettings(call_timeout_s=3_600.0, wait_for_ready=False)
    async with shell.connect(service.address, settings=settings) as client:
        session = await client.open_tracker(TOPIC, "billing")
        await service.stop()
        await until_disconnected(client)
        with pytest.raises(Unavailable) as caught:
            await session.poll(1)
        assert caught.value.__cause__.code() is grpc.StatusCode.UNAVAILABLE
        await session.leave()


@pytest.mark.slow
async def test_a_stream_to_a_service_that_is_away_ends(service: ScriptedService, shell):
    """A stream to an unreachable service ends, because it has no time limit."""
    async with shell.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")
        await service.stop()
        await until_disconnected(client)
        with pytest.raises(Unavailable):
            await anext(aiter(session.add_stream(Batches(([1], [1], [1])))))
        await session.leave()


@pytest.mark.slow
async def test_a_stream_works_as_soon_as_calls_do(service: ScriptedService, shell):
    """Streams that were refused while the service was away do not delay the next one."""
    service.on("StreamMembership", one_ledger)
    service.on("PollScheduledMessages", pb.PollScheduledMessagesResponse())
    async with shell.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")
        for _ in range(5):
            await service.stop()
            await until_disconnected(client)
            for _ in range(5):
                with pytest.raises(Unavailable):
                    await anext(session.membership())
            await service.start(service.address)
            await session.poll(1)
            assert (await anext(session.membership())).ledger_id == 1
        await session.leave()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shell", [Shell.BLOCKING])
async def test_a_stream_that_begins_while_the_connection_closes_ends(shell):
    """A thread that begins a stream in that moment is not left waiting."""
    for turns in range(3_000):
        async with scripted_service() as service, shell.connect(service.address) as client:
            service.on("StreamMembership", one_ledger)
            first = asyncio.create_task(anext(client.view_tracker(TOPIC, "billing").membership()))
            for _ in range(turns % 300):
                await asyncio.sleep(0)
            await service.stop()
            with contextlib.suppress(Unavailable, ServiceFault):  # the service cancels what it has begun to answer
                await asyncio.wait_for(first, 60)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:7650",
        "tracker.lab:1",
        "[::1]:65535",
        "[fe80::1%eth0]:7650",
        "dns:///tracker:7650",
        "unix:/run/tracker",
    ],
)
def test_addresses_are_host_and_port_or_a_target_of_grpc(address):
    """Host names, both kinds of IP addresses and gRPC targets are accepted."""
    assert require_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "tracker",
        "tracker:",
        ":7650",
        "tracker:x",
        "tracker:0",
        "tracker:65536",
        "::1:7650",
        "http://tracker:7651",
        "a b:1",
        "a..b:7650",
        f"{'a' * 64}.lab:7650",
    ],
)
def test_what_is_no_address_is_refused_at_once(address):
    """A wrong address is refused before the client waits for a connection."""
    with pytest.raises(InvalidInput, match=r"address: .* is not valid; give host:port"):
        require_address(address)


def test_no_fault_of_tls_is_found_for_a_name_that_cannot_be_looked_up():
    """A target of gRPC may have any host: the program gets the error of its connection, not that of the look-up."""
    address = "dns:///a..b:7650"
    assert require_address(address) == address
    assert tls_fault(address, None) is None
