"""Fixtures for tests about the buckets of a live cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.protocol import SnapshotStore
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


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SnapshotStore]:
    """Yield a storage of the service, without trackers."""
    async with opened_storage("--from", f"sqlite:{tmp_path / 'tracker.db'}", creates=True) as whole:
        yield whole.snapshots
