"""Fixtures of tests with a real broker: a ``conftest.py`` imports those that its tests use, and those of BookKeeper.

Without Java the tests are skipped; CI fails instead.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.fixtures import without
from tests.cluster.pulsar.servers.broker import Broker
from tests.cluster.pulsar.servers.java_clients import running_java_clients
from tests.jvm.download_time import allow_download
from tests.jvm.pulsar_classes import FETCH_TIMEOUT_S, NoPulsarClasses

_DOWNLOADS: int = 3
"""Sets of jars that the first test may wait for."""


def allow_downloads(items: list[pytest.Item]) -> None:
    """Set a longer timeout on tests with a broker, because the first may wait for the downloads."""
    for item in items:
        if "broker" in getattr(item, "fixturenames", ()):
            allow_download(item, _DOWNLOADS * FETCH_TIMEOUT_S + 300)


@pytest.fixture(scope="session")
def broker(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start two bookies, a broker, and a JVM with its clients."""
    with ExitStack() as running:
        try:
            java = running.enter_context(running_java_clients())
            made = Broker(cluster, tmp_path_factory.mktemp("broker"), java)
        except NoPulsarClasses as missing:
            without(missing)
        cluster.require(2)
        running.callback(made.abandon)
        made.start()
        yield made
