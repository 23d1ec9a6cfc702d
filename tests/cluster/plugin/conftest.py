"""Starts a broker with the plugin, and the service that it speaks to, beside the bookies of the other tests."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.fixtures import cluster, without, zookeeper
from tests.cluster.plugin.installation import Installation
from tests.cluster.plugin.plugin import plugin_jar
from tests.cluster.pulsar.servers.java_clients import running_java_clients
from tests.jvm.pulsar_classes import NoPulsarClasses

__all__ = ["cluster", "zookeeper"]


@pytest.fixture(scope="session")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Start two bookies, the service, a broker with the plugin, and a JVM with its clients."""
    with ExitStack() as running:
        try:
            jar = plugin_jar()
            java = running.enter_context(running_java_clients())
            made = Installation(cluster, tmp_path_factory.mktemp("plugin"), java, jar)
        except NoPulsarClasses as missing:
            without(missing)
        cluster.require(2)
        running.callback(made.abandon)
        made.start()
        yield made
