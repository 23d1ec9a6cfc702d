"""A live cluster whose buckets are gone: rebuilt by Spark from its bookies, published, and recovered by the broker."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from delayed_tracker.cluster.address import ClusterAddress, connected
from delayed_tracker.cluster.bucket_ledger import read_bucket_ledger
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.protocol import SnapshotStore
from tests.cluster.pulsar.commands import run_spark_rebuild, run_tracker
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import HOUR_MS, ROOT, Broker, now_ms
from tests.cluster.pulsar.topics import (
    FELL_BACK,
    RECOVERED,
    SUBSCRIPTIONS,
    Topic,
    fill,
    subscribed,
    unload,
    wait_attached,
)

TICK_MS: Final = 1_000
"""Delayed messages are delivered a tick early at most."""
ENTRIES_READ: Final = "pulsar_ml_cache_pendingreads_entries_read_total"


@pytest.mark.parametrize(
    ("count", "delay_s"),
    [
        pytest.param(1_500, 420, marks=pytest.mark.long),
        pytest.param(6_000, 240, marks=pytest.mark.deep),
        pytest.param(50_000, 600, marks=pytest.mark.deep),
    ],
)
@pytest.mark.timeout(1_800)
def test_a_broker_recovers_what_was_rebuilt_from_its_bookies(broker: Broker, tmp_path: Path, count: int, delay_s: int):
    """Messages are recovered from published buckets or replayed, and delivered once and in time, whenever they were sent."""
    due = now_ms() + delay_s * 1_000
    topics = [Topic(broker.new_topic(name)) for name in ("orders", "two words, 50%2F50 & more", "compacted")]
    for topic in topics:
        times = [due + number * 7 % 5_000 for number in range(count // len(topics))]
        fill(broker, topic, times, SUBSCRIPTIONS, keyed=topic is topics[2])
        remove_buckets(broker, topic)
    replayed = entries_of_a_replay(broker, topics[0])

    flow = broker.clients.steady(topics[1].name, [due + 10_000 - now_ms()], per_second=20)
    storage = f"sqlite:{tmp_path / 'rebuilt.db'}"
    settings = ("--broker-conf", str(broker.configuration))
    names = "|".join(re.escape(topic.name) for topic in topics)
    ran = run_spark_rebuild(
        tmp_path, "rebuild", "--source", broker.url, "--topics-pattern", names, "--commit", storage,
        "--staging", str(tmp_path / "staging"), *settings, "--json",
    )  # fmt: skip
    assert ran.status == 0, ran.err
    fresh = flow.settle().ids
    topics[1].messages.update(fresh)
    unload(broker, topics)
    ran = run_tracker("pulsar", "publish", "--from", storage, "--to", broker.url, *settings, "--yes", "--json")
    assert ran.status == 0, ran.err

    adopted, published = f"sqlite:{tmp_path / 'adopted.db'}", 0
    for topic in topics:
        ran = run_tracker("pulsar", "inspect", broker.url, "--topic", topic.name, "--json")
        assert ran.status == 0, ran.out
        published += ran.document["message_count"]
        ran = run_tracker("pulsar", "adopt", "--from", broker.url, "--to", adopted, "--topic", topic.name, "--yes")
        assert ran.status == 0, ran.err
        asyncio.run(assert_adopted(broker, adopted, topic))

    read, before = broker.admin.metric(ENTRIES_READ), broker.log_size()
    with subscribed(broker, topics, acknowledge=True) as consumers:
        for topic in topics:
            for name in SUBSCRIPTIONS:
                wait_attached(broker, topic, name)
        read_at_load = broker.admin.metric(ENTRIES_READ) - read
        assert now_ms() < due - TICK_MS, "the machine was too slow for the delay of this test"
        recovered = [
            int(found[1]) for line in broker.log_lines(RECOVERED, before) if (found := re.search(RECOVERED, line))
        ]
        print(
            f"\na replay of {topics[0].name} reads {replayed:g}; {read_at_load:g} read at load; recovered: {recovered}"
        )
        assert len(recovered) == len(topics) * len(SUBSCRIPTIONS)
        # Later the broker deletes buckets that it has drained, all at once, and is in its own way with that.
        assert broker.log_lines(f"BadVersion|{FELL_BACK}", before) == []
        # What is not in buckets is replayed. Two subscriptions share the cache, so that reads do not add up to that.
        assert sum(recovered) == published
        assert read_at_load < len(SUBSCRIPTIONS) * len(fresh) + replayed * len(topics) / 2

        for topic in topics:
            for name in SUBSCRIPTIONS:
                expected = topic.expected(name)
                received = consumers[topic.name, name].received(expected.total(), timeout_s=delay_s)
                assert Counter(message.id for message in received) == expected
                assert all(message.late_ms >= -TICK_MS for message in received)
        # Nothing comes twice, not even later.
        wait_until(
            lambda: all(not broker.admin.delayed(topic.name, name) for topic in topics for name in SUBSCRIPTIONS)
        )
        for topic in topics:
            for name in SUBSCRIPTIONS:
                received = consumers[topic.name, name].received()
                assert Counter(message.id for message in received) == topic.expected(name)


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_a_rebuild_that_publishes_itself(broker: Broker, tmp_path: Path):
    """Spark's tasks write the buckets of a topic that no broker has loaded; one that is loaded is refused, and harmless."""
    topic = Topic(broker.new_topic("by-spark"))
    fill(broker, topic, [now_ms() + HOUR_MS + number for number in range(3_000)], SUBSCRIPTIONS)
    remove_buckets(broker, topic)
    commit = f"pulsar:zk://{broker.zookeeper.address}{ROOT}"
    arguments = ("--source", broker.url, "--topic", topic.name, "--staging", str(tmp_path / "staging"), "--commit", commit,
                 "--broker-conf", str(broker.configuration), "--json")  # fmt: skip

    broker.admin.load(topic.name)
    ran = run_spark_rebuild(tmp_path, "rebuild", *arguments)
    assert ran.status != 0
    assert f"pulsar-admin topics unload {topic.name}" in ran.err
    broker.admin.unload(topic.name)
    ran = run_spark_rebuild(tmp_path, "rebuild", *arguments)
    assert ran.status == 0, ran.err

    before = broker.log_size()
    with subscribed(broker, [topic], acknowledge=False):
        for name in SUBSCRIPTIONS:
            wait_attached(broker, topic, name)
    recovered = [int(found[1]) for line in broker.log_lines(RECOVERED, before) if (found := re.search(RECOVERED, line))]
    # The rest is in ledgers with too few messages for a bucket.
    assert [count > 2_000 for count in recovered] == [True, True]
    assert broker.log_lines(f"BadVersion|{FELL_BACK}", before) == []


async def assert_adopted(broker: Broker, url: str, topic: Topic) -> None:
    """Compare the snapshots of a storage with the brokers' ledgers, byte for byte."""
    async with opened_storage("adopted", url) as storage, connected(ClusterAddress.parse(broker.url)) as cluster:
        for name in SUBSCRIPTIONS:
            ledgers = [int(ledger_id) for ledger_id in broker.buckets(topic.name, name).values()]
            published = sorted([[entry async for entry in read_bucket_ledger(cluster, each)] for each in ledgers])
            catalogue = await storage.snapshots.list(topic.name, name)
            copies = sorted([await all_entries(storage.snapshots, each.bucket_id) for each in catalogue.entries])
            assert copies == published


async def all_entries(storage: SnapshotStore, bucket_id: int) -> list[bytes]:
    """Return the metadata and all segments of a snapshot as they are stored."""
    metadata = await storage.get_bucket_snapshot_metadata(bucket_id)
    count = len(decode_metadata(metadata).segment_bits)
    return [metadata, *await storage.get_bucket_snapshot_segments(bucket_id, 1, count)]


def remove_buckets(broker: Broker, topic: Topic) -> None:
    """Remove all buckets of a topic that is not loaded."""
    for name in SUBSCRIPTIONS:
        assert broker.remove_buckets(topic.name, name) > 0


def entries_of_a_replay(broker: Broker, topic: Topic) -> float:
    """Return how many entries the broker reads when it loads a topic without buckets; those that it makes are removed."""
    read = broker.admin.metric(ENTRIES_READ)
    with subscribed(broker, [topic], acknowledge=False):
        for name in SUBSCRIPTIONS:
            wait_attached(broker, topic, name)
        read = broker.admin.metric(ENTRIES_READ) - read
    remove_buckets(broker, topic)
    return read
