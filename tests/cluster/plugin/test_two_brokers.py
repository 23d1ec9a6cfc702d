"""Two brokers that move a topic between them: the one that owns the topic has its tracker."""

from collections.abc import Iterator

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.cluster.plugin.installation import SETTINGS, Installation
from tests.cluster.plugin.plugin import plugin_jar
from tests.cluster.plugin.test_delivery import TICK_MS, settle
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import Broker, now_ms
from tests.cluster.pulsar.servers.java_clients import running_java_clients

pytestmark = [pytest.mark.deep, pytest.mark.timeout(600)]


@pytest.fixture
def second(installed: Installation, cluster: Cluster, tmp_path) -> Iterator[Broker]:
    """A second broker of the cluster, with the same service and clients of its own."""
    with running_java_clients() as java:
        settings = {**SETTINGS, "delayedTrackerServiceAddresses": installed.service.address}
        broker = Broker(cluster, tmp_path, java, settings, [plugin_jar()])
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()  # killed, it would own its topics for some time


def test_a_broker_that_was_frozen_leaves_the_tracker_to_the_new_owner(installed: Installation, second: Broker):
    """Its session ends, another broker owns the topic; when it wakes, it is fenced, and fences nobody."""
    first, topic = installed.broker, installed.broker.new_topic("frozen")
    consumer = first.clients.subscribe(topic, "worker")
    ids = first.clients.produce(topic, [now_ms() + 90_000 + number for number in range(1_000)])
    settle(installed, topic, tracked=1_000)
    first.process.freeze()
    try:
        # Answered once the session of the first broker is over.
        elsewhere = second.clients.subscribe(topic, "worker")
        wait_until(lambda: second.admin.delayed(topic, "worker") == 1_000)
        epoch = installed.stats(topic, "worker").epoch
    finally:
        first.process.thaw()
    wanted = set(ids)
    wait_until(lambda: wanted <= {message.id for each in (consumer, elsewhere) for message in each.received()}, 200)
    received = [message for each in (consumer, elsewhere) for message in each.received()]
    assert [message for message in received if message.late_ms < -TICK_MS] == []
    assert installed.stats(topic, "worker").epoch - epoch <= 2
    wait_until(lambda: installed.tracked(topic, "worker") == 0)
