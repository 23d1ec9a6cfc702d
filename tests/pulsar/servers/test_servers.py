"""Tests of the real broker that other tests use: it delivers delayed messages, keeps buckets, and survives a kill."""

import time

import pytest

from tests.pulsar.servers.broker import Broker

pytestmark = pytest.mark.long
HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_delayed_messages_come_at_their_time(broker: Broker):
    """Messages with a delay come when it is over, a tick early at most, and one without comes at once."""
    topic = broker.new_topic("short delays")
    consumer = broker.clients.subscribe(topic, "worker")
    due = now_ms() + 3_000
    ids = broker.clients.produce(topic, [due, 0, due + 500])

    received = consumer.received(3)
    assert [message.id for message in received] == [ids[1], ids[0], ids[2]]
    assert all(-1_000 <= message.late_ms < 20_000 for message in received[1:])
    consumer.close()
