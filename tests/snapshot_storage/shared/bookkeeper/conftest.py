"""Fixtures for tests with real servers."""

from tests.bookkeeper.servers.fixtures import allow_downloads, cluster, java_ledgers, zookeeper

__all__ = ["cluster", "java_ledgers", "zookeeper"]


def pytest_collection_modifyitems(items):
    """Give tests that may wait for a download more time."""
    allow_downloads(items)
