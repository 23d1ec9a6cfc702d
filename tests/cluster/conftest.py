"""Fixtures for tests about the buckets of a live cluster."""

from collections.abc import AsyncIterator

import pytest

from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.fixtures import allow_downloads, cluster, zookeeper
from tests.cluster.made_cluster import MadeCluster, made_cluster

__all__ = ["cluster", "zookeeper"]


def pytest_collection_modifyitems(items):
    """Give tests that may wait for a download more time."""
    allow_downloads(items)


@pytest.fixture
async def made(cluster: Cluster) -> AsyncIterator[MadeCluster]:
    """An empty cluster of the test's own."""
    async with made_cluster(cluster) as connected:
        yield connected
