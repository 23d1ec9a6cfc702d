"""Soak in virtual time: a week of deadlines, changing consumers, storage faults and merges; no index is lost."""

import asyncio
from dataclasses import replace

import pytest

from delayed_tracker.core.values.limits import TrackerKind
from tests.service.harness.shell import TINY
from tests.simulation.world import World

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Soak(World):
    """Simulation with the times of a real topic: deadlines up to a week, retries and prefetching in minutes."""

    base = replace(TINY, prefetch_window_ms=600_000, retry_backoff_ms=300_000, max_step_per_segment_ms=HOUR_MS)
    buckets_max = (1, 2, 4)
    delays_ms = (0, 60_000, HOUR_MS, 6 * HOUR_MS, DAY_MS, 3 * DAY_MS, 7 * DAY_MS)
    pauses_ms = (1_000, 10_000, 60_000, 600_000, 2 * HOUR_MS)
    drain_pause_ms = HOUR_MS

    async def run_for(self, span_ms):
        await self.start()
        end_ms = self.clock.now_ms() + span_ms
        steps = 0
        while self.clock.now_ms() < end_ms:
            await self.step()
            steps += 1
        await self.end()
        return steps


async def _soak(seed, span_ms, kind):
    soak = Soak(seed, kind)
    failures = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context.get("exception") or context["message"])
    )
    try:
        steps = await soak.run_for(span_ms)
        assert not failures, failures
    except BaseException as error:
        error.add_note(f"soak seed {seed}; last events: {soak.trace[-5:]}")
        raise
    # Every index is accounted for: it came out or its message was cleared, and no other index came out.
    assert soak.delivered == set(soak.deadlines)
    print(f"{steps} steps, {len(soak.deadlines)} messages, {soak.merged_count} merges, {soak.crash_count} crashes")
    return soak


@pytest.mark.slow
@pytest.mark.parametrize("kind", TrackerKind)
async def test_a_day_in_virtual_time(kind):
    """The same rules hold for a day, short enough for every run."""
    soak = await _soak(1, DAY_MS, kind)
    assert len(soak.deadlines) > 50


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", TrackerKind)
@pytest.mark.parametrize("seed", range(2, 7))
async def test_a_week_in_virtual_time(seed, kind):
    """Every index is accounted for through changing consumers, storage failures, crashes and merges."""
    soak = await _soak(seed, 7 * DAY_MS, kind)
    assert len(soak.deadlines) > 500
    assert soak.crash_count
    assert bool(soak.stored_count) == bool(soak.merged_count) == (kind is TrackerKind.BUCKET)
