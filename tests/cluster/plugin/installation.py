"""A broker with the plugin, and the service that tracks for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from delayed_tracker.client import TrackerNotOpen, TrackerStats, Unavailable
from delayed_tracker.client.blocking import DelayedTrackerClient
from tests.bookkeeper.servers.cluster import Cluster
from tests.cluster.plugin.plugin import FACTORY
from tests.cluster.plugin.service import Service
from tests.cluster.pulsar.servers.admin import wait_until
from tests.cluster.pulsar.servers.broker import Broker
from tests.cluster.pulsar.servers.java_clients import JavaClients
from tests.jvm.pulsar_classes import BROKER_POM

SETTINGS: Final[Mapping[str, str]] = {
    "delayedDeliveryTrackerFactoryClassName": FACTORY,
    "delayedTrackerCallTimeoutMillis": "5000",
    "transactionCoordinatorEnabled": "true",
    # A broker stops reading a connection that has so many sends pending. If it was frozen and lost its topics meanwhile, it
    # never counts these sends down (Pulsar 4.2.4): all that a client asks it on this connection stays without an answer.
    "maxPendingPublishRequestsPerConnection": "1000000",
}


class Installation:
    """One broker and one service."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        java: JavaClients,
        jar: Path,
        settings: Mapping[str, str] | None = None,
        *,
        pom: Path = BROKER_POM,
    ) -> None:
        for name in ("service", "broker"):
            (directory / name).mkdir(parents=True)
        self.service = Service(directory / "service")
        chosen = {**SETTINGS, "delayedTrackerServiceAddresses": self.service.address, **(settings or {})}
        self.broker = Broker(cluster, directory / "broker", java, chosen, [jar], pom=pom)

    def start(self) -> None:
        """Start both."""
        self.service.start()
        self.broker.start()

    def abandon(self) -> None:
        """Kill both, for good."""
        self.broker.abandon()
        if self.service.process.running:
            self.service.process.kill()

    def stats(self, topic: str, subscription: str) -> TrackerStats:
        """Return what the service says of a tracker."""
        with DelayedTrackerClient.connect(self.service.address) as client:
            return client.view_tracker(topic, subscription).stats()

    def tracked(self, topic: str, subscription: str) -> int:
        """Return how many messages the service tracks, as soon as it answers; 0 without an open tracker."""
        counts: list[int] = []

        def answers() -> bool:
            try:
                stats = self.stats(topic, subscription)
            except TrackerNotOpen:
                counts.append(0)
            except Unavailable:  # it starts, or recovers the tracker
                return False
            else:
                counts.append(stats.pending_count + stats.leased_count)
            return True

        wait_until(answers)
        return counts[-1]

    def has_tracker(self, topic: str, subscription: str) -> bool:
        """Return whether the service knows a tracker, open or not."""
        with DelayedTrackerClient.connect(self.service.address) as client:
            return any(each.topic == topic and each.subscription == subscription for each in client.list_trackers())

    def is_settled(self, topic: str, subscription: str) -> bool:
        """Return whether the broker and the service track the same number of messages."""
        return self.tracked(topic, subscription) == self.broker.admin.delayed(topic, subscription)
