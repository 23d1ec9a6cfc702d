"""The resident memory of a service while several processes add as fast as it takes, each second, as a table.

python -m tests.benchmarks.abuse.memory_curve [--file-kib N] [--seconds N] [--adders N] [--stream] [--set KEY=VALUE ...]

``--file-kib`` has every write beyond so many KiB of a file fail, as ``ulimit -f`` does: the disk is full.
"""

import argparse
import asyncio
import json
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.benchmarks.inputs.serving import until_kernels_are_loaded
from tests.benchmarks.machine import ProcessMeter
from tests.repository.project_tree import ROOT

_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Added:
    """Results of the adds of one process."""

    accepted: int
    """Accepted indexes."""
    overloaded: int
    """Calls that were still refused when their time was over."""
    without_pause: int
    """Refusals among them that did not say when to try again."""
    unanswered: int
    """Calls without an answer in time."""
    longest_s: float
    """Longest call, in seconds."""


def limit_files(process: ServiceProcess, file_bytes: int) -> None:
    """Make every write of a process beyond so many bytes of a file fail; -1 removes the limit."""
    pid = process.process.pid
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (file_bytes, hard))


@asynccontextmanager
async def adding(address: str, count: int, *options: str) -> AsyncIterator[list[Added]]:
    """Run processes that add to one tracker each, from its open on; after the block the list holds their results."""
    processes = [
        await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "tests.benchmarks.inputs.adder",
                address,
                f"persistent://lab/main/{number}",
                *options,
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        for number in range(count)
    ]
    added: list[Added] = []
    try:
        for process in processes:
            assert process.stdout is not None
            await process.stdout.readline()
        yield added
        # An empty input closes stdin.
        for answer, _ in await asyncio.gather(*(process.communicate(b"") for process in processes)):
            added.append(Added(**json.loads(answer)))
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def each_second(meter: ProcessMeter, seconds: int) -> list[int]:
    """Print the resident memory of a process each second, and return it."""
    curve_bytes = []
    for second in range(1, seconds + 1):
        await asyncio.sleep(_EVERY_S)
        curve_bytes.append(meter.resident_bytes)
        print(f"{second:4}  {curve_bytes[-1] / 1e6:11.0f}", flush=True)
    return curve_bytes


async def curve(options: argparse.Namespace, settings: Mapping[str, str]) -> None:
    """Print a line each second, and the results of the adding processes at the end."""
    with tempfile.TemporaryDirectory(prefix="memory-curve-") as directory:
        storage_url = f"sqlite:{Path(directory) / 'tracker.db'}"
        service = await ServiceProcess.start(Path(directory), storage_url=storage_url, settings=dict(settings))
        try:
            await until_kernels_are_loaded(service)
            meter = ProcessMeter(service.process.pid)
            print(f"   s  resident MB\n   0  {meter.resident_bytes / 1e6:11.0f}", flush=True)
            async with adding(service.grpc_address, options.adders, *(["--stream"] if options.stream else [])) as added:
                if options.file_kib:
                    limit_files(service, options.file_kib * 1024)
                await each_second(meter, options.seconds)
            for number, one in enumerate(added):
                print(
                    f"process {number}: {one.accepted:,} accepted, {one.overloaded} calls refused until their time was"
                    f" over, the longest call took {one.longest_s:.1f} s"
                )
            print(f"{sum(one.accepted for one in added):,} accepted in all; peak {meter.peak_bytes / 1e6:.0f} MB")
        finally:
            await service.ensure_stopped()


def main() -> None:
    """Run one measurement."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.abuse.memory_curve", description=__doc__)
    parser.add_argument("--file-kib", type=int, default=0, metavar="N", help="size of the largest file; 0: no limit")
    parser.add_argument("--seconds", type=int, default=30, metavar="N", help="how long")
    parser.add_argument("--adders", type=int, default=3, metavar="N", help="how many processes add")
    parser.add_argument("--stream", action="store_true", help="add over streams instead of calls")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the service")
    options = parser.parse_args()
    asyncio.run(curve(options, dict(pair.partition("=")[::2] for pair in options.set)))


if __name__ == "__main__":
    main()
