"""A tracker in its real shell over SQLite, with a clock that the benchmark moves: everything but the network."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.add_log import AddLog
from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.registry import open_storage
from tests.benchmarks.inputs.shapes import NOW_MS

KEY = TrackerKey("persistent://lab/main/benchmark", "measured")
PATIENCE_S = 600.0
_LOOK_S = 0.001
_MOMENT_S = 0.000_2


@dataclass(slots=True)
class Hosted:
    """One open tracker and its owner."""

    registry: TrackerRegistry
    host: TrackerHost
    clock: ManualClock
    epoch: int

    async def add(self, parts: list[IndexColumns]) -> int:
        """Add batch after batch, as a stream does: effects run in between, and a full tracker holds the next one back.

        Returns: the number of added indexes.
        """
        added = 0
        for part in parts:
            while not self.host.unstored.has_room:
                await self.host.unstored.wait_for_room()
            added += self.host.add(self.epoch, part).added_count
            await asyncio.sleep(0)
        return added

    async def take(self, count: int, batch: int, *, lease_ms: int = 0) -> list[IndexColumns]:
        """Poll until ``count`` indexes came, waiting for indexes that are being loaded."""
        taken: list[IndexColumns] = []
        missing = count
        async with asyncio.timeout(PATIENCE_S):
            while missing > 0:
                delivery = await self.host.poll(self.epoch, max_count=batch, wait_ms=60_000, lease_ms=lease_ms)
                taken.append(delivery.indexes)
                missing -= len(delivery.indexes)
        return taken

    async def pass_time(self, duration_ms: int) -> None:
        """Let time pass, and in the middle of it let everything come that the tracker has asked for.

        A load takes milliseconds of the minutes that pass, and no time at all of a clock that jumps.
        """
        self.clock.advance(duration_ms // 2)
        await asyncio.sleep(0)
        while self.host._gate.runner.in_flight_count:  # noqa: ASYNC110  # effects do not signal their end
            await asyncio.sleep(_MOMENT_S)
        self.clock.advance(duration_ms - duration_ms // 2)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Check the condition every millisecond; the waits last seconds."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110  # effects do not signal their end
                await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def hosted(path: Path, limits: TrackerLimits, *, now_ms: int = NOW_MS) -> AsyncIterator[Hosted]:
    """Open one tracker over the SQLite file at ``path``, which is made if it is missing."""
    async with hosted_over(open_storage(f"sqlite:{path}"), limits, now_ms=now_ms) as tracker:
        yield tracker


@asynccontextmanager
async def hosted_over(
    storage: SnapshotStore,
    limits: TrackerLimits,
    *,
    now_ms: int = NOW_MS,
    workers: Executor | None = None,
    add_log: AddLog | None = None,
) -> AsyncIterator[Hosted]:
    """Open one tracker over a storage and an add log that are not started; with worker threads unless some are given."""
    clock = ManualClock(now_ms)
    registry = TrackerRegistry(storage, limits, clock=clock, workers=workers, add_log=add_log)
    await registry.start()
    try:
        opened = await registry.open(KEY, owner="benchmark", mark_delete=None)
        yield Hosted(registry, registry.host(KEY), clock, opened.epoch)
    finally:
        await registry.close()
