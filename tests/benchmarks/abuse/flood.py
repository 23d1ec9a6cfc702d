"""The memory of a service under many large calls at once, method by method, and how long small calls wait meanwhile.

python -m tests.benchmarks.abuse.flood [--calls N] [--megabytes N] [--only METHOD ...] [--set KEY=VALUE ...]

The requests are zeros, as large as asked for: what matters is that they are received, whatever becomes of them.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.benchmarks.inputs.serving import until_kernels_are_loaded
from tests.benchmarks.machine import ProcessMeter

_TRACKER: Final = "/delayed_tracker.v1.DelayedDeliveryTrackerService/"
UNARY: Final = (
    *(
        f"{_TRACKER}{method}"
        for method in (
            "AddMessages",
            "AckMessages",
            "ContainsMessages",
            "FilterEntries",
            "PollScheduledMessages",
        )
    ),
    "/delayed_tracker.v1.LedgerService/ReadEntries",
    "/grpc.health.v1.Health/Check",
)
STREAMS: Final = (
    *(f"{_TRACKER}{method}" for method in ("AddMessagesStream", "ImportSnapshots")),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.health.v1.Health/Watch",
)
_CALL_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Flooded:
    """Effect of many large calls of one method on a service."""

    before_bytes: int
    """Resident bytes."""
    peak_bytes: int
    codes: Counter[str]
    longest_check_s: float
    """Longest of the consecutive health checks during the calls, in seconds."""


async def flood(service: ServiceProcess, method: str, *, calls: int, message_bytes: int) -> Flooded:
    """Make many calls of a method at the same time, each over its own connection."""
    await until_kernels_are_loaded(service)
    meter = ProcessMeter(service.process.pid)
    before_bytes = meter.reset_peak()
    channels = [_channel(service.grpc_address, number) for number in range(calls)]
    message = _unknown_field(message_bytes)
    try:
        for channel in channels:
            await channel.channel_ready()
        with checking(service.grpc_address) as longest_s:
            codes = Counter(await asyncio.gather(*(_code(channel, method, message) for channel in channels)))
            waited_s = longest_s()
    finally:
        for channel in channels:
            await channel.close(None)
    return Flooded(before_bytes, meter.peak_bytes, codes, waited_s)


def _channel(address: str, number: int) -> grpc.aio.Channel:
    options = (("grpc.max_send_message_length", -1), ("flood.number", number))  # equal options would share a connection
    return grpc.aio.insecure_channel(address, options=options)


def _unknown_field(size: int) -> bytes:
    """Return a bytes field that no message declares, so that the request of every method can carry it."""
    tag, length = bytes((0xFA, 0x3F)), size - 7
    return tag + bytes(length >> 7 * place & 0x7F | (0x80 if place < 4 else 0) for place in range(5)) + bytes(length)


async def _code(channel: grpc.aio.Channel, method: str, message: bytes) -> str:
    try:
        if method in STREAMS:
            # The first answer, or the end of the stream: a health watch never ends.
            await channel.stream_stream(method, None, None)(_once(message), timeout=_CALL_TIMEOUT_S).read()
        else:
            await channel.unary_unary(method, None, None)(message, timeout=_CALL_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def _once(message: bytes) -> AsyncIterator[bytes]:
    yield message


def _check(address: str, stopped: Event, worst: Connection) -> None:
    """Make health checks one after the other, in a separate process, and send the longest time of one."""
    longest_s = 0.0
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        stub.Check(health_pb2.HealthCheckRequest())
        worst.send(longest_s)
        while not stopped.is_set():
            begun = time.perf_counter()
            stub.Check(health_pb2.HealthCheckRequest())
            longest_s = max(longest_s, time.perf_counter() - begun)
    worst.send(longest_s)


@contextmanager
def checking(address: str) -> Iterator[Callable[[], float]]:
    """Check the health of a service until the yielded function is called; it returns the longest time, in seconds."""
    spawn = multiprocessing.get_context("spawn")
    stopped = spawn.Event()
    here, there = spawn.Pipe()
    process = spawn.Process(target=_check, args=(address, stopped, there))
    process.start()
    here.recv()

    def longest_s() -> float:
        stopped.set()
        waited: float = here.recv()
        return waited

    try:
        yield longest_s
    finally:
        stopped.set()
        process.join()


async def main(options: argparse.Namespace) -> None:
    """Print a line for each method, measured on its own service."""
    settings = dict(pair.split("=", 1) for pair in options.set)
    print("method                                    before MB   peak MB   worst wait ms   statuses")
    for method in UNARY + STREAMS:
        if options.only and method.rsplit("/", 1)[1] not in options.only:
            continue
        with tempfile.TemporaryDirectory(prefix="flood-") as directory:
            url = f"sqlite:{Path(directory) / 'tracker.db'}"
            service = await ServiceProcess.start(Path(directory), storage_url=url, settings=settings)
            try:
                found = await flood(
                    service, method, calls=options.calls, message_bytes=int(options.megabytes * 1_000_000)
                )
            finally:
                await service.ensure_stopped()
        print(
            f"{method.rsplit('/', 1)[1]:40}{found.before_bytes / 1e6:11.0f}{found.peak_bytes / 1e6:10.0f}{found.longest_check_s * 1e3:16.0f}"
            f"   {', '.join(f'{code} {count}' for code, count in found.codes.items())}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--megabytes", type=float, default=15.5)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    asyncio.run(main(parser.parse_args()))
