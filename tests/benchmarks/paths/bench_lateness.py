"""Lateness of messages that are handed out while as many are added as become due."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np

from delayed_tracker.client import TrackerSession
from tests.benchmarks.inputs.serving import TOPIC, served
from tests.benchmarks.measure import Run, require
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "100,000 indexes a second in batches of 1,000, each due two seconds after it is offered, and one poller that waits "
    "for them, in one client; ledgers of 50,000, strict delivery, default settings otherwise, so that two buckets a "
    "second are sealed, stored, drained and deleted. Lateness is from the deadline to when the client has the answer."
)
NETWORK_ABOUT = (
    "As above, but 20,000 indexes a second, each due twenty seconds after it is offered, and 50 ms added to every call to "
    "the storage and to the add log. No prefetch window: each bucket is stored, leaves memory, and is read back as early as "
    "reads are measured to take long. The first reads, before anything is measured, count too."
)
NETWORK_MS = 50
BATCH = 1_000
LEDGER = 50_000
DELAY_MS = 2_000
IN_FLIGHT_MAX = 64
POLL_MAX = 10_000
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


@dataclass(frozen=True, slots=True)
class Load:
    """Rate, duration and delay of the messages that are offered."""

    per_s: int
    """Indexes a second."""
    seconds: float
    delay_ms: int
    """Time from an offer to its deadline."""

    @property
    def count(self) -> int:
        """Indexes in all."""
        return int(self.seconds * self.per_s)


@dataclass(slots=True)
class Traffic:
    """Messages that were offered, and the times at which they were handed out."""

    load: Load
    session: TrackerSession
    first_ledger: int
    offered_count: int = 0
    due_on_offer: list[int] = field(default_factory=list)
    """Numbers of messages that were offered too late to be tracked."""
    handed_out: list[np.ndarray] = field(default_factory=list)
    """Numbers of the messages of each poll."""
    lateness_ms: list[np.ndarray] = field(default_factory=list)
    is_over: bool = False

    async def offer(self) -> float:
        """Add at the rate for the time; return the seconds that it took."""
        wanted = self.load.count // BATCH
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        room = asyncio.Semaphore(IN_FLIGHT_MAX)
        async with asyncio.TaskGroup() as calls:
            for number in range(wanted):
                await asyncio.sleep(max(0.0, started_s + number * BATCH / self.load.per_s - loop.time()))
                await room.acquire()
                calls.create_task(self._add(number * BATCH)).add_done_callback(lambda _: room.release())
        self.offered_count = wanted * BATCH
        return loop.time() - started_s

    async def _add(self, first: int) -> None:
        numbers = np.arange(first, first + BATCH)
        deadlines = np.full(BATCH, _now_ms() + self.load.delay_ms) + numbers % 10
        answer = await self.session.add_columns(deadlines, self.first_ledger + numbers // LEDGER, numbers % LEDGER)
        self.due_on_offer += [first + offset for offset in answer.due_offsets]

    async def poll(self) -> None:
        """Take due messages until the adding is over and nothing is left."""
        while not self.is_over:
            messages = await self.session.poll_hand_off(POLL_MAX, wait_ms=100)
            now_ms = time.time_ns() / 1e6
            self.handed_out.append(
                (np.array(messages.ledger_ids) - self.first_ledger) * LEDGER + np.array(messages.entry_ids)
            )
            self.lateness_ms.append(now_ms - np.array(messages.deliver_at_ms))


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure percentiles over all messages, and the reached rate."""
    load = Load(run.scale.handed_off_per_s, run.scale.handed_off_s, DELAY_MS)
    async for row in measured_rows(run, load, key="lateness", what="lateness of hand-offs", settings={}):
        yield row


async def network_rows(run: Run) -> AsyncIterator[Row]:
    """Measure the same of messages that come from snapshots, in a storage that answers slowly."""
    async for row in measured_rows(
        run,
        Load(run.scale.read_back_per_s, run.scale.read_back_s, run.scale.read_back_delay_ms),
        key="network lateness",
        what=f"lateness with {NETWORK_MS} ms added to every request",
        settings={"segmentPrefetchWindowMillis": "0"},
        faults=f"latency_ms={NETWORK_MS}",
    ):
        yield row


async def measured_rows(
    run: Run, load: Load, *, key: str, what: str, settings: dict[str, str], faults: str = ""
) -> AsyncIterator[Row]:
    """Measure a load under strict delivery.

    Args:
        run: how often, and where.
        load: what is offered.
        key: the rows' keys begin with it.
        what: is measured, for the report.
        settings: of the service, besides strict delivery.
        faults: of its storage, see ``served``.
    """
    percentiles: dict[str, list[float]] = {name: [] for name in SHARES}
    rates = []
    for _ in run.fresh_repeats(f"{load.per_s:,} a second in and out", is_long=True):
        lateness_ms, rate = await _repeat(run, load, settings, faults)
        for name, share in SHARES.items():
            percentiles[name].append(float(np.quantile(lateness_ms, share)))
        rates.append(rate)
    for name, samples in percentiles.items():
        yield Row(f"{key} {name}", f"{what}: {name}", Unit.MS, tuple(samples), load.count)
    yield Row(f"{key} rate", "rate of adds that was reached", Unit.MILLION_PER_S, tuple(rates), load.count)


async def _repeat(run: Run, load: Load, settings: dict[str, str], faults: str) -> tuple[np.ndarray, float]:
    """Return the lateness of every message, and millions of adds a second."""
    async with (
        served(run, {"isDelayedDeliveryDeliverAtTimeStrict": "true"} | settings, faults=faults) as service,
        await service.client.open_tracker(TOPIC, "traffic") as session,
    ):
        return await in_and_out(run, session, load)


async def in_and_out(
    run: Run, session: TrackerSession, load: Load, *, first_ledger: int = 1
) -> tuple[np.ndarray, float]:
    """Add and poll at the load's rate; return the lateness of every message, and millions of adds a second.

    Args:
        run: gets the progress.
        session: of a tracker with strict delivery, in which nothing else becomes due meanwhile.
        load: what is offered.
        first_ledger: of the messages; the tracker has nothing of it and those behind it.
    """
    others = (await session.stats()).pending_count
    traffic = Traffic(load, session, first_ledger)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(traffic.poll())
        seconds = await traffic.offer()
        await asyncio.sleep((load.delay_ms + DELAY_MS) / 1_000)
        while (await session.stats()).pending_count > others:
            run.note("waiting for what is still pending")
            await asyncio.sleep(DELAY_MS / 1_000)
        traffic.is_over = True
    came = np.sort(np.concatenate([*traffic.handed_out, np.array(traffic.due_on_offer, np.int64)]))
    require("each message once", np.array_equal(came, np.arange(traffic.offered_count)))
    lateness_ms = np.concatenate(traffic.lateness_ms)
    require("no message early", float(lateness_ms.min()) >= 0)
    if traffic.due_on_offer:
        run.note(f"{len(traffic.due_on_offer):,} were due before they arrived")
    return lateness_ms, traffic.offered_count / seconds / 1e6


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
