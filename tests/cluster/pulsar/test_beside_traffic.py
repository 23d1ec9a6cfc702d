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

pytestmark = [pytest.mark.deep, pytest.mark.alone, pytest.mark.timeout(1_800)]
PER_SECOND: Final = 200
MEASURED: Final = 30 * PER_SECOND
"""Messages of the measurement without a rebuild."""
DELAYED: Final = 20_000
BYTES_PER_SECOND: Final = 200_000
"""The topic's entries have some 2 MB, so that reading them takes ten seconds."""
SLOWER_MAX: Final = 1.5
ROUNDS_MAX: Final = 4


def test_a_producer_and_a_consumer_beside_a_rebuild(broker: Broker, cluster: Cluster, tmp_path: Path):
    """Their p99 latencies stay within 1.5 times, nobody fences the writer's ledger, and no server logs an error.

    Other programs may come or go between the two measurements, so one round of several is enough for the latencies.
    """
    stored, live = Topic(broker.new_topic("stored")), broker.new_topic("live")
    fill(broker, stored, [now_ms() + HOUR_MS + number for number in range(DELAYED)], ["worker"])
    # One ledger for the whole test: another one in its place shows that somebody has fenced it.
    restart(broker, {"managedLedgerMaxEntriesPerLedger": "1000000"})
    logs = [server.process.log for server in (broker, *cluster.bookies)]
    try:
        consumer = broker.clients.subscribe(live, "worker")
        flow_of(broker, live, consumer, PER_SECOND * 10).settle()
        sizes = [log.stat().st_size for log in logs]
        rounds = (beside(broker, live, consumer, stored, tmp_path / str(number)) for number in range(ROUNDS_MAX))
        assert any(rounds), "no round was calm"
        for log, size in zip(logs, sizes, strict=True):
            assert " ERROR " not in log.read_bytes()[size:].decode("utf-8", errors="replace")
    finally:
        restart(broker)


def beside(broker: Broker, live: str, consumer: Consumer, stored: Topic, folder: Path) -> bool:
    """Measure without a rebuild and beside one; return True if the latencies are within the limit."""
    folder.mkdir()
    start = len(consumer.received())
    before = flow_of(broker, live, consumer, start + MEASURED).settle()
    middle = len(consumer.received(start + len(before.ids)))

    flow = broker.clients.steady(live, [0], PER_SECOND)
    ran = run_spark_rebuild(
        folder, "rebuild", "--source", f"{broker.url}?maxBytesPerSecond={BYTES_PER_SECOND}", "--topic", stored.name,
        "--staging", str(folder / "staging"), "--commit", f"sqlite:{folder / 'rebuilt.db'}", "--json",
        nice=True,
    )  # fmt: skip
    during = flow.settle()
    received = consumer.received(middle + len(during.ids))
    assert ran.status == 0, ran.err
    assert {message.ledger_id for message in (*before.ids, *during.ids)} == {before.ids[0].ledger_id}
    latencies = [message.received_ms - message.published_ms for message in received]
    print(f"stored in {p99(before.latency_us)} us, then {p99(during.latency_us)} us at p99; received in "
          f"{p99(latencies[start:middle])} ms, then {p99(latencies[middle:])} ms")  # fmt: skip
    # Of whole milliseconds one more says nothing.
    return (
        p99(during.latency_us) <= SLOWER_MAX * p99(before.latency_us)
        and p99(latencies[middle:]) <= SLOWER_MAX * p99(latencies[start:middle]) + 1
    )


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
