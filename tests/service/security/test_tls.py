"""TLS of both ports, over real sockets: who is let in, and what happens when the files change."""

import asyncio
import contextlib
import json
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import grpc
import httpx
import pytest
from structlog.testing import capture_logs

from delayed_tracker.client import ClientCredentials, DelayedTrackerClient, TlsCredentials, TlsFailed
from delayed_tracker.client.blocking import DelayedTrackerClient as BlockingClient
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.security import certificates
from delayed_tracker.service.server import TrackerServer
from delayed_tracker.service.settings.address import Address, Transport
from delayed_tracker.service.settings.tls import TlsSettings
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc as pb_grpc
from tests.service.harness.service_process import next_line
from tests.service.harness.settings import settings_of
from tests.service.metrics.scraping import parsed
from tests.service.security.certificates import Authority, Certificate

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)
AUTHORITY = Authority()
STRANGER = Authority("another authority")
CLIENT = AUTHORITY.issue("dispatcher-1")
GOAWAY = 7
"""Frame of HTTP/2 by which a server ends a connection without ending its calls."""
REF = pb.TrackerRef(topic="persistent://shop/orders/paid", subscription="billing")


def write(directory: Path, name: str, signed: Certificate) -> tuple[Path, Path]:
    """Write a certificate and its key as NAME.pem and NAME.key; return the paths."""
    paths = directory / f"{name}.pem", directory / f"{name}.key"
    for path, content in zip(paths, (signed.certificate, signed.key), strict=True):
        path.write_bytes(content)
    return paths


def write_files(directory: Path, authority: Authority = AUTHORITY, **times) -> dict[str, str]:
    """Write the files of a service; return its settings."""
    certificate, key = write(directory, "server", authority.issue("tracker", **times))
    trusted = directory / "trusted.pem"
    trusted.write_bytes(AUTHORITY.certificate)
    return {
        "certificate_file_path": str(certificate),
        "key_file_path": str(key),
        "trust_certs_file_path": str(trusted),
    }


class Running:
    """A service with plain, TLS and mutual TLS addresses, and its callers."""

    def __init__(self, server: TrackerServer, bound) -> None:
        self.server = server
        self.bound = bound

    def grpc_address(self, transport: Transport) -> Address:
        return next(each.address for each in self.bound.grpc_addresses if each.transport is transport)

    def http_address(self, transport: Transport) -> Address:
        return next(each.address for each in self.bound.http_addresses if each.transport is transport)

    @contextlib.asynccontextmanager
    async def stub(self, transport: Transport, ca: bytes = AUTHORITY.certificate, client=None) -> AsyncIterator:
        credentials = grpc.ssl_channel_credentials(
            ca, None if client is None else client.key, None if client is None else client.certificate
        )
        async with grpc.aio.secure_channel(str(self.grpc_address(transport)), credentials) as channel:
            yield pb_grpc.DelayedDeliveryTrackerServiceStub(channel)

    async def get(self, transport: Transport, path: str = "/metrics", client: Path | None = None, **options) -> int:
        """Return the status of a request over TLS, with the certificate of a client if given."""
        context = client_context(client, **options)
        async with httpx.AsyncClient(verify=context) as http:
            return (await http.get(f"https://{self.http_address(transport)}{path}")).status_code


def client_context(client: Path | None = None, newest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    if client is not None:
        context.load_cert_chain(client, client.with_suffix(".key"))
    if newest is not None:
        context.maximum_version = newest
    return context


@contextlib.asynccontextmanager
async def running(files: dict[str, str], **changes) -> AsyncIterator[Running]:
    addresses = "127.0.0.1:0,tls://127.0.0.1:0,mtls://127.0.0.1:0"
    given = {"storage_url": "memory:", "grpc_listen_address": addresses, "http_listen_address": addresses, **files}
    server = TrackerServer(settings_of(**{**given, **changes}))
    bound = await server.start()
    try:
        yield Running(server, bound)
    finally:
        await server.stop()


async def stats_code(stub) -> grpc.StatusCode:
    """Return the status of a call that needs a tracker, of which there is none: NOT_FOUND if the caller is let in."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF), timeout=20)
    return caught.value.code()


async def test_each_address_lets_in_whom_it_says(tmp_path: Path):
    """TLS takes anybody who trusts the authority, mutual TLS only clients whom it has signed; plain text stays plain."""
    client, _ = write(tmp_path, "client", CLIENT)
    stranger, _ = write(tmp_path, "stranger", STRANGER.issue("dispatcher-1"))
    async with running(write_files(tmp_path)) as service:
        for transport, given, code in [
            (Transport.TLS, {}, grpc.StatusCode.NOT_FOUND),
            (Transport.TLS, {"ca": STRANGER.certificate}, grpc.StatusCode.UNAVAILABLE),
            (Transport.MTLS, {"client": CLIENT}, grpc.StatusCode.NOT_FOUND),
            (Transport.MTLS, {}, grpc.StatusCode.UNAVAILABLE),
            (Transport.MTLS, {"client": STRANGER.issue("dispatcher-1")}, grpc.StatusCode.UNAVAILABLE),
            (Transport.MTLS, {"client": AUTHORITY.expired("late")}, grpc.StatusCode.UNAVAILABLE),
            (Transport.MTLS, {"client": AUTHORITY.not_yet_valid("early")}, grpc.StatusCode.UNAVAILABLE),
        ]:
            async with service.stub(transport, **given) as stub:
                assert await stats_code(stub) is code, (transport, given)
        assert await service.get(Transport.TLS) == 200
        assert await service.get(Transport.MTLS, client=client) == 200
        for wrong in (None, stranger):
            with pytest.raises(httpx.TransportError):
                await service.get(Transport.MTLS, client=wrong)
        async with httpx.AsyncClient() as http:
            assert (await http.get(f"http://{service.bound.http}/metrics")).status_code == 200
            with pytest.raises(httpx.TransportError):
                await http.get(f"http://{service.http_address(Transport.TLS)}/metrics")


async def test_old_versions_of_tls_are_refused(tmp_path: Path):
    """1.2 is taken and 1.1 is not, by both ports."""
    async with running(write_files(tmp_path)) as service:
        assert await service.get(Transport.TLS, newest=ssl.TLSVersion.TLSv1_2) == 200
        for address in (service.http_address(Transport.TLS), service.grpc_address(Transport.TLS)):
            context = client_context()
            context.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.warns(DeprecationWarning, match="TLSv1_1"):
                context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(address.host, address.port, ssl=context)


async def test_the_name_of_a_certificate_is_the_role(tmp_path: Path):
    """With the provider tls, both ports judge a client by the CN of its certificate; who has none is refused."""
    client, _ = write(tmp_path, "client", CLIENT)
    secured = {
        "authentication_enabled": True,
        "authentication_providers": "tls",
        "authorization_enabled": True,
        "super_user_roles": "dispatcher-1",
    }
    other = AUTHORITY.issue("dispatcher-2")
    other_path, _ = write(tmp_path, "other", other)
    async with running(write_files(tmp_path), **secured) as service:
        async with service.stub(Transport.MTLS, client=CLIENT) as stub:
            assert await stats_code(stub) is grpc.StatusCode.NOT_FOUND
        async with service.stub(Transport.MTLS, client=other) as stub:
            assert await stats_code(stub) is grpc.StatusCode.PERMISSION_DENIED
        async with service.stub(Transport.TLS, client=CLIENT) as stub:
            assert await stats_code(stub) is grpc.StatusCode.UNAUTHENTICATED
        assert await service.get(Transport.MTLS, client=client) == 200
        assert await service.get(Transport.MTLS, client=other_path) == 403
        assert await service.get(Transport.TLS, client=client) == 401
        assert await service.get(Transport.TLS, "/health/ready") == 200


@pytest.mark.long
async def test_both_clients_connect_with_a_certificate(tmp_path: Path):
    """The name of their certificate is their role, and a client without one is told that TLS failed."""
    secured = {
        "authentication_enabled": True,
        "authentication_providers": "tls",
        "authorization_enabled": True,
        "super_user_roles": "dispatcher-1",
    }
    certificate, key = write(tmp_path, "client", CLIENT)
    given = ClientCredentials(tls=TlsCredentials(ca=AUTHORITY.certificate, certificate=certificate, key=key))
    async with running(write_files(tmp_path), **secured) as service:
        address = str(service.grpc_address(Transport.MTLS))
        async with (
            DelayedTrackerClient.connect(address, credentials=given) as client,
            await client.open_tracker(REF.topic, REF.subscription) as session,
        ):
            assert (await session.stats()).pending_count == 0

        def blocking() -> int:
            with BlockingClient.connect(address, credentials=given) as client:
                return len(list(client.list_trackers()))

        assert await asyncio.to_thread(blocking) == 1
        nameless = ClientCredentials(tls=TlsCredentials(ca=AUTHORITY.certificate))
        with pytest.raises(TlsFailed):
            async with DelayedTrackerClient.connect(address, credentials=nameless):
                pass


async def test_new_files_are_for_new_connections(tmp_path: Path):
    """A call on an open connection goes on; new connections meet the new certificate at once, and broken files change nothing."""
    files = write_files(tmp_path)
    async with running(files) as service, service.stub(Transport.TLS) as stub:
        assert await stats_code(stub) is grpc.StatusCode.NOT_FOUND
        in_force = service.server.certificates
        assert in_force is not None
        write_files(tmp_path, STRANGER)
        in_force.refresh()
        assert await stats_code(stub) is grpc.StatusCode.NOT_FOUND
        async with service.stub(Transport.TLS) as late:
            assert await stats_code(late) is grpc.StatusCode.UNAVAILABLE
        with pytest.raises(httpx.ConnectError):
            await service.get(Transport.TLS)
        async with service.stub(Transport.TLS, ca=STRANGER.certificate) as late:
            assert await stats_code(late) is grpc.StatusCode.NOT_FOUND

        write_files(tmp_path)
        in_force.refresh()
        for broken in (b"no certificate", CLIENT.certificate):
            Path(files["certificate_file_path"]).write_bytes(broken)
            with capture_logs() as lines:
                in_force.refresh()
                in_force.refresh()
            assert [line["event"] for line in lines] == ["not reloaded, the old ones stay in force"] * 2
            assert await service.get(Transport.TLS) == 200
            async with service.stub(Transport.TLS) as late:
                assert await stats_code(late) is grpc.StatusCode.NOT_FOUND


async def test_a_certificate_that_ends_soon_is_warned_about(tmp_path: Path):
    """A week before its end, at the start and at each change."""
    with capture_logs() as lines:
        async with running(write_files(tmp_path, ends_in=6 * DAY)) as service:
            write_files(tmp_path, ends_in=8 * DAY)
            assert service.server.certificates is not None
            service.server.certificates.refresh()
            async with httpx.AsyncClient() as http:
                samples = parsed((await http.get(f"http://{service.bound.http}/metrics")).text)
    left_s = samples["delayed_tracker_certificate_not_after_timestamp_seconds",] - time.time()
    assert 7 * DAY.total_seconds() < left_s <= 8 * DAY.total_seconds()
    assert samples["delayed_tracker_security_reloads_total", "kind=certificate", "outcome=ok"] == 1
    assert [line["event"] for line in lines if "ends" in line] == [
        "the TLS certificate ends soon",
        "TLS certificate reloaded",
    ]


def test_a_pair_that_changes_while_it_is_read_is_not_taken(tmp_path: Path, monkeypatch):
    """The library that serves HTTP reads the files by itself: gRPC never gets another pair than was checked."""
    files = TlsSettings(**write_files(tmp_path))
    make = certificates._context

    def replaced_meanwhile(settings: TlsSettings) -> ssl.SSLContext:
        write_files(tmp_path)
        return make(settings)

    monkeypatch.setattr(certificates, "_context", replaced_meanwhile)
    with pytest.raises(InvalidInput, match="it changes now: try again"):
        certificates.Certificate.load(files)


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        ("server.pem", b"", "tlsCertificateFilePath"),
        ("server.key", CLIENT.key, "tlsKeyFilePath"),
        ("server.key", b"x", "tlsKeyFilePath"),
        ("trusted.pem", b"\xff", "tlsTrustCertsFilePath"),
        ("trusted.pem", b"x" * (2**20 + 1), "tlsTrustCertsFilePath"),
        ("server.pem", None, "tlsCertificateFilePath"),
    ],
)
async def test_unusable_files_are_refused_at_the_start(tmp_path: Path, name: str, content: bytes | None, key: str):
    """The error names the setting and the file, and never shows its content."""
    files = write_files(tmp_path)
    path = tmp_path / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"^{key}: .*{name}") as refused:
        async with running(files):
            pass
    assert "PRIVATE" not in str(refused.value)


async def test_probes_have_an_address_without_tls(tmp_path: Path):
    """It answers health alone, whatever the others ask for."""
    files = write_files(tmp_path)
    changes = {"grpc_listen_address": "mtls://127.0.0.1:0", "http_listen_address": "mtls://127.0.0.1:0"}
    async with running(files, health_listen_address="127.0.0.1:0", **changes) as service:
        assert service.bound.health is not None
        async with httpx.AsyncClient(base_url=f"http://{service.bound.health}") as http:
            assert (await http.get("/health/ready")).json() == {"status": "ready"}
            assert (await http.get("/health/live")).status_code == 200
            assert (await http.get("/metrics")).status_code == 404


async def test_handshakes_that_do_not_go_on(tmp_path: Path):
    """They count as connections, so that the oldest makes room for a caller who shakes hands."""
    limits = {"http_connections_max": 9, "http_client_timeout_ms": 60_000}
    async with running(write_files(tmp_path), **limits) as service:
        address = service.http_address(Transport.TLS)
        with contextlib.ExitStack() as opened:
            silent = [opened.enter_context(socket.create_connection((address.host, address.port))) for _ in range(20)]
            async with asyncio.timeout(20):
                assert await service.get(Transport.TLS, "/health/live") == 200
            # Three connections for each of the three addresses: the oldest made room.
            silent[0].settimeout(20)
            assert await asyncio.to_thread(silent[0].recv, 1) == b""


async def test_what_is_no_handshake_leaves_few_lines(tmp_path: Path):
    """Hundreds of malformed ones are refused, with one line of the log a minute, and others are served meanwhile."""
    limits = {"http_client_timeout_ms": 2_000, "grpc_handshake_timeout_ms": 2_000}
    async with running(write_files(tmp_path), **limits) as service:
        with capture_logs() as lines:
            for address in (service.http_address(Transport.TLS), service.grpc_address(Transport.TLS)):
                for number in range(200):
                    reader, writer = await asyncio.open_connection(address.host, address.port)
                    writer.write(bytes([number % 256]) * 100)
                    with contextlib.suppress(ConnectionError):
                        await asyncio.wait_for(reader.read(), 20)
                    writer.close()
            assert await service.get(Transport.TLS, "/health/live") == 200
            async with service.stub(Transport.TLS) as stub:
                assert await stats_code(stub) is grpc.StatusCode.NOT_FOUND
        assert len(lines) <= 2


async def test_handshakes_have_an_end(tmp_path: Path):
    """A client that says nothing is closed after the time that a request may take."""
    async with running(write_files(tmp_path), http_client_timeout_ms=50) as service:
        address = service.http_address(Transport.TLS)
        with socket.create_connection((address.host, address.port), timeout=20) as silent:
            assert await asyncio.to_thread(silent.recv, 1) == b""


async def test_what_is_no_handshake_leaves_no_line_of_grpc(tmp_path: Path):
    """The library would write one for each to the standard error of the process."""
    files = write_files(tmp_path)
    given = {
        "bucketSnapshotStorageUrl": "memory:",
        "grpcListenAddress": "tls://127.0.0.1:0",
        "httpListenAddress": "127.0.0.1:0",
        "tlsCertificateFilePath": files["certificate_file_path"],
        "tlsKeyFilePath": files["key_file_path"],
        "logFormat": "json",
    }
    settings = [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "delayed_tracker.cli", "serve", *settings]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        host, _, port = (await next_line(process, "ready"))["grpc"].rpartition(":")
        for _ in range(50):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 20)
            writer.close()
    finally:
        process.terminate()
        _, written = await process.communicate()
    events = [json.loads(line)["event"] for line in written.splitlines()]
    # The service loads its kernels a moment after its start, which may come before its end.
    assert [event for event in events if "kernels" not in event] == ["stopping", "stopped"]


@pytest.mark.long
async def test_connections_of_tls_have_an_age(tmp_path: Path):
    """At its age a client is told to connect anew, which meets the certificate of that time; its calls may end."""
    async with running(write_files(tmp_path), grpc_connection_age_max_ms=1_000) as service:
        address = service.grpc_address(Transport.TLS)
        context = client_context()
        context.set_alpn_protocols(["h2"])
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
        empty_settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + empty_settings)
        kind = 0
        async with asyncio.timeout(30):
            while kind != GOAWAY:
                header = await reader.readexactly(9)
                kind = header[3]
                await reader.readexactly(int.from_bytes(header[:3], "big"))
        writer.close()
