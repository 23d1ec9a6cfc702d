"""The add log over BookKeeper keeps the contract of add logs, over a cluster in memory."""

import random
from collections import defaultdict

import pytest

from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.testing.contract_log import LOG_CHECKS
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
CHECKS = [check for check in LOG_CHECKS if check.__name__ != "a_log_has_one_opener"]


@pytest.mark.parametrize("roll_bytes", [1, 64 * 1024 * 1024], ids=["a ledger a commit", "one ledger"])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_log_keeps_the_contract(check, roll_bytes):
    """Each check of every add log passes, however often ledgers roll over."""
    clusters = defaultdict(MemoryCluster)
    chance = random.Random(1)

    def opened(name):
        return BookKeeperAddLog(
            URL,
            roll_bytes=roll_bytes,
            chance=chance,
            connect=lambda _url: MemoryBookKeeper(clusters[name], random.Random(2)),
        )

    await check(opened)
