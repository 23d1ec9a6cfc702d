"""Metrics of the add log, the measurement of its calls, and what the service says of itself while it fails."""

import asyncio

import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.service.instruments.catalogue import FAMILIES
from delayed_tracker.service.instruments.measured_add_log import LOG_OPERATIONS, MeasuredAddLog
from delayed_tracker.service.instruments.service_families import SHELL_COUNTERS
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.degradation import degradation_of
from delayed_tracker.storage.errors import LogBroken, StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.testing.faulty import FaultPlan
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog
from tests.service.harness.shell import (
    KEY,
    ControlledStorage,
    bucketful,
    elapse,
    failing,
    indexes,
    make_registry,
    settle,
)
from tests.service.metrics.scraping import scraped

LOG_FAMILIES = {
    family.name.removeprefix("delayed_tracker_log_")
    for family in FAMILIES
    if family.name.startswith("delayed_tracker_log_") and family not in SHELL_COUNTERS.values()
}
LIMITS = ServiceLimits(add_log_bytes_max=2**20, consumption_window_positions=7)


def log_values(samples):
    """Return the values of the add log's families by the rest of their names."""
    values = {key[0].removeprefix("delayed_tracker_log_"): value for key, value in samples.items()}
    return {name: values[name] for name in LOG_FAMILIES if name in values}


@pytest.fixture
def log(clock):
    return FaultyAddLog(MemoryAddLog(), FaultPlan())


@pytest.fixture
async def registry(storage, clock, log):
    registry = make_registry(storage, clock, service_limits=LIMITS, add_log=log)
    await registry.start()
    yield registry
    log.plan = FaultPlan()
    closing = asyncio.create_task(registry.close())
    await elapse(clock, 10_000)  # a commit that failed pauses before it is repeated
    await closing


async def opened(registry):
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    return registry.host(KEY), epoch


def degradation(registry):
    return degradation_of(registry.log, registry.access.failures)


async def test_a_commit_and_what_it_made_durable_are_counted(registry, clock):
    """An add is a record in one commit; consumed positions wait for the next one, and are shown with the window."""
    host, epoch = await opened(registry)
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 10), (1, 1, 10), (1, 2, 900_000)))
    waiting = log_values(await scraped(registry))
    assert waiting["pending_bytes"] == waiting["bytes"] == host.log_bytes > 0
    assert (waiting["commits_total"], waiting["records_total"]) == (0, 0)
    await host.until_durable()
    written = log_values(await scraped(registry))
    assert (written["commits_total"], written["records_total"], written["pending_bytes"]) == (1, 1, 0)
    assert (written["bytes"], written["bytes_max"]) == (host.log_bytes, 2**20)
    clock.advance(10)
    delivery = await host.poll(epoch, max_count=2, wait_ms=0, lease_ms=1_000)
    host.ack(epoch, delivery.lease_id, delivery.indexes.positions)
    samples = await scraped(registry)
    assert samples["delayed_tracker_unwritten_consumed_positions",] == host.unwritten_consumed_count == 2
    assert samples["delayed_tracker_unwritten_consumed_positions_max",] == 7
    await elapse(clock, 200)
    samples = await scraped(registry)
    assert samples["delayed_tracker_unwritten_consumed_positions",] == host.unwritten_consumed_count == 0
    assert log_values(samples)["commits_total"] == 2


async def test_a_checkpoint_is_counted(registry, clock):
    """A stored snapshot contains every record: they are cut, and the bytes are gone."""
    host, epoch = await opened(registry)
    # So many that a checkpoint is worth a write: it comes for each 4,096th part of the log's limit.
    for ledger in range(1, 6):
        host.add(epoch, bucketful(clock.now_ms(), ledger))
    await host.until_durable()
    host.seal(epoch)
    await elapse(clock, 1_000)
    values = log_values(await scraped(registry))
    assert (values["checkpoints_total"], values["bytes"]) == (1, 0)


async def test_a_log_that_fails_says_so_until_it_works(registry, clock, log):
    """Failed commits are counted, and the service is degraded, with the reason, until one succeeds."""
    host, epoch = await opened(registry)
    assert degradation(registry) == ""
    log.plan = FaultPlan(error_before=1.0)
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 900_000)))
    with pytest.raises(StorageUnavailable, match="repeat it"):
        await host.until_durable()
    values = log_values(await scraped(registry))
    assert (values["commits_failed_total"], values["failing"], values["broken"]) == (1, 1, 0)
    assert degradation(registry).startswith("the add log is not written, adds fail (a planned fault before append")
    log.plan = FaultPlan()
    await elapse(clock, 100)
    values = log_values(await scraped(registry))
    assert (values["commits_failed_total"], values["failing"], values["commits_total"]) == (1, 0, 1)
    assert degradation(registry) == ""


async def test_a_broken_log_is_not_a_failing_one(registry, clock, log):
    """After a failed fsync the log is broken until the restart."""
    host, epoch = await opened(registry)
    log.inner = ControlledStorage(log.inner)
    log.inner.before["append"] = failing(LogBroken("fsync failed"))
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 900_000)))
    with pytest.raises(StorageUnavailable):
        await host.until_durable()
    await elapse(clock, 60_000)
    values = log_values(await scraped(registry))
    assert (values["failing"], values["broken"], values["commits_failed_total"]) == (0, 1, 1)
    assert degradation(registry) == "the add log is broken, nothing is added until a restart (fsync failed)"


async def test_a_storage_that_takes_no_snapshot_degrades_the_service(registry, storage, clock):
    """The number of trackers is told while their snapshots cannot be stored, and nothing once they are."""
    host, epoch = await opened(registry)
    storage.before["create_bucket_snapshot"] = failing(*[StorageUnavailable("down")] * 3)
    host.add(epoch, bucketful(clock.now_ms(), 1))
    host.seal(epoch)
    await elapse(clock, 400)
    assert degradation(registry) == "snapshots are not stored (trackers: 1)"
    await elapse(clock, 2_000)
    assert degradation(registry) == ""


async def test_without_an_add_log_there_are_no_samples(storage, clock):
    """The families of the log are absent if adds are durable with their bucket."""
    registry = make_registry(storage, clock)
    await registry.start()
    samples = await scraped(registry)
    assert not log_values(samples)
    assert ("delayed_tracker_unwritten_consumed_positions",) not in samples
    await registry.close()


async def test_calls_to_the_log_are_measured_like_those_to_the_storage(clock):
    """Each operation of the log has its outcomes and durations; slow ones are logged."""
    inner = ControlledStorage(MemoryAddLog())
    log = MeasuredAddLog(inner, "shelf", clock, slow_ms=100)
    registry = make_registry(ControlledStorage(), clock, add_log=log)
    await registry.start()
    host, epoch = await opened(registry)

    async def takes_a_second(*_args, **_kwargs):
        clock.advance(1_000)

    inner.before["append"] = takes_a_second
    host.add(epoch, indexes(clock.now_ms(), (1, 0, 900_000)))
    with capture_logs() as logs:
        await host.until_durable()
        host.cancel(epoch, PositionColumns.of([(1, 0)]))
        inner.before["append"] = failing(LogBroken("fsync failed"))
        with pytest.raises(StorageUnavailable):
            await host.until_durable()
    slow = [line for line in logs if line["event"] == "storage is slow"]
    assert [(line["operation"], line["duration_ms"], line["tracker_count"]) for line in slow] == [
        ("log_append", 1_000, 1)
    ]
    samples = await scraped(registry, add_log=log)
    operations = "delayed_tracker_storage_operations_total"
    shown = {key[2].removeprefix("operation=") for key in samples if key[0] == operations}
    assert shown == set(LOG_OPERATIONS)
    for outcome in ("ok", "broken"):
        assert samples[operations, "backend=shelf", "operation=log_append", f"outcome={outcome}"] == 1
    durations = "delayed_tracker_storage_operation_duration_seconds_sum"
    assert samples[durations, "backend=shelf", "operation=log_append"] == pytest.approx(1)
    await settle()
    await registry.close()
