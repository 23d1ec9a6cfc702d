"""Tests of the real broker that other tests use: it keeps buckets, delivers in time, and survives a kill."""

import pytest

from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import HOUR_MS, Broker, now_ms
from tests.cluster.pulsar.servers.java_clients import PulsarFailed

pytestmark = pytest.mark.long
SUBSCRIPTION = "north/east + west"
RECOVERED = r"Recover delayed message index bucket snapshot finish.* numberDelayedMessages: (\d+)"


@pytest.mark.deep
def test_delayed_messages_come_at_their_time(broker: Broker):
    """Messages with a delay come when it is over, a tick early at most; one without comes before them."""
    topic = broker.new_topic("in order")
    consumer = broker.clients.subscribe(topic, "worker")
    due = now_ms() + 10_000
    ids = broker.clients.produce(topic, [due, 0, due + 3_000])

    received = consumer.received(3)
    assert [message.id for message in received] == [ids[1], ids[0], ids[2]]
    assert received[0].deliver_at_ms == 0
    assert [message.deliver_at_ms for message in received[1:]] == [due, due + 3_000]
    assert all(message.late_ms >= -1_000 for message in received[1:])
    consumer.close()


def test_a_topic_recovers_its_buckets(broker: Broker):
    """Buckets of a subscription with any name are cursor properties, and a topic that is loaded again reads them."""
    topic = broker.new_topic("two words, 50%2F50")
    consumer = broker.clients.subscribe(topic, SUBSCRIPTION)
    ids = broker.clients.produce(topic, [now_ms() + HOUR_MS + number for number in range(2_750)])
    assert len({message.ledger_id for message in ids}) == 6
    wait_until(lambda: len(broker.buckets(topic, SUBSCRIPTION)) == 5)
    assert topic in broker.admin.loaded_topics()

    before = broker.log_size()
    # The consumer comes back by itself, and may load the topic first.
    broker.admin.unload(topic)
    broker.admin.load(topic)
    assert topic in broker.admin.loaded_topics()
    wait_until(lambda: broker.admin.delayed(topic, SUBSCRIPTION) == 2_750)
    (recovered,) = broker.log_lines(RECOVERED, before)
    assert "numberDelayedMessages: 2500" in recovered
    consumer.close()


def test_acknowledged_messages_are_not_delivered(broker: Broker):
    """Delayed messages that are acknowledged one by one never come; a batch and a compacted topic's messages do."""
    topic = broker.new_topic("acknowledged")
    consumer = broker.clients.subscribe(topic, "worker")
    due = now_ms() + 25_000
    ids = broker.clients.produce(topic, [due] * 20, keys=[str(number % 5) for number in range(20)])
    consumer.acknowledge(ids[::2])
    batch = broker.clients.produce_batch(topic, due, count=4)
    broker.admin.compact(topic)

    received = consumer.received(10 + 4)
    assert sorted(message.id for message in received if message.batch_index < 0) == ids[1::2]
    assert [message.batch_index for message in received if message.id == batch] == [0, 1, 2, 3]
    assert all(message.deliver_at_ms == due for message in received)
    # One for each key; messages without a key, as those of the batch, are left out.
    assert broker.admin.internal_stats(topic)["compactedLedger"]["entries"] == 5
    consumer.close()


def test_a_steady_flow_is_stored_and_received(broker: Broker):
    """A flow in the background has its rate, and everything it sent arrives."""
    topic = broker.new_topic("steady")
    consumer = broker.clients.subscribe(topic, "worker")
    flow = broker.clients.steady(topic, [0, 500], per_second=100)
    consumer.received(200)
    sent = flow.settle()
    assert len(sent.ids) == len(sent.latency_us) >= 200
    assert {message.id for message in consumer.received(len(sent.ids))} == set(sent.ids)
    consumer.close()


@pytest.mark.deep
def test_a_killed_broker_comes_back_at_once(broker: Broker):
    """A broker that is killed with -9 has all that it confirmed after a start, and takes its topics again."""
    topic = broker.new_topic("killed")
    consumer = broker.clients.subscribe(topic, "worker")
    ids = broker.clients.produce(topic, [0, now_ms() + HOUR_MS])
    consumer.received(1)
    broker.kill()
    broker.clients.disconnect()
    broker.start()

    consumer = broker.clients.subscribe(topic, "worker")
    ids += broker.clients.produce(topic, [0])
    assert ids[2].ledger_id > ids[1].ledger_id
    # The first may come again, if its acknowledgement was not stored yet.
    wait_until(lambda: ids[2] in {message.id for message in consumer.received(1)})
    wait_until(lambda: broker.admin.delayed(topic, "worker") == 1)
    consumer.close()


def test_refusals_name_their_reason(broker: Broker):
    """A refusal of the broker or its client is an exception with the reason."""
    topic = broker.new_topic("terminated")
    broker.clients.produce(topic, [0])
    broker.admin.terminate(topic)
    broker.clients.disconnect()
    with pytest.raises(PulsarFailed, match="TopicTerminatedException"):
        broker.clients.produce(topic, [0])
