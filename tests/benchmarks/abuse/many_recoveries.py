"""A service with many trackers, killed and started again: how soon it listens, and how soon a tracker answers.

python -m tests.benchmarks.abuse.many_recoveries [--trackers N] [--indexes N] [--behind N] [--repeats N] [--all]

Half of each tracker's indexes are in a bucket, the other half only in the add log, as the service wrote them. After each
kill -9 one tracker is opened and asked about positions of both halves, while another process opens others behind it.
``--all`` opens all of them at the end.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import numpy as np

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import DelayedTrackerClient, TrackerSession
from tests.benchmarks.inputs.serving import CLIENT, at_a_time, until
from tests.benchmarks.machine import ProcessMeter
from tests.benchmarks.measure import require

WEEK_MS: Final = 604_800_000
_SUBSCRIPTION: Final = "many"
_IN_FLIGHT: Final = 8
_BATCH: Final = 10_000


@dataclass(frozen=True, slots=True)
class Recovered:
    """One start of a service that was killed."""

    ready_ms: float
    """From the start of the process to the first answer of its port."""
    first_ms: float
    """From then to the answer of the tracker that was asked for first, opening included."""
    later_ms: float
    """Longest time until it answered when it was asked again, while those behind it recovered."""
    behind_ms: float
    """From then until those behind it have answered, too."""
    idle_bytes: int
    """Resident memory before the first open."""
    resident_bytes: int
    """Resident memory when all of them are open."""


async def fill(service: ServiceProcess, trackers: int, indexes: int) -> None:
    """Add a ledger of half the indexes to each tracker, then another one, which seals the first."""
    async with DelayedTrackerClient.connect(service.grpc_address, settings=CLIENT) as client:

        async def fill_one(number: int) -> None:
            async with await client.open_tracker(_topic(number), _SUBSCRIPTION) as session:
                for ledger_id in (1, 2):
                    await _add(session, ledger_id, indexes // 2)

                async def is_stored() -> bool:
                    return (await session.stats()).snapshot_bytes > 0

                await until(is_stored)

        await at_a_time(_IN_FLIGHT, fill_one, range(trackers))


async def recover(
    service: ServiceProcess, others: ProcessPoolExecutor, *, began_s: float, numbers: range, indexes: int
) -> Recovered:
    """Open the trackers, the first one first and the others at the same time, and verify what each of them answers."""
    loop = asyncio.get_running_loop()
    async with DelayedTrackerClient.connect(service.grpc_address, settings=CLIENT) as client:
        ready_s = time.perf_counter()
        idle_bytes = ProcessMeter(service.process.pid).resident_bytes
        asked = asyncio.create_task(_answered(client, numbers[0], indexes))
        await asyncio.sleep(0)  # it has sent its call
        behind = loop.run_in_executor(others, open_behind, service.grpc_address, numbers[1:], indexes)
        first_ms = (await asked - ready_s) * 1e3
        later_ms = 0.0
        async with await client.open_tracker(_topic(numbers[0]), _SUBSCRIPTION) as session:
            while not behind.done():
                asked_s = time.perf_counter()
                await _ask(session, indexes)
                later_ms = max(later_ms, (time.perf_counter() - asked_s) * 1e3)
        await behind
    behind_ms = (time.perf_counter() - ready_s) * 1e3
    resident_bytes = ProcessMeter(service.process.pid).resident_bytes
    return Recovered((ready_s - began_s) * 1e3, first_ms, later_ms, behind_ms, idle_bytes, resident_bytes)


def open_behind(address: str, numbers: Sequence[int], indexes: int) -> None:
    """Open trackers at the same time, and verify what each of them answers; in a process of its own."""

    async def answered() -> None:
        async with DelayedTrackerClient.connect(address, settings=CLIENT) as client:
            await asyncio.gather(*(_answered(client, number, indexes) for number in numbers))

    asyncio.run(answered())


async def _answered(client: DelayedTrackerClient, number: int, indexes: int) -> float:
    """Return the time at which a tracker has answered correctly."""
    async with await client.open_tracker(_topic(number), _SUBSCRIPTION) as session:
        await _ask(session, indexes)
        answered_s = time.perf_counter()
        require("recovery", session.opened.recovered_count == 2 * (indexes // 2))
    return answered_s


async def _ask(session: TrackerSession, indexes: int) -> None:
    half = indexes // 2
    answer = await session.contains([1, 1, 2, 2], [half - 1, half, half - 1, half])
    require("contains", answer == [True, False, True, False])


async def _add(session: TrackerSession, ledger_id: int, count: int) -> None:
    deadlines = (
        time.time_ns() // 1_000_000 + WEEK_MS // 7 + np.random.default_rng(ledger_id).integers(0, WEEK_MS, count)
    )
    for start in range(0, count, _BATCH):
        entries = np.arange(start, min(start + _BATCH, count))
        part = deadlines[start : start + _BATCH]
        answer = await session.add_columns(part, np.full(len(part), ledger_id), entries)
        require("adds", answer.added_count == len(part))


def _topic(number: int) -> str:
    return f"persistent://lab/main/topic-{number}"


async def main(options: argparse.Namespace) -> None:
    """Print the start of an empty service, then a line for each start of the full one."""
    settings = {"delayedDeliveryMinIndexCountPerBucket": str(options.indexes // 2)}
    with tempfile.TemporaryDirectory(prefix="many-recoveries-") as name:
        directory = Path(name)
        url = f"sqlite:{directory / 'tracker.db'}"

        async def started(storage_url: str) -> tuple[ServiceProcess, float]:
            began_s = time.perf_counter()
            return await ServiceProcess.start(directory, storage_url=storage_url, settings=settings), began_s

        empty_ms = []
        for number in range(options.repeats):
            service, began_s = await started(f"sqlite:{directory / f'empty-{number}.db'}")
            async with DelayedTrackerClient.connect(service.grpc_address):
                empty_ms.append((time.perf_counter() - began_s) * 1e3)
            await service.kill()
        print(f"an empty service listens after {statistics.median(empty_ms):,.0f} ms", flush=True)
        others = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        service, began_s = await started(url)
        try:
            # It has imported all it needs when it is timed.
            others.submit(open_behind, service.grpc_address, (), options.indexes).result()
            await fill(service, options.trackers, options.indexes)
            print(f"filled in {time.perf_counter() - began_s:.0f} s: {_sizes(directory)}", flush=True)
            print("listens ms   first answer ms   longest later ms   all behind ms   idle MB   resident MB")
            # Other trackers each time, so that each of them is recovered for the first time.
            group = 1 + options.behind
            groups = [range(first, first + group) for first in range(0, options.repeats * group, group)]
            for numbers in [*groups, *([range(options.trackers)] if options.all else [])]:
                await service.kill()
                service, began_s = await started(url)
                found = await recover(service, others, began_s=began_s, numbers=numbers, indexes=options.indexes)
                print(
                    f"{found.ready_ms:10,.0f}{found.first_ms:18,.0f}{found.later_ms:19,.0f}{found.behind_ms:16,.0f}"
                    f"{found.idle_bytes / 1e6:10,.0f}{found.resident_bytes / 1e6:14,.0f}",
                    flush=True,
                )
        finally:
            await service.ensure_stopped()
            others.shutdown()


def _sizes(directory: Path) -> str:
    return ", ".join(
        f"{path.name} {path.stat().st_size / 1e6:,.0f} MB" for path in sorted(directory.glob("tracker.db*"))
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trackers", type=int, default=1_000, help="at least repeats * (behind + 1)")
    parser.add_argument("--indexes", type=int, default=10_000, help="of each tracker")
    parser.add_argument("--behind", type=int, default=50, help="trackers opened at the same time as the first")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--all", action="store_true", help="open every tracker at the end")
    asyncio.run(main(parser.parse_args()))
