"""Steps of the registry tests: open a tracker, fill it, restart the registry."""

import asyncio

from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.storage.errors import StorageUnavailable
from tests.service.harness.shell import (
    KEY,
    Gate,
    bucketful,
    elapse,
    indexes,
    make_registry,
    settle,
)
from tests.simulation.durable_world import SharedByProcesses

FAR_MS = 1_000_000


def down():
    return StorageUnavailable("down")


async def open_tracker(registry, key=KEY, *, owner="tests", mark_delete=None):
    opened = await registry.open(key, owner=owner, mark_delete=mark_delete)
    return registry.host(key), opened


async def restarted(registry, storage, clock, **kwargs):
    """Return a new registry on the same storage."""
    await registry.close()
    again = make_registry(storage, clock, **kwargs)
    await again.start()
    return again


async def closed_in_time(registry, clock):
    """Close a registry whose work may need time to pass."""
    closing = asyncio.create_task(registry.close())
    await elapse(clock, 60_000)
    await closing


async def after_a_kill(storage, clock, log):
    """Return the registry of another process, which opens what the first one has left; that one writes no more."""
    storage.before["replace"] = Gate()
    again = make_registry(SharedByProcesses(storage.inner), clock, add_log=SharedByProcesses(log))
    await again.start()
    return again


async def fill(host, epoch, clock, buckets=5, *, delay_ms=FAR_MS):
    for ledger in range(1, buckets + 1):
        host.add(epoch, bucketful(clock.now_ms(), ledger, delay_ms=delay_ms))
    host.add(epoch, indexes(clock.now_ms(), (buckets + 1, 0, delay_ms)))
    await settle()


def positions_of(*ledgers):
    return PositionColumns.of([(ledger, entry) for ledger in ledgers for entry in range(5)])
