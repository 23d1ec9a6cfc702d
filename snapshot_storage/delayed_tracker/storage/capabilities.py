"""Optional protocols of backends, besides the storage protocol; ``isinstance`` finds them.

A backend without one of them has no such limit, or nothing to report.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from delayed_tracker.bookkeeper.stats import BookieStats


@dataclass(frozen=True, slots=True)
class StorageSpace:
    """Space of a storage, in bytes."""

    used_bytes: int
    """Size of all of its files, including unused parts."""
    free_bytes: int
    """Space that is still available to it."""


@runtime_checkable
class ReportsSpace(Protocol):
    """A backend with limited space; others do not implement this."""

    async def space(self) -> StorageSpace:
        """Return the used and the free space. Raises StorageUnavailable."""
        ...


@runtime_checkable
class LimitsEntries(Protocol):
    """A backend that takes no larger entries than it says; others do not implement this."""

    @property
    def entry_bytes_max(self) -> int | None:
        """Bytes of the largest entry, metadata or segment; None without a maximum, and before ``start``."""
        ...


def entry_bytes_max(storage: object) -> int | None:
    """Return the bytes of the largest entry that a storage takes; None if it does not say."""
    return storage.entry_bytes_max if isinstance(storage, LimitsEntries) else None


@dataclass(frozen=True, slots=True)
class SnapshotPlaces:
    """Places where a storage has snapshots, whatever its catalogues say."""

    trackers: frozenset[tuple[str, str]]
    """Every (topic, cursor) with a complete snapshot."""
    nameless: tuple[str, ...] = ()
    """Places with complete snapshots whose tracker cannot be told from their names, ascending."""


@runtime_checkable
class FindsSnapshots(Protocol):
    """A backend that finds snapshots of trackers that no catalogue knows; others do not implement this."""

    async def snapshot_places(self) -> SnapshotPlaces:
        """Return where there are snapshots. Raises StorageUnavailable."""
        ...


REQUEST_OUTCOMES: Final = ("ok", "not_found", "conflict", "failed", "cancelled")
"""Outcomes of a request to a store: a conflict is a refused conditional write."""
REQUEST_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the steps in which durations of requests are counted, in seconds; one more step has all above."""


@dataclass(slots=True)
class RequestTimes:
    """Durations of requests."""

    sum_s: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(REQUEST_BOUNDS_S) + 1))
    """Requests by step of ``REQUEST_BOUNDS_S``."""

    def add(self, duration_s: float) -> None:
        """Count a request."""
        self.sum_s += duration_s
        self.counts[bisect_left(REQUEST_BOUNDS_S, duration_s)] += 1


@dataclass(slots=True)
class RequestCounts:
    """Requests that a storage has sent to its store since it was made, and their bytes."""

    requests: dict[str, int] = field(default_factory=dict)
    """Requests by operation, failed ones included."""
    failures: dict[str, int] = field(default_factory=dict)
    """Requests by operation that the store did not answer, or answered with an error."""
    outcomes: dict[tuple[str, str], int] = field(default_factory=dict)
    """Requests that have ended, by operation and one of ``REQUEST_OUTCOMES``."""
    times: dict[str, RequestTimes] = field(default_factory=dict)
    """Durations by operation; what was counted as several requests, because it is sent in parts, has one."""
    bytes_sent: int = 0
    """Bytes of content that were sent, without headers."""
    bytes_received: int = 0
    """Bytes of content that were received; those of listings are not counted."""
    in_flight: int = 0
    """Requests without an answer now; what is sent in parts counts as one."""

    def add(self, operation: str, count: int = 1, *, sent: int = 0) -> None:
        """Count requests that are sent now."""
        self.requests[operation] = self.requests.get(operation, 0) + count
        self.bytes_sent += sent

    def add_failure(self, operation: str) -> None:
        """Count a request that failed."""
        self.failures[operation] = self.failures.get(operation, 0) + 1

    def add_outcome(self, operation: str, outcome: str, count: int = 1) -> None:
        """Count requests that have ended."""
        self.outcomes[operation, outcome] = self.outcomes.get((operation, outcome), 0) + count

    def add_time(self, operation: str, duration_s: float) -> None:
        """Count the duration of a request."""
        self.times.setdefault(operation, RequestTimes()).add(duration_s)


@runtime_checkable
class ReportsRequests(Protocol):
    """A backend that sends requests to a store over a network; others do not implement this."""

    @property
    def request_counts(self) -> RequestCounts:
        """Counts of the requests so far, which go on changing."""
        ...


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
