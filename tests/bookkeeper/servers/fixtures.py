"""Fixtures of tests that need real servers: one ZooKeeper, its bookies, and one JVM with BookKeeper's own client.

A ``conftest.py`` imports those that its tests use. Without Java the tests are skipped; CI fails instead.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NoReturn

import pytest

from tests.bookkeeper.servers.cluster import Cluster, ZooKeeperServer
from tests.bookkeeper.servers.java_ledgers import JavaLedgers, running_java_ledgers
from tests.jvm.download_time import allow_download
from tests.jvm.pulsar_classes import NoPulsarClasses

_SERVERS = frozenset({"zookeeper", "cluster", "java_ledgers"})


def allow_downloads(items: list[pytest.Item]) -> None:
    """Let tests that use real servers wait for the download."""
    for item in items:
        if _SERVERS.intersection(getattr(item, "fixturenames", ())):
            allow_download(item)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """Start a ZooKeeper that has the nodes of an empty cluster at /ledgers."""
    try:
        server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper") / "data")
    except NoPulsarClasses as missing:
        without(missing)
    try:
        server.start()
        server.make_tree()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def cluster(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster without bookies; ``cluster.require(1)`` starts the first."""
    made = Cluster(zookeeper, tmp_path_factory.mktemp("bookies"))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def java_ledgers() -> Iterator[JavaLedgers]:
    """Start a JVM with BookKeeper's own client."""
    with ExitStack() as running:
        try:
            started = running.enter_context(running_java_ledgers())
        except NoPulsarClasses as missing:
            without(missing)
        yield started


def without(missing: object) -> NoReturn:
    """Skip the test that needs what is missing, for this reason; fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(str(missing), pytrace=False)
    pytest.skip(str(missing))
