"""Messages that a real broker tracks in the service: delivered once, in time, through whatever happens to either."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from tests.cluster.plugin.installation import Installation
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import now_ms
from tests.cluster.pulsar.servers.java_clients import EARLIEST, Consumer, MessageId, Received

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TICK_MS: Final = 1_000
"""Messages may be delivered a tick early, as by Pulsar's own trackers."""


def assert_delivered(
    consumers: Sequence[Consumer], expected: Sequence[MessageId], timeout_s: float = 120
) -> list[Received]:
    """Wait for all messages, and check that none came twice or early."""
    wanted = Counter(expected)
    wait_until(lambda: wanted.keys() <= {message.id for each in consumers for message in each.received()}, timeout_s)
    received = [message for each in consumers for message in each.received()]
    assert Counter(message.id for message in received) == wanted
    assert [message for message in received if message.late_ms < -TICK_MS] == []
    return received


def settle(installed: Installation, topic: str, *, tracked: int | None = None) -> None:
    """Wait until broker and service track the same number of messages, or a given one.

    A given number has to be seen before any of the messages is due, which takes a busy machine many seconds.
    """
    wait_until(lambda: installed.is_settled(topic, "worker") and tracked in (None, installed.tracked(topic, "worker")))


def assert_each_delivered(consumer: Consumer, expected: Sequence[MessageId], timeout_s: float = 120) -> None:
    """Wait until every message has come, none early; what was on its way in a disturbance may come twice."""
    wanted = set(expected)
    wait_until(lambda: wanted <= {message.id for message in consumer.received()}, timeout_s)
    received = consumer.received()
    assert {message.id for message in received} == wanted
    assert [message for message in received if message.late_ms < -TICK_MS] == []
    counts = Counter(message.id for message in received)
    print(f"{sum(count > 1 for count in counts.values())} of {len(wanted)} came twice")


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_each_message_comes_once_and_in_time(installed: Installation, kind: str):
    """Delays of seconds, plain messages between them, two consumers."""
    broker = installed.broker
    topic = broker.new_topic("orders")
    consumers = [broker.clients.subscribe(topic, "worker", kind=kind) for _ in range(2)]
    now = now_ms()
    times = [now + 4_000 + number * 7 % 3_000 for number in range(2_000)]
    ids = broker.clients.produce(topic, times, keys=[str(number % 20) for number in range(len(times))])
    ids += broker.clients.produce(topic, [0] * 50)
    received = assert_delivered(consumers, ids)
    late = sorted(message.late_ms for message in received if message.deliver_at_ms)
    print(f"late: {late[0]} to {late[-1]} ms, median {late[len(late) // 2]} ms")
    wait_until(lambda: installed.is_settled(topic, "worker"))
    assert installed.stats(topic, "worker").pending_count == 0


def test_a_topic_is_unloaded_under_load(installed: Installation):
    """Its tracker is recovered from the service: the broker reads none of the tracked messages again."""
    broker, topic = installed.broker, installed.broker.new_topic("moved")
    consumer = broker.clients.subscribe(topic, "worker")
    now = now_ms()
    ids = broker.clients.produce(topic, [now + 18_000 + number for number in range(2_000)])
    settle(installed, topic, tracked=2_000)
    for _ in range(3):
        broker.admin.unload(topic)
    ids += broker.clients.produce(topic, [now_ms() + 3_000] * 100)
    assert_each_delivered(consumer, ids)
    settle(installed, topic, tracked=0)


def test_an_unsubscription_deletes_the_tracker(installed: Installation):
    """With a tracker in the broker and without one."""
    broker = installed.broker
    for loaded in (True, False):
        topic = broker.new_topic("unsubscribed")
        consumer = broker.clients.subscribe(topic, "worker")
        broker.clients.produce(topic, [now_ms() + 3_600_000] * 100)
        settle(installed, topic, tracked=100)
        consumer.close()
        if not loaded:
            broker.admin.unload(topic)
        broker.admin.delete_subscription(topic, "worker")
        wait_until(lambda topic=topic: not installed.has_tracker(topic, "worker"))


def test_a_cleared_backlog_is_gone_in_the_service_too(installed: Installation):
    """Messages behind the clear are delivered."""
    broker, topic = installed.broker, installed.broker.new_topic("cleared")
    consumer = broker.clients.subscribe(topic, "worker")
    broker.clients.produce(topic, [now_ms() + 18_000] * 500)
    settle(installed, topic, tracked=500)
    broker.admin.clear_backlog(topic, "worker")
    ids = broker.clients.produce(topic, [now_ms() + 19_000] * 100)
    settle(installed, topic, tracked=100)
    assert_delivered([consumer], ids)


def test_a_subscription_that_seeks_back_gets_everything_again(installed: Installation):
    """Acknowledged messages at once, pending ones at their time, and both once."""
    broker, topic = installed.broker, installed.broker.new_topic("sought")
    consumer = broker.clients.subscribe(topic, "worker")
    now = now_ms()
    times = [now + 2_000 if number % 2 else now + 25_000 + number for number in range(1_000)]
    ids = broker.clients.produce(topic, times)
    assert_delivered([consumer], ids[1::2])
    settle(installed, topic, tracked=500)
    before = len(consumer.received())
    consumer.seek(EARLIEST)
    wait_until(lambda: set(ids) <= {message.id for message in consumer.received()[before:]})
    assert Counter(message.id for message in consumer.received()[before:]) == Counter(ids)
    assert [message for message in consumer.received() if message.late_ms < -TICK_MS] == []
    settle(installed, topic, tracked=0)


def test_skipped_and_expired_messages_are_not_delivered(installed: Installation):
    """The cursor moves without a word to the tracker; the service follows."""
    broker, topic = installed.broker, installed.broker.new_topic("skipped")
    consumer = broker.clients.subscribe(topic, "worker")
    ids = broker.clients.produce(topic, [now_ms() + 25_000] * 300)
    settle(installed, topic, tracked=300)
    broker.admin.skip(topic, "worker", 100)
    settle(installed, topic, tracked=200)
    assert_delivered([consumer], ids[100:])

    broker.clients.produce(topic, [now_ms() + 18_000] * 100)
    settle(installed, topic, tracked=100)
    expired_from = now_ms()
    wait_until(lambda: now_ms() - expired_from > 1_000)
    broker.admin.expire(topic, "worker", 1)
    settle(installed, topic, tracked=0)
    later = broker.clients.produce(topic, [now_ms() + 19_000] * 100)
    assert_delivered([consumer], ids[100:] + later)


def test_a_batch_comes_whole(installed: Installation):
    """An entry of twenty messages, with one time for all; clients other than Java's send such entries."""
    broker, topic = installed.broker, installed.broker.new_topic("batched")
    consumers = [broker.clients.subscribe(topic, "worker") for _ in range(2)]
    now = now_ms()
    batches = [broker.clients.produce_batch(topic, now + 3_000 + number * 100, 20) for number in range(10)]
    assert_delivered(consumers, batches * 20)
    settle(installed, topic, tracked=0)


def test_a_transaction_delivers_when_it_is_committed(installed: Installation):
    """Nothing of an aborted one comes, and the service does not keep it."""
    broker, topic = installed.broker, installed.broker.new_topic("transacted")
    broker.make_transaction_coordinator()
    consumer = broker.clients.subscribe(topic, "worker")
    now = now_ms()
    committed = broker.clients.transact(topic, [now + 6_000 + number for number in range(200)], commit=True)
    broker.clients.transact(topic, [now + 6_000 + number for number in range(200)], commit=False)
    plain = broker.clients.produce(topic, [now + 7_000] * 50)
    assert_delivered([consumer], committed + plain)
    settle(installed, topic, tracked=0)


def test_the_service_is_killed_and_stays_away(installed: Installation):
    """Messages wait in the broker meanwhile; nothing is lost, and only what was due meanwhile is late."""
    broker, service, topic = installed.broker, installed.service, installed.broker.new_topic("killed")
    consumer = broker.clients.subscribe(topic, "worker")
    now = now_ms()
    ids = broker.clients.produce(topic, [now + 3_000 + number * 10 for number in range(1_000)])
    service.process.kill()
    ids += broker.clients.produce(topic, [now + 14_000 + number for number in range(1_000)])
    assert len(consumer.received(1, timeout_s=5)) < 1_000
    service.start()
    assert_each_delivered(consumer, ids)
    settle(installed, topic, tracked=0)


def test_the_broker_is_killed(installed: Installation):
    """Tracked messages come from the service; those that were delivered and not acknowledged come again."""
    broker, topic = installed.broker, installed.broker.new_topic("crashed")
    consumer = broker.clients.subscribe(topic, "worker")
    now = now_ms()
    ids = broker.clients.produce(topic, [now + 2_000 + number * 10 for number in range(2_000)])
    broker.kill()
    broker.start()
    assert_each_delivered(consumer, ids)
    settle(installed, topic, tracked=0)
