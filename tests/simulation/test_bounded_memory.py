"""Several trackers with fast adds and a storage that fails and hangs: the maxima hold and everything comes out."""

import asyncio
import random
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.service.clock import ManualClock, pause
from delayed_tracker.service.errors import Overloaded
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.testing.faulty import FaultPlan, FaultyStorage
from tests.service.harness.registry_life import open_tracker
from tests.service.harness.shell import KEY, TINY, elapse, make_registry

TRACKERS = 6
BATCH = 8
UNSTORED_MAX, TRACKER_UNSTORED_MAX, LOADED_MAX = 90, 40, 30
SEGMENT = 3
LIMITS = replace(TINY, loaded_indexes_max=LOADED_MAX, max_num_buckets=4)


class Crowd:
    """Dispatchers of several trackers that offer, take and acknowledge at random, all from one seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.storage = FaultyStorage(
            MemoryStorage(), FaultPlan(seed=seed), sleep=lambda seconds: pause(self.clock, seconds * 1_000)
        )
        self.registry = make_registry(
            self.storage,
            self.clock,
            limits=LIMITS,
            service_limits=ServiceLimits(
                unstored_indexes_max=UNSTORED_MAX, tracker_unstored_indexes_max=TRACKER_UNSTORED_MAX
            ),
            seed=seed,
        )
        self.hosts = []
        self.next_entry = [0] * TRACKERS
        self.offered = [set() for _ in range(TRACKERS)]
        self.taken = [set() for _ in range(TRACKERS)]
        self.unsettled = set()
        """Positions handed out and not acknowledged: their leases end, and they are in memory again."""
        self.refused_count = self.most_unstored = self.most_loaded = 0

    async def start(self):
        await self.registry.start()
        for number in range(TRACKERS):
            host, given = await open_tracker(self.registry, KEY._replace(subscription=str(number)))
            self.hosts.append((host, given.epoch))

    def check(self):
        unstored = self.registry.unstored
        counts = [sum(host.core_for_reading().unstored_counts()[:1]) for host, _ in self.hosts]
        assert unstored.unstored_count == sum(counts)
        assert unstored.unstored_count < UNSTORED_MAX + BATCH
        assert max(counts) < TRACKER_UNSTORED_MAX + BATCH
        shares = [host.core_for_reading().load_share.held_count for host, _ in self.hosts]
        # Beyond the maximum: positions returned by leases, a segment of each tracker, and the last read-ahead.
        assert sum(shares) < LOADED_MAX + (TRACKERS + 1) * SEGMENT + len(self.unsettled)
        self.most_unstored = max(self.most_unstored, unstored.unstored_count)
        self.most_loaded = max(self.most_loaded, sum(shares))

    def offer(self, number):
        host, epoch = self.hosts[number]
        now = self.clock.now_ms()
        first, count = self.next_entry[number], self.random.randrange(1, BATCH + 1)
        rows = [
            (now + self.random.choice((20, 800, 4_000, 30_000)), 1 + entry // 12, entry % 12)
            for entry in range(first, first + count)
        ]
        try:
            outcome = host.add(epoch, IndexColumns.of(rows))
        except Overloaded:
            self.refused_count += 1
            return
        assert outcome.added_count == len(rows)
        self.next_entry[number] += len(rows)
        self.offered[number].update((ledger, entry) for _, ledger, entry in rows)

    async def take(self, number):
        host, epoch = self.hosts[number]
        due = await host.poll(epoch, max_count=BATCH, wait_ms=0, lease_ms=500)
        rows = list(zip(due.indexes.ledger_id.tolist(), due.indexes.entry_id.tolist(), strict=True))
        self.unsettled.update((number, *row) for row in rows)
        if rows and self.random.random() < 0.8:
            host.ack(epoch, due.lease_id, due.indexes.positions)
            self.taken[number].update(rows)
            self.unsettled.difference_update((number, *row) for row in rows)

    async def step(self):
        kind = self.random.random()
        number = self.random.randrange(TRACKERS)
        if kind < 0.6:
            self.offer(number)
        elif kind < 0.75:
            await self.take(number)
        elif kind < 0.95:
            await elapse(self.clock, self.random.choice((1, 60, 700)))
        else:
            failing = self.random.random() < 0.6
            self.storage.plan = replace(
                self.storage.plan, error_before=0.9 if failing else 0.0, latency_ms=300.0 if failing else 0.0
            )
        self.check()

    async def finish(self):
        """Repair the storage, and let dispatchers take everything."""
        self.storage.plan = replace(self.storage.plan, error_before=0.0, latency_ms=0.0)
        for _ in range(300):
            await elapse(self.clock, 600)
            for number in range(TRACKERS):
                await self.take(number)
            self.check()
            if self.taken == self.offered:
                return
        raise AssertionError("something that was taken on is never handed out")


async def _run(seed):
    crowd = Crowd(seed)
    await crowd.start()
    for _ in range(250):
        await crowd.step()
    await crowd.finish()
    assert crowd.refused_count, "the storage was never too slow"
    assert crowd.most_unstored >= UNSTORED_MAX
    assert crowd.registry.unstored.unstored_count == crowd.registry.loads.held_count == 0
    closing = asyncio.create_task(crowd.registry.close())
    await elapse(crowd.clock, 10_000)
    await closing


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_the_maxima_hold_and_nobody_starves(seed):
    """Maxima are exceeded by at most a batch and a segment for each tracker, and everything comes out at the end."""
    await _run(seed)


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 60))
async def test_the_maxima_hold_in_many_courses_of_events(seed):
    """The maxima hold for many seeds."""
    await _run(seed)
