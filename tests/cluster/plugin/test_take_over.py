"""A subscription changes between Pulsar's own trackers and the service, without losing a message or sending one twice."""

from collections import Counter

import pytest

from tests.cluster.plugin.installation import Installation
from tests.cluster.plugin.test_delivery import assert_delivered, settle
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import BUCKET_PROPERTY, HOUR_MS, now_ms

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def test_the_service_takes_over_the_buckets_of_pulsar_and_gives_back(installed: Installation):
    """The buckets' messages are in the service, and the buckets gone; back, the broker's own tracker has them all."""
    broker, topic = installed.broker, installed.broker.new_topic("taken-over")
    broker.admin.create(topic, {"delayedTracker": "pulsar"})
    consumer = broker.clients.subscribe(topic, "worker")
    ids = broker.clients.produce(topic, [now_ms() + HOUR_MS + number for number in range(2_000)])
    wait_until(lambda: len(broker.buckets(topic, "worker")) >= 3)
    ledgers = list(broker.buckets(topic, "worker").values())
    assert not installed.has_tracker(topic, "worker")

    broker.admin.set_property(topic, "delayedTracker", "service")
    broker.admin.unload(topic)
    settle(installed, topic, tracked=len(ids))
    wait_until(lambda: broker.buckets(topic, "worker") == {})
    wait_until(lambda: not any(broker.has_ledger(ledger) for ledger in ledgers))
    assert consumer.received() == []

    broker.admin.set_property(topic, "delayedTracker", "pulsar")
    broker.admin.unload(topic)
    wait_until(lambda: broker.admin.delayed(topic, "worker") == len(ids))
    assert consumer.received() == []


def test_messages_of_taken_over_buckets_come_once_and_in_time(installed: Installation):
    """Some are due while the buckets are imported."""
    broker, topic = installed.broker, installed.broker.new_topic("taken-over")
    broker.admin.create(topic, {"delayedTracker": "pulsar"})
    consumer = broker.clients.subscribe(topic, "worker")
    now = now_ms()
    # Over half a minute, so that on a busy machine, too, four buckets exist at once.
    ids = broker.clients.produce(topic, [now + 4_000 + number * 12 for number in range(3_000)])
    wait_until(lambda: len(broker.buckets(topic, "worker")) >= 4)
    broker.admin.set_property(topic, "delayedTracker", "service")
    broker.admin.unload(topic)
    wanted = set(ids)
    wait_until(lambda: wanted <= {message.id for message in consumer.received()})
    counts = Counter(message.id for message in consumer.received())
    # What a consumer had in its hands when the topic was unloaded comes again.
    assert sum(count > 1 for count in counts.values()) < 1_000
    settle(installed, topic, tracked=0)
    wait_until(lambda: broker.buckets(topic, "worker") == {})


@pytest.mark.parametrize(("ledgers", "value"), [("0_0", "many"), ("0", "1")])
def test_a_malformed_property_of_a_bucket_does_not_block_the_subscription(
    installed: Installation, ledgers: str, value: str
):
    """The broker's memory tracks, and says why, until the property is gone: then the service takes over what there is."""
    broker, topic = installed.broker, installed.broker.new_topic("malformed")
    broker.admin.create(topic, {"delayedTracker": "pulsar"})
    consumer = broker.clients.subscribe(topic, "worker")
    ids = broker.clients.produce(topic, [now_ms() + HOUR_MS + number for number in range(2_000)])
    wait_until(lambda: len(broker.buckets(topic, "worker")) >= 2)
    broker.admin.set_property(topic, "delayedTracker", "service")
    consumer.close()
    broker.admin.unload(topic)
    broker.set_bucket(topic, "worker", f"{BUCKET_PROPERTY}{ledgers}", value)

    before = broker.log_size()
    consumer = broker.clients.subscribe(topic, "worker")
    soon = broker.clients.produce(topic, [now_ms() + 3_000] * 10)
    assert_delivered([consumer], soon)
    wait_until(lambda: broker.admin.delayed(topic, "worker") == len(ids))
    assert broker.log_lines(f"malformed: .*{BUCKET_PROPERTY}{ledgers}={value}.*pulsar repair", before)
    assert not installed.has_tracker(topic, "worker")

    consumer.close()
    broker.admin.unload(topic)
    broker.set_bucket(topic, "worker", f"{BUCKET_PROPERTY}{ledgers}", None)
    consumer = broker.clients.subscribe(topic, "worker")
    settle(installed, topic, tracked=len(ids))
    wait_until(lambda: broker.buckets(topic, "worker") == {})
    assert consumer.received() == []


@pytest.mark.parametrize("choice", ["pulsar", "memory"])
def test_a_topic_may_keep_a_tracker_of_pulsar(installed: Installation, choice: str):
    """The service hears nothing of it."""
    broker, topic = installed.broker, installed.broker.new_topic(choice)
    broker.admin.create(topic, {"delayedTracker": choice})
    consumer = broker.clients.subscribe(topic, "worker")
    ids = broker.clients.produce(topic, [now_ms() + 3_000] * 100)
    assert_delivered([consumer], ids)
    assert not installed.has_tracker(topic, "worker")
