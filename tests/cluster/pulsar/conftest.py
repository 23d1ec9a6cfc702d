"""Gives the tests of this folder the real servers."""

import pytest

from tests.bookkeeper.servers.fixtures import cluster, zookeeper
from tests.cluster.pulsar.servers.fixtures import allow_downloads, broker

__all__ = ["broker", "cluster", "zookeeper"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow_downloads(items)
