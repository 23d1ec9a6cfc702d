"""Gives the tests of this folder a real ZooKeeper and real bookies, and topics on them."""

from collections.abc import Iterator

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.fixtures import allow_downloads, cluster, zookeeper
from tests.ledger.harness.cluster_topic import ClusterTopic

__all__ = ["cluster", "zookeeper"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow_downloads(items)


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[ClusterTopic]:
    """Return a topic of the test's own on two bookies."""
    cluster.require(2)
    with ClusterTopic(cluster.zookeeper) as made:
        yield made
