"""Duration of adds, one call at a time, while a million indexes of the same tracker seal; and of fsyncs beside them."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import numpy as np

from delayed_tracker.client import TrackerSession
from tests.benchmarks.inputs.disk import fsyncs
from tests.benchmarks.inputs.serving import TOPIC, served, until
from tests.benchmarks.inputs.shapes import SOON_MS, WEEK_MS
from tests.benchmarks.measure import Run, percentile, require
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "A million indexes of one ledger over 7 days are in the mutable bucket, and on record in the add log. An add of another "
    "ledger begins to seal them; from then until the snapshot is stored, one client adds 100 indexes a call, one call at a "
    "time, and each is answered when its record is durable. Meanwhile another process writes 4 KiB to a file on the same "
    "disk every 10 ms and waits for fdatasync: an add waits for one such write, beside those of the snapshot, and the longest "
    "of them is what no add can be sure to stay below. Percentiles are over all repeats; the numbers of indexes are those of "
    "calls, and of fsyncs."
)
FSYNC_PAUSE_MS = 10
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure percentiles over the adds and the fsyncs of all repeats."""
    adds: list[float] = []
    disk: list[float] = []
    sealed_ms = []
    for _ in run.fresh_repeats("adds while a million seals", is_long=False):
        adds_ms, fsyncs_ms, took_ms = await _repeat(run)
        adds += adds_ms
        disk += fsyncs_ms
        sealed_ms.append(took_ms)
    for key, what, times_ms in (("durable stall", "add", sorted(adds)), ("fsync", "fsync", sorted(disk))):
        for name, share in SHARES.items():
            row = f"{what} while a million seals: {name}"
            yield Row(f"{key} {name}", row, Unit.MS, (percentile(times_ms, share),), len(times_ms))
    yield Row("sealing", "until it is sealed and stored", Unit.MS, tuple(sealed_ms), run.scale.one_seal)


async def _repeat(run: Run) -> tuple[list[float], list[float], float]:
    """Return the durations of adds and of fsyncs, and how long the seal took, in milliseconds."""
    scale = run.scale
    settings = {
        "delayedDeliveryMinIndexCountPerBucket": str(scale.bucket),
        "mutableIndexesMax": str(2 * scale.one_seal),
    }
    async with (
        served(run, settings) as service,
        await service.client.open_tracker(TOPIC, "stalls") as session,
    ):
        for start in range(0, scale.one_seal, 10_000):
            await _add(session, 1, start, min(10_000, scale.one_seal - start))
        async with fsyncs(run.new_directory(), pause_ms=FSYNC_PAUSE_MS) as fsyncs_ms:
            sealed = asyncio.create_task(_until_sealed(session))
            begun_s = time.perf_counter()
            durations_ms: list[float] = []
            for number in itertools.count():
                if sealed.done() and number:
                    break
                call_s = time.perf_counter()
                await _add(session, 2, number * scale.steady_batch, scale.steady_batch)
                durations_ms.append((time.perf_counter() - call_s) * 1e3)
            took_ms = (await sealed - begun_s) * 1e3
        added_count = len(durations_ms) * scale.steady_batch
        require("adds", (await session.stats()).pending_count == scale.one_seal + added_count)
    return durations_ms, fsyncs_ms(), took_ms


async def _add(session: TrackerSession, ledger_id: int, first_entry_id: int, count: int) -> None:
    offsets = np.random.default_rng(first_entry_id).integers(0, WEEK_MS, count)
    deadlines = time.time_ns() // 1_000_000 + SOON_MS + offsets
    entries = np.arange(first_entry_id, first_entry_id + count)
    answer = await session.add_columns(deadlines, np.full(count, ledger_id), entries)
    require("adds", answer.added_count == count)


async def _until_sealed(session: TrackerSession) -> float:
    """Return the time at which the first snapshot is stored."""

    async def is_stored() -> bool:
        return (await session.stats()).snapshot_bytes > 0

    await until(is_stored)
    return time.perf_counter()
