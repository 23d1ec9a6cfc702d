"""Fixtures: a scripted service, and a session on it through each shell."""

from collections.abc import AsyncIterator

import pytest

from delayed_tracker.client import ClientSettings
from tests.client.harness.scripted_service import ScriptedService, scripted_service
from tests.client.harness.shells import Shell

TOPIC = "persistent://shop/orders/events"


@pytest.fixture
async def service() -> AsyncIterator[ScriptedService]:
    async with scripted_service() as running:
        yield running


@pytest.fixture(params=Shell, ids=lambda shell: shell.value)
def shell(request) -> Shell:
    return request.param


@pytest.fixture
async def client(service: ScriptedService, shell: Shell):
    settings = ClientSettings(batch_max=4, connect_timeout_s=30.0, call_timeout_s=30.0)
    async with shell.connect(service.address, settings=settings) as connected:
        yield connected


@pytest.fixture
async def session(client):
    async with await client.open_tracker(TOPIC, "billing") as opened:
        yield opened
