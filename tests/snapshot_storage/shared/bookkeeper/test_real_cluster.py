"""Storage and add log over a real ZooKeeper and real bookies keep their contracts."""

import uuid

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.registrations import folder_of
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotNotFound, SnapshotTooLarge
from delayed_tracker.storage.testing.contract import CONTRACT_CHECKS
from delayed_tracker.storage.testing.contract_log import LOG_CHECKS
from delayed_tracker.storage.testing.contract_shared import SHARED_CHECKS
from delayed_tracker.storage.testing.shared_faults import SharedFaults
from tests.snapshot_storage.shared.bookkeeper.faulty_storage import FaultyStorage

LOG_CHECKS_SHARED = [check for check in LOG_CHECKS if check.__name__ != "a_log_has_one_opener"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(params=[1, pytest.param(3, marks=pytest.mark.deep)], ids=["one bookie", "three bookies"])
def url_of(cluster, request):
    """Return the URL of a name: each test has roots of its own."""
    cluster.require(request.param)
    quorum = min(request.param, 2)
    test = uuid.uuid4().hex

    def url(name):
        return BookKeeperUrl.parse(
            f"zk://{cluster.zookeeper.address}/ledgers?root=/{test}/{name}&ensemble={request.param}&writeQuorum={quorum}"
            f"&ackQuorum={quorum}"
        )

    return url


@pytest.mark.parametrize("check", CONTRACT_CHECKS, ids=lambda check: check.__name__)
async def test_storage_keeps_the_contract(url_of, check):
    """Each check of every storage passes."""
    await check(lambda name: FaultyStorage(url_of(name), SharedFaults()))


@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
async def test_storage_keeps_the_shared_contract(url_of, check):
    """Each check of shared storages passes."""
    await check(lambda name, faults: FaultyStorage(url_of(name), faults))


@pytest.mark.parametrize("check", LOG_CHECKS_SHARED, ids=lambda check: check.__name__)
async def test_log_keeps_the_contract(url_of, check):
    """Each check of every add log passes, but that it has one opener."""
    await check(lambda name: BookKeeperAddLog(url_of(name)))


async def _segments(*segments):
    for segment in segments:
        yield segment


async def _stored(storage, *segments):
    return await storage.create_bucket_snapshot(
        b"metadata", _segments(*segments), bucket_key="key", topic="topic", cursor="cursor", epoch=1
    )


@pytest.fixture
async def storage(url_of):
    """Return a storage that is started."""
    made = BookKeeperStorage(url_of("storage"))
    await made.start()
    yield made
    await made.close()


async def test_a_segment_larger_than_a_frame_is_refused(storage):
    """Nothing of the snapshot stays, and the next one is stored."""
    with pytest.raises(SnapshotTooLarge, match="above"):
        await _stored(storage, b"small", bytes(6_000_000))
    assert await storage.list_bucket_snapshots("topic", "cursor") == []
    assert await storage._ledgers.registered(folder_of("topic", "cursor")) == []
    bucket_id = await _stored(storage, b"small", bytes(5_000_000))
    assert await storage.get_bucket_snapshot_length(bucket_id) == len("metadata") + len("small") + 5_000_000


async def test_a_foreign_ledger_is_neither_read_nor_deleted(storage, cluster, url_of):
    """Neither one without our metadata, nor one of another root."""
    async with BookKeeper(cluster.zookeeper.address) as client:
        writer = await client.create(ensemble=1, write_quorum=1, ack_quorum=1, custom={"component": b"managed-ledger"})
        await writer.add(b"a message")
        await writer.close()
        other = BookKeeperStorage(url_of("other"))
        await other.start()
        foreign = [writer.ledger_id, await _stored(other, b"segment")]
        for ledger_id in foreign:
            with pytest.raises(SnapshotNotFound, match="not one of"):
                await storage.get_bucket_snapshot_metadata(ledger_id)
            await storage.delete_bucket_snapshot(ledger_id)
            assert (await client.open(ledger_id)).metadata.closed
        await other.close()


async def test_pulsar_finds_what_it_expects(storage, cluster):
    """The custom metadata of a snapshot are those of Pulsar's, and two of ours."""
    bucket_id = await _stored(storage, b"segment")
    async with BookKeeper(cluster.zookeeper.address) as client:
        metadata = await client.metadata(bucket_id)
        assert {key: value for key, value in metadata.custom.items() if not key.startswith("delayed-tracker/")} == {
            "application": b"pulsar",
            "component": b"delayed-index-bucket",
            "pulsar/delayedIndexBucketKey": b"key",
            "pulsar/delayedIndexTopic": b"topic",
            "pulsar/delayedIndexCursor": b"cursor",
        }
        assert metadata.password == b""
        reader = await client.open(bucket_id)
        assert [entry.payload for entry in await reader.read(0, 1)] == [b"metadata", b"segment"]
