"""Entries that all bookies have lost or damaged, and ledgers that somebody has deleted, take no more with them than their content."""

import random
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.maintenance.claiming import claim_tracker
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.shared.parts import PARTS_MAX
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster
from tests.snapshot_storage.shared.maintenance.stores import at_once, stored_bucket

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
KEY = ("topic", "cursor")
WAYS = [MemoryCluster.lose_entries, MemoryCluster.damage_entries]
"""Ways in which all copies of entries are of no use any more."""
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


@pytest.mark.parametrize("lose", WAYS)
async def test_a_lost_blob_takes_its_values_alone(lose):
    """The tracker opens without the summaries that were in the blob."""
    cluster = MemoryCluster()
    storage = await opened(cluster)
    await add(storage, entry(1))
    await add(storage, entry(2, 20))
    (blob,) = cluster.ledgers
    lose(cluster, blob)
    for reader in (storage, await opened(cluster)):
        assert await summaries(reader) == {1: 0, 2: 20}
    await claim_tracker(await opened(cluster), None, KEY, writer="other", attempt=at_once)


@pytest.mark.parametrize("lose", WAYS)
async def test_commits_go_on_beside_a_lost_blob(lose):
    """A merge of parts leaves out the one that cannot be read."""
    cluster = MemoryCluster()
    storage = await opened(cluster)
    await add(storage, entry(1))
    (blob,) = cluster.ledgers
    lose(cluster, blob)
    count = 2 * PARTS_MAX
    for bucket_id in range(2, count + 1):
        await add(storage, entry(bucket_id, LARGE_BYTES + bucket_id))
    found = await summaries(await opened(cluster))
    assert found == {1: 0, **{number: LARGE_BYTES + number for number in range(2, count + 1)}}
    assert blob in cluster.ledgers


@pytest.mark.parametrize("lose", WAYS)
async def test_lost_rows_are_an_error(lose):
    """A document is not empty because the blob with its rows is lost."""
    cluster = MemoryCluster()
    storage = await opened(cluster, document_bytes_max=300)
    await add(storage, *(entry(bucket_id, 100) for bucket_id in range(1, 9)))
    (blob,) = cluster.ledgers
    lose(cluster, blob)
    with pytest.raises(SnapshotCorrupt, match="lost its rows"):
        await (await opened(cluster)).list(*KEY)


@asynccontextmanager
async def log_of(cluster, seed):
    """Yield the add log of another process."""
    client = MemoryBookKeeper(cluster, random.Random(seed))
    async with client:
        log = BookKeeperAddLog(URL, chance=random.Random(seed), connect=lambda _url: client)
        await log.start()
        yield log
        await log.close()


async def logged(cluster):
    """Log three records of a tracker, and one of another tracker, by a process that ends."""
    async with log_of(cluster, 1) as log:
        for number in range(1, 4):
            assert await log.append([LogAppend(*KEY, 1, number, [b"%d" % number])], writer="1") == []
        assert await log.append([LogAppend("topic", "other", 1, 1, [b"other"])], writer="1") == []


async def read(log, key=KEY):
    """Return the numbers of a tracker's records, and those that are missing."""
    page = await log.read(*key, after=0, bytes_max=1 << 20)
    return [record.number for record in page.records], page.corrupt


@pytest.mark.parametrize("lose", WAYS)
@pytest.mark.parametrize(
    ("lost", "numbers", "holes"),
    [
        ([2], [1, 2], [3]),
        ([1, 2], [1], [2]),
        ([1], [1, 3], [2, 4]),
        ([0, 1, 2], [], [1]),
    ],
    ids=["the last record", "two records", "one between others", "all that is known of the tracker"],
)
async def test_a_hole_moves_with_its_tracker(lose, lost, numbers, holes):
    """A record that the log has lost is missing for the next owner, and the one after that, until it is cut."""
    cluster = MemoryCluster()
    await logged(cluster)
    (ledger_id,) = cluster.ledgers
    lose(cluster, ledger_id, lost)
    for seed in range(2, 5):
        async with log_of(cluster, seed) as log:
            extent = await log.take_over(*KEY, epoch=seed, writer=str(seed))
            assert extent.last_number == holes[-1]
            assert await read(log) == (numbers, tuple((hole, hole) for hole in holes))
    async with log_of(cluster, 5) as log:
        await log.take_over(*KEY, epoch=5, writer="5")
        await log.cut([(*KEY, holes[-1])])
        assert await read(log) == ([], ())
        assert await log.append([LogAppend(*KEY, 5, holes[-1] + 1, [b"next"])], writer="5") == []
    async with log_of(cluster, 6) as log:
        await log.take_over(*KEY, epoch=6, writer="6")
        assert await read(log) == ([holes[-1] + 1], ())


async def test_a_hole_between_two_pages_is_reported_once():
    """It belongs to the page with the record behind it."""
    cluster = MemoryCluster()
    await logged(cluster)
    (ledger_id,) = cluster.ledgers
    cluster.lose_entries(ledger_id, [1])
    async with log_of(cluster, 2) as log:
        await log.take_over(*KEY, epoch=2, writer="2")
        page = await log.read(*KEY, after=0, bytes_max=1)
        assert ([record.number for record in page.records], page.corrupt, page.is_last) == ([1], (), False)
        page = await log.read(*KEY, after=1, bytes_max=1)
        assert ([record.number for record in page.records], page.corrupt[0]) == ([3], (2, 2))


async def test_a_damaged_entry_is_a_hole_for_the_next_owner():
    """Bytes that are no entry are lost as a missing entry is."""
    cluster = MemoryCluster()
    await logged(cluster)
    (ledger,) = cluster.ledgers.values()
    ledger.entries[2] = ledger.entries[2][:-1] + b"?"
    async with log_of(cluster, 2) as log:
        assert await read(log) == ([1, 2], ((3, 3),))
        await log.take_over(*KEY, epoch=2, writer="2")
        assert await read(log) == ([1, 2], ((3, 3),))


async def test_registrations_go_after_their_ledgers():
    """A snapshot whose ledger somebody has deleted is not found again once it was deleted here, too."""
    cluster = MemoryCluster()
    storage = await opened(cluster)
    bucket_id = (await stored_bucket(storage, 1, key=KEY)).bucket_id
    del cluster.ledgers[bucket_id]
    assert [stored.bucket_id for stored in await storage.list_bucket_snapshots(*KEY)] == [bucket_id]
    await storage.delete_bucket_snapshot(bucket_id)
    assert await (await opened(cluster)).list_bucket_snapshots(*KEY) == []


async def test_a_dead_log_goes_without_its_ledgers():
    """An instance of the log whose ledger somebody has deleted leaves no nodes when its last tracker has moved."""
    cluster = MemoryCluster()
    async with log_of(cluster, 1) as log:
        await log.append([LogAppend(*KEY, 1, 1, [b"1"])], writer="1")
    (ledger_id,) = cluster.ledgers
    del cluster.ledgers[ledger_id]
    async with log_of(cluster, 2) as log:
        await log.take_over(*KEY, epoch=2, writer="2")
        assert not [path for path in cluster.nodes if path.endswith(f"/{ledger_id}")]
