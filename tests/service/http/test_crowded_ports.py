"""A real service with few open files, and clients that connect and send nothing."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from delayed_tracker.service.settings.server import GRPC_KEEPALIVE_MS
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc as pb_grpc
from tests.service.harness.rpc import REF, add, opened
from tests.service.harness.service_process import Connected, ServiceProcess, serving_process

pytestmark = pytest.mark.slow

OPEN_FILES = 256
SILENT = 400
"""More connections than the service may have open files."""
CALL_SECONDS = 60
WITHIN_S = 5
"""Half of what the service allows a silent client by default."""
FAR_MS = 10_000_000_000_000
HTTP2_BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + b"\0\0\0\4\1\0\0\0\0"
"""The preface, empty settings, and the acknowledgement of the server's settings."""
OWN = [("grpc.use_local_subchannel_pool", 1)]
"""Options of a channel with a connection of its own."""


@contextmanager
def silent_connections(address: str, count: int) -> Iterator[list[socket.socket]]:
    """Open connections on which nothing is sent."""
    host, _, port = address.rpartition(":")
    with ExitStack() as closing:
        yield [closing.enter_context(socket.create_connection((host, int(port)), timeout=10)) for _ in range(count)]


def open_files_of(service: ServiceProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{service.process.pid}/fd").iterdir())


async def store_a_bucket(stub, epoch: int, ledger: int) -> None:
    """Add and seal a bucket, so that the storage writes and reads the catalogue."""
    await stub.AddMessages(add(epoch, *((FAR_MS, ledger, entry) for entry in range(10))), timeout=CALL_SECONDS)
    await stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch), timeout=CALL_SECONDS)


async def probe(service: ServiceProcess) -> int:
    async with httpx.AsyncClient(trust_env=False, timeout=CALL_SECONDS) as client:
        return (await client.get(f"http://{service.http}/health/ready")).status_code


async def health(service: ServiceProcess) -> int:
    async with grpc.aio.insecure_channel(service.grpc, options=OWN) as channel:
        request = health_pb2.HealthCheckRequest()
        return (await health_pb2_grpc.HealthStub(channel).Check(request, timeout=CALL_SECONDS)).status


@pytest.mark.long
async def test_silent_connections_do_not_disturb_those_that_work(tmp_path: Path):
    """While both ports are full, connected dispatchers and HTTP probes are answered, and new gRPC clients are refused.

    New gRPC clients are accepted again when the silent ones are gone.
    """
    async with (
        serving_process(tmp_path, "--set", "grpcHandshakeTimeoutMillis=600000", open_files=OPEN_FILES) as service,
        grpc.aio.insecure_channel(service.grpc, options=OWN) as channel,
    ):
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        epoch = await opened(Connected(stub))
        with silent_connections(service.grpc, SILENT), silent_connections(service.http, SILENT):
            for ledger in range(1, 4):
                await store_a_bucket(stub, epoch, ledger)
            assert await probe(service) == 200
            began = asyncio.get_running_loop().time()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await health(service)
            assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
            assert asyncio.get_running_loop().time() - began < CALL_SECONDS
            # Connections never take the files that are reserved for the storage.
            assert open_files_of(service) < OPEN_FILES * 3 / 4
        async with asyncio.timeout(30):
            while open_files_of(service) > OPEN_FILES / 4:  # noqa: ASYNC110  # another process's descriptors
                await asyncio.sleep(0)
        assert await health(service) == health_pb2.HealthCheckResponse.SERVING
        assert await probe(service) == 200
        service.process.terminate()
        assert service.process.stderr is not None
        log = await service.process.stderr.read()
    assert len(log) < 5_000


async def is_closed_within(seconds: float, host: str, port: int, sent: bytes) -> bool:
    """Return whether the service closes a connection, on which no more is sent, in time."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(sent)
    try:
        async with asyncio.timeout(seconds):
            while await reader.read(1_024):
                pass
    except TimeoutError:
        return False
    finally:
        writer.close()
    return True


@pytest.mark.long
@pytest.mark.parametrize(
    ("port", "sent", "closed_within_s"),
    [
        pytest.param("grpc", b"", WITHIN_S, id="no HTTP/2"),
        pytest.param(
            "grpc",
            HTTP2_BEGIN,
            GRPC_KEEPALIVE_MS / 1_000 + 15,
            id="no answer to a probe",
            marks=[pytest.mark.deep, pytest.mark.timeout(600)],
        ),
        pytest.param("http", b"", WITHIN_S, id="no request"),
    ],
)
async def test_silent_connections_are_closed_in_time(tmp_path: Path, port, sent, closed_within_s):
    """A client is disconnected if it does not start HTTP/2, does not answer a probe, or sends no request."""
    settings = {
        "grpcHandshakeTimeoutMillis": 200,
        "httpClientTimeoutMillis": 200,
        "grpcKeepaliveTimeoutMillis": 200,
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    async with serving_process(tmp_path, *options) as service:
        host, _, number = getattr(service, port).rpartition(":")
        # Several: the machine may stand still while one of them is open.
        for _ in range(5):
            if await is_closed_within(closed_within_s, host, int(number), sent):
                return
    pytest.fail("no connection was closed in time")
