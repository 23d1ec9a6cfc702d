"""Starts a real broker of Pulsar beside the ZooKeeper and the bookies of ``tests.bookkeeper.servers``.

A test asks for the fixture ``broker`` (:mod:`tests.cluster.pulsar.servers.fixtures`) and has::

    broker.url                              # bookkeeper+zk:127.0.0.1:2181/pulsar, for our commands
    topic = broker.new_topic("orders")      # persistent://public/default/orders-1, not created yet
    broker.admin.unload(topic)              # REST: create, unload, load, stats, loaded topics, metrics: admin.py
    consumer = broker.clients.subscribe(topic, "worker")    # Pulsar's own client in Java: java_clients.py
    ids = broker.clients.produce(topic, [now_ms() + HOUR_MS] * 500)
    broker.buckets(topic, "worker")         # the bucket properties as they stand in ZooKeeper
    broker.kill(); broker.clients.disconnect(); broker.start()    # with -9, and back at once under the same address

The broker keeps small ledgers and small buckets (``SETTINGS``), and the metadata of all topics below ``/pulsar`` of the
test's ZooKeeper. Topics of one test do not disturb another's: take a new name, leave the broker running.
"""

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from delayed_tracker.ledger.metadata.ledger_metadata import ledger_paths
from delayed_tracker.ledger.metadata.managed_ledger import parse_cursor
from delayed_tracker.ledger.topic_name import TopicName, encode_name
from tests.bookkeeper.servers.cluster import Cluster, ServerNotReady
from tests.bookkeeper.servers.server_process import JVM_OPTIONS, ServerProcess, free_port
from tests.cluster.pulsar.servers.admin import Admin, wait_until
from tests.cluster.pulsar.servers.java_clients import BrokerClients, JavaClients
from tests.jvm.pulsar_classes import BROKER_POM, class_path, find_java

HOUR_MS: Final = 3_600_000
BUCKET_PROPERTY: Final = "#pulsar.internal.delayed.bucket_"
START_TIMEOUT_S: Final = 240.0
ROOT: Final = "/pulsar"
"""Path of ZooKeeper below which the broker keeps its metadata."""
CLUSTER_NAME: Final = "test"
NAMESPACE: Final = "public/default"
_PACKAGES: Final = ("java.base/java.io", "java.base/java.net", "java.base/java.util", "java.base/jdk.internal.platform")
"""Packages that Pulsar's own start script opens, besides those for bookies."""
_JAVA_OPTIONS: Final = (
    *JVM_OPTIONS,
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _PACKAGES),
    "--add-opens=java.management/sun.management=ALL-UNNAMED",
    "-Xmx768m",
    "-XX:MaxDirectMemorySize=768m",
    # Without a file of settings, log4j writes to stdout from this level on.
    "-Dlog4j2.level=INFO",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
)
SETTINGS: Final[Mapping[str, str]] = {
    "clusterName": CLUSTER_NAME,
    "bindAddress": "127.0.0.1",
    "advertisedAddress": "127.0.0.1",
    "brokerShutdownTimeoutMs": "20000",
    "metadataStoreSessionTimeoutMillis": "10000",
    "numIOThreads": "2",
    "numHttpServerThreads": "8",
    "loadBalancerEnabled": "false",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "allowAutoTopicCreationType": "non-partitioned",
    "exposeTopicLevelMetricsInPrometheus": "true",
    # Acknowledged ledgers are trimmed, as by default.
    "defaultRetentionTimeInMinutes": "0",
    "defaultRetentionSizeInMB": "0",
    "managedLedgerDefaultEnsembleSize": "2",
    "managedLedgerDefaultWriteQuorum": "2",
    "managedLedgerDefaultAckQuorum": "2",
    "managedLedgerMaxEntriesPerLedger": "500",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "managedLedgerCacheSizeMB": "64",
    "managedLedgerDefaultMarkDeleteRateLimit": "1000",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "brokerServiceCompactionMonitorIntervalInSeconds": "0",
    "brokerEntryMetadataInterceptors": ",".join(
        f"org.apache.pulsar.common.intercept.Append{kind}MetadataInterceptor" for kind in ("BrokerTimestamp", "Index")
    ),
    "delayedDeliveryTrackerFactoryClassName": "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory",
    "delayedDeliveryTickTimeMillis": "1000",
    "isDelayedDeliveryDeliverAtTimeStrict": "false",
    "delayedDeliveryMinIndexCountPerBucket": "50",
    "delayedDeliveryMaxTimeStepPerBucketSnapshotSegmentSeconds": "300",
    "delayedDeliveryMaxIndexesPerBucketSnapshotSegment": "100",
    # Each ledger of a topic, once it is full, has a bucket of its own.
    "delayedDeliveryMaxNumBuckets": "-1",
}
"""Settings of the broker, as in broker.conf; the ports and the address of the metadata come on top."""


def now_ms() -> int:
    """Return the time as brokers have it."""
    return time.time_ns() // 1_000_000


class Broker:
    """One broker, which keeps its ports and its metadata when it is started again.

    Args:
        cluster: a ZooKeeper and two running bookies or more, of the tree /ledgers.
        directory: of the broker's configuration and log; it exists.
        java: Pulsar's own client.
        settings: these override :data:`SETTINGS`.
        jars: of plugins, in front of the broker's own.
        pom: lists the broker's own jars.
    """

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        java: JavaClients,
        settings: Mapping[str, str] | None = None,
        jars: Sequence[Path] = (),
        *,
        pom: Path = BROKER_POM,
    ) -> None:
        self.zookeeper = cluster.zookeeper
        self.service_port = free_port()
        self.web_port = free_port()
        self.admin = Admin(f"http://127.0.0.1:{self.web_port}")
        self.clients = BrokerClients(java, self.service_url)
        self._cluster = cluster
        self._topics = 0
        self._settings = {**SETTINGS, **(settings or {})}
        self.configuration = directory / "broker.conf"
        program = ["org.apache.pulsar.PulsarBrokerStarter", "-c", str(self.configuration)]
        classes = os.pathsep.join([*map(str, jars), class_path(pom)])
        self.process = ServerProcess([find_java(), *_JAVA_OPTIONS, "-cp", classes, *program], directory / "broker.log")

    @property
    def url(self) -> str:
        """Return the address of the cluster for our commands, which take the settings from ``configuration``."""
        return f"bookkeeper+zk:{self.zookeeper.address}{ROOT}"

    @property
    def service_url(self) -> str:
        """Return the address for Pulsar's clients."""
        return f"pulsar://127.0.0.1:{self.service_port}"

    def new_topic(self, name: str) -> str:
        """Return the full name of a topic that no test has used."""
        self._topics += 1
        return f"persistent://{NAMESPACE}/{name}-{self._topics}"

    def topic_node(self, topic: str) -> str:
        """Return the whole path of a topic's managed ledger in ZooKeeper."""
        return f"{ROOT}/managed-ledgers/{TopicName.parse(topic).managed_ledger}"

    def cursor_node(self, topic: str, subscription: str) -> str:
        """Return the whole path of a subscription's cursor in ZooKeeper."""
        return f"{self.topic_node(topic)}/{encode_name(subscription)}"

    def buckets(self, topic: str, subscription: str) -> dict[str, str]:
        """Return the ids of the bucket ledgers in a subscription's cursor properties, by the properties' names."""
        with self.zookeeper.connected() as client:
            value, _ = client.get(self.cursor_node(topic, subscription))
        found = {stored.name: stored.value for stored in parse_cursor(value).cursor_properties}
        return {name: ledger for name, ledger in found.items() if name.startswith(BUCKET_PROPERTY)}

    def remove_buckets(self, topic: str, subscription: str) -> int:
        """Remove the buckets of a subscription whose topic is not loaded, properties first, and return their number."""
        removed = self.buckets(topic, subscription)
        for name in removed:
            self.set_bucket(topic, subscription, name, None)
        for ledger_id in removed.values():
            self.delete_ledger(ledger_id)
        return len(removed)

    def set_bucket(self, topic: str, subscription: str, name: str, ledger_id: str | None) -> None:
        """Write one bucket property of a subscription whose topic is not loaded, or remove it (None)."""
        with self.zookeeper.connected() as client:
            node = self.cursor_node(topic, subscription)
            value, stat = client.get(node)
            cursor = parse_cursor(value)
            kept = [stored for stored in cursor.cursor_properties if stored.name != name]
            del cursor.cursor_properties[:]
            cursor.cursor_properties.extend(kept)
            if ledger_id is not None:
                cursor.cursor_properties.add(name=name, value=ledger_id)
            client.set(node, cursor.SerializeToString(), stat.version)

    def has_ledger(self, ledger_id: str) -> bool:
        """Return whether a ledger has metadata."""
        with self.zookeeper.connected() as client:
            return any(client.exists(f"{ROOT}{path}") is not None for path in ledger_paths(int(ledger_id)))

    def delete_ledger(self, ledger_id: str) -> None:
        """Delete the metadata of a ledger, which is all that a deletion does at first."""
        with self.zookeeper.connected() as client:
            (node,) = [path for path in ledger_paths(int(ledger_id)) if client.exists(f"{ROOT}{path}") is not None]
            client.delete(f"{ROOT}{node}")

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the broker, and wait until it serves; the first time, make its tenants and namespaces.

        Args:
            settings: these override those of the constructor, until the next start.
        Raises:
            ServerNotReady: it ended, or did not serve in time.
        """
        chosen = {
            **self._settings,
            **(settings or {}),
            "webServicePort": str(self.web_port),
            "brokerServicePort": str(self.service_port),
            "metadataStoreUrl": f"zk:{self.zookeeper.address}{ROOT}",
            "configurationMetadataStoreUrl": f"zk:{self.zookeeper.address}{ROOT}",
        }
        self.configuration.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()), encoding="utf-8")
        self._make_trees()
        self.process.launch()
        try:
            wait_until(self._serves, START_TIMEOUT_S)
        except TimeoutError as error:
            raise ServerNotReady(f"the broker is not ready:\n{self.process.last_lines()}") from error
        if CLUSTER_NAME not in self.admin.call("GET", "clusters"):
            self._make_namespaces()

    def make_transaction_coordinator(self) -> None:
        """Make what ``pulsar initialize-transaction-coordinator-metadata`` makes, with one coordinator."""
        path = f"{ROOT}/admin/partitioned-topics/pulsar/system/persistent/transaction_coordinator_assign"
        with self.zookeeper.connected() as client:
            if client.exists(path) is None:
                client.create(path, b'{"partitions":1}', makepath=True)

    def stop(self) -> None:
        """Stop the broker as an operator does: topics are unloaded, and what their cursors know is written."""
        self.process.stop()

    def kill(self) -> None:
        """Kill the broker with SIGKILL, and end its session, as if its time were over: what it owned is free at once."""
        self.process.kill()
        self.zookeeper.end_sessions_below(ROOT)

    def abandon(self) -> None:
        """Kill the broker if it runs, for good: nobody reads what it kept."""
        if self.process.running:
            self.process.kill()

    def log_lines(self, pattern: str, since: int = 0) -> list[str]:
        """Return the lines of the broker's log that match a regular expression, of the bytes behind ``since``."""
        with self.process.log.open("rb") as log:
            log.seek(since)
            text = log.read().decode("utf-8", errors="replace")
        return [line for line in text.splitlines() if re.search(pattern, line)]

    def log_size(self) -> int:
        """Return the size of the broker's log, for a later :meth:`log_lines`."""
        return self.process.log.stat().st_size

    def _serves(self) -> bool:
        if not self.process.running:
            raise ServerNotReady(f"the broker ended:\n{self.process.last_lines()}")
        return self.admin.is_ready()

    def _make_trees(self) -> None:
        """Make the nodes that are there before the first broker: its root, and BookKeeper's tree below it."""
        with self.zookeeper.connected() as client:
            if client.exists(ROOT) is not None:
                return
            client.create(ROOT)
        self.zookeeper.make_tree(f"{ROOT}/ledgers", bookies=[bookie.bookie_id for bookie in self._cluster.bookies])

    def _make_namespaces(self) -> None:
        urls = {"serviceUrl": self.admin.url, "brokerServiceUrl": self.service_url}
        self.admin.call("PUT", f"clusters/{CLUSTER_NAME}", json=urls)
        for namespace in ("pulsar/system", NAMESPACE):
            tenant = namespace.partition("/")[0]
            self.admin.call("PUT", f"tenants/{tenant}", json={"allowedClusters": [CLUSTER_NAME]})
            self.admin.call("PUT", f"namespaces/{namespace}", json={"bundles": {"numBundles": 4}})
