"""Ways to harm a broker's delayed index, each on a real broker: refused, or found by inspect and mended by repair."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from delayed_tracker.cluster.address import ClusterAddress, connected
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import TopicLoaded
from delayed_tracker.cluster.switch import require_not_loaded, write_cursor
from delayed_tracker.ledger.topic_name import TopicName
from tests.cluster.pulsar.commands import Ran, run_tracker
from tests.cluster.pulsar.servers.admin import AdminFailed
from tests.cluster.pulsar.servers.broker import BUCKET_PROPERTY, HOUR_MS, Broker, now_ms
from tests.cluster.pulsar.topics import FELL_BACK, RECOVERED, Topic, fill, subscribed, wait_attached

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
NAME = "worker"
RACES = 50


@pytest.fixture
def topic(broker: Broker) -> Topic:
    """Return an unloaded topic of 2,000 delayed messages, whose subscription has buckets."""
    made = Topic(broker.new_topic("trapped"))
    fill(broker, made, [now_ms() + HOUR_MS + number for number in range(2_000)], [NAME])
    return made


def inspected(broker: Broker, topic: Topic, status: int) -> Any:
    ran = run_tracker("pulsar", "inspect", broker.url, "--topic", topic.name, "--json")
    assert ran.status == status, ran.out + ran.err
    return ran.document


def repaired(broker: Broker, topic: Topic, *options: str) -> Ran:
    return run_tracker("pulsar", "repair", broker.url, "--topic", topic.name, "--yes", "--json", *options)


def faults(document: Any) -> set[str]:
    return {
        problem["fault"]
        for each in document["subscriptions"]
        for bucket in each["buckets"]
        for problem in bucket["problems"]
    }


def node_version(broker: Broker, topic: Topic) -> int:
    with broker.zookeeper.connected() as client:
        return int(client.get(broker.cursor_node(topic.name, NAME))[1].version)


def test_a_loaded_topic_is_refused(broker: Broker, topic: Topic, tmp_path: Path):
    """Publishing to a topic that a broker has loaded changes nothing, and names the command that unloads it."""
    storage = f"sqlite:{tmp_path / 'adopted.db'}"
    ran = run_tracker("pulsar", "adopt", "--from", broker.url, "--to", storage, "--topic", topic.name, "--yes")
    assert ran.status == 0, ran.err
    publish = ("pulsar", "publish", "--from", storage, "--to", broker.url, "--yes")
    settings = ("--broker-conf", str(broker.configuration))

    broker.admin.load(topic.name)
    version = node_version(broker, topic)
    ran = run_tracker(*publish, *settings)
    assert ran.status != 0
    assert f"pulsar-admin topics unload {topic.name}" in ran.err
    assert node_version(broker, topic) == version

    broker.admin.unload(topic.name)
    version = node_version(broker, topic)
    ran = run_tracker(*publish, *settings)
    assert ran.status == 0, ran.err
    assert node_version(broker, topic) == version + 1
    before = broker.log_size()
    with subscribed(broker, [topic], [NAME], acknowledge=False):
        wait_attached(broker, topic, NAME)
    assert len(broker.log_lines(RECOVERED, before)) == 1


def test_a_property_without_its_ledger(broker: Broker, topic: Topic):
    """A missing ledger breaks recovery and the deletion of the subscription, until repair removes its property."""
    # A broker reads a ledger that it has written as long as it runs, whatever became of its metadata.
    broker.clients.disconnect()
    broker.stop()
    broker.delete_ledger(next(iter(broker.buckets(topic.name, NAME).values())))
    broker.start()
    before = broker.log_size()
    with subscribed(broker, [topic], [NAME], acknowledge=False):
        wait_attached(broker, topic, NAME)
        assert broker.log_lines(FELL_BACK, before)
    # A consumer could: the tracker in memory that it has forgets the buckets.
    with pytest.raises(AdminFailed):
        broker.admin.delete_subscription(topic.name, NAME)
    broker.admin.unload(topic.name)

    assert "ledger missing" in faults(inspected(broker, topic, status=1))
    ran = repaired(broker, topic)
    assert ran.status == 0, ran.err
    inspected(broker, topic, status=0)
    before = broker.log_size()
    with subscribed(broker, [topic], [NAME], acknowledge=False):
        wait_attached(broker, topic, NAME)
        assert not broker.log_lines(FELL_BACK, before)
    broker.admin.delete_subscription(topic.name, NAME)


def test_ranges_that_share_a_ledger(broker: Broker, topic: Topic):
    """Two ranges that overlap are found, and repair leaves one of them, from which the broker recovers."""
    buckets = broker.buckets(topic.name, NAME)
    one, other, *_ = sorted(buckets, key=lambda name: int(name.split("_")[1]))
    # As if the second had the first one's ledgers, too.
    broker.set_bucket(topic.name, NAME, other, None)
    start, end = one.split("_")[1], other.split("_")[2]
    broker.set_bucket(topic.name, NAME, f"{BUCKET_PROPERTY}{start}_{end}", buckets[other])

    assert "ranges overlap" in faults(inspected(broker, topic, status=1))
    ran = repaired(broker, topic)
    assert ran.status == 0, ran.out
    inspected(broker, topic, status=0)
    assert len(broker.buckets(topic.name, NAME)) == len(buckets) - 1
    before = broker.log_size()
    with subscribed(broker, [topic], [NAME], acknowledge=False):
        wait_attached(broker, topic, NAME)
    assert not broker.log_lines(FELL_BACK, before)


def test_a_ledger_without_its_property(broker: Broker, topic: Topic):
    """A bucket ledger that no property names is listed and deleted, but not while a broker has its topic loaded."""
    (name, ledger_id), *_ = broker.buckets(topic.name, NAME).items()
    broker.set_bucket(topic.name, NAME, name, None)
    orphans = [orphan["ledger_id"] for orphan in inspected(broker, topic, status=1)["orphans"]]
    assert orphans == [int(ledger_id)]

    broker.admin.load(topic.name)
    assert repaired(broker, topic).status == 1
    assert broker.has_ledger(ledger_id)
    broker.admin.unload(topic.name)
    assert repaired(broker, topic).status == 0
    assert not broker.has_ledger(ledger_id)
    inspected(broker, topic, status=0)


@pytest.mark.deep
async def test_a_topic_that_is_loaded_between_the_check_and_the_write(broker: Broker, topic: Topic):
    """Whenever a broker loads the topic, the write is refused or the broker reads what was written: never BadVersion."""
    name = TopicName.parse(topic.name)
    kept = broker.buckets(topic.name, NAME)
    toggled = BucketProperty(*kept.popitem())
    start = time.monotonic()
    broker.admin.load(topic.name)
    load_s = time.monotonic() - start
    broker.admin.unload(topic.name)

    def toggle(node: CursorNode) -> CursorNode:
        rest = [bucket for bucket in node.buckets if bucket != toggled]
        return node.with_buckets(rest if len(rest) < len(node.buckets) else [*rest, toggled])

    before, refused = broker.log_size(), 0
    async with connected(ClusterAddress.parse(broker.url)) as cluster:
        for number in range(RACES):
            unloaded = (await require_not_loaded(cluster, [name]))[name]
            async with asyncio.TaskGroup() as both:
                both.create_task(asyncio.to_thread(broker.admin.load, topic.name))
                # From before the load's first write to after its last.
                await asyncio.sleep(load_s * 1.5 * number / RACES)
                try:
                    await write_cursor(cluster, unloaded, NAME, toggle)
                except TopicLoaded:
                    refused += 1
            # The broker writes the node with the version that it has read.
            broker.admin.set_subscription_property(topic.name, NAME, "turn", str(number))
            broker.admin.unload(topic.name)
    assert broker.log_lines("BadVersion", before) == []
    assert 0 < refused < RACES
    assert kept.items() <= broker.buckets(topic.name, NAME).items()
