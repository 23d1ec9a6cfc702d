"""Fixtures: a real service for one test or a module, and a client connected to it through each shell."""

from pathlib import Path

import pytest
import pytest_asyncio

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.client.harness.shells import Shell
from tests.integration.harness.dispatcher import PATIENT
from tests.integration.harness.lab import TOPIC


@pytest.fixture
def service_settings() -> dict[str, str]:
    """Return no settings; override it for other settings than the defaults."""
    return {}


@pytest.fixture
def storage_url(tmp_path: Path) -> str:
    """Return the URL of a file of the test; override it for another storage."""
    return f"sqlite:{tmp_path / 'tracker.db'}"


@pytest.fixture
async def service(tmp_path: Path, storage_url: str, service_settings: dict[str, str]):
    running = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=service_settings)
    try:
        yield running
    finally:
        await running.ensure_stopped()


@pytest.fixture(scope="module")
def shared_settings() -> dict[str, str]:
    """Return no settings; override it for other settings of the service that all tests of a module share."""
    return {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_service(tmp_path_factory: pytest.TempPathFactory, shared_settings: dict[str, str]):
    """Run one service for all tests of a module: starting one takes two seconds of a core."""
    directory = tmp_path_factory.mktemp("shared")
    url = f"sqlite:{directory / 'tracker.db'}"
    running = await ServiceProcess.start(directory, storage_url=url, settings=shared_settings)
    try:
        yield running
    finally:
        await running.ensure_stopped()


@pytest.fixture(params=Shell, ids=lambda shell: shell.value)
async def client(request, shared_service):
    """Connect a client through each shell; no tracker is left to the next test."""
    async with request.param.connect(shared_service.grpc_address, settings=PATIENT) as connected:
        yield connected
        for tracker in [tracker async for tracker in connected.list_trackers()]:
            await connected.delete_tracker(tracker.topic, tracker.subscription)


@pytest.fixture
async def session(client):
    async with await client.open_tracker(TOPIC, "workers") as opened:
        yield opened
