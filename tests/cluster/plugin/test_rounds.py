"""Rounds of thousands of delayed messages through two brokers, while brokers, service and consumers come and go."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.server_process import ServerProcess
from tests.cluster.plugin.installation import SETTINGS, Installation
from tests.cluster.plugin.plugin import plugin_jar
from tests.cluster.plugin.service import Service
from tests.cluster.plugin.test_delivery import TICK_MS
from tests.cluster.pulsar.servers.admin import AdminFailed, wait_until
from tests.cluster.pulsar.servers.broker import ROOT, Broker, now_ms
from tests.cluster.pulsar.servers.java_clients import (
    BrokerClients,
    Consumer,
    Flow,
    JavaClients,
    MessageId,
    Received,
    running_java_clients,
)

# Two to four minutes each, nearly all of it waiting.
pytestmark = pytest.mark.timeout(1_800)

CI_ROUNDS: Final = 3
MESSAGES: Final = 20_000
LONGEST_DELAY_MS: Final = 25_000
PER_SECOND: Final = 250
"""Messages that each of the topics gets."""
ON_ITS_WAY_MS: Final = 15_000
"""A session with ZooKeeper lasts ten seconds: so long may a broker that is gone be thought alive."""
CLASSIC: Final = {
    "subscriptionSharedUseClassicPersistentImplementation": "true",
    "subscriptionKeySharedUseClassicPersistentImplementation": "true",
}


@dataclass(frozen=True)
class Brokers:
    """Two brokers of one cluster; clients know both, and find whichever owns a topic."""

    installed: Installation
    second: Broker
    clients: BrokerClients

    @property
    def all(self) -> tuple[Broker, Broker]:
        return (self.installed.broker, self.second)


@pytest.fixture(scope="module")
def brokers(installed: Installation, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """The second one has the dispatchers of older releases."""
    with running_java_clients() as java:
        settings = {**SETTINGS, **CLASSIC, "delayedTrackerServiceAddresses": installed.service.address}
        second = Broker(cluster, tmp_path_factory.mktemp("second"), java, settings, [plugin_jar()])
        try:
            second.start()
            yield Brokers(installed, second, clients_of_both(java, installed.broker, second))
        finally:
            second.stop()  # killed, it would own its topics for some time


def clients_of_both(java: JavaClients, first: Broker, second: Broker) -> BrokerClients:
    ports = ",".join(f"127.0.0.1:{broker.service_port}" for broker in (first, second))
    return BrokerClients(java, f"pulsar://{ports}")


@dataclass
class Traffic:
    """A topic with a producer, and consumers that come and go."""

    topic: str
    kind: str
    clients: BrokerClients
    flow: Flow
    partitions: int
    consumers: list[Consumer] = field(default_factory=list)
    seen: list[Received] = field(default_factory=list)
    """Messages that closed consumers have received."""

    def subscribe(self) -> None:
        self.consumers.append(self.clients.subscribe(self.topic, "worker", kind=self.kind, nack_every=50))

    def renew_consumer(self) -> None:
        """Close the oldest consumer, and begin with another."""
        self.seen += self.consumers.pop(0).close()
        self.subscribe()

    def received(self) -> list[Received]:
        return self.seen + [message for each in self.consumers for message in each.received()]


class Disturbances:
    """Disturbances of a round, and their times."""

    def __init__(self, brokers: Brokers, traffic: Sequence[Traffic], dice: random.Random, frozen_s: float) -> None:
        self.times_ms: list[tuple[int, int]] = []
        service = brokers.installed.service
        self._zookeeper = brokers.installed.broker.zookeeper
        self._frozen_s = frozen_s
        # Each broker only once: a cluster without any broker for long is another story.
        killed, frozen = dice.sample(brokers.all, 2)
        self._all: list[tuple[str, Callable[[], None]]] = [
            ("service killed", lambda: self._kill_service(service)),
            ("service frozen", lambda: self._freeze(service.process)),
            (f"broker {killed.web_port} killed", lambda: self._kill_broker(killed)),
            (f"broker {frozen.web_port} frozen", lambda: self._freeze(frozen.process)),
            *((f"{each.topic} moved", lambda each=each: self._move(brokers, each)) for each in traffic),  # type: ignore[misc]
            *((f"consumer of {each.topic} renewed", each.renew_consumer) for each in traffic),
        ]
        dice.shuffle(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def run(self, number: int) -> None:
        """Do one of them, and note its time."""
        start_ms = now_ms()
        what, disturb = self._all[number]
        disturb()
        self.times_ms.append((start_ms, now_ms()))
        print(f"{start_ms} to {now_ms()}: {what}")

    def explain(self, at_ms: int) -> bool:
        """Return whether what was on its way at this time may have been disturbed, and comes again."""
        return any(start - ON_ITS_WAY_MS <= at_ms <= end + ON_ITS_WAY_MS for start, end in self.times_ms)

    def _kill_service(self, service: Service) -> None:
        service.process.kill()
        threading.Event().wait(3)
        service.start()

    def _freeze(self, process: ServerProcess) -> None:
        process.freeze()
        threading.Event().wait(self._frozen_s)
        process.thaw()

    def _kill_broker(self, broker: Broker) -> None:
        broker.process.kill()
        # The other one takes its topics over; it cannot come back before its own session is over.
        wait_until(lambda: not self._is_registered(broker))
        broker.start()

    def _is_registered(self, broker: Broker) -> bool:
        with self._zookeeper.connected() as client:
            return client.exists(f"{ROOT}/loadbalance/brokers/127.0.0.1:{broker.web_port}") is not None

    def _move(self, brokers: Brokers, traffic: Traffic) -> None:
        """Unload the topic; whichever broker a client asks first owns it then."""
        with suppress(AdminFailed):  # a partitioned topic whose owner is just gone
            brokers.second.admin.unload(traffic.topic)


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.long if seed <= CI_ROUNDS else pytest.mark.deep) for seed in range(1, 31)],
)
def test_nothing_is_lost_or_early(brokers: Brokers, seed: int):
    """Shared, Key_Shared and partitioned topics; each round kills and freezes others at other times."""
    dice = random.Random(seed)
    delays = [dice.randrange(500, LONGEST_DELAY_MS) for _ in range(997)]
    traffic = [
        started(brokers, "shared", "Shared", delays),
        started(brokers, "keyed", "Key_Shared", delays),
        started(brokers, "parted", "Shared", delays, partitions=3),
    ]
    # Every third round outlasts the leases too.
    disturbances = Disturbances(brokers, traffic, dice, frozen_s=60 if seed % 3 == 0 else 12)
    end = time.monotonic() + MESSAGES / (PER_SECOND * len(traffic))
    for number in range(len(disturbances)):
        disturbances.run(number)
    threading.Event().wait(max(0.0, end - time.monotonic()))
    for each in traffic:
        check(brokers, each, disturbances)
    brokers.clients.disconnect()


def started(brokers: Brokers, name: str, kind: str, delays: list[int], partitions: int = 0) -> Traffic:
    topic = brokers.installed.broker.new_topic(name)
    if partitions:
        brokers.installed.broker.admin.create_partitioned(topic, partitions)
    clients = brokers.clients
    consumers = [clients.subscribe(topic, "worker", kind=kind, nack_every=50) for _ in range(2)]
    return Traffic(topic, kind, clients, clients.steady(topic, delays, PER_SECOND), partitions, consumers)


def state(brokers: Brokers, traffic: Traffic) -> str:
    """Return what broker and service say of a topic."""
    said = [f"the service tracks {brokers.installed.tracked(traffic.topic, 'worker')}"]
    for broker in brokers.all:
        if traffic.topic in broker.admin.loaded_topics():
            stats = broker.admin.stats(traffic.topic)["subscriptions"]["worker"]
            said.append(f"{broker.web_port}: {stats}")
    return "; ".join(said)


def check(brokers: Brokers, traffic: Traffic, disturbances: Disturbances) -> None:
    """Every message has come, none early, and twice only what was on its way in a disturbance."""
    wanted = set(traffic.flow.settle().ids)
    try:
        wait_until(lambda: wanted <= {message.id for message in traffic.received()})
    except TimeoutError:
        missing = sorted(wanted - {message.id for message in traffic.received()})
        pytest.fail(f"{traffic.topic} misses {len(missing)}, {missing[:5]}; {state(brokers, traffic)}")
    received = sorted(traffic.received(), key=lambda message: message.received_ms)
    # A producer that does not hear that a message was stored sends it again.
    assert [m for m in received if m.id not in wanted and not disturbances.explain(m.published_ms)] == []
    assert [message for message in received if message.late_ms < -TICK_MS] == []
    first: dict[MessageId, Received] = {}
    twice = [message for message in received if first.setdefault(message.id, message) is not message]
    late = sorted(message.late_ms for message in first.values())
    print(f"{traffic.topic}: {len(wanted)} messages, {len(twice)} came twice, late p50 {late[len(late) // 2]} ms, "
          f"longest {late[-1]} ms")  # fmt: skip
    unexplained = [
        f"{first[message.id]} and again {message.received_ms - first[message.id].received_ms} ms later"
        for message in twice
        if not disturbances.explain(first[message.id].received_ms)
    ]
    assert unexplained == [], f"{disturbances.times_ms}"
    # The trackers of a partitioned topic are those of its partitions.
    parts = [f"{traffic.topic}-partition-{part}" for part in range(traffic.partitions)] or [traffic.topic]
    for topic in parts:
        wait_until(lambda topic=topic: brokers.installed.tracked(topic, "worker") == 0)  # type: ignore[misc]
