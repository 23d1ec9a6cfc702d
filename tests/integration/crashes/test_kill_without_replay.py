"""kill -9 under the load of four client processes: nothing is lost or early, and a window of it may come twice."""

import random
from pathlib import Path

import pytest

from tests.integration.crashes.load import kill_under_load

KILLS = 3
LIVES = 4
"""Services that are killed 50 times each: 200 kills of one take an hour."""
MANY = [pytest.mark.deep, pytest.mark.timeout(3_000)]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("kills", "replays"),
    [
        pytest.param(KILLS, False, id="repeats-unanswered"),
        *(pytest.param(50, False, id=f"repeats-unanswered-50-{life}", marks=MANY) for life in range(LIVES)),
        pytest.param(50, True, id="replays-50", marks=MANY),
    ],
)
async def test_kills_under_mixed_load(tmp_path: Path, kills: int, replays: bool):
    """Clients repeat only calls without an answer, or offer again what replay_from says; every answer holds."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    await kill_under_load(
        tmp_path, kills, seed=seed, replays=replays, storage_url=storage_url, directory_of=lambda _: tmp_path
    )
