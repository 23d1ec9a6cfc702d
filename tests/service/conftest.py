"""A started registry, or a whole service, on a manual clock and a storage under control."""

import asyncio

import pytest

from tests.service.imports import FAR_MS, snapshot
from tests.service.shell import ControlledStorage, elapse, make_registry, running_service
from tracker.service.clock import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def storage():
    return ControlledStorage()


@pytest.fixture
async def registry(storage, clock):
    registry = make_registry(storage, clock)
    await registry.start()
    yield registry
    closing = asyncio.create_task(registry.close())
    await elapse(clock, 0)
    await closing


@pytest.fixture
async def service():
    async with running_service() as running:
        yield running


@pytest.fixture
def two(service):
    """Two buckets that are far from due, of ledgers 10 and 11."""
    far = service.clock.now_ms() + FAR_MS
    return [snapshot(*((far + 400 * entry, ledger, entry) for entry in range(7))) for ledger in (10, 11)]
