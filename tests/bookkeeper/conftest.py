"""Gives the tests of this folder the real servers."""

import pytest

from tests.bookkeeper.servers.fixtures import allow_downloads, cluster, java_ledgers, zookeeper

__all__ = ["cluster", "java_ledgers", "zookeeper"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    allow_downloads(items)
