"""Waits of others, and lines of the log, while strangers send what is no handshake and no token, or nothing.

python -m tests.benchmarks.abuse.strangers [--handshakes N] [--tokens N] [--silent N]
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import resource
import socket
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import grpc

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc as pb_grpc
from tests.benchmarks.inputs.serving import until_kernels_are_loaded
from tests.benchmarks.machine import ProcessMeter
from tests.service.security.certificates import Authority
from tests.service.security.tokens import OTHER_SECRET, SECRET, data_url, token

AT_A_TIME: Final = 200
HANDSHAKE_MS: Final = 2_000
MALFORMED: Final = (
    b"GET / HTTP/1.1\r\nhost: tracker\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    bytes(300),
    bytes([0x16, 3, 1, 0x40, 0]) + b"\xff" * 200,
    bytes([0x16, 3, 3, 0, 4, 1, 0, 0xFF, 0xFF]) + b"x" * 60,
)
"""Plain text, zeros, and records of TLS with lengths that are not theirs."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Effect of one attack."""

    what: str
    seconds: float
    outcomes: Counter[str]
    worst_wait_ms: float
    """Longest of the consecutive calls of another caller, over TLS with a token."""
    log_lines: int
    peak_mb: float


@contextmanager
def calling(address: str, ca: bytes, given: str) -> Iterator:
    """Make calls one after the other in another process. Yields a function that ends them and returns the longest."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    over = context.Event()
    caller = context.Process(target=_call, args=(address, ca, given, over, theirs))
    caller.start()
    ours.recv()

    def longest_ms() -> float:
        over.set()
        return 1e3 * ours.recv()

    try:
        yield longest_ms
    finally:
        over.set()
        caller.join()


def _call(address: str, ca: bytes, given: str, over: Event, worst: Connection) -> None:
    longest_s = 0.0
    metadata = (("authorization", f"Bearer {given}"),)
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(ca)) as channel:
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
        stub.ListTrackers(pb.ListTrackersRequest(), metadata=metadata)
        worst.send(longest_s)
        while not over.is_set():
            begun = time.perf_counter()
            stub.ListTrackers(pb.ListTrackersRequest(), metadata=metadata)
            longest_s = max(longest_s, time.perf_counter() - begun)
    worst.send(longest_s)


async def malformed_handshakes(address: str, count: int) -> Counter[str]:
    """Send what is no handshake, over a connection of its own each, and wait until the service closes it."""
    host, _, port = address.rpartition(":")
    outcomes: Counter[str] = Counter()
    numbers = iter(range(count))

    async def stranger() -> None:
        for number in numbers:
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(MALFORMED[number % len(MALFORMED)])
                async with asyncio.timeout(2 * HANDSHAKE_MS / 1e3):
                    while await reader.read(4_096):
                        pass
                outcomes["closed"] += 1
            except ConnectionError:
                outcomes["closed"] += 1
            except TimeoutError:
                outcomes["open"] += 1
            finally:
                writer.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_A_TIME):
            tasks.create_task(stranger())
    return outcomes


async def malformed_tokens(address: str, ca: bytes, count: int) -> Counter[str]:
    """Make calls with tokens that are none, or are not of the service's key."""
    forged = token("root", key=OTHER_SECRET)
    head, body, signature = token("root").split(".")
    kinds = (
        forged,
        f"{head}.{body}.",
        f"{head}.{body[:-2]}AA.{signature}",
        "a.b.c",
        "." * 5_000,
        "e30." * 1_000,
        f"eyJhbGciOiJub25lIn0.{body}.",
    )
    outcomes: Counter[str] = Counter()
    numbers = iter(range(count))
    async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca)) as channel:
        stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)

        async def stranger() -> None:
            for number in numbers:
                metadata = (("authorization", f"Bearer {kinds[number % len(kinds)]}"),)
                try:
                    await stub.ListTrackers(pb.ListTrackersRequest(), metadata=metadata)
                    outcomes["OK"] += 1
                except grpc.aio.AioRpcError as error:
                    outcomes[error.code().name] += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(AT_A_TIME):
                tasks.create_task(stranger())
    return outcomes


async def silent_handshakes(address: str, count: int) -> Counter[str]:
    """Open connections at once and say nothing; count those that the service has closed after its time-out."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as opened:
        silent = [opened.enter_context(socket.create_connection((host, int(port)))) for _ in range(count)]
        for each in silent:
            each.setblocking(False)
        loop = asyncio.get_running_loop()

        async def closed(each: socket.socket) -> str:
            try:
                async with asyncio.timeout(3 * HANDSHAKE_MS / 1e3):
                    return "open" if await loop.sock_recv(each, 1) else "closed"
            except ConnectionError:
                return "closed"
            except TimeoutError:
                return "open"

        return Counter(await asyncio.gather(*map(closed, silent)))


async def attacks(directory: Path, handshakes: int, tokens: int, silent: int) -> AsyncIterator[Seen]:
    """Start a service and attack its ports in turn."""
    authority = Authority()
    issued = authority.issue("tracker")
    for name, content in (("tracker.pem", issued.certificate), ("tracker.key", issued.key)):
        (directory / name).write_bytes(content)
    settings = {
        "grpcListenAddress": "tls://127.0.0.1:0",
        "httpListenAddress": "tls://127.0.0.1:0",
        "tlsCertificateFilePath": str(directory / "tracker.pem"),
        "tlsKeyFilePath": str(directory / "tracker.key"),
        "authenticationEnabled": "true",
        "authenticationProviders": "token",
        "tokenSecretKey": data_url(SECRET),
        "logFormat": "json",
        "grpcHandshakeTimeoutMillis": str(HANDSHAKE_MS),
        "httpClientTimeoutMillis": str(HANDSHAKE_MS),
    }
    service = await ServiceProcess.start(directory, storage_url="memory:", settings=settings)
    meter = ProcessMeter(service.process.pid)
    ca, given = authority.certificate, token("root")
    ways = [
        (f"{handshakes:,} malformed handshakes, gRPC", lambda: malformed_handshakes(service.grpc_address, handshakes)),
        (f"{handshakes:,} malformed handshakes, HTTP", lambda: malformed_handshakes(service.http_address, handshakes)),
        (f"{tokens:,} malformed tokens", lambda: malformed_tokens(service.grpc_address, ca, tokens)),
        (f"{silent:,} silent handshakes at once, gRPC", lambda: silent_handshakes(service.grpc_address, silent)),
        (f"{silent:,} silent handshakes at once, HTTP", lambda: silent_handshakes(service.http_address, silent)),
    ]
    try:
        await until_kernels_are_loaded(service)
        for what, attack in ways:
            lines, begun = _line_count(service.log), time.monotonic()
            meter.reset_peak()
            with calling(service.grpc_address, ca, given) as longest_ms:
                outcomes = await attack()
                worst = longest_ms()
            peak_mb = meter.peak_bytes / 1e6
            yield Seen(what, time.monotonic() - begun, outcomes, worst, _line_count(service.log) - lines, peak_mb)
        await service.stop()
    finally:
        await service.ensure_stopped()


def _line_count(log: Path) -> int:
    return len(log.read_bytes().splitlines())


async def main(options: argparse.Namespace) -> None:
    """Attack a service and print what others noticed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="strangers-") as place:
        async for each in attacks(Path(place), options.handshakes, options.tokens, options.silent):
            said = ", ".join(f"{count:,} {outcome}" for outcome, count in each.outcomes.items())
            print(
                f"{each.what}: {said} in {each.seconds:.0f} s; others wait {each.worst_wait_ms:.1f} ms at most; "
                f"{each.log_lines} lines of the log; peak {each.peak_mb:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--handshakes", type=int, default=10_000)
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--silent", type=int, default=1_000)
    asyncio.run(main(parser.parse_args()))
