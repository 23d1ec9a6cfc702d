"""Streams whose clients stop reading and leave: how long others wait meanwhile, and what the log says of it.

python -m tests.benchmarks.abuse.abandoned [--streams N] [--console]

Each stream sends 20,000 positions a message, all due, so that each answer lists as many offsets; the client does not read them.
"""

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc
from tests.benchmarks.abuse.flood import checking
from tests.benchmarks.inputs.serving import until_kernels_are_loaded
from tests.benchmarks.machine import ProcessMeter

POSITIONS: Final = 20_000
_STALLED_S: Final = 1.0
"""A write that takes longer, in seconds, is blocked by unread answers."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Effect of abandoned streams on a service."""

    written_count: int
    """Messages that the service took before it blocked all streams."""
    peak_bytes: int
    longest_check_s: float
    """Longest health check from the first message to a second after the last stream was cancelled, in seconds."""
    log_lines: int
    log_bytes: int


async def abandon(service: ServiceProcess, *, streams: int) -> Abandoned:
    """Open streams, each over its own connection, send until they are blocked, and cancel them together."""
    await until_kernels_are_loaded(service)
    log, logged = service.log, service.log.stat().st_size
    meter = ProcessMeter(service.process.pid)
    channels = [_channel(service.grpc_address, number) for number in range(streams)]
    try:
        stubs = [tracker_pb2_grpc.DelayedDeliveryTrackerServiceStub(channel) for channel in channels]
        messages = [await _message(stub, number) for number, stub in enumerate(stubs)]
        with checking(service.grpc_address) as longest_s:
            calls = [stub.AddMessagesStream() for stub in stubs]
            pairs = zip(calls, messages, strict=True)
            written = await asyncio.gather(*(_write_until_held_back(call, message) for call, message in pairs))
            for call in calls:
                call.cancel()
            await asyncio.sleep(_STALLED_S)
            waited_s = longest_s()
    finally:
        for channel in channels:
            await channel.close(None)
    lines = log.read_bytes()[logged:]
    return Abandoned(sum(written), meter.peak_bytes, waited_s, lines.count(b"\n"), len(lines))


def _channel(address: str, number: int) -> grpc.aio.Channel:
    # The window stays at 64 KiB, and equal options would share a connection.
    options = (("grpc.http2.bdp_probe", 0), ("abandoned.number", number))
    return grpc.aio.insecure_channel(address, options=options)


async def _message(
    stub: "tracker_pb2_grpc.DelayedDeliveryTrackerServiceAsyncStub", number: int
) -> pb.AddMessagesStreamRequest:
    tracker = pb.TrackerRef(topic=f"persistent://bench/abandoned/{number}", subscription="s")
    opened = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=tracker, owner="bench"))
    request = pb.AddMessagesRequest(tracker=tracker, epoch=opened.epoch)
    request.deliver_at_ms.extend([1] * POSITIONS)
    request.ledger_ids.extend([1] * POSITIONS)
    request.entry_ids.extend(range(POSITIONS))
    return pb.AddMessagesStreamRequest(add=request)


async def _write_until_held_back(
    call: "grpc.aio.StreamStreamCall[pb.AddMessagesStreamRequest, pb.AddMessagesStreamResponse]",
    message: pb.AddMessagesStreamRequest,
) -> int:
    written_count = 0
    while True:
        try:
            async with asyncio.timeout(_STALLED_S):
                await call.write(message)
        except TimeoutError:
            return written_count
        written_count += 1


async def main(options: argparse.Namespace) -> None:
    """Print the result for one service."""
    with tempfile.TemporaryDirectory(prefix="abandoned-") as directory:
        url = f"sqlite:{Path(directory) / 'tracker.db'}"
        settings = {"logFormat": "console" if options.console else "json"}
        service = await ServiceProcess.start(Path(directory), storage_url=url, settings=settings)
        try:
            begun = time.perf_counter()
            found = await abandon(service, streams=options.streams)
            took_s = time.perf_counter() - begun
        finally:
            await service.ensure_stopped()
    print(
        f"{options.streams} streams, {found.written_count} messages in {took_s:.1f} s: longest health check"
        f" {found.longest_check_s * 1e3:.0f} ms, peak {found.peak_bytes / 1e6:.0f} MB,"
        f" {found.log_lines} log lines of {found.log_bytes} bytes"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--console", action="store_true", help="log for people instead of JSON")
    asyncio.run(main(parser.parse_args()))
