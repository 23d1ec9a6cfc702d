"""Commits for brokers, over real bookies: tasks write ledgers as Pulsar does, the driver switches the cursors."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.cluster.address import Cluster, ClusterAddress, connected
from delayed_tracker.cluster.bucket_ledger import read_bucket_ledger
from delayed_tracker.cluster.change_record import read_changes
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import BackupUnusable, TopicLoaded
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import SubscriptionNotFound
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.spark.commit.pulsar_commit import BucketLedgerWriter, PulsarCommit
from delayed_tracker.spark.commit.shared_commit import SnapshotToWrite, WriteSnapshots, WrittenSnapshot
from delayed_tracker.spark.commit.staging import Staging
from delayed_tracker.spark.errors import StagedWorkInvalid
from delayed_tracker.storage.errors import SnapshotTooLarge
from tests.bookkeeper.servers.cluster import Cluster as Servers
from tests.bookkeeper.servers.fixtures import cluster, zookeeper
from tests.cluster.brokers import ToldTopics, told_topics
from tests.cluster.made_cluster import MadeCluster, made_cluster
from tests.spark.commit.test_commit import KEY, OTHER, staged_bucket, tracker_of

__all__ = ["cluster", "zookeeper"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
TOPIC = TopicName.parse(KEY.topic)


@pytest.fixture
def staging(tmp_path):
    return Staging(str(tmp_path / "staging"))


@pytest.fixture
def told():
    with told_topics() as made:
        yield made


@pytest.fixture
def made_url(cluster: Servers, told: ToldTopics) -> str:
    """Return the address of a cluster with an unloaded topic of ledgers 1 to 3, and two subscriptions."""

    async def make() -> str:
        async with made_cluster(cluster) as made:
            await made.set(f"{made.address.brokers}/b:1", told.registration)
            for topic, subscription in (KEY, OTHER):
                await made.topic(TopicName.parse(topic), {1: 10, 2: 10, 3: 10})
                await made.cursor([], TopicName.parse(topic), subscription)
            return made.address.text

    return asyncio.run(make()).replace("bookkeeper+zk:", "pulsar:zk://")


def in_cluster(url: str, work):
    """Return what ``work`` returns for the cluster, from an event loop of its own."""

    async def run():
        async with connected(ClusterAddress.parse(url)) as found:
            return await work(MadeCluster(found))

    return asyncio.run(run())


async def buckets_of(made: MadeCluster, key=KEY) -> tuple[BucketProperty, ...]:
    node = await made.cluster.cursor_node(TopicName.parse(key.topic), key.subscription)
    return CursorNode.decode(node.value).buckets


async def ledger_ids(made: MadeCluster) -> set[int]:
    return {ledger async for ledger in made.cluster.client.ledger_ids()}


async def entries(cluster: Cluster, bucket: BucketProperty) -> list[bytes]:
    return [entry async for entry in read_bucket_ledger(cluster, bucket.bucket_id)]


def by_tasks(url: str) -> WriteSnapshots:
    """Return what writes as tasks do: pickled to another process in Spark, here with a connection of its own."""

    def write(snapshots: Sequence[SnapshotToWrite]) -> list[WrittenSnapshot]:
        with BucketLedgerWriter(url) as writer:
            return [writer.write(snapshot) for snapshot in snapshots]

    return write


def commit_all(url: str, write: WriteSnapshots, *trackers):
    with PulsarCommit(url) as target:
        target.begin([KEY, OTHER])
        return target.commit_all(trackers, write, buckets_at_once=100)


def test_tasks_write_what_was_staged(staging, made_url, tmp_path: Path):
    """Ledgers and properties are those of a broker, old buckets are gone, and the backup has them."""
    buckets = [staged_bucket(staging, 1), staged_bucket(staging, 2, parts=1)]
    url = f"{made_url}&backup={tmp_path / 'backup'}"
    first = commit_all(made_url, by_tasks(made_url), tracker_of(staged_bucket(staging, 3)))
    assert [(one.replaced_count, one.unchanged) for one in first] == [(0, False)]
    (old,) = in_cluster(made_url, buckets_of)

    committed = commit_all(url, by_tasks(made_url), tracker_of(*buckets), tracker_of(buckets[0], key=OTHER))
    assert [(one.replaced_count, one.unchanged) for one in committed] == [(1, False), (0, False)]
    for key, expected in ((KEY, buckets), (OTHER, buckets[:1])):
        found = in_cluster(made_url, partial(buckets_of, key=key))
        assert [bucket.ledgers for bucket in found] == [(one.first.ledger_id, one.last.ledger_id) for one in expected]
        for bucket, one in zip(found, expected, strict=True):
            content = one.open()
            stored = in_cluster(made_url, lambda made, bucket=bucket: entries(made.cluster, bucket))
            assert stored == [content.metadata, *content.segments()]
    assert old.bucket_id not in in_cluster(made_url, ledger_ids)
    changes = read_changes(tmp_path / "backup")
    assert list(changes.deleted) == [old.bucket_id]
    assert len(changes.created) == 3


def test_a_backup_that_cannot_be_created_is_refused_at_the_beginning(staging, made_url, tmp_path: Path):
    """A file that exists, or whose directory takes none, costs no work; a job that ends before the commit leaves no file."""
    before = in_cluster(made_url, ledger_ids)
    file = tmp_path / "backup"
    url = f"{made_url}&backup={file}"
    with PulsarCommit(url) as target:
        target.begin([KEY])
        assert file.exists()
    assert not file.exists()
    file.write_text("of an earlier job")
    written: list[SnapshotToWrite] = []

    def write(snapshots: Sequence[SnapshotToWrite]) -> Sequence[WrittenSnapshot]:
        written.extend(snapshots)
        return by_tasks(made_url)(snapshots)

    with pytest.raises(InvalidInput, match="the file exists"):
        commit_all(url, write, tracker_of(staged_bucket(staging, 1)))
    with pytest.raises(BackupUnusable, match="it cannot be created"):
        commit_all(f"{made_url}&backup={tmp_path / 'none' / 'backup'}", write, tracker_of(staged_bucket(staging, 1)))
    assert written == []
    with PulsarCommit(url) as target, pytest.raises(InvalidInput, match="the file exists"):
        target.commit_all([tracker_of(staged_bucket(staging, 1))], write, buckets_at_once=1)
    assert len(written) == 1
    assert in_cluster(made_url, ledger_ids) == before
    assert file.read_text() == "of an earlier job"


def test_a_loaded_topic_is_refused_at_the_end(staging, made_url, told):
    """A topic may be loaded while the job reads; at the switch it is refused, and the ledgers are deleted."""
    told.loaded.add(TOPIC)
    before = in_cluster(made_url, ledger_ids)
    with pytest.raises(TopicLoaded, match="pulsar-admin topics unload"):
        commit_all(made_url, by_tasks(made_url), tracker_of(staged_bucket(staging, 1)))
    assert in_cluster(made_url, ledger_ids) == before
    asked = told.asked_count
    told.on_ask = lambda: told.loaded.clear() if told.asked_count > asked + 4 else None
    committed = commit_all(
        f"{made_url}&waitSeconds=60", by_tasks(made_url), tracker_of(staged_bucket(staging, 1)), tracker_of(key=OTHER)
    )
    assert [one.unchanged for one in committed] == [False, True]


def test_a_commit_by_the_driver_alone(staging, made_url):
    """The protocol of all targets works as well."""
    with PulsarCommit(made_url) as target:
        target.begin([KEY])
        committed = target.commit(tracker_of(staged_bucket(staging, 1)))
    assert committed.epoch > 0
    assert [bucket.ledgers for bucket in in_cluster(made_url, buckets_of)] == [(1, 1)]


def test_what_cannot_be_committed(staging, made_url, monkeypatch):
    """Unknown subscriptions are refused before anything is read, lost parts and large metadata before the switch."""
    with PulsarCommit(made_url) as target, pytest.raises(SubscriptionNotFound):
        target.begin([KEY._replace(subscription="none")])
    lost = staged_bucket(staging, 1)
    staging.remove([lost.parts[0].key])
    before = in_cluster(made_url, ledger_ids)
    with pytest.raises(StagedWorkInvalid):
        commit_all(made_url, by_tasks(made_url), tracker_of(lost))
    large = staged_bucket(staging, 2)
    monkeypatch.setattr(BookKeeper, "payload_bytes_max", property(lambda _: large.metadata_bytes - 1))
    with pytest.raises(SnapshotTooLarge, match="lower delayedDeliveryMinIndexCountPerBucket"):
        commit_all(made_url, by_tasks(made_url), tracker_of(large))
    assert in_cluster(made_url, ledger_ids) == before
    assert in_cluster(made_url, buckets_of) == ()
