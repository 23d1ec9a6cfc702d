"""Consumed positions of a bucket whose entry has no summary are in the catalogue before the add log forgets them."""

import copy
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.registry_life import open_tracker, positions_of
from tests.service.harness.shell import (
    KEY,
    ControlledStorage,
    as_time_passes,
    bucketful,
    elapse,
    failing,
    make_registry,
)

FAR_MS = 10_000_000
CANCELLED = [(1, 0), (1, 1), (1, 2)]
LEFT = [(1, 3), (1, 4)]
SUMMARIES = pytest.mark.parametrize("summary", [b"", b"a newer program's"], ids=["foreign", "newer"])


class Service:
    """A process with one tracker of one stored bucket, whose catalogue entry gets another summary."""

    def __init__(self, clock, *, log=True):
        self.clock, self.storage = clock, ControlledStorage()
        self.log = MemoryAddLog() if log else None

    async def begin(self, summary):
        self.registry = make_registry(
            self.storage,
            self.clock,
            add_log=self.log,
            service_limits=ServiceLimits(tracker_idle_unload_ms=60_000),
        )
        await self.registry.start()
        host, opened = await open_tracker(self.registry)
        host.add(opened.epoch, bucketful(self.clock.now_ms(), 1, delay_ms=FAR_MS))
        host.seal(opened.epoch)
        await elapse(self.clock, 2_000)
        await self.registry.close_tracker(KEY, opened.epoch)
        state = await self.storage.inner.list(*KEY)
        (entry,) = state.entries
        await self.storage.inner.replace(
            *KEY, remove=[entry.bucket_id], add=[replace(entry, summary=summary)], epoch=state.epoch
        )
        self.host, opened = await open_tracker(self.registry)
        self.host.cancel(opened.epoch, PositionColumns.of(CANCELLED))
        await self.host.until_durable()

    async def after_a_crash(self):
        """Return what the next process tracks."""
        storage, log = copy.deepcopy((self.storage.inner, self.log))
        for each in (storage, log):
            if each is not None:
                each._started = False
        again = make_registry(ControlledStorage(storage), self.clock, add_log=log, seed=1)
        await again.start()
        host, _ = await open_tracker(again)
        found = tracked_by(host)
        await again.close()
        return found


def tracked_by(host):
    positions = positions_of(1)
    return [each for each, tracked in zip(positions, host.contains(positions), strict=True) if tracked]


@SUMMARIES
async def test_a_crash_after_a_checkpoint_brings_nothing_back(clock, summary):
    service = Service(clock)
    await service.begin(summary)
    assert await service.after_a_crash() == LEFT
    assert await service.host.checkpoint()
    assert service.host.log_bytes == 0
    assert await service.after_a_crash() == LEFT
    assert (await service.storage.inner.list(*KEY)).entries[0].summary == summary
    await service.registry.close()


@SUMMARIES
async def test_an_idle_tracker_comes_back_without_what_was_cancelled(clock, summary):
    service = Service(clock)
    await service.begin(summary)
    await elapse(clock, 200_000)
    assert service.host.state is HostState.UNLOADED
    assert tracked_by(await as_time_passes(clock, service.registry.loaded_host(KEY))) == LEFT
    await service.registry.close()


@SUMMARIES
@pytest.mark.parametrize("log", [True, False], ids=["log", "no-log"])
async def test_a_close_records_it_with_a_log_or_without(clock, summary, log):
    service = Service(clock, log=log)
    await service.begin(summary)
    await service.registry.close()
    assert await service.after_a_crash() == LEFT


async def test_a_snapshot_that_cannot_be_read_fails_the_checkpoint(clock):
    """The log is not cut, and a crash brings nothing back."""
    service = Service(clock)
    await service.begin(b"")
    service.storage.before["get_bucket_snapshot_metadata"] = failing(*[StorageUnavailable("down")] * 100)
    assert not await as_time_passes(clock, service.host.checkpoint())
    assert service.host.counters.checkpoints_failed == 1
    assert service.host.log_bytes > 0
    assert await service.after_a_crash() == LEFT
    del service.storage.before["get_bucket_snapshot_metadata"]
    await service.registry.close()


async def test_an_unchanged_bucket_is_not_read(clock):
    """A second checkpoint, and the close, ask only for what has changed since the first."""
    service = Service(clock)
    await service.begin(b"")
    assert await service.host.checkpoint()
    reads = service.storage.calls.count("get_bucket_snapshot_metadata")
    await service.host.checkpoint()
    await service.registry.close()
    assert service.storage.calls.count("get_bucket_snapshot_metadata") == reads
