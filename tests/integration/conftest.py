"""A real service for one test, and the client connected to it through each shell."""

from pathlib import Path

import pytest

from tests.client.shells import Shell
from tests.integration.lab import TOPIC
from tracker.cli.demo.service_process import ServiceProcess


@pytest.fixture
def service_settings() -> dict[str, str]:
    """Override for other settings than the defaults."""
    return {}


@pytest.fixture
def storage_url(tmp_path: Path) -> str:
    """Override for another storage than a file of the test's own."""
    return f"sqlite:{tmp_path / 'tracker.db'}"


@pytest.fixture
async def service(tmp_path: Path, storage_url: str, service_settings: dict[str, str]):
    running = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=service_settings)
    try:
        yield running
    finally:
        await running.ensure_gone()


@pytest.fixture(params=Shell, ids=lambda shell: shell.value)
async def client(request, service):
    async with request.param.connect(service.grpc_address) as connected:
        yield connected


@pytest.fixture
async def session(client):
    async with await client.open_tracker(TOPIC, "workers") as opened:
        yield opened
