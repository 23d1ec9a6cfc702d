"""A hundred million pending over a month, in one process: memory, disk, open, adds, lateness, and a drained week."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from delayed_tracker.client import TrackerSession
from tests.benchmarks.inputs.serving import TOPIC, Served, at_a_time, served, until
from tests.benchmarks.measure import Run, require
from tests.benchmarks.paths.bench_lateness import Load, in_and_out
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "The service over SQLite, default settings but strict delivery. Every entry of 2,000 ledgers of 50,000 is delayed; "
    "deadlines are random over 30 days that begin in a week: 17 M segments of six. Memory is anonymous resident memory; "
    "idle means that a bucket was added, stored and deleted again. Once with each `snapshotCodec`. Adds are the rate of "
    "calls of 10,000, one by one, beside that of an empty tracker, in turns. Lateness is of 20,000 a second in and out of the same tracker, each "
    "due twenty seconds after it is offered. Then mark-delete passes the ledgers of a week; then the service is killed, "
    "and started again: to the first answer, with its memory and its peak above an idle service's."
)
CALL = 10_000
DAY_MS = 24 * 3_600_000
DAYS = 30
TURNS = 4
_LOOK_S = 0.1
SETTINGS = {"isDelayedDeliveryDeliverAtTimeStrict": "true"}


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure each codec once: it takes some minutes."""
    for codec in ("pulsar", "columnar"):
        async for row in _rows_of(run, codec):
            yield row


async def _rows_of(run: Run, codec: str) -> AsyncIterator[Row]:
    month = Month(run, codec, run.new_directory() / "tracker.db", time.time_ns() // 1_000_000 + 7 * DAY_MS)
    async with served(run, month.settings, data=month.data) as service:
        idle_bytes, _ = await month.idle(service)
        async with await service.client.open_tracker(TOPIC, "month") as session:
            await month.fill(service, session, idle_bytes)
            await month.drain_a_week(service, session)
        service.process.process.kill()
    async with served(run, month.settings) as service:
        idle_bytes, idle_peak_bytes = await month.idle(service)
    await month.reopen(idle_bytes, idle_peak_bytes)
    for (key, what, unit), value in month.samples.items():
        yield Row(key, what, unit, (value,), run.scale.month_pending)


@dataclass(slots=True)
class Month:
    """One run: its codec, its file, the first deadline, and what it found."""

    run: Run
    codec: str
    data: Path
    begin_ms: int
    samples: dict[tuple[str, str, Unit], float] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the service."""
        bucket = str(self.run.scale.bucket)
        return SETTINGS | {"delayedDeliveryMinIndexCountPerBucket": bucket, "snapshotCodec": self.codec}

    @property
    def ledgers(self) -> int:
        """Ledgers of the month, one for each bucket."""
        return self.run.scale.month_pending // self.run.scale.bucket

    @property
    def more(self) -> int:
        """Ledgers that are added to measure the rate of adds."""
        return TURNS * max(1, self.ledgers // 200)

    @property
    def week(self) -> int:
        """Ledgers that mark-delete passes."""
        return max(1, self.ledgers * 7 // DAYS)

    def note(self, key: str, what: str, unit: Unit, value: float) -> None:
        """Record a number."""
        key = f"{key} columnar" if key == "month disk" and self.codec == "columnar" else key
        self.samples[key, f"{self.codec}: {what}", unit] = value

    async def idle(self, service: Served) -> tuple[int, int]:
        """Return the memory and the peak of a service that has stored a bucket and deleted it, in bytes."""
        async with await service.client.open_tracker(TOPIC, "warm") as warm:
            await self._add(warm, range(1))
            await warm.seal()
            await until(lambda: _is_stored(warm, 1))
            await warm.delete()
        await asyncio.sleep(self.run.scale.rest_s)
        return service.meter.resident_bytes, service.meter.peak_bytes

    async def fill(self, service: Served, session: TrackerSession, idle_bytes: int) -> None:
        """Add everything; measure it at rest, and adds and lateness beside it."""
        started_s = time.monotonic()
        await self._add(session, range(self.ledgers))
        self.note("month filled", "until everything is added", Unit.MS, (time.monotonic() - started_s) * 1e3)
        await session.seal()
        await until(lambda: _is_stored(session, self.ledgers))
        self.note("month stored", "and stored", Unit.MS, (time.monotonic() - started_s) * 1e3)
        await asyncio.sleep(self.run.scale.rest_s)
        resident_bytes = service.meter.resident_bytes - idle_bytes
        self.note("month memory", "resident above idle, everything stored", Unit.MB, resident_bytes / 1e6)
        on_disk = _stored_bytes(service) / self.run.scale.month_pending
        self.note("month disk", "on disk, file and log", Unit.BYTES_PER_INDEX, on_disk)
        self.note(
            "month adds", "rate of adds beside an empty tracker's", Unit.RATIO, await self._added(service, session)
        )
        await session.seal()
        await until(lambda: _is_stored(session, self.ledgers + self.more))
        load = Load(self.run.scale.read_back_per_s, self.run.scale.read_back_s, self.run.scale.read_back_delay_ms)
        lateness_ms, rate = await in_and_out(self.run, session, load, first_ledger=10 * self.ledgers)
        p99_ms = float(np.quantile(lateness_ms, 0.99))
        self.note("month lateness", "lateness p99, 20,000 a second", Unit.MS, p99_ms)
        self.note("month lateness max", "lateness max", Unit.MS, float(lateness_ms.max()))
        self.note("month rate", "rate of adds that was reached", Unit.MILLION_PER_S, rate)

    async def drain_a_week(self, service: Served, session: TrackerSession) -> None:
        """Pass the ledgers of a week with mark-delete; measure how long their buckets stay, and the file."""
        before_bytes = _stored_bytes(service)
        started_s = time.monotonic()
        await session.advance_mark_delete(self.week, self.run.scale.bucket - 1)
        await until(lambda: _is_stored(session, self.ledgers + self.more - self.week))
        self.note("month drop", "until the buckets of a week are gone", Unit.MS, (time.monotonic() - started_s) * 1e3)
        await asyncio.sleep(self.run.scale.rest_s)
        self.note("month file before", "file and log before it", Unit.MB, before_bytes / 1e6)
        self.note("month file after", "file and log five seconds after it", Unit.MB, _stored_bytes(service) / 1e6)

    async def reopen(self, idle_bytes: int, idle_peak_bytes: int) -> None:
        """Start the service over what the killed one has left; measure the first answer and the memory."""
        pending = self.run.scale.month_pending + (self.more - self.week) * self.run.scale.bucket
        started_s = time.monotonic()
        async with served(self.run, self.settings, data=self.data) as service:
            listening_s = time.monotonic()
            async with await service.client.open_tracker(TOPIC, "month") as session:
                answer = await session.contains([self.ledgers] * 2, [0, self.run.scale.bucket])
                answered_s = time.monotonic()
                require("reopened", answer == [True, False] and session.opened.recovered_count == pending)
                peak_bytes = service.meter.peak_bytes
                await asyncio.sleep(self.run.scale.rest_s)
                resident_bytes = service.meter.resident_bytes
        self.note("month open", "open to first answer, after kill -9", Unit.MS, (answered_s - listening_s) * 1e3)
        self.note("month start", "start of the process to first answer", Unit.MS, (answered_s - started_s) * 1e3)
        self.note("month peak", "peak above an idle service's", Unit.MB, (peak_bytes - idle_peak_bytes) / 1e6)
        self.note("month reopened", "resident above idle after it", Unit.MB, (resident_bytes - idle_bytes) / 1e6)

    async def _added(self, service: Served, session: TrackerSession) -> float:
        """Add more to the tracker, and as much to an empty one, in turns; return the ratio of the rates."""
        each = self.more // TURNS
        empty_s = full_s = 0.0
        async with await service.client.open_tracker(TOPIC, "empty") as empty:
            for turn in range(TURNS):
                ledgers = range(self.ledgers + turn * each, self.ledgers + (turn + 1) * each)
                empty_s += await self._add(empty, ledgers)
                full_s += await self._add(session, ledgers)
            await empty.delete()
        return empty_s / full_s

    async def _add(self, session: TrackerSession, ledgers: range) -> float:
        """Add every entry of some ledgers, call by call; return the seconds it took."""
        bucket = self.run.scale.bucket

        async def add(call: tuple[int, int]) -> None:
            ledger, first = call
            count = min(CALL, bucket - first)
            deadlines = self.begin_ms + np.random.default_rng(call).integers(0, DAYS * DAY_MS, count)
            await session.add_columns(deadlines, np.full(count, ledger + 1), np.arange(first, first + count))

        started_s = time.monotonic()
        for part in range(ledgers.start, ledgers.stop, 100):
            some = range(part, min(part + 100, ledgers.stop))
            await at_a_time(1, add, [(ledger, first) for ledger in some for first in range(0, bucket, CALL)])
            self.run.note(f"added {some.stop * bucket:,}")
        return time.monotonic() - started_s


async def _is_stored(session: TrackerSession, buckets: int) -> bool:
    await asyncio.sleep(_LOOK_S)  # a list of 2,000 buckets is not asked for 50 times a second
    found = await session.buckets()
    return sum(view.bucket_id is not None for view in found) == buckets


def _stored_bytes(service: Served) -> int:
    return sum(path.stat().st_size for path in service.data.parent.glob(f"{service.data.name}*"))
