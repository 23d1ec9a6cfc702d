"""Fifty thousand messages move from Pulsar's buckets to the service and back, and broker and service are killed meanwhile."""

import random
import threading
from collections import Counter
from typing import Final

import pytest

from tests.cluster.plugin.installation import Installation
from tests.cluster.plugin.test_delivery import TICK_MS, settle
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import Broker, now_ms

# Ten minutes.
pytestmark = [pytest.mark.deep, pytest.mark.timeout(2_400)]

MESSAGES: Final = 50_000
KILLS: Final = 12
DUE_AFTER_MS: Final = 600_000
"""The first deadline: nothing is due before it is back in Pulsar's tracker."""
BUCKET_MS: Final = 300
"""About the time that the import of one bucket takes, with all of its steps."""
TWICE_MAX: Final = 1_000
"""Messages that may come twice: a consumer that loses its connection gets again what its queue had."""


def test_nothing_is_lost_when_a_take_over_is_killed_at_any_step(installed: Installation):
    """Each kill comes some buckets later, at a random moment of the bucket that is being imported."""
    broker, topic, dice = installed.broker, installed.broker.new_topic("killed"), random.Random(1)
    broker.admin.create(topic, {"delayedTracker": "pulsar"})
    consumer = broker.clients.subscribe(topic, "worker")
    first_ms = now_ms() + DUE_AFTER_MS
    ids = broker.clients.produce(topic, [first_ms + number // 2 for number in range(MESSAGES)])
    wait_until(lambda: broker.admin.delayed(topic, "worker") == MESSAGES, 120)
    bucket_count = len(broker.buckets(topic, "worker"))
    assert bucket_count > 2 * KILLS

    broker.admin.set_property(topic, "delayedTracker", "service")
    broker.admin.unload(topic)
    seen = []
    for number in range(1, KILLS + 1):
        left = bucket_count - bucket_count * number // (KILLS + 2)
        wait_until(lambda left=left: len(broker.buckets(topic, "worker")) <= left, 120)
        threading.Event().wait(dice.uniform(0, BUCKET_MS) / 1_000)
        if number % 3 == 0:
            installed.service.process.kill()
            installed.service.start()
        else:
            broker.kill()
            seen.append(buckets_with_ledgers(broker, topic))
            broker.start()
    print(f"of {bucket_count} buckets there were left, whenever the broker was killed: {seen}")
    wait_until(lambda: broker.buckets(topic, "worker") == {}, 120)
    settle(installed, topic, tracked=MESSAGES)

    broker.admin.set_property(topic, "delayedTracker", "pulsar")
    broker.admin.unload(topic)
    for _ in range(2):
        wait_until(lambda: 0 < broker.admin.delayed(topic, "worker") < MESSAGES, 60)
        broker.kill()
        buckets_with_ledgers(broker, topic)
        broker.start()
    wait_until(lambda: broker.admin.delayed(topic, "worker") == MESSAGES, 120)
    assert now_ms() < first_ms, "it took too long to say what came early"

    wanted = set(ids)
    wait_until(lambda: wanted <= {message.id for message in consumer.received()}, 900)
    received = consumer.received()
    assert {message.id for message in received} == wanted
    assert [message for message in received if message.late_ms < -TICK_MS] == []
    twice = sum(count > 1 for count in Counter(message.id for message in received).values())
    print(f"{twice} of {MESSAGES} came twice")
    assert twice <= TWICE_MAX


def buckets_with_ledgers(broker: Broker, topic: str) -> int:
    """Return how many buckets the cursor names, after a check that each has its ledger: without, no tracker of Pulsar loads."""
    ledgers = broker.buckets(topic, "worker").values()
    assert [ledger for ledger in ledgers if not broker.has_ledger(ledger)] == []
    return len(ledgers)
