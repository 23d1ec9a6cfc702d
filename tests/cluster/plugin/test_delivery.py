"""Messages that a real broker tracks in the service: delivered once, in time, through whatever happens to either."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from tests.cluster.plugin.installation import Installation
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import now_ms
from tests.cluster.pulsar.servers.java_clients import Consumer, MessageId, Received

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TICK_MS: Final = 1_000
"""Messages may be delivered a tick early, as by Pulsar's own trackers."""


def assert_delivered(
    consumers: Sequence[Consumer], expected: Sequence[MessageId], timeout_s: float = 60
) -> list[Received]:
    """Wait for all messages, and check that none came twice or early."""
    first, *others = consumers
    wanted = Counter(expected)
    wait_until(lambda: sum(len(each.received()) for each in consumers) >= wanted.total(), timeout_s)
    received = [message for each in (first, *others) for message in each.received()]
    assert Counter(message.id for message in received) == wanted
    assert [message for message in received if message.late_ms < -TICK_MS] == []
    return received


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
