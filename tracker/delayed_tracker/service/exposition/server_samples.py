"""Writes the samples of the servers behind a storage: bookies and ZooKeeper, or an object store."""

from collections.abc import Iterable, Iterator

from delayed_tracker.bookkeeper.stats import LATENCY_BOUNDS_S, BookieStats
from delayed_tracker.service.exposition.tracker_samples import sample
from delayed_tracker.service.instruments import server_families as families
from delayed_tracker.service.instruments.family import Family, Format, label
from delayed_tracker.service.instruments.histogram import Histogram
from delayed_tracker.storage.capabilities import (
    REQUEST_BOUNDS_S,
    ClusterReport,
    ReportsRequests,
    RequestCounts,
    cluster_report_of,
)
from delayed_tracker.storage.protocol import SnapshotStore

Lines = Iterator[tuple[Family, Iterable[bytes]]]


def server_lines(storage: SnapshotStore, backend: str, form: Format) -> Lines:
    """Yield the families of the servers behind a storage with their samples; none if it has no such servers, or is closed.

    Args:
        storage: whose requests are counted; it is not asked anything.
        backend: its name, as in its URL.
        form: of the exposition.
    """
    if (report := cluster_report_of(storage)) is not None:
        yield from _cluster_lines(report, form)
    if isinstance(storage, ReportsRequests):
        yield from _object_lines(storage.request_counts, label("backend", backend), form)


def _cluster_lines(report: ClusterReport, form: Format) -> Lines:
    bookies = {label("bookie", name): stats for name, stats in report.bookies.items()}
    of_operation = [
        (f'{bookie},operation="{name.lower()}"', counts)
        for bookie, stats in bookies.items()
        for name, counts in stats.operations.items()
    ]
    yield (
        families.BOOKIE_REQUESTS,
        (
            sample(families.BOOKIE_REQUESTS.name, f'{labels},outcome="{outcome.lower()}"', count).encode()
            for labels, counts in of_operation
            for outcome, count in counts.outcomes.items()
        ),
    )
    yield (
        families.BOOKIE_DURATIONS,
        (
            line
            for labels, counts in of_operation
            for line in Histogram(LATENCY_BOUNDS_S)
            .filled([*counts.latencies], counts.latency_s)
            .lines(families.BOOKIE_DURATIONS.name, labels, form)
        ),
    )
    sent, received = families.BOOKIE_SENT, families.BOOKIE_RECEIVED
    yield sent, (sample(sent.name, labels, counts.sent_bytes).encode() for labels, counts in of_operation)
    yield received, (sample(received.name, labels, counts.received_bytes).encode() for labels, counts in of_operation)
    for family, values in (
        (families.BOOKIE_IN_FLIGHT, _values(bookies, "requests_in_flight")),
        (families.BOOKIE_IN_FLIGHT_BYTES, _values(bookies, "bytes_in_flight")),
        (families.BOOKIE_CONNECTIONS, _values(bookies, "connections")),
        (families.BOOKIE_REPLACEMENTS, _values(bookies, "replacements")),
        (families.ZOOKEEPER_CONNECTED, [("", int(report.zookeeper_connected))]),
        (families.ZOOKEEPER_SESSIONS, [("", report.session_count)]),
    ):
        yield family, [sample(family.name, labels, value).encode() for labels, value in values]


def _values(bookies: dict[str, BookieStats], name: str) -> list[tuple[str, int]]:
    return [(labels, getattr(stats, name)) for labels, stats in bookies.items()]


def _object_lines(counts: RequestCounts, backend: str, form: Format) -> Lines:
    requests, durations = families.OBJECT_REQUESTS, families.OBJECT_DURATIONS
    yield (
        requests,
        [
            sample(requests.name, f'{backend},operation="{operation}",outcome="{outcome}"', count).encode()
            for (operation, outcome), count in counts.outcomes.items()
        ],
    )
    yield (
        durations,
        [
            line
            for operation, times in counts.times.items()
            for line in Histogram(REQUEST_BOUNDS_S)
            .filled(times.counts, times.sum_s)
            .lines(durations.name, f'{backend},operation="{operation}"', form)
        ],
    )
    octets, in_flight = families.OBJECT_BYTES, families.OBJECT_IN_FLIGHT
    yield (
        octets,
        [
            sample(octets.name, f'{backend},direction="sent"', counts.bytes_sent).encode(),
            sample(octets.name, f'{backend},direction="received"', counts.bytes_received).encode(),
        ],
    )
    yield in_flight, [sample(in_flight.name, backend, counts.in_flight).encode()]
