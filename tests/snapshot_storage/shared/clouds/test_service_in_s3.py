"""A service with its snapshots in S3: each kill -9 is followed by a recovery by a process with an empty disk."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.bookkeeper.servers.proxy import running_proxy
from tests.integration.crashes.test_kill import finish, open_for, work_until_killed
from tests.integration.crashes.test_kill_with_logs_apart import kill_on_machines
from tests.integration.harness.committed import committed_snapshots
from tests.integration.harness.dispatcher import SETTINGS, Dispatcher, connect
from tests.snapshot_storage.shared.clouds.conftest import Cloud

KILLS = 20
AWAY_S = 60
# Without an add log the dispatcher offers again what it has not finished, and the storage loses no snapshot.
REPLAYED = {**SETTINGS, "trackerDurableAdds": "false", "delayedDeliveryMaxNumBuckets": "4"}


async def health(service: ServiceProcess) -> str:
    """Return what the service says of itself."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"http://{service.http_address}/health/ready")
        return str(answer.json()["status"])


async def until(reached: Callable[[], object]) -> None:
    """Wait until the load has come so far."""
    async with asyncio.timeout(60):
        while not reached():  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_kills_at_random_moments(s3: Cloud, place: str, tmp_path: Path):
    """Every committed snapshot is whole after a kill, no message is lost, and none comes early."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dispatcher = Dispatcher(random.Random(seed))
    storage_url = f"s3:{s3.rest(place)}"
    for kill in range(KILLS):
        directory = tmp_path / str(kill)
        directory.mkdir()
        service = await ServiceProcess.start(directory, storage_url=storage_url, settings=REPLAYED)
        try:
            await work_until_killed(dispatcher, service, dispatcher.rng.uniform(0.2, 2.0))
        finally:
            await service.ensure_stopped()
        committed = await committed_snapshots(storage_url)
        assert all(positions <= dispatcher.offered.keys() for positions in committed.values())
    await finish(dispatcher, tmp_path, storage_url, REPLAYED)
    assert dispatcher.sealed_seen, "the load must have sealed buckets"
    assert dispatcher.delivered_count > KILLS * 20, "the load must have delivered messages"


@pytest.mark.deep
@pytest.mark.timeout(1_200)
async def test_kills_of_services_with_a_log_each(s3: Cloud, place: str, tmp_path: Path):
    """With an add log on each machine, the dispatcher offers again only what no snapshot has, and nothing is lost."""
    await kill_on_machines(tmp_path, KILLS, f"s3:{s3.rest(place)}")


@pytest.mark.deep
@pytest.mark.timeout(300)
async def test_a_store_that_is_away(s3: Cloud, place: str, tmp_path: Path):
    """While S3 is away, messages are added and delivered, and when it is back, all that was sealed meanwhile is stored."""
    dispatcher = Dispatcher(random.Random(1))
    async with running_proxy(s3.server.port) as proxy:
        storage_url = f"s3:{s3.rest(place, endpoint=f'http://{proxy.address}')}"
        service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=REPLAYED)
        try:
            async with connect(service.grpc_address) as client, await open_for(dispatcher, client) as session:
                working = asyncio.create_task(dispatcher.work(session))
                await until(lambda: dispatcher.sealed_seen)
                proxy.turn_away()
                offered, delivered = len(dispatcher.offered), dispatcher.delivered_count
                await asyncio.wait({working}, timeout=AWAY_S)
                assert not working.done()
                assert await health(service) == "degraded"
                assert len(dispatcher.offered) > offered + 500
                assert dispatcher.delivered_count > delivered + 200
                proxy.serve_again()
                stored = set(dispatcher.sealed_seen)
                await until(lambda: dispatcher.sealed_seen.keys() - stored)
                assert await health(service) == "ready"
                working.cancel()
                await asyncio.wait({working})
            assert await service.stop() == 0
        finally:
            await service.ensure_stopped()
        await finish(dispatcher, tmp_path, storage_url, REPLAYED)
