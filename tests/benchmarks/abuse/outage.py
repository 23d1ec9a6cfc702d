"""Outages of the snapshot storage and of the add log under load: one that hangs, and one that fails every third call.

python -m tests.benchmarks.abuse.outage [--seconds N] [--trackers N]

Half of the trackers add 20 times a second 100 positions each, half of them due within three seconds, and lease and
acknowledge what is due; buckets have 2,000. The other half have been filled before with what falls due during the outage,
which they lease, acknowledge and read. The same load runs without a fault; with a storage on which every operation for one
more topic hangs for as long as the outage lasts; with one on which each operation fails with a chance of a third; and with
an add log, which all trackers share, that does either. Printed are the durations of adds, and of the trackers that do not
add the lateness of what is handed out and the durations of acknowledgements and reads, as far as they began in the outage.
At the end everything that was answered must have been acknowledged or be tracked, and again after kill -9 and a restart.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from delayed_tracker.client import DelayedTrackerClient, TrackerSession, Unavailable
from tests.benchmarks.inputs.adder import DAY_MS
from tests.benchmarks.inputs.faulty_service import BUCKET
from tests.benchmarks.inputs.serving import CLIENT
from tests.benchmarks.measure import percentile, require
from tests.repository.project_tree import ROOT

BATCH: Final = 100
SUBSCRIPTION: Final = "outage"
HANGING: Final = "persistent://lab/main/hanging"
_ADD_PAUSE_S: Final = 0.05
_SOON_MS: Final = (500, 3_000)
_FILL: Final = 10_000
_QUIET_S: Final = 3.0
_DRAIN_S: Final = 150.0
_REPEAT_PAUSE_S: Final = 0.2


@dataclass(slots=True)
class Load:
    """Load of one tracker, with what was answered. Even numbers of positions are due soon, odd ones in days."""

    topic: str
    offered_count: int = 0
    """Positions whose add was answered: it is repeated until then."""
    unavailable_count: int = 0
    handled: set[int] = field(default_factory=set)
    """Numbers of positions that were acknowledged, or answered as due."""
    adds: list[tuple[float, float]] = field(default_factory=list)
    """Begin, and milliseconds until the answer."""
    lateness: list[tuple[float, float]] = field(default_factory=list)
    """Time of each poll, and milliseconds from the first deadline to the answer."""
    acks: list[tuple[float, float]] = field(default_factory=list)
    reads: list[tuple[float, float]] = field(default_factory=list)

    async def fill(self, session: TrackerSession, due_within_ms: int) -> None:
        """Add positions once, half of them due within a time."""
        numbers = np.arange(_FILL)
        due_ms = np.random.default_rng(1).integers(_SOON_MS[0], due_within_ms, _FILL)
        deadlines = time.time_ns() // 1_000_000 + np.where(numbers % 2, 2 * DAY_MS, due_ms)
        answer = await session.add_columns(deadlines, numbers // BUCKET, numbers % BUCKET)
        self.handled.update(answer.due_offsets)
        self.offered_count = _FILL

    async def read(self, session: TrackerSession) -> None:
        """Ask for positions until cancelled."""
        entries = np.arange(BATCH)
        while True:
            began_s = time.perf_counter()
            await session.contains(np.zeros(BATCH, np.int64), entries)
            self.reads.append((began_s, (time.perf_counter() - began_s) * 1e3))
            await asyncio.sleep(_ADD_PAUSE_S)

    async def add(self, session: TrackerSession) -> None:
        """Add until cancelled."""
        while True:
            numbers = np.arange(self.offered_count, self.offered_count + BATCH)
            began_s = time.perf_counter()
            soon = np.random.default_rng(self.offered_count).integers(*_SOON_MS, BATCH)
            deadlines = time.time_ns() // 1_000_000 + np.where(numbers % 2, DAY_MS + soon, soon)
            answer = None
            while answer is None:
                try:
                    answer = await session.add_columns(deadlines, numbers // BUCKET, numbers % BUCKET)
                except Unavailable:
                    self.unavailable_count += 1
                    await asyncio.sleep(_REPEAT_PAUSE_S)
            self.handled.update(self.offered_count + offset for offset in answer.due_offsets)
            self.offered_count += BATCH
            self.adds.append((began_s, (time.perf_counter() - began_s) * 1e3))
            await asyncio.sleep(_ADD_PAUSE_S)

    async def consume(self, session: TrackerSession) -> None:
        """Lease and acknowledge until cancelled."""
        while True:
            try:
                lease = await session.poll(1_000, wait_ms=1_000)
                if not len(lease.messages):
                    continue
                late_ms = time.time_ns() / 1e6 - lease.messages.deliver_at_ms[0]
                began_s = time.perf_counter()
                self.lateness.append((began_s, late_ms))
                await lease.ack()
                self.acks.append((began_s, (time.perf_counter() - began_s) * 1e3))
            except Unavailable:
                self.unavailable_count += 1
                await asyncio.sleep(_REPEAT_PAUSE_S)
                continue
            ledgers, entries = np.array(lease.messages.ledger_ids), np.array(lease.messages.entry_ids)
            self.handled.update((ledgers * BUCKET + entries).tolist())

    def is_drained(self) -> bool:
        """Return True if all that was due soon has been handled."""
        return len(self.handled) >= self.offered_count // 2

    async def lost_count(self, session: TrackerSession) -> int:
        """Return the number of answered positions that are neither handled nor tracked."""
        open_numbers = np.array(sorted(set(range(self.offered_count)) - self.handled), np.int64)
        tracked = 0
        for start in range(0, len(open_numbers), 10_000):
            part = open_numbers[start : start + 10_000]
            tracked += sum(await session.contains(part // BUCKET, part % BUCKET))
        return len(open_numbers) - tracked


@dataclass(slots=True)
class Service:
    """The service with a faulty storage, as a process."""

    process: asyncio.subprocess.Process
    address: str

    def fail(self, **plan: object) -> None:
        """Put a plan of faults in force."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(plan).encode() + b"\n")


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[Service]:
    """Start the service; kill it with -9 after the block."""
    command = (sys.executable, "-m", "tests.benchmarks.inputs.faulty_service", str(data))
    pipe = asyncio.subprocess.PIPE
    with data.with_suffix(".log").open("ab") as errors:  # a log that fails every third call says so each time
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=errors, cwd=ROOT)
    assert process.stdout is not None
    try:
        yield Service(process, (await process.stdout.readline()).decode().strip())
    finally:
        process.kill()
        await process.wait()


async def outage(directory: Path, plans: dict[str, object], *, trackers: int, seconds: float) -> list[float]:
    """Run one load with plans of faults; print a line, and return the percentiles in it."""
    data = directory / "tracker.db"
    healthy = [Load(f"persistent://lab/main/healthy-{number}") for number in range(trackers // 2)]
    filled = [Load(f"persistent://lab/main/filled-{number}") for number in range(trackers // 2)]
    adders = [*healthy, Load(HANGING)]
    loads = [*adders, *filled]
    async with serving(data) as service, DelayedTrackerClient.connect(service.address, settings=CLIENT) as client:
        sessions = [await client.open_tracker(load.topic, SUBSCRIPTION) for load in loads]
        pairs = list(zip(loads, sessions, strict=True))
        quiet = pairs[len(adders) :]
        for load, session in quiet:
            await load.fill(session, int((_QUIET_S + seconds) * 1_000))
        consuming = [asyncio.create_task(load.consume(session)) for load, session in pairs]
        consuming += [asyncio.create_task(load.read(session)) for load, session in quiet]
        adding = [asyncio.create_task(load.add(session)) for load, session in pairs[: len(adders)]]
        await asyncio.sleep(_QUIET_S)
        began_s = time.perf_counter()
        service.fail(**plans)
        await asyncio.sleep(seconds)
        ended_s = time.perf_counter()
        service.fail()
        await _until_drained(loads, dict(zip(adding, adders, strict=True)))
        for task in consuming:
            task.cancel()
        for ended in await asyncio.gather(*consuming, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        lost = [await load.lost_count(session) for load, session in pairs]
    async with serving(data) as service, DelayedTrackerClient.connect(service.address, settings=CLIENT) as client:
        lost += [await load.lost_count(await client.open_tracker(load.topic, SUBSCRIPTION)) for load in loads]
    found = [
        percentile(
            sorted(ms for load in measured for at_s, ms in getattr(load, kind) if began_s <= at_s < ended_s), share
        )
        for kind, measured in (("adds", healthy), ("lateness", filled), ("acks", filled), ("reads", filled))
        for share in (0.5, 0.99)
    ]
    print(
        f"{sum(load.offered_count for load in loads):9,}{sum(load.unavailable_count for load in loads):13,}"
        f"{''.join(f'{ms:13.1f}' for ms in found)}{sum(lost):8,}",
        flush=True,
    )
    require("nothing that was answered is lost", not any(lost))
    return found


async def _until_drained(loads: list[Load], adding: dict["asyncio.Task[None]", Load]) -> None:
    """End the adding, each at an answer, and wait until all that is due soon has been handled."""
    async with asyncio.timeout(_DRAIN_S):
        for task, load in adding.items():
            answered = load.offered_count
            while load.offered_count == answered and not task.done():  # noqa: ASYNC110  # no event for an answer
                await asyncio.sleep(_ADD_PAUSE_S / 4)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        while not all(load.is_drained() for load in loads):  # noqa: ASYNC110
            await asyncio.sleep(_ADD_PAUSE_S)


async def main(options: argparse.Namespace) -> None:
    """Print a line for each storage, and how many times as long healthy trackers took."""
    # Longer than the outage, so that the operation after it does not hang, too.
    hangs: dict[str, object] = {"latency_ms": int(options.seconds * 1_000) + 500}
    fails: dict[str, object] = {"error_before": 1 / 3, "seed": 1}
    plans: dict[str, dict[str, object]] = {
        "without a fault": {},
        "hangs for one topic": {"storage": {**hangs, "topic": HANGING}},
        "fails every third call": {"storage": fails},
        "log fails every third": {"log": fails},
        "log hangs": {"log": hangs},
    }
    columns = "".join(
        f"{f'{kind} {share} ms':>13}" for kind in ("add", "late", "ack", "read") for share in ("p50", "p99")
    )
    print(f"{'storage':24}    added  unavailable{columns}    lost")
    usual: list[float] = []
    for name, plan in plans.items():
        print(f"{name:24}", end="", flush=True)
        with tempfile.TemporaryDirectory(prefix="outage-") as directory:
            found = await outage(Path(directory), plan, trackers=options.trackers, seconds=options.seconds)
        usual = usual or found
        print(
            f"{'  times without a fault':46}{''.join(f'{ms / of:13.2f}' for ms, of in zip(found, usual, strict=True))}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the outage")
    parser.add_argument("--trackers", type=int, default=8, help="healthy trackers, of which half add")
    asyncio.run(main(parser.parse_args()))
