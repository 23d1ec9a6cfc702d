"""kill -9 of a service whose snapshots and add log are in BookKeeper: a process with an empty disk goes on."""

import asyncio
import random
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.bookkeeper.servers.fixtures import allow_downloads, cluster, zookeeper
from tests.integration.crashes.load import SETTINGS, running_load

__all__ = ["cluster", "zookeeper"]

CLIENTS = 4
OPENING_EVERY = 5
"""Every fifth kill, from the first on, does not wait for the clients: it may come while trackers are recovered."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def pytest_collection_modifyitems(items):
    """Give the tests more time, because the first may wait for the download of the servers."""
    allow_downloads(items)


@pytest.mark.parametrize(
    "kills",
    [2, pytest.param(20, marks=[pytest.mark.deep, pytest.mark.timeout(1_800)])],
    ids=lambda kills: f"{kills}-kills",
)
async def test_another_process_goes_on(tmp_path: Path, cluster, kills: int):
    """Nothing is replayed, and nothing is lost or early; each process has a directory of its own."""
    cluster.require(3)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    storage_url = (
        f"bookkeeper:zk://{cluster.zookeeper.address}/ledgers?root=/kills{seed}&ensemble=3&writeQuorum=2&ackQuorum=2"
    )
    async with running_load(tmp_path, seed, count=CLIENTS, replays=False) as load:
        for kill in range(kills + 1):
            directory = tmp_path / f"process{kill}"
            directory.mkdir()
            service = await ServiceProcess.start(directory, storage_url=storage_url, settings=SETTINGS)
            try:
                load.publish(service.grpc_address, draining=kill == kills)
                if kill < kills:
                    if kill % OPENING_EVERY:
                        await load.until_working()
                    await asyncio.sleep(rng.uniform(0.1, 1.5))
                    load.require_running()
                    await service.kill()
                else:
                    await load.until_drained()
                    assert await service.stop() == 0
            finally:
                await service.ensure_stopped()
        twice = load.audit()
        print(f"twice, by kill: {dict(twice)}")
        facts = [load.facts(topic) for topic in load.topics]
    assert all(each.delivered_count > 20 * kills for each in facts), "every client must have delivered"
