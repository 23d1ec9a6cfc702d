"""Cost of metrics: a scrape of thousands of trackers, its size, their memory, and adds with and without metrics."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import grpc
import httpx
import numpy as np

from delayed_tracker.client import DelayedTrackerClient, TrackerSession
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.grpc.methods import serve_tracker
from delayed_tracker.service.grpc.servicer import TrackerServicer
from delayed_tracker.service.instruments.call_counts import CallCounts, MethodCalls
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.registry import open_storage
from tests.benchmarks.inputs.serving import Served, at_a_time, served
from tests.benchmarks.inputs.shapes import BATCH, NOW_MS, Shape, batches, offered
from tests.benchmarks.measure import Run, require
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "Trackers with one pending index each, in a service of its own, default settings: the first 1,000 have series of their "
    "own, of the others there is the sum. A scrape is timed from here, over HTTP; first nothing has changed since the last "
    "one, then every tracker has. What has changed is read again in slices of 2 ms, between which the event loop goes on: "
    "a tracker takes about 20 us, half of them for finding in memory what was not used lately. With and without metrics: "
    "service and client in one process, calls of 1,000 one after the other, in turns, processor time of both; with them, every "
    "tenth of a second a scrape, which takes half of the difference. Without them neither calls nor changes are noted."
)
SCRAPES = 20
_CALLERS = 8
_SCRAPE_EVERY_S = 0.1
_CALLS_A_TURN = 20
"""Calls to one of two services before it is the other one's turn: the machine's speed varies from second to second."""
_Measured: TypeAlias = tuple[DelayedTrackerClient, ServiceMetrics | None]
_subscriptions = (f"adds {number}" for number in itertools.count())


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure scrapes, series and memory; then the share of the rate of adds that remains with metrics."""
    async for row in _scrapes(run):
        yield row
    yield await _share_of_adds(run)


async def _scrapes(run: Run) -> AsyncIterator[Row]:
    count = run.scale.scraped_trackers
    # A connection is not used again after a rest: the service may be about to close it.
    limits = httpx.Limits(keepalive_expiry=1.0)
    async with (
        served(run) as service,
        httpx.AsyncClient(base_url=f"http://{service.process.http_address}", limits=limits) as http,
    ):
        await asyncio.sleep(run.scale.rest_s)
        idle_bytes = service.meter.resident_bytes
        sessions = await _opened(run, service, count)
        await asyncio.sleep(run.scale.rest_s)
        open_bytes = service.meter.resident_bytes
        text = (await http.get("/metrics")).text
        unchanged = [await _timed(http) for _ in range(SCRAPES)]
        cpu_ns = service.meter.cpu_ns
        for _ in range(SCRAPES):
            await _timed(http)
        cpu_ms = (service.meter.cpu_ns - cpu_ns) / 1e6 / SCRAPES
        await asyncio.sleep(run.scale.rest_s)
        scraped_bytes = service.meter.resident_bytes
        series = sum(not line.startswith("#") for line in text.splitlines())
        require("scrape", f'\ndelayed_tracker_indexes_total{{event="added"}} {count}\n' in text)
        changed = []
        for number in range(1, run.scale.repeats + 1):
            await at_a_time(_CALLERS, lambda session, number=number: _add(session, number), sessions)
            changed.append(await _timed(http))
    yield Row("scrape", f"scrape of {count:,} trackers, none changed: processor time", Unit.MS, (cpu_ms,), count)
    yield Row("scrape wall", f"scrape of {count:,} trackers, none changed", Unit.MS, tuple(unchanged), count)
    yield Row("scrape changed", f"scrape of {count:,} trackers, each changed", Unit.MS, tuple(changed), count)
    yield Row("series", f"series of {count:,} trackers", Unit.COUNT, (series,), count)
    for key, what, used_bytes in (
        ("trackers", f"memory of {count:,} open trackers", open_bytes),
        ("trackers scraped", f"memory of {count:,} open trackers, scraped", scraped_bytes),
    ):
        yield Row(key, what, Unit.MB, ((used_bytes - idle_bytes) / 1e6,), count)


async def _opened(run: Run, service: Served, count: int) -> list[TrackerSession]:
    sessions: list[TrackerSession] = []

    async def open_one(number: int) -> None:
        session = await service.client.open_tracker(f"persistent://lab/main/topic-{number}", "scraped")
        await _add(session, 0)
        sessions.append(session)

    run.note(f"opening {count:,} trackers")
    await at_a_time(_CALLERS, open_one, range(count))
    return sessions


async def _add(session: TrackerSession, entry_id: int) -> None:
    an_hour_on = np.array([time.time_ns() // 1_000_000 + 3_600_000])
    await session.add_columns(an_hour_on, np.array([1]), np.array([entry_id]))


async def _timed(http: httpx.AsyncClient) -> float:
    begun_s = time.perf_counter()
    answer = await http.get("/metrics")
    took_ms = (time.perf_counter() - begun_s) * 1e3
    require("scrape", answer.status_code == httpx.codes.OK)
    return took_ms


# -- adds with and without ---------------------------------------------------------------------------------------------


class _NoChanges(set[object]):
    """A set that stays empty."""

    def add(self, _host: object) -> None:
        """Ignore the host."""


class _NoCounts(CallCounts):
    """Calls that are not counted."""

    def begin(self, _calls: MethodCalls) -> float:
        """Ignore the call."""
        return 0.0

    def end(self, _calls: MethodCalls, _begun_ms: float, _code: grpc.StatusCode) -> None:
        """Ignore the call."""


async def _share_of_adds(run: Run) -> Row:
    indexes = offered(Shape.WEEK, run.scale.adds, per_ledger=run.scale.adds)
    later_ms = time.time_ns() // 1_000_000 - NOW_MS
    parts = batches(IndexColumns(indexes.deliver_at_ms + later_ms, indexes.ledger_id, indexes.entry_id), BATCH)
    shares = []
    async with _service(run, with_metrics=True) as on, _service(run, with_metrics=False) as off:
        for counts in run.repeats("adds with metrics and without"):
            with_ns, without_ns = await _cpu_ns_of(on, off, parts)
            if counts:
                shares.append(without_ns / with_ns)
    what = "rate of AddMessages of 1,000 with metrics"
    return Row("metrics add", what, Unit.SHARE, tuple(shares), len(indexes), Shape.WEEK)


@asynccontextmanager
async def _service(run: Run, *, with_metrics: bool) -> AsyncIterator[_Measured]:
    limits = TrackerLimits(mutable_indexes_max=2 * run.scale.adds)
    storage = open_storage(f"sqlite:{run.new_directory() / 'tracker.db'}")
    registry = TrackerRegistry(storage, limits, service_limits=ServiceLimits())
    if not with_metrics:
        registry.rows.changed = _NoChanges()
        registry.calls.counts = _NoCounts(registry.clock)
    await registry.start()
    server = grpc.aio.server()
    serve_tracker(TrackerServicer(registry), server, registry.calls)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with DelayedTrackerClient.connect(f"127.0.0.1:{port}") as client:
            yield client, ServiceMetrics(registry, version="1") if with_metrics else None
    finally:
        await registry.close()
        await server.stop(None)


async def _cpu_ns_of(on: _Measured, off: _Measured, parts: list[IndexColumns]) -> tuple[int, int]:
    """Return the processor time of adding everything to each of two services, which take turns."""
    async with AsyncExitStack() as stack:
        sides = [
            _Side(metrics, await stack.enter_async_context(await _session(client))) for client, metrics in (on, off)
        ]
        for first in range(0, len(parts), _CALLS_A_TURN):
            for side in sides if first % (2 * _CALLS_A_TURN) else reversed(sides):
                await side.add(parts[first : first + _CALLS_A_TURN])
        for side in sides:
            require("adds", (await side.session.stats()).pending_count == sum(map(len, parts)))
            await side.session.delete()
    with_metrics, without = sides
    return with_metrics.cpu_ns, without.cpu_ns


async def _session(client: DelayedTrackerClient) -> TrackerSession:
    return await client.open_tracker("persistent://lab/main/benchmark", next(_subscriptions))


@dataclass(slots=True)
class _Side:
    """One of two services, and what its turns took."""

    metrics: ServiceMetrics | None
    session: TrackerSession
    cpu_ns: int = 0
    unscraped_s: float = 0.0

    async def add(self, parts: list[IndexColumns]) -> None:
        """Make the calls of one turn, and the scrapes that come meanwhile."""
        begun_ns = time.process_time_ns()
        for part in parts:
            begun_s = time.monotonic()
            await self.session.add_columns(part.deliver_at_ms, part.ledger_id, part.entry_id)
            self.unscraped_s += time.monotonic() - begun_s
            if self.metrics is not None and self.unscraped_s >= _SCRAPE_EVERY_S:
                await self.metrics.scrape()
                self.unscraped_s = 0.0
        self.cpu_ns += time.process_time_ns() - begun_ns
