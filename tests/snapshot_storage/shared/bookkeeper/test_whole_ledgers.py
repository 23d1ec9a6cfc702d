"""A ledger of a tracker is stored whole, or not at all, whichever of its adds fails."""

import random

from delayed_tracker.storage.bookkeeper.ledgers import TrackerLedgers
from delayed_tracker.storage.bookkeeper.registrations import SNAPSHOT, folder_of
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import StorageUnavailable
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
ENTRIES = [b"segment %d" % number for number in range(200)]


async def entries():
    for entry in ENTRIES:
        yield entry


async def test_a_ledger_that_was_created_has_all_its_entries():
    """Bookies fail in the middle, ZooKeeper answers: a ledger that ends there is no success."""
    stored = 0
    for seed in range(100):
        async with MemoryBookKeeper(MemoryCluster(), random.Random(seed), failing=0.005) as client:
            ledgers = TrackerLedgers(client, URL, 1)
            try:
                made = await ledgers.create(folder_of("topic", "cursor"), 1, SNAPSHOT, {}, entries())
            except StorageUnavailable:
                continue
            client.failing = 0
            assert await ledgers.read_all(made.ledger_id) == ENTRIES
            stored += 1
    assert 10 < stored < 90
