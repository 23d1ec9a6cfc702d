"""The whole service in one event loop: the start, refusals with their remedies, and the order of a stop."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import httpx
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.lock_file import waiting_lock
from delayed_tracker.service.process.health import LEDGER_SERVICE_NAME, SERVICE_NAME
from delayed_tracker.service.process.listen import AddressInUse, AddressUnusable
from delayed_tracker.service.server import BoundAddresses, TrackerServer, serve
from delayed_tracker.service.settings.address import Address, ListenAddress, parse_addresses
from delayed_tracker.service.settings.settings import Settings
from delayed_tracker.storage.errors import StorageFormatUnsupported, StorageInUse, UnknownStorageScheme
from delayed_tracker.storage.maintenance.copy_marker import begin_copy
from delayed_tracker.storage.maintenance.working import Retries
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.sqlite.lock import lock_path_of
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc as pb_grpc
from tests.service.harness.settings import settings_of
from tests.service.harness.shell import until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
REF = pb.TrackerRef(topic="persistent://shop/orders/events", subscription="a / b % c")


def settings(**changes: object) -> Settings:
    given = {"storage_url": "memory:", "grpc_listen_address": "127.0.0.1:0", "http_listen_address": "127.0.0.1:0"}
    return settings_of(**(given | changes))


@asynccontextmanager
async def running(given: Settings) -> AsyncIterator[tuple[TrackerServer, BoundAddresses]]:
    server = TrackerServer(given)
    bound = await server.start()
    try:
        yield server, bound
    finally:
        await server.stop()


async def health_of(channel: grpc.aio.Channel, service: str = "") -> int:
    answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service))
    return answer.status


async def test_a_started_service_answers_on_both_edges():
    """Ports of 0 are replaced by real ones; gRPC, its health service and HTTP all answer."""
    async with running(settings()) as (_, bound), grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        assert await health_of(channel) == SERVING
        assert await health_of(channel, SERVICE_NAME) == SERVING
        opened = await pb_grpc.DelayedDeliveryTrackerServiceStub(channel).OpenTracker(
            pb.OpenTrackerRequest(tracker=REF, owner="test")
        )
        assert opened.epoch > 0
        async with httpx.AsyncClient(trust_env=False) as http:
            assert (await http.get(f"http://{bound.http}/health/ready")).status_code == 200
            assert "delayed_tracker_open_trackers 1\n" in (await http.get(f"http://{bound.http}/metrics")).text


async def test_health_checks_that_send_no_request_hold_up_no_probe():
    """A probe is answered beside more silent checks than there are seats."""
    async with running(settings()) as (_, bound), grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        silent = [channel.stream_unary("/grpc.health.v1.Health/Check")() for _ in range(8)]
        for call in silent:
            await call.wait_for_connection()
        probe = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=3)
        assert (await probe).status == SERVING
        for call in silent:
            call.cancel()


async def test_a_reload_reaches_the_number_of_health_watches():
    """After grpcStreamsMax was raised, watches are refused at the new number."""
    async with (
        running(settings(grpc_streams_max=1)) as (server, bound),
        grpc.aio.insecure_channel(str(bound.grpc)) as channel,
    ):
        stub = health_pb2_grpc.HealthStub(channel)
        watches = [stub.Watch(health_pb2.HealthCheckRequest())]
        assert (await watches[0].read()).status == SERVING
        assert (await stub.Watch(health_pb2.HealthCheckRequest()).code()) is grpc.StatusCode.RESOURCE_EXHAUSTED
        server.apply(settings(grpc_streams_max=2))
        watches.append(stub.Watch(health_pb2.HealthCheckRequest()))
        assert (await watches[1].read()).status == SERVING
        assert (await stub.Watch(health_pb2.HealthCheckRequest()).code()) is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_health_calls_that_send_nothing_hold_up_no_other_call():
    """They need no credential, and have room and a number of streams of their own."""
    async with (
        running(settings(grpc_streams_max=2)) as (server, bound),
        grpc.aio.insecure_channel(str(bound.grpc)) as strangers,
        grpc.aio.insecure_channel(str(bound.grpc)) as channel,
    ):

        def silent(method: str) -> grpc.aio.StreamStreamCall:
            return strangers.stream_stream(f"/grpc.health.v1.Health/{method}")()

        calls = [silent(method) for method in ("Check", "List") for _ in range(8)]
        stub = health_pb2_grpc.HealthStub(strangers)
        watches = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(2)]
        assert [(await watch.read()).status for watch in watches] == [SERVING] * 2
        assert (await stub.Watch(health_pb2.HealthCheckRequest()).code()) is grpc.StatusCode.RESOURCE_EXHAUSTED
        tracker = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        opened = await tracker.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="test"), timeout=10)
        request = pb.AddMessagesRequest(tracker=REF, epoch=opened.epoch)
        stream = tracker.AddMessagesStream(iter([pb.AddMessagesStreamRequest(add=request)]), timeout=10)
        assert (await stream.read()).HasField("added")
        assert server.trackers.calls.requests.budget.held_bytes == 0
        for call in (*calls, *watches):
            call.cancel()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_names_and_describes_the_services(version: str):
    """Tools such as grpcurl need no proto files, in either version of reflection, which describes itself, too."""

    async def ask(**request: str) -> reflection_pb2.ServerReflectionResponse:
        return await reflect(iter([reflection_pb2.ServerReflectionRequest(**request)])).read()

    async with running(settings()) as (_, bound), grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        reflect = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        listed = {row.name for row in (await ask(list_services="")).list_services_response.service}
        assert listed == {
            SERVICE_NAME,
            LEDGER_SERVICE_NAME,
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        for name in listed:
            pool = DescriptorPool()
            described = (await ask(file_containing_symbol=name)).file_descriptor_response.file_descriptor_proto
            for file in sorted(map(FileDescriptorProto.FromString, described), key=lambda file: len(file.dependency)):
                pool.Add(file)
            assert pool.FindServiceByName(name).methods


async def test_both_versions_of_reflection_are_the_same_messages():
    """The messages of v1alpha and v1 are equal in numbers and types of all fields."""
    async with running(settings()):
        pass
    v1 = GetMessageClass(descriptor_pool.Default().FindMessageTypeByName("grpc.reflection.v1.ServerReflectionRequest"))
    asked = reflection_pb2.ServerReflectionRequest(
        host="h", file_containing_extension=reflection_pb2.ExtensionRequest(containing_type="a.B", extension_number=7)
    )
    assert str(v1.FromString(asked.SerializeToString())) == str(asked)


@pytest.mark.parametrize(
    ("key", "field"), [("grpcListenAddress", "grpc_listen_address"), ("httpListenAddress", "http_listen_address")]
)
async def test_address_in_use_is_refused_by_key(key: str, field: str):
    """The error names the key and the address, and a failed start releases what it had opened."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        server = TrackerServer(settings(**{field: address}))
        with pytest.raises(AddressInUse, match=f"{key}={address}: the address is in use"):
            await server.start()
        await server.stop()


async def test_a_second_service_does_not_share_the_port():
    """The service does not share its port, as gRPC's defaults would allow, so calls reach the right process."""
    async with running(settings()) as (_, bound):
        with pytest.raises(AddressInUse):
            await TrackerServer(settings(grpc_listen_address=str(bound.grpc))).start()


async def test_address_of_another_machine_is_refused():
    """192.0.2.1 is reserved for documentation: no machine has it."""
    with pytest.raises(AddressUnusable, match="grpcListenAddress"):
        await TrackerServer(settings(grpc_listen_address="192.0.2.1:7650", allow_insecure_listen=True)).start()


async def test_storage_in_use_is_refused_and_releases_the_ports(tmp_path: Path):
    """The error of the second service on one file names the first one, and no listener remains."""
    url = f"sqlite:{tmp_path / 'tracker.db'}"
    async with running(settings(storage_url=url)):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(StorageInUse):
            await TrackerServer(settings(storage_url=url, grpc_listen_address=address)).start()
        async with running(settings(grpc_listen_address=address)):
            pass


async def test_the_storage_is_free_once_the_service_has_stopped(tmp_path: Path):
    """A stop releases everything for the next start."""
    given = settings(storage_url=f"sqlite:{tmp_path / 'tracker.db'}")
    async with running(given):
        pass
    async with running(given):
        pass


def test_unknown_storage_scheme_lists_the_known_ones():
    """The error comes before anything is opened."""
    with pytest.raises(UnknownStorageScheme, match=r"^bucketSnapshotStorageUrl: .*sqlite"):
        TrackerServer(settings(storage_url="tape:drive0"))


@pytest.mark.parametrize("url", ["sqlite:", "memory:what", ":", "faulty:what;memory:"])
def test_a_storage_url_that_opens_nothing_names_its_setting(url: str):
    """Every error of a backend names the key to change."""
    with pytest.raises(InvalidInput, match=r"^bucketSnapshotStorageUrl: ") as raised:
        TrackerServer(settings(storage_url=url))
    assert raised.value.field == "bucketSnapshotStorageUrl"


async def test_a_storage_that_cannot_be_started_names_its_setting(tmp_path: Path):
    """The error has the whole URL as it was given, and not only the part that the backend gets."""
    url = f"faulty:seed=1;sqlite:{tmp_path}"
    with pytest.raises(InvalidInput, match=r"^bucketSnapshotStorageUrl: .* name a file in it$") as raised:
        await TrackerServer(settings(storage_url=url)).start()
    assert (raised.value.field, raised.value.value) == ("bucketSnapshotStorageUrl", url)


async def test_an_unfinished_copy_is_not_served(tmp_path: Path):
    """The error says how to complete it, and the storage is free for that."""
    url = f"sqlite:{tmp_path / 'tracker.db'}"
    storage = open_storage(url)
    await storage.start()
    copy = await begin_copy(storage, url, "file:///source", Retries())
    await storage.close()
    with pytest.raises(StorageFormatUnsupported, match="storage copy --from file:///source"):
        await TrackerServer(settings(storage_url=url)).start()
    await storage.start()
    await copy.end(storage, Retries())
    await storage.close()
    async with running(settings(storage_url=url)):
        pass


async def test_a_stop_ends_waiting_polls_and_tells_watchers_first():
    """A watcher gets NOT_SERVING and its stream ends; a waiting poll ends with the reason."""
    async with (
        running(settings(shutdown_grace_ms=60_000)) as (server, bound),
        grpc.aio.insecure_channel(str(bound.grpc)) as channel,
        asyncio.timeout(20),
    ):
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        opened = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="test"))
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        poll = stub.PollScheduledMessages(
            pb.PollScheduledMessagesRequest(tracker=REF, epoch=opened.epoch, max_messages=1, wait_ms=60_000)
        )
        while server.trackers.waiting_poll_count == 0:  # noqa: ASYNC110  # it arrives by this event loop
            await asyncio.sleep(0)
        await server.stop()
        assert (await watch.read()).status == NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await poll
        assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await health_of(channel)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_stopping_twice_is_harmless():
    """The second stop does nothing."""
    server = TrackerServer(settings())
    await server.start()
    await server.stop()
    await server.stop()


async def test_a_stop_without_grace_still_closes_everything(tmp_path: Path):
    """With shutdownGraceMillis=0 nothing is waited for, and the storage is free soon afterwards."""
    path = tmp_path / "tracker.db"

    def until_free() -> None:
        with waiting_lock(lock_path_of(path)):
            pass

    for _ in range(2):
        async with running(settings(shutdown_grace_ms=0, storage_url=f"sqlite:{path}")):
            pass
        await asyncio.to_thread(until_free)


async def test_ready_file_that_cannot_be_written_stops_the_start(tmp_path: Path):
    """The error names the option and the path, and the service is stopped."""
    with pytest.raises(InvalidInput, match=r"--ready-file.*name a file in a directory"):
        await serve(settings(), ready_file=tmp_path / "absent" / "ready.json")


async def test_what_cannot_read_its_files_again_ends_the_service(tmp_path: Path):
    """Else revoked keys and old certificates would stay in force, without a word. The service stops in order."""
    ready = tmp_path / "ready.json"

    def reread() -> Settings:
        raise RuntimeError("can't start new thread")

    serving = asyncio.create_task(serve(settings(), ready_file=ready, reread=reread))
    await until(ready.exists)
    os.kill(os.getpid(), signal.SIGHUP)
    async with asyncio.timeout(20):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await serving
    assert not ready.exists()


async def test_a_message_above_the_limit_is_refused():
    """The setting grpcMessageBytesMax limits the size of a request."""
    given = settings(grpc_message_bytes_max=1024 * 1024, batch_positions_max=10_000, poll_messages_max=10_000)
    async with running(given) as (_, bound), grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        request = pb.ContainsMessagesRequest(tracker=REF, ledger_ids=[1] * 100_000, entry_ids=[1] * 100_000)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await pb_grpc.DelayedDeliveryTrackerServiceStub(channel).ContainsMessages(request)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.slow
async def test_calls_that_come_all_at_once_are_all_answered():
    """Without a limit of its own, gRPC would cancel calls at random once a thousand wait for the event loop."""
    async with (
        running(settings(grpc_receive_ms_max=600_000)) as (_, bound),
        grpc.aio.insecure_channel(str(bound.grpc)) as channel,
    ):
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        epoch = (await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="test"))).epoch
        entries = range(1_500)
        adds = [
            stub.AddMessages(
                pb.AddMessagesRequest(
                    tracker=REF, epoch=epoch, deliver_at_ms=[2**42], ledger_ids=[1], entry_ids=[entry]
                )
            )
            for entry in entries
        ]
        assert [await add.code() for add in adds] == [grpc.StatusCode.OK for _ in entries]


async def test_a_connection_beyond_its_calls_still_learns_that_the_service_is_alive():
    """Waiting polls up to the limit leave room for health checks and for refusals of further calls."""
    async with running(settings(calls_max=3)) as (_, bound), grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        epoch = (await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="test"))).epoch
        request = pb.PollScheduledMessagesRequest(tracker=REF, epoch=epoch, max_messages=1, wait_ms=60_000)
        polls = [stub.PollScheduledMessages(request) for _ in range(3)]
        async with asyncio.timeout(10):
            # The polls are on their way, and a call that overtakes them is answered.
            while await stub.ListTrackers(pb.ListTrackersRequest()).code() is grpc.StatusCode.OK:
                pass
            assert await health_of(channel) == SERVING
        for poll in polls:
            poll.cancel()


def test_bound_addresses_travel_as_json():
    """The content of --ready-file is readable by any script."""
    grpc_addresses = parse_addresses("127.0.0.1:1,tls://127.0.0.1:4")
    bound = BoundAddresses.of(grpc_addresses, parse_addresses("[::1]:2"), ListenAddress(Address("::1", 3)))
    assert json.loads(bound.to_json()) | {"pid": 0} == {
        "grpc": "127.0.0.1:1",
        "http": "[::1]:2",
        "grpc_addresses": ["127.0.0.1:1", "tls://127.0.0.1:4"],
        "http_addresses": ["[::1]:2"],
        "health": "[::1]:3",
        "pid": 0,
    }


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate], ids=str)
async def test_the_limit_of_a_message_holds_for_what_it_decompresses_to(compression: grpc.Compression):
    """A few kilobytes that decompress to megabytes are refused like megabytes."""
    given = settings(grpc_message_bytes_max=1024 * 1024, batch_positions_max=10_000, poll_messages_max=10_000)
    async with (
        running(given) as (_, bound),
        grpc.aio.insecure_channel(str(bound.grpc), compression=compression) as channel,
    ):
        bomb = bytes((0xFA, 0x3F, 0x80, 0x80, 0x80, 0x20)) + bytes(64 * 1024 * 1024)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary("/grpc.health.v1.Health/Check", None, None)(bomb)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await health_of(channel) == SERVING


async def test_a_large_request_of_health_or_reflection_is_refused():
    """Requests of health and reflection carry only a name, which reflection sends back, so large ones are refused."""
    padding = bytes((0xFA, 0x3F, 0x80, 0x80, 0x08)) + bytes(128 * 1024)
    async with running(settings()) as (_, bound), grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        for method in ("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List"):
            with pytest.raises(grpc.aio.AioRpcError, match=r"131077 bytes.*send at most 4096 bytes"):
                await channel.unary_unary(method, None, None)(padding)
        for method in (
            "/grpc.health.v1.Health/Watch",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ):
            call = channel.stream_stream(method, None, None)()
            await call.write(padding)
            with pytest.raises(grpc.aio.AioRpcError, match=r"131077 bytes.*send at most 4096 bytes"):
                await call.read()


async def test_metadata_is_taken_or_refused_by_its_size_alone():
    """There is one limit of metadata; between two limits gRPC would refuse some calls at random."""
    async with running(settings()) as (_, bound), grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        for _ in range(6):
            await stub.ListTrackers(pb.ListTrackersRequest(), metadata=[("x-large", "a" * 15_000)])
            with pytest.raises(grpc.aio.AioRpcError, match="metadata size exceeds"):
                await stub.ListTrackers(pb.ListTrackersRequest(), metadata=[("x-large", "a" * 16_384)])
