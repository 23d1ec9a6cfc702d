"""A scripted service and a session on it."""

from collections.abc import AsyncIterator

import pytest

from tests.client.scripted_service import ScriptedService, scripted_service
from tracker.client import ClientSettings, DelayedTrackerClient, TrackerSession

TOPIC = "persistent://shop/orders/events"


@pytest.fixture
async def service() -> AsyncIterator[ScriptedService]:
    async with scripted_service() as running:
        yield running


@pytest.fixture
async def session(service: ScriptedService) -> AsyncIterator[TrackerSession]:
    settings = ClientSettings(batch_max=4, call_timeout_s=5.0)
    async with (
        DelayedTrackerClient.connect(service.address, settings=settings) as client,
        await client.open_tracker(TOPIC, "billing") as opened,
    ):
        yield opened
