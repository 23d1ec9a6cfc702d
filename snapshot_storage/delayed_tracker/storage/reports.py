"""Reports of storages over BookKeeper on the servers behind it, for metrics and health."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from delayed_tracker.bookkeeper.stats import BookieStats


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """State of the client of a cluster at one moment."""

    bookies: Mapping[str, BookieStats]
    """By bookie, as ``BookKeeper.stats`` bounds them."""
    zookeeper: str
    """Addresses of ZooKeeper."""
    zookeeper_connected: bool
    session_count: int
    """Sessions with ZooKeeper so far; each but the first begins after one has expired."""


@runtime_checkable
class ReportsCluster(Protocol):
    """A backend over BookKeeper; others do not implement this."""

    def cluster_report(self) -> ClusterReport | None:
        """Return the state of now; None unless the storage is open."""
        ...


def cluster_report_of(storage: object) -> ClusterReport | None:
    """Return the report of a storage; None if it is not over BookKeeper, or not open."""
    return storage.cluster_report() if isinstance(storage, ReportsCluster) else None
