"""Entries that all bookies have lost take no more with them than what was in them."""

import random

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.maintenance.claiming import claim_tracker
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.shared.parts import PARTS_MAX
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster
from tests.snapshot_storage.shared.maintenance.stores import at_once

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
KEY = ("topic", "cursor")
LARGE_BYTES = 600
"""Size of a summary that is in a ledger of its own."""


def entry(bucket_id, size=LARGE_BYTES):
    """Return an entry whose summary has a size."""
    summary = bytes([bucket_id]) * size
    return CatalogueEntry(bucket_id, Position(bucket_id, 0), Position(bucket_id, 9), summary, b"", None, bucket_id)


async def opened(cluster, **options):
    """Return a storage of another process."""
    storage = BookKeeperStorage(
        URL, chance=random.Random(1), connect=lambda _url: MemoryBookKeeper(cluster, random.Random(2)), **options
    )
    await storage.start()
    return storage


async def add(storage, *entries):
    """Commit entries of the first epoch."""
    await storage.replace(*KEY, remove=(), add=entries, epoch=1, writer="w")


async def summaries(storage):
    """Return the sizes of the summaries by bucket."""
    state = await storage.list(*KEY)
    assert state.corrupt == ()
    return {found.bucket_id: len(found.summary) for found in state.entries}


async def test_a_lost_blob_takes_its_values_alone():
    """The tracker opens without the summaries that were in the blob."""
    cluster = MemoryCluster()
    storage = await opened(cluster)
    await add(storage, entry(1))
    await add(storage, entry(2, 20))
    (blob,) = cluster.ledgers
    cluster.lose_entries(blob)
    for reader in (storage, await opened(cluster)):
        assert await summaries(reader) == {1: 0, 2: 20}
    await claim_tracker(await opened(cluster), None, KEY, writer="other", attempt=at_once)


async def test_commits_go_on_beside_a_lost_blob():
    """A merge of parts leaves out the one that cannot be read."""
    cluster = MemoryCluster()
    storage = await opened(cluster)
    await add(storage, entry(1))
    (blob,) = cluster.ledgers
    cluster.lose_entries(blob)
    count = 2 * PARTS_MAX
    for bucket_id in range(2, count + 1):
        await add(storage, entry(bucket_id, LARGE_BYTES + bucket_id))
    found = await summaries(await opened(cluster))
    assert found == {1: 0, **{number: LARGE_BYTES + number for number in range(2, count + 1)}}
    assert blob in cluster.ledgers


async def test_lost_rows_are_an_error():
    """A document is not empty because the blob with its rows is lost."""
    cluster = MemoryCluster()
    storage = await opened(cluster, document_bytes_max=300)
    await add(storage, *(entry(bucket_id, 100) for bucket_id in range(1, 9)))
    (blob,) = cluster.ledgers
    cluster.lose_entries(blob)
    with pytest.raises(SnapshotCorrupt, match="lost its rows"):
        await (await opened(cluster)).list(*KEY)
