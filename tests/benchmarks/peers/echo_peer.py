"""An echo over grpc.aio, measured in the same run: the part of a call that is not the tracker's.

The server is a process of its own and gives each request back as it is; the client sends the bytes of an add.
"""

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import grpc.aio

from tests.benchmarks.goals import Peer
from tests.benchmarks.measure import Reading, Run, Stopwatch, require

METHOD: Final = "/delayed_tracker.benchmarks.Echo/Echo"
_INDEX_BYTES: Final = 15
"""Bytes of an index in a request, about: deadline, ledger and entry."""
_HEAD_BYTES: Final = 50
"""Bytes of the rest of a request, about."""


class _Echo(grpc.GenericRpcHandler):
    """Handles one method, without an encoding."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(_echo) if handler_call_details.method == METHOD else None


async def _echo(request: bytes, _: grpc.aio.ServicerContext) -> bytes:
    return request


async def serve() -> None:
    """Serve on a free port of the loopback interface, print it, and end with the standard input."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Echo(),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


@asynccontextmanager
async def _server() -> AsyncIterator[tuple[grpc.aio.Channel, int]]:
    """Yield a connection to a server process, and its number."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.peers.echo_peer",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel, process.pid
    finally:
        process.stdin.close()
        await process.wait()


async def echo_calls(run: Run, sizes: Sequence[int]) -> dict[int, float]:
    """Measure calls of as many bytes as adds of these sizes, one at a time, into ``run.peers``.

    Returns: the median microseconds of a call, by size.
    """
    medians: dict[int, float] = {}
    async with _server() as (channel, pid):
        echo = channel.unary_unary(METHOD)
        for size in sizes:
            request = bytes(_HEAD_BYTES + _INDEX_BYTES * size)
            calls = max(1, min(run.scale.calls, run.scale.adds // size))
            readings: list[Reading] = []
            for counts in run.repeats(f"echo of {len(request):,} bytes"):
                with Stopwatch(served_by=pid) as watch:
                    for _ in range(calls):
                        answer = await echo(request)
                require("echo", answer == request)
                if counts:
                    readings.append(watch.reading)
            medians[size] = statistics.median(reading.wall_ns / 1e3 / calls for reading in readings)
            run.peers[f"grpc call {size}"] = Peer("echo", medians[size], is_measured=True)
            run.note(f"peer: echo of {len(request):,} bytes: {medians[size]:.0f} us per call")
    return medians


if __name__ == "__main__":
    asyncio.run(serve())
