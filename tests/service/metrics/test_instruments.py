"""Measurements of the service: early hand-outs, and recoveries with any outcome."""

import asyncio
import dataclasses

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.instruments.instruments import Instruments
from delayed_tracker.storage.errors import StorageUnavailable
from tests.service.harness.shell import KEY, OTHER, TINY, Gate, elapse, failing, indexes, make_registry, settle
from tests.service.metrics.scraping import scraped


def test_a_message_handed_out_early_is_counted():
    """Each index that was not due by the cutoff is counted as early, and not as late."""
    instruments = Instruments(ManualClock())
    instruments.note_handed_out(KEY, indexes(1_000, (1, 0, -5), (1, 1, 10), (1, 2, 11), (1, 3, 12)), 1_010, 1_000)
    assert instruments.early_count == 2
    assert sum(instruments.lateness.histogram().counts) == 4
    assert instruments.lateness.histogram().sum == pytest.approx(0.005)


async def test_recoveries_are_measured_whatever_becomes_of_them(storage, clock):
    """Recoveries in progress are measured by the oldest one, ended ones by their outcome."""
    registry = make_registry(storage, clock)
    await registry.start()
    gate = Gate()
    storage.before["list"] = gate
    opening = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
    await elapse(clock, 3_000)
    later = asyncio.create_task(registry.open(OTHER, owner="tests", mark_delete=None))
    await elapse(clock, 1_000)
    samples = await scraped(registry)
    assert samples["delayed_tracker_recovering_trackers",] == 2
    assert samples["delayed_tracker_longest_recovery_seconds",] == pytest.approx(4)
    gate.open()
    await asyncio.gather(opening, later)
    samples = await scraped(registry)
    assert samples["delayed_tracker_longest_recovery_seconds",] == 0
    assert samples["delayed_tracker_recovery_duration_seconds_sum", "outcome=succeeded"] == pytest.approx(5)

    storage.before["list"] = failing(*[StorageUnavailable("gone")] * 9)
    failed = asyncio.create_task(registry.open(KEY._replace(subscription="failing"), owner="tests", mark_delete=None))
    await elapse(clock, 10_000)
    with pytest.raises(StorageUnavailable):
        await failed
    storage.before["list"] = Gate()
    hanging = asyncio.create_task(registry.open(KEY._replace(subscription="hanging"), owner="tests", mark_delete=None))
    await settle()
    await registry.close()
    await asyncio.gather(hanging, return_exceptions=True)
    counts = {
        outcome: sum(histogram.counts) for outcome, histogram in registry.instruments.recoveries.by_outcome.items()
    }
    assert counts == {"succeeded": 2, "failed": 1, "cancelled": 1}


async def test_offers_are_counted_by_what_they_were_answered(storage, clock):
    """Indexes with a deadline too far away and acknowledged ones are counted by their result."""
    registry = make_registry(storage, clock, limits=dataclasses.replace(TINY, max_delay_ms=1_000))
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=Position(1, 1))).epoch
    rows = [(1, 0, 100), (1, 1, 100), (1, 2, 100), (1, 3, 1_001), (1, 4, 5_000), (1, 5, 6_000)]
    registry.host(KEY).add(epoch, indexes(clock.now_ms(), *rows))
    samples = await scraped(registry)
    results = {
        key[1].removeprefix("result="): value
        for key, value in samples.items()
        if key[0] == "delayed_tracker_offered_indexes_total" and value
    }
    assert results == {"added": 1, "below_mark_delete": 2, "beyond_max_delay": 3}
    await registry.close()
