"""Tests of the listing of topics, subscriptions and bucket ledgers, in a real ZooKeeper."""

import pytest

from delayed_tracker.cluster import listing
from delayed_tracker.cluster.cursor_node import BucketProperty
from delayed_tracker.cluster.errors import TooManyBucketLedgers
from delayed_tracker.cluster.listing import BucketLedger, ClusterListing
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import SubscriptionNotFound, TopicNotFound
from delayed_tracker.ledger.topic_name import TopicName
from tests.cluster.made_cluster import SUBSCRIPTION, TOPIC, MadeCluster, indexes_of

pytestmark = pytest.mark.slow

SPACED = TopicName.parse("persistent://t/ns/a b%2Fc*~")
OLD = TopicName.parse("persistent://t/west/ns/old")
PARTITION = TopicName.parse("persistent://t/ns/parted-partition-1")


def ignore(_done: int, _total: int) -> None:
    """Take progress."""


async def test_subscriptions_with_buckets_are_listed(made: MadeCluster):
    """Names with spaces, of partitions, and of namespaces with a cluster are decoded; subscriptions without buckets are left out."""
    late, early, bad = (
        BucketProperty.of(9, 10, 77),
        BucketProperty.of(2, 3, 76),
        BucketProperty("#pulsar.internal.delayed.bucket_x", "1"),
    )
    await made.cursor([bad, late, early], SPACED, "a/b c")
    await made.cursor([early], OLD)
    await made.cursor([early], PARTITION)
    await made.cursor([], TOPIC)
    await made.set(made.address.cursor_node(TOPIC, "torn"), b"\x08")
    steps = []
    found = await ClusterListing(made.cluster).subscriptions(progress=lambda done, total: steps.append((done, total)))
    assert [(each.topic, each.subscription) for each in found] == [
        (SPACED, "a/b c"), (TOPIC, "torn"), (PARTITION, SUBSCRIPTION), (OLD, SUBSCRIPTION)
    ]  # fmt: skip
    assert found[0].properties == (early, late, bad)
    assert "does not decode" in found[1].damage
    assert steps[-1] == (4, 4)


async def test_one_topic_and_one_subscription_are_chosen(made: MadeCluster):
    """A partitioned topic is its partitions; unknown names are errors that say what there is."""
    named = BucketProperty.of(2, 3, 76)
    await made.cursor([named], PARTITION)
    await made.cursor([named], PARTITION, "other")
    await made.cursor([named], TOPIC)
    lister = ClusterListing(made.cluster)
    (found,) = await lister.subscriptions("persistent://t/ns/parted", "other", progress=ignore)
    assert (found.topic, found.subscription) == (PARTITION, "other")
    with pytest.raises(TopicNotFound, match="similar names: persistent://t/ns/orders"):
        await lister.subscriptions("persistent://t/ns/order", progress=ignore)
    with pytest.raises(SubscriptionNotFound, match="no subscription 'nobody'"):
        await lister.subscriptions(str(TOPIC), "nobody", progress=ignore)
    with pytest.raises(InvalidInput, match="no topic can have this name"):
        await lister.subscriptions("persistent://../ns/order", progress=ignore)


async def test_bucket_ledgers_are_known_by_their_metadata(made: MadeCluster, monkeypatch):
    """Ledgers of topics and of our own storage are none; names that no node can have belong to nobody."""
    first = await made.bucket(indexes_of([5]))
    open_one = await made.bucket(indexes_of([6]), subscription="other", close=False)
    strange = await made.bucket(indexes_of([6]), custom={"pulsar/delayedIndexTopic": b"persistent://../x/y"})
    await made.bucket(indexes_of([6]), custom={"component": b"managed-ledger"})
    await made.bucket(indexes_of([6]), custom={"delayed-tracker/root": b"/delayed-tracker"})
    torn = await made.bucket(indexes_of([6]))
    await made.set(made.ledger_node(torn.bucket_id), b"torn")
    lister = ClusterListing(made.cluster)
    steps = []
    found = await lister.scan_ledgers(progress=lambda done, total: steps.append((done, total)))
    assert [str(each.ledger_id) for each in found.buckets] == [first.value, open_one.value, strange.value]
    assert [each.closed for each in found.buckets] == [True, False, True]
    assert [each.owner for each in found.buckets] == [(TOPIC, SUBSCRIPTION), (TOPIC, "other"), None]
    assert (found.ledger_count, found.damaged_count, found.damaged) == (6, 1, (torn.bucket_id,))
    assert steps == [(6, 6)]
    chosen = await lister.scan_ledgers([TOPIC], "other", progress=ignore)
    assert [str(each.ledger_id) for each in chosen.buckets] == [open_one.value]
    monkeypatch.setattr(listing, "BUCKET_LEDGERS_MAX", 2)
    with pytest.raises(TooManyBucketLedgers, match="more than 2 ledgers of buckets; give --topic"):
        await lister.scan_ledgers(progress=ignore)


async def test_more_ledgers_than_one_batch(made: MadeCluster, monkeypatch):
    """Ledgers are read in batches, in all folders of the tree."""
    monkeypatch.setattr(listing, "_LEDGERS_PER_BATCH", 2)
    named = await made.bucket(indexes_of([5]))
    metadata = (await made.cluster.client.zookeeper.get(made.ledger_node(named.bucket_id))).value
    for place in ("00/0001/L0000", "21/4748/L3646", "000/0000/0042/9496/L7301"):
        await made.set(f"{made.address.root}/ledgers/{place}", metadata)
    found = await ClusterListing(made.cluster).scan_ledgers(progress=ignore)
    assert {each.ledger_id for each in found.buckets} >= {10_000, 2_147_483_646, 4_294_967_301}
    assert found.ledger_count == 4


def test_owner_of_a_ledger_without_names():
    """A ledger without topic or subscription belongs to nobody."""
    assert BucketLedger(1, "", "s", "", True, 0).owner is None
    assert BucketLedger(1, str(TOPIC), "", "", True, 0).owner is None
    assert BucketLedger(1, str(TOPIC), ".", "", True, 0).owner is None
    assert BucketLedger(1, str(TOPIC), "a/b", "", True, 0).owner == (TOPIC, "a/b")
