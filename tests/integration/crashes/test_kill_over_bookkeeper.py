"""kill -9 of a service whose snapshots and add log are in BookKeeper: a process with an empty disk goes on."""

import random
from pathlib import Path

import pytest

from tests.bookkeeper.servers.fixtures import allow_downloads, cluster, zookeeper
from tests.integration.crashes.load import kill_under_load

__all__ = ["cluster", "zookeeper"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


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
    storage_url = (
        f"bookkeeper:zk://{cluster.zookeeper.address}/ledgers?root=/kills{seed}&ensemble=3&writeQuorum=2&ackQuorum=2"
    )

    def directory_of(number: int) -> Path:
        directory = tmp_path / f"process{number}"
        directory.mkdir()
        return directory

    await kill_under_load(tmp_path, kills, seed=seed, replays=False, storage_url=storage_url, directory_of=directory_of)
