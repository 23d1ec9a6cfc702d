"""A service on one core, and clients on another with five times the outstanding requests of its highest rate.

python -m tests.benchmarks.abuse.overload [--seconds N] [--batch N] [--times N] [--cores S,C] [--set KEY=VALUE ...]

First the rate of accepted adds is measured with 2, 4, ... outstanding requests; the highest is the maximum. Then five times
as many are outstanding, each repeated after the pause that a refusal asks for. Printed are each second the resident memory
and what of it the trackers say they need for what they track (it grows until ledgers are trimmed); then accepted adds beside the maximum, refusals and how many of them had no RetryInfo, and how long after the end an add of 100
takes its usual time again.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import DelayedTrackerClient, TrackerSession, Unavailable
from tests.benchmarks.abuse.memory_curve import Added, adding
from tests.benchmarks.inputs.adder import CALLS, DAY_MS
from tests.benchmarks.inputs.serving import CLIENT
from tests.benchmarks.machine import ProcessMeter
from tests.benchmarks.measure import percentile

OUTSTANDING: Final = (2, 4, 8, 16, 32)
_SEARCH_S: Final = 5.0
_QUIET_S: Final = 5.0
_AFTER_S: Final = 15.0
_CALM_S: Final = 2.0
"""An add takes its usual time again when all of so many seconds do."""
_PAUSE_S: Final = 0.02
_EVERY_S: Final = 1.0


@dataclass(slots=True)
class Watch:
    """Adds of 100 to a tracker of its own, one after the other, with the time and duration of each."""

    session: TrackerSession
    calls: list[tuple[float, float]] = field(default_factory=list)
    """Begin, and milliseconds, infinite for a call that failed."""

    async def run(self) -> None:
        """Add until cancelled."""
        entries = np.arange(100)
        while True:
            began_s = time.perf_counter()
            deadlines = np.full(100, time.time_ns() // 1_000_000 + DAY_MS)
            took_ms = float("inf")
            try:
                await self.session.add_columns(deadlines, np.full(100, len(self.calls)), entries)
                took_ms = (time.perf_counter() - began_s) * 1e3
            except Unavailable:
                pass
            self.calls.append((began_s, took_ms))
            await asyncio.sleep(_PAUSE_S)

    def between(self, first_s: float, last_s: float) -> list[float]:
        """Return the milliseconds of the calls that began in a time, ascending."""
        return sorted(took_ms for began_s, took_ms in self.calls if first_s <= began_s < last_s)

    def normal_after_s(self, ended_s: float, limit_ms: float) -> float | None:
        """Return the seconds until calls are within a limit for ``_CALM_S``; None if that does not come."""
        for began_s, _ in self.calls:
            after = self.between(began_s, began_s + _CALM_S)
            if began_s >= ended_s and after[-1] <= limit_ms and self.calls[-1][0] >= began_s + _CALM_S:
                return began_s - ended_s
        return None


async def measure(options: argparse.Namespace, service: ServiceProcess) -> None:
    """Print the search for the maximum, the memory curve and the results."""

    def load(outstanding: int):
        trackers = str(outstanding // CALLS)
        return adding(
            service.grpc_address, 1, "--trackers", trackers, "--batch", str(options.batch), "--trim",
            "--core", str(options.cores[1]),
        )  # fmt: skip

    rates: dict[int, float] = {}
    for outstanding in OUTSTANDING:
        async with load(outstanding) as added:
            began_s = time.perf_counter()
            await asyncio.sleep(_SEARCH_S)
            took_s = time.perf_counter() - began_s
        rates[outstanding] = added[0].accepted / took_s
        print(f"{outstanding:3} outstanding: {_said(added[0], took_s)}", flush=True)
    best = max(rates, key=rates.__getitem__)
    async with (
        DelayedTrackerClient.connect(service.grpc_address, settings=CLIENT) as client,
        await client.open_tracker("persistent://lab/main/watch", "watch") as session,
    ):
        watch = Watch(session)
        watching = asyncio.create_task(watch.run())
        await asyncio.sleep(_QUIET_S)
        quiet = watch.between(0, time.perf_counter())
        async with load(options.times * best) as added:
            began_s = time.perf_counter()
            curve_bytes, besides_bytes = await curves(service, options.seconds)
            ended_s = time.perf_counter()
        await asyncio.sleep(_AFTER_S)
        watching.cancel()
    busy, usual_ms = watch.between(began_s, ended_s), percentile(quiet, 0.99)
    print(f"{options.times * best} outstanding: {_said(added[0], ended_s - began_s)}")
    for name, curve in (("resident memory", curve_bytes), ("besides what is tracked", besides_bytes)):
        third = len(curve) // 3
        parts = (curve[third : 2 * third], curve[2 * third :])
        said = ", ".join(f"{statistics.mean(part) / 1e6:,.0f} ({max(part) / 1e6:,.0f})" for part in parts)
        print(f"{name}, mean (most) of the second third and of the last: {said} MB")
    print(f"accepted beside the maximum: {added[0].accepted / (ended_s - began_s) / rates[best]:.2f}")
    print(f"an add of 100: p50 {percentile(quiet, 0.5):.1f} ms, p99 {usual_ms:.1f} ms when nothing else happens")
    print(f"               p50 {percentile(busy, 0.5):.1f} ms, p99 {percentile(busy, 0.99):.1f} ms in the overload")
    normal_s = watch.normal_after_s(ended_s, 2 * usual_ms)
    print(f"within twice that p99 again: {'not' if normal_s is None else f'{normal_s:.1f} s'} after the end")


async def curves(service: ServiceProcess, seconds: int) -> tuple[list[int], list[int]]:
    """Print the resident memory each second, and how much of it is not for what is tracked; return both."""
    meter = ProcessMeter(service.process.pid)
    resident: list[int] = []
    besides: list[int] = []
    print("   s  resident MB  tracked MB")
    for second in range(1, seconds + 1):
        await asyncio.sleep(_EVERY_S)
        tracked_bytes = await asyncio.to_thread(_tracked_bytes, service.http_address)
        resident.append(meter.resident_bytes)
        besides.append(resident[-1] - tracked_bytes)
        print(f"{second:4}{resident[-1] / 1e6:13.0f}{tracked_bytes / 1e6:12.0f}", flush=True)
    return resident, besides


def _tracked_bytes(address: str) -> int:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=_AFTER_S) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("delayed_tracker_memory_bytes "):
                return int(float(line.split()[1]))
    raise OSError(f"{address} says nothing about delayed_tracker_memory_bytes")


def _said(added: Added, seconds: float) -> str:
    return (
        f"{added.accepted / seconds / 1e6:.3f} M/s accepted, {added.overloaded:,} calls refused,"
        f" {added.without_pause} of them without RetryInfo, {added.unanswered} unanswered,"
        f" the longest took {added.longest_s:.2f} s"
    )


async def main(options: argparse.Namespace) -> None:
    """Run one measurement."""
    os.sched_setaffinity(0, {options.cores[1]})
    with tempfile.TemporaryDirectory(prefix="overload-") as directory:
        service = await ServiceProcess.start(
            Path(directory),
            storage_url=f"sqlite:{Path(directory) / 'tracker.db'}",
            settings=dict(pair.split("=", 1) for pair in options.set),
            run_by=("taskset", "--cpu-list", str(options.cores[0])),
        )
        try:
            await measure(options, service)
        finally:
            await service.ensure_stopped()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="duration of the overload")
    parser.add_argument("--batch", type=int, default=1_000, help="indexes in a call")
    parser.add_argument("--times", type=int, default=5, help="outstanding requests beside those of the maximum")
    parser.add_argument("--cores", type=lambda text: [int(core) for core in text.split(",")], default=[0, 1])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the service")
    asyncio.run(main(parser.parse_args()))
