"""Duration of adds at a steady rate while a million indexes seal and 40 buckets merge."""

import asyncio
import itertools
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from delayed_tracker.client import TrackerSession
from tests.benchmarks.inputs.hosted import KEY
from tests.benchmarks.inputs.serving import TOPIC, Served, served, until
from tests.benchmarks.inputs.shapes import SOON_MS, WEEK_MS
from tests.benchmarks.inputs.stored import store_buckets
from tests.benchmarks.measure import Run, percentile, require
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "500 calls a second of 100 indexes each, sent when their time has come whether or not earlier ones are answered; the "
    "time of a call is from when it should have been sent to its answer, so that a client that is late counts too. First "
    "nothing else happens. Then the mutable bucket of the same tracker, a million indexes of one ledger over 7 days, "
    "seals because a new ledger begins, and another tracker is opened whose 40 buckets of 50,000 merge to 10. By a trace of "
    "every step of the event loop (processor time, scheduler statistics, kernel stacks), in steps of over a millisecond a "
    "third is work, half is waiting for a core (though other programs ran, too), and an eighth waiting for the interpreter "
    "or the disk: a call passes some six threads of client and service, and each may wait behind a thread that seals or "
    "merges until that one's slice of 3 to 4 ms has ended. The longest work is 6 ms, once, when the allocator gives back "
    "what was sealed in the midst of a call; nothing else takes 5 ms. Threads that seal and merge run at niceness 10, which took p99.9 from 20 to 13 ms. "
    "Tried besides: a thread switch interval of 1 and of 0.5 ms, one worker thread instead of two, uvloop, slices of 0.1 ms "
    "for the event loop or for the workers (no difference that shows); niceness 10 for the threads of SQLite and 15 for the "
    "others (the same); workers that run only when nothing else does (SCHED_IDLE: 150 ms and more, because one of them "
    "holds the interpreter while it waits for a core); sealing and merging in a process of its own (at niceness 10 no "
    "difference; under SCHED_IDLE, beside other load, the median as if nothing were sealed and calls above 5 ms half as "
    "many, but sealing takes 1.4 times as long, on a busy machine it may come to no end, and it is a second interpreter in memory: not "
    "kept); an allocator that never gives back by itself (calls above 5 ms a third fewer, as far as a busy machine can tell, and 1.1 instead of 0.8 bytes for each of 10 M pending: not kept)."
)
QUIET_S = 4.0
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


@dataclass(slots=True)
class Steady:
    """Client that adds at a steady rate, with the duration of each call."""

    run: Run
    session: TrackerSession
    ledger_id: int
    first_entry_id: int
    is_over: bool = False
    quiet_ms: list[float] = field(default_factory=list)
    busy_ms: list[float] = field(default_factory=list)
    is_busy: bool = False
    added_count: int = 0
    offered_count: int = 0

    async def add(self) -> None:
        """Add until the run is over; return when every call is answered."""
        pause_s = 1 / self.run.scale.steady_calls_per_s
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        async with asyncio.TaskGroup() as calls:
            for number in itertools.count(1):
                if self.is_over:
                    return
                when_s = started_s + number * pause_s
                await asyncio.sleep(max(0.0, when_s - loop.time()))
                calls.create_task(self._call(when_s, self.ledger_id, self.first_entry_id))
                self.first_entry_id += self.run.scale.steady_batch

    async def _call(self, when_s: float, ledger_id: int, first_entry_id: int) -> None:
        count = self.run.scale.steady_batch
        times = self.busy_ms if self.is_busy else self.quiet_ms
        self.offered_count += count
        entries = np.arange(first_entry_id, first_entry_id + count)
        answer = await self.session.add_columns(_deadlines(first_entry_id, count), np.full(count, ledger_id), entries)
        times.append((asyncio.get_running_loop().time() - when_s) * 1e3)
        self.added_count += answer.added_count


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure percentiles of the duration of a call, quiet and busy."""
    stored = run.new_directory() / "tracker.db"
    await store_buckets(run, f"sqlite:{stored}", run.scale.merging_buckets * run.scale.bucket)
    quiet, busy, lasted_ms = [], [], []
    for _ in run.fresh_repeats("adds at a steady rate", is_long=False):
        steady, took_ms = await _repeat(run, stored)
        quiet.append(sorted(steady.quiet_ms))
        busy.append(sorted(steady.busy_ms))
        lasted_ms.append(took_ms)
    calls = sum(map(len, busy))
    for key, what, times in (("quiet", "nothing else", quiet), ("stall", "sealing and merging", busy)):
        for name, share in SHARES.items():
            samples = tuple(percentile(one, share) for one in times)
            yield Row(
                f"{key} {name}", f"add meanwhile {what}: {name}", Unit.MS, samples, calls * run.scale.steady_batch
            )
    yield Row("merging", "until all is sealed and merged", Unit.MS, tuple(lasted_ms), run.scale.one_seal)


async def _repeat(run: Run, stored: Path) -> tuple[Steady, float]:
    scale = run.scale
    data = run.new_directory() / "tracker.db"
    shutil.copyfile(stored, data)
    settings = {
        "delayedDeliveryMinIndexCountPerBucket": str(scale.bucket),
        "delayedDeliveryMaxNumBuckets": str(scale.merged_buckets_max),
        "mutableIndexesMax": str(10 * scale.one_seal),
    }
    async with (
        served(run, settings, data=data) as service,
        await service.client.open_tracker(TOPIC, "steady") as session,
    ):
        for start in range(0, scale.one_seal, 10_000):
            count = min(10_000, scale.one_seal - start)
            await session.add_columns(_deadlines(start, count), np.full(count, 1), np.arange(start, start + count))
        steady = Steady(run, session, ledger_id=1, first_entry_id=scale.one_seal)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(steady.add())
            await asyncio.sleep(min(QUIET_S, scale.steady_s))
            took_ms = await _busy(run, service, steady)
            steady.is_over = True
        stats = await session.stats()
        require("steady adds", steady.added_count == steady.offered_count)
        require("steady adds", stats.pending_count == scale.one_seal + steady.added_count)
    data.unlink()
    return steady, took_ms


async def _busy(run: Run, service: Served, steady: Steady) -> float:
    """Begin a seal and merges; when both are done and enough time has passed, return how long they took."""
    started_s = time.perf_counter()
    steady.is_busy = True
    steady.ledger_id = 2
    merging = await service.client.open_tracker(KEY.topic, KEY.subscription)
    require("recovery", merging.opened.recovered_count == run.scale.merging_buckets * run.scale.bucket)

    async def done() -> bool:
        # Listing the buckets would take 6 ms on the event loop, to apply the changes since the last listing.
        sealed = (await steady.session.stats()).snapshot_bytes > 0
        return (await merging.stats()).bucket_count <= run.scale.merged_buckets_max and sealed

    await until(done)
    took_s = time.perf_counter() - started_s
    require("merge", (await merging.stats()).pending_count == run.scale.merging_buckets * run.scale.bucket)
    await asyncio.sleep(max(0.0, run.scale.steady_s - took_s))
    return took_s * 1e3


def _deadlines(seed: int, count: int) -> np.ndarray:
    return time.time_ns() // 1_000_000 + SOON_MS + np.random.default_rng(seed).integers(0, WEEK_MS, count)
