"""All that a service and its commands write in a life with secrets, up to a crash, is searched for these secrets."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import ClientCredentials, DelayedTrackerClient, TlsCredentials, TokenFile, TrackerCallError
from tests.service.harness.shell import until
from tests.service.security.certificates import Authority
from tests.service.security.secured import RULES, SUBSCRIPTION, TOPIC, write_rules
from tests.service.security.tokens import OTHER_SECRET, SECRET, data_url, token

pytestmark = pytest.mark.slow
RELOADED_S = 20


class Collector(TraceServiceServicer):
    """Keeps the bytes of all spans."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def Export(self, request, context):
        self.received.append(request.SerializeToString())
        return ExportTraceServiceResponse()


@contextlib.contextmanager
def collecting():
    collector, server = Collector(), grpc.server(ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def secrets_of(key_pem: bytes, tokens: list[str]) -> list[bytes]:
    """Return what nothing may contain: tokens and their signatures, the key of tokens in each form, lines of the TLS key."""
    lines = [line for line in key_pem.splitlines() if line and not line.startswith(b"-----")]
    signatures = [each.rpartition(".")[2].encode() for each in tokens]
    return [*lines, *signatures, *(each.encode() for each in tokens), data_url(SECRET)[15:].encode(), SECRET]


async def until_logged(log: Path, text: bytes) -> None:
    await until(lambda: text in log.read_bytes(), within_s=RELOADED_S)


async def test_no_secret_is_in_any_output(tmp_path, monkeypatch):
    """Logs at debug, errors, metrics, traces, config, the ready file, and what is left of a crash."""
    authority = Authority()
    issued = authority.issue("tracker")
    certificate, key, rules, token_file = (tmp_path / name for name in ("c.pem", "k.pem", "rules.json", "token"))
    certificate.write_bytes(issued.certificate)
    key.write_bytes(issued.key)
    write_rules(rules, RULES)
    good, bad = token("shop"), token("shop", key=OTHER_SECRET)
    seen: dict[str, bytes] = {}
    with collecting() as (collector, endpoint):
        settings = {
            "grpcListenAddress": "tls://127.0.0.1:0",
            "httpListenAddress": "tls://127.0.0.1:0",
            "tlsCertificateFilePath": str(certificate),
            "tlsKeyFilePath": str(key),
            "tlsCertRefreshCheckDurationSec": "1",
            "authenticationEnabled": "true",
            "authenticationProviders": "token",
            "tokenSecretKey": data_url(SECRET),
            "authorizationEnabled": "true",
            "authorizationRulesFilePath": str(rules),
            "superUserRoles": "root",
            "logLevel": "debug",
            "tracingEndpoint": endpoint,
        }
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        service = await ServiceProcess.start(tmp_path, storage_url=f"sqlite:{tmp_path}/tracker.db", settings=settings)
        try:
            tls = TlsCredentials(ca=authority.certificate)
            errors = []
            for given in (good, bad):
                token_file.write_text(given)
                credentials = ClientCredentials(tls=tls, token=TokenFile(token_file))
                async with DelayedTrackerClient.connect(service.grpc_address, credentials=credentials) as client:
                    try:
                        async with await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
                            await session.add_columns([4_000_000_000_000], [1], [1])
                        await client.open_tracker(TOPIC, "other")
                    except TrackerCallError as error:
                        errors.append(f"{error!r} {error} {error.metadata} {credentials!r} {client!r}")
            seen["errors"] = "\n".join(errors).encode()
            context = httpx.create_ssl_context(verify=True)
            context.load_verify_locations(cadata=authority.certificate.decode())
            async with httpx.AsyncClient(verify=context, base_url=f"https://{service.http_address}") as http:
                for given in (good, bad, token("root")):
                    answer = await http.get("/metrics", headers={"authorization": f"Bearer {given}"})
                    seen[f"metrics {answer.status_code}"] = answer.content
            # Files that cannot be used, one of them with a key in the place of the certificate.
            certificate.write_bytes(issued.key)
            await until_logged(service.log, b"TLS certificate")
            rules.write_text(good)
            await until_logged(service.log, b"rules.json")
            service.process.send_signal(signal.SIGABRT)
            await service.process.wait()
        finally:
            await service.ensure_stopped()
        seen["log"] = service.log.read_bytes()
        seen["traces"] = b"".join(collector.received)
    environment = {
        **os.environ,
        "TRACKER_TOKEN_SECRET_KEY": data_url(SECRET),
        "TRACKER_AUTHENTICATION_PROVIDERS": "token",
    }
    for options in ([], ["--json"], ["--set", "tokenSecretKye=" + data_url(SECRET)]):
        command = [sys.executable, "-m", "delayed_tracker.cli", "config", *options]
        ran = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, check=False)
        seen[f"config {options}"[:20]] = ran.stdout + ran.stderr
    assert {"metrics 200", "metrics 401", "metrics 403"} <= seen.keys()
    assert len(errors) == 2
    assert all(seen.values()), {name: len(text) for name, text in seen.items()}
    found = [
        (name, secret)
        for name, text in seen.items()
        for secret in secrets_of(issued.key, [good, bad])
        if secret in text
    ]
    assert not found
