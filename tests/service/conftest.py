"""A started registry on a manual clock and a storage under control."""

import asyncio

import pytest

from tests.service.shell import ControlledStorage, elapse, make_registry
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
