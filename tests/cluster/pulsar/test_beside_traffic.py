"""A throttled rebuild from the bookies that a producer and a consumer use: they do not notice."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.cluster.pulsar.commands import run_spark_rebuild
from tests.cluster.pulsar.servers.broker import HOUR_MS, Broker, now_ms
from tests.cluster.pulsar.servers.java_clients import Consumer, Flow
from tests.cluster.pulsar.topics import Topic, fill

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1_800)]
PER_SECOND: Final = 200
MEASURED: Final = 30 * PER_SECOND
"""Messages of the measurement without a rebuild."""
DELAYED: Final = 20_000
BYTES_PER_SECOND: Final = 200_000
"""The topic's entries have some 2 MB, so that reading them takes ten seconds."""
SLOWER_MAX: Final = 1.5


def test_a_producer_and_a_consumer_beside_a_rebuild(broker: Broker, cluster: Cluster, tmp_path: Path):
    """Their p99 latencies stay within 1.5 times, nobody fences the writer's ledger, and no server logs an error."""
    stored, live = Topic(broker.new_topic("stored")), broker.new_topic("live")
    fill(broker, stored, [now_ms() + HOUR_MS + number for number in range(DELAYED)], ["worker"])
    # One ledger for the whole test: another one in its place shows that somebody has fenced it.
    restart(broker, {"managedLedgerMaxEntriesPerLedger": "1000000"})
    logs = [server.process.log for server in (broker, *cluster.bookies)]
    try:
        consumer = broker.clients.subscribe(live, "worker")
        flow_of(broker, live, consumer, PER_SECOND * 10).settle()
        start = len(consumer.received())
        before = flow_of(broker, live, consumer, start + MEASURED).settle()
        middle = len(consumer.received(start + len(before.ids)))
        sizes = [log.stat().st_size for log in logs]

        flow = broker.clients.steady(live, [0], PER_SECOND)
        ran = run_spark_rebuild(
            tmp_path, "rebuild", "--source", f"{broker.url}?maxBytesPerSecond={BYTES_PER_SECOND}", "--topic", stored.name,
            "--staging", str(tmp_path / "staging"), "--commit", f"sqlite:{tmp_path / 'rebuilt.db'}", "--json",
            nice=True,
        )  # fmt: skip
        during = flow.settle()
        received = consumer.received(middle + len(during.ids))
        assert ran.status == 0, ran.err

        assert {message.ledger_id for message in (*before.ids, *during.ids)} == {before.ids[0].ledger_id}
        latencies = [message.received_ms - message.published_ms for message in received]
        print(f"stored in {p99(before.latency_us)} us, then {p99(during.latency_us)} us at p99; received in "
              f"{p99(latencies[start:middle])} ms, then {p99(latencies[middle:])} ms")  # fmt: skip
        assert p99(during.latency_us) <= SLOWER_MAX * p99(before.latency_us)
        # Of whole milliseconds one more says nothing.
        assert p99(latencies[middle:]) <= SLOWER_MAX * p99(latencies[start:middle]) + 1
        for log, size in zip(logs, sizes, strict=True):
            assert " ERROR " not in log.read_bytes()[size:].decode("utf-8", errors="replace")
    finally:
        restart(broker)


def flow_of(broker: Broker, topic: str, consumer: Consumer, count: int) -> Flow:
    """Send at the rate until the consumer has so many messages, and return the flow, which goes on."""
    flow = broker.clients.steady(topic, [0], PER_SECOND)
    assert len(consumer.received(count, timeout_s=600)) >= count
    return flow


def restart(broker: Broker, settings: dict[str, str] | None = None) -> None:
    broker.clients.disconnect()
    broker.stop()
    broker.start(settings)


def p99(values: Sequence[int]) -> int:
    return sorted(values)[len(values) * 99 // 100]
