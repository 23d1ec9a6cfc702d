"""kill -9 under the load of four client processes: nothing is lost or early, and a window of it may come twice."""

import asyncio
import random
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.integration.crashes.load import SETTINGS, running_load

CLIENTS = 4
KILLS = 3
OPENING_EVERY = 5
"""Every fifth kill, from the first on, does not wait for the clients: it may come while trackers are recovered."""
MANY = [pytest.mark.deep, pytest.mark.timeout(3_000)]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.parametrize(
    ("kills", "replays"),
    [
        pytest.param(KILLS, False, id="repeats-unanswered"),
        pytest.param(200, False, id="repeats-unanswered-200", marks=MANY),
        pytest.param(50, True, id="replays-50", marks=MANY),
    ],
)
async def test_kills_under_mixed_load(tmp_path: Path, kills: int, replays: bool):
    """Clients repeat only calls without an answer, or offer again what replay_from says; every answer holds."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    async with running_load(tmp_path, seed, count=CLIENTS, replays=replays) as load:
        for kill in range(kills + 1):
            service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=SETTINGS)
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
