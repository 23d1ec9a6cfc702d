"""Memory of pending indexes in the service, above the idle service, and their bytes on disk."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from delayed_tracker.client import TrackerSession
from tests.benchmarks.inputs.serving import TOPIC, Served, served, until
from tests.benchmarks.inputs.shapes import NOW_MS, WEEK_MS, Shape, buckets
from tests.benchmarks.measure import Run, require
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "The service, default settings, SQLite. Idle means: one bucket has been added, sealed, stored and deleted again. Then "
    "ledgers of 50,000 are added; once all are stored, all but what is near due is on disk only. The service is given five "
    "seconds of rest, after which it has returned what it freed to the system. Memory is anonymous "
    "resident memory: what is mapped from files belongs to the file cache. The peer's number is Java's heap with "
    "snapshots elsewhere; Redis takes 110 bytes. Of ours some 1 to 4 MB are there once, whatever is "
    "pending: what threads and allocator keep after the first large load. They are most of the number at 1 M; bounds of groups "
    "of segments, and bitmaps, are 0.3 bytes for each index of 100 M. Tried against what is there once: one "
    "arena for all threads (1 MB less, but adds over gRPC took more processor time), and lower thresholds of the "
    "allocator (as much less, but storing and draining took a third longer)."
)


SPARSE = 3
"""Every third entry is delayed: the worst case for the size of bitmaps."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes for each pending index, except the last field."""

    resident: float
    bitmaps: float
    on_disk: float
    left_mb: float
    """Megabytes above idle after everything was deleted."""


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure 1 M and 10 M pending over a week; then, with 1 M, sparse ledgers and the other shapes."""
    smallest = min(run.scale.pending)
    cases = [(Shape.WEEK, pending, 1) for pending in run.scale.pending]
    if run.scale.has_all_shapes:
        cases += [(Shape.WEEK, smallest, SPARSE), (Shape.DENSE, smallest, 1), (Shape.ONE, smallest, 1)]
    for shape, pending, every in cases:
        which = ", every third entry delayed" if every == SPARSE else ""
        what = f"{pending:,} pending, {shape.value}{which}"
        taken = [
            await _taken(run, what, shape, pending, every) for _ in run.fresh_repeats(what, is_long=pending > smallest)
        ]
        for key, name, unit, samples in (
            ("memory", "resident above the idle service", Unit.BYTES_PER_INDEX, [one.resident for one in taken]),
            (
                "bitmaps",
                "of it: bitmaps, by the tracker's own count",
                Unit.BYTES_PER_INDEX,
                [one.bitmaps for one in taken],
            ),
            ("disk", "on disk, file and log", Unit.BYTES_PER_INDEX, [one.on_disk for one in taken]),
            ("left", "resident above idle once all is deleted", Unit.MB, [one.left_mb for one in taken]),
        ):
            yield Row(key, f"{name}{which}", unit, tuple(samples), pending, shape)


async def _taken(run: Run, what: str, shape: Shape, pending: int, every: int) -> Taken:
    settings = {"delayedDeliveryMinIndexCountPerBucket": str(run.scale.bucket)}
    async with served(run, settings) as service:
        async with await service.client.open_tracker(TOPIC, "warm") as warm:
            await _fill(run, warm, Shape.WEEK, run.scale.bucket, 1)
            await warm.delete()
        idle_bytes = await _at_rest(run, service)
        async with await service.client.open_tracker(TOPIC, "measured") as session:
            await _fill(run, session, shape, pending, every)
            resident_bytes = await _at_rest(run, service)
            stats = await session.stats()
            require(what, stats.pending_count == pending == stats.added_count and stats.loaded_count == 0)
            stored_bytes = _stored_bytes(service)
            await session.delete()
        left_bytes = await _at_rest(run, service)
    return Taken(
        resident=(resident_bytes - idle_bytes) / pending,
        bitmaps=stats.membership_bytes / pending,
        on_disk=stored_bytes / pending,
        left_mb=(left_bytes - idle_bytes) / 1e6,
    )


async def _fill(run: Run, session: TrackerSession, shape: Shape, pending: int, every: int) -> None:
    """Add ledgers of a bucket each, and return when the last is stored."""
    later_ms = time.time_ns() // 1_000_000 - NOW_MS + WEEK_MS
    for number, bucket in enumerate(buckets(shape, run.scale, pending // run.scale.bucket, every=every), start=1):
        for start in range(0, len(bucket), 10_000):
            part = bucket.take(slice(start, start + 10_000))
            await session.add_columns(part.deliver_at_ms + later_ms, part.ledger_id, part.entry_id)
        if number % 50 == 0:
            run.note(f"added {number * run.scale.bucket:,} of {pending:,}")
    await session.seal()

    async def all_stored() -> bool:
        found = await session.buckets()
        return sum(view.bucket_id is not None for view in found) == pending // run.scale.bucket

    await until(all_stored)


async def _at_rest(run: Run, service: Served) -> int:
    await asyncio.sleep(run.scale.rest_s)
    return service.meter.resident_bytes


def _stored_bytes(service: Served) -> int:
    return sum(path.stat().st_size for path in service.data.parent.glob(f"{service.data.name}*"))
