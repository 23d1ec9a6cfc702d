"""Row 57: an allocation fails in the middle of a step. The half-done work is dropped, and nothing is lost or early."""

import asyncio
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerBroken, TrackerNotOpen
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.memory import MemoryStorage
from tests.service.harness.shell import KEY, ControlledStorage, bucketful, elapse, indexes, make_registry, rows, settle

SOON_MS = 2_000
EVERY = 7
"""Distance between failures, in calls into the core; testing all calls takes a minute."""


class Allocations:
    """Fails one call into the core, counted from its start, like a failed allocation."""

    def __init__(self, failing_call: int):
        self._calls_left = failing_call
        self.failed = False

    def __call__(self, frame, event, _argument):
        if event == "call" and "tracker/delayed_tracker/core/" in frame.f_code.co_filename:
            self._calls_left -= 1
            if not self._calls_left:
                self.failed = True
                raise MemoryError

    @contextmanager
    def counted(self) -> Iterator[None]:
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


async def _tracker(storage, clock) -> tuple[TrackerRegistry, int]:
    """Return a tracker with a bucket in storage and three positions in memory."""
    registry = make_registry(storage, clock)
    await registry.start()
    epoch = (await registry.open(KEY, owner="test", mark_delete=None)).epoch
    for batch in _replay(clock):
        registry.host(KEY).add(epoch, batch)
    await settle()
    return registry, epoch


def _replay(clock) -> list[IndexColumns]:
    return [bucketful(clock.now_ms(), 1), indexes(clock.now_ms(), *((2, entry, SOON_MS) for entry in range(3)))]


def _mixed(clock) -> IndexColumns:
    """Return rows of which one refuses a tracked position, others are repeats, and which seal twice."""
    refused = [(2, 0, -1)]
    fresh = [(2, entry, SOON_MS) for entry in range(1, 6)] + [(3, entry, SOON_MS) for entry in range(5)] + [(4, 0, 9)]
    return indexes(clock.now_ms(), *refused, *fresh)


async def test_row_57_an_allocation_that_fails_while_adding_leaves_nothing_half_done() -> None:
    """At any failing call the caller gets an error, the tracker opens as stored, and a replay adds the rest."""
    for failing_call in itertools.count(1, EVERY):
        storage, clock = MemoryStorage(), ManualClock()
        registry, epoch = await _tracker(storage, clock)
        allocations = Allocations(failing_call)
        batch = _mixed(clock)
        waiting = asyncio.create_task(registry.host(KEY).poll(epoch, max_count=9, wait_ms=60_000, lease_ms=1_000))
        await settle()
        with capture_logs() as logs, suppress(TrackerBroken), allocations.counted():
            registry.host(KEY).add(epoch, batch)
        if not allocations.failed:
            waiting.cancel()
            await registry.close()
            return
        await ServiceMetrics(registry, version="1").scrape()  # still works
        with pytest.raises(TrackerBroken, match="open the tracker again"):
            await waiting
        with pytest.raises(TrackerNotOpen):
            registry.host(KEY)
        assert [(line["log_level"], line["topic"], line["subscription"]) for line in logs] == [("error", *KEY)]

        opened = await registry.open(KEY, owner="test", mark_delete=None)
        assert opened.recovered_count in (5, 15), "the buckets that were stored, whole"
        host = registry.host(KEY)
        for again in (*_replay(clock), batch):
            host.add(opened.epoch, again)
        await settle()
        host.core_for_reading().check()
        assert host.stats().pending_count == 5 + 5 + 5 + 1
        assert rows(await host.poll(opened.epoch, max_count=99, wait_ms=0, lease_ms=1_000)) == []
        await elapse(clock, SOON_MS)
        delivered = rows(await host.poll(opened.epoch, max_count=99, wait_ms=0, lease_ms=1_000))
        assert sorted(delivered) == sorted(set(delivered))
        assert len(delivered) == 11
        await registry.close()


@pytest.mark.parametrize("failing_call", range(1, 30, 4))
async def test_row_57_an_allocation_that_fails_while_a_result_is_taken_keeps_what_is_stored(failing_call) -> None:
    """The snapshot is in the catalogue as after a crash at that point, and the next open recovers it."""
    storage, clock = ControlledStorage(), ManualClock()
    registry, epoch = await _tracker(storage, clock)
    allocations = Allocations(failing_call)

    async def out_of_memory(*_args, **_kwargs):
        sys.setprofile(allocations)

    storage.after["replace"] = out_of_memory
    try:
        registry.host(KEY).add(
            epoch, indexes(clock.now_ms(), *((2, entry, SOON_MS) for entry in range(3, 6)), (3, 0, 9))
        )
        await settle()
    finally:
        sys.setprofile(None)
        del storage.after["replace"]
    assert allocations.failed
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    opened = await registry.open(KEY, owner="test", mark_delete=None)
    assert opened.recovered_count == 11
    registry.host(KEY).core_for_reading().check()
    assert registry.counters.orphans_swept == registry.counters.results_forgotten == 0
    await registry.close()


async def test_row_57_an_allocation_that_fails_while_time_passes_stops_no_other_tracker() -> None:
    """A wake-up that fails closes its tracker, and the wake-ups of others continue."""
    storage, clock = ControlledStorage(), ManualClock()
    registry, epoch = await _tracker(storage, clock)
    other = KEY._replace(subscription="other")
    other_epoch = (await registry.open(other, owner="test", mark_delete=None)).epoch
    registry.host(KEY).add(epoch, indexes(clock.now_ms(), (2, 9, 1)))
    registry.host(other).add(other_epoch, indexes(clock.now_ms(), (1, 0, 1)))
    await elapse(clock, 10)
    for key, its_epoch in ((KEY, epoch), (other, other_epoch)):
        assert rows(await registry.host(key).poll(its_epoch, max_count=1, wait_ms=0, lease_ms=1_000))
    with Allocations(1).counted():
        await elapse(clock, 1_000)
    with pytest.raises(TrackerNotOpen):
        registry.host(KEY)
    assert registry.host(other).stats().leased_count == 0
    await registry.close()
