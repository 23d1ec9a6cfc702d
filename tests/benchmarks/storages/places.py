"""Places for snapshots, each with its own servers: SQLite, a directory, S3, and clusters of one and of three bookies."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from unittest.mock import patch

from tests.benchmarks.measure import Run
from tests.bookkeeper.servers.cluster import LEDGERS, Cluster, ZooKeeperServer
from tests.repository.project_tree import ROOT

MEASURED_BOOKIE: Final = ("-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:TieredStopAtLevel=4")
"""Options of a bookie that is measured: compiled as in production, unlike those of the tests."""


@dataclass(frozen=True, slots=True)
class Place:
    """A storage that a benchmark runs over."""

    name: str
    url: Callable[[str], str]
    """Returns the storage URL of a part, by its name; parts share nothing."""
    has_own_log: bool = False
    """True if the add log is measured with the snapshots: it is in the same servers."""


@contextmanager
def sqlite(run: Run) -> Iterator[Place]:
    """Yield files of SQLite."""
    directory = run.new_directory()
    yield Place("SQLite", lambda part: f"sqlite:{directory}/{part}.db")


@contextmanager
def directory_of_files(run: Run) -> Iterator[Place]:
    """Yield directories with the layout of object stores."""
    directory = run.new_directory()
    yield Place("files", lambda part: f"file://{directory}/{part}")


@contextmanager
def s3(_: Run) -> Iterator[Place]:
    """Start moto's S3 in a process of its own, and yield one prefix of a bucket for each part."""
    command = [sys.executable, "-m", "tests.benchmarks.storages.moto_process"]
    credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    with (
        patch.dict(os.environ, credentials),
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        bucket = server.stdout.readline().strip()
        assert bucket, "moto did not start"
        try:
            endpoint, _, name = bucket.rpartition("/")
            yield Place("S3 (moto)", lambda part: f"s3://{name}/{part}?endpoint={endpoint}&region=us-east-1")
        finally:
            server.stdin.close()  # which ends it


@contextmanager
def bookies(run: Run, count: int) -> Iterator[Cluster]:
    """Start a ZooKeeper and bookies.

    Raises:
        NoPulsarClasses: there is no Java, or their classes cannot be fetched.
    """
    directory = run.new_directory()
    zookeeper = ZooKeeperServer(directory / "zookeeper")
    cluster = Cluster(zookeeper, directory, MEASURED_BOOKIE)
    run.note(f"starting bookies: {count}")
    try:
        zookeeper.start()
        zookeeper.make_tree()
        cluster.require(count)
        yield cluster
    finally:
        cluster.stop()
        zookeeper.stop()


@contextmanager
def one_bookie(run: Run) -> Iterator[Place]:
    """Start a cluster of one bookie, and yield a root of it for each part."""
    with bookies(run, 1) as cluster:
        yield _root_of(cluster, "one bookie", "ensemble=1&writeQuorum=1&ackQuorum=1")


@contextmanager
def three_bookies(run: Run) -> Iterator[Place]:
    """Start a cluster of three bookies, two of which have each ledger, as is the default; yield a root for each part."""
    with bookies(run, 3) as cluster:
        yield _root_of(cluster, "three bookies", "ensemble=2&writeQuorum=2&ackQuorum=2")


@contextmanager
def striped_bookies(run: Run) -> Iterator[Place]:
    """Start three bookies that share each ledger, two copies of each entry; yield a root of them for each part."""
    with bookies(run, 3) as cluster:
        yield _root_of(cluster, "three bookies, striped", "ensemble=3&writeQuorum=2&ackQuorum=2")


def _root_of(cluster: Cluster, name: str, quorums: str) -> Place:
    address = f"bookkeeper:zk://{cluster.zookeeper.address}{LEDGERS}"
    return Place(name, lambda part: f"{address}?root=/{part}&{quorums}", has_own_log=True)


PLACES: Final = (sqlite, directory_of_files, one_bookie, three_bookies, s3)
