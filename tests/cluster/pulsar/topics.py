"""Topics of a real broker with delayed messages, and what each subscription must receive of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import Broker
from tests.cluster.pulsar.servers.java_clients import Consumer, MessageId

SUBSCRIPTIONS: Final = ("worker", "north/east + west")
BATCH_COUNT: Final = 20
"""Messages of the one batch of a topic."""
RECOVERED: Final = r"Recover delayed message index bucket snapshot finish, buckets: \d+, numberDelayedMessages: (\d+)"
"""Line of the broker's log about a subscription that has found buckets."""
FELL_BACK: Final = "Failed to recover BucketDelayedDeliveryTracker"
"""Line about one whose buckets could not be read."""


@dataclass
class Topic:
    """A topic, and how often each of its entries counts: as many messages as it has."""

    name: str
    messages: Counter[MessageId] = field(default_factory=Counter)
    acknowledged: dict[str, set[MessageId]] = field(default_factory=dict)

    def expected(self, subscription: str) -> Counter[MessageId]:
        """Return what a subscription must receive: messages by the id of their entry."""
        gone = self.acknowledged.get(subscription, set())
        return Counter({entry: count for entry, count in self.messages.items() if entry not in gone})


def fill(
    broker: Broker, topic: Topic, deliver_at_ms: Sequence[int], subscriptions: Sequence[str], *, keyed: bool = False
) -> None:
    """Make subscriptions, send delayed messages and a batch, and acknowledge some one by one; leave the topic unloaded.

    Args:
        broker: makes a bucket of each ledger but the last for each subscription.
        topic: gets what was sent and acknowledged.
        deliver_at_ms: of the messages; the batch has the first.
        subscriptions: names; each acknowledges others.
        keyed: give the messages 50 keys, and compact the topic.
    """
    with subscribed(broker, [topic], subscriptions, acknowledge=False) as consumers:
        keys = [str(number % 50) for number in range(len(deliver_at_ms))] if keyed else None
        ids = broker.clients.produce(topic.name, deliver_at_ms, keys=keys)
        topic.messages.update(ids)
        topic.messages[broker.clients.produce_batch(topic.name, deliver_at_ms[0], BATCH_COUNT)] = BATCH_COUNT
        # A broker that writes the first acknowledgements while it makes buckets gets in its own way (BadVersion).
        full = len({message.ledger_id for message in topic.messages}) - 1
        assert full > 0
        wait_until(lambda: all(len(broker.buckets(topic.name, name)) == full for name in subscriptions))
        for number, name in enumerate(subscriptions):
            gone = ids[3 + number : len(ids) // 3 : 7]
            consumers[topic.name, name].acknowledge(gone)
            topic.acknowledged[name] = set(gone)
        if keyed:
            broker.admin.compact(topic.name)


@contextmanager
def subscribed(
    broker: Broker, topics: Sequence[Topic], subscriptions: Sequence[str] = SUBSCRIPTIONS, *, acknowledge: bool
) -> Iterator[dict[tuple[str, str], Consumer]]:
    """Have a consumer of each subscription, by topic and subscription, for a block; then unload the topics."""
    yield {
        (topic.name, name): broker.clients.subscribe(topic.name, name, acknowledge=acknowledge)
        for topic in topics
        for name in subscriptions
    }
    unload(broker, topics)


def unload(broker: Broker, topics: Sequence[Topic]) -> None:
    """Disconnect all clients, which would load the topics again, and unload the topics."""
    broker.clients.disconnect()
    for topic in topics:
        broker.admin.unload(topic.name)


def wait_attached(broker: Broker, topic: Topic, subscription: str) -> None:
    """Wait until the tracker of a subscription has all that it must deliver.

    Brokers' own buckets have acknowledged messages besides.
    """
    expected = len(topic.expected(subscription))
    wait_until(lambda: broker.admin.delayed(topic.name, subscription) >= expected)
