"""What ``/metrics`` shows. Scraping reads plain counters and takes no lock; it costs O(open trackers).

The process basics come from the client library's own collectors; the rest reads the tracker registry. PIP-195's family
carries the proposal's name and type, which the client library would not write: it ends the name of every counter with
``_total``. So that family is written here, and has a twin in Prometheus' own conventions.
"""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, GCCollector, Info, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from tracker.service.registry import TrackerRegistry

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

PIP_OPERATIONS: Final = "pulsar_delayed_message_index_bucket_op_count"
PIP_MEMORY: Final = "pulsar_delayed_message_index_size_bytes"

_OPERATIONS: Final = {
    ("create", "succeed"): "snapshots_stored",
    ("create", "failed"): "snapshots_failed",
    ("load", "succeed"): "segment_loads",
    ("load", "failed"): "segment_loads_failed",
    ("delete", "succeed"): "snapshots_deleted",
    ("delete", "failed"): "deletes_failed",
    ("merge", "succeed"): "snapshots_merged",
    ("merge", "failed"): "merges_failed",
}
"""(type, state), as PIP-195 names them, and which of the shell's counters it is."""

_SHELL_COUNTERS: Final = {
    "storage_retries": "Calls to the storage that were made again.",
    "results_forgotten": "Results of storage operations that came after a clear.",
    "orphans_swept": "Snapshots in no catalogue that a recovery deleted.",
    "orphans_left": "Snapshots in no catalogue that could not be deleted.",
    "checkpoints_failed": "Closes that could not record what was consumed.",
    "snapshots_missing": "Catalogued snapshots that were gone.",
    "snapshots_corrupt": "Snapshots that failed their checksum or did not decode.",
    "summaries_unreadable": "Catalogue summaries that did not decode.",
}

_INDEX_EVENTS: Final = {
    "added": "added_count",
    "recovered": "recovered_count",
    "acked": "acked_count",
    "handed_off": "handed_off_count",
    "cancelled": "cancelled_count",
    "trimmed": "trimmed_count",
    "cleared": "cleared_count",
    "refused_as_due": "refused_as_due_count",
    "dropped_as_corrupt": "dropped_as_corrupt_count",
    "due_on_offer": "due_on_offer_count",
    "duplicate": "duplicate_count",
    "lease_expired": "lease_expired_count",
    "merged": "merged_index_count",
}
"""What can happen to an index, and which of a tracker's counters it is."""

_SIZES: Final = {
    "pending_indexes": ("pending_count", "Indexes tracked and not leased."),
    "leased_indexes": ("leased_count", "Indexes leased now."),
    "loaded_indexes": ("loaded_count", "Copies of indexes in memory."),
    "mutable_indexes": ("mutable_count", "Indexes in buckets that are still filling."),
    "late_indexes": ("late_count", "Indexes below sealed ledgers, in memory."),
    "buckets": ("bucket_count", "Sealed buckets."),
    "snapshot_bytes": ("snapshot_bytes", "Size of all snapshots."),
    "membership_bytes": ("membership_bytes", "Memory of the bitmaps that say what is tracked."),
    "memory_bytes": ("memory_bytes", "Memory of rows, bitmaps, leases and segment bounds, about."),
}


class _TrackerCollector(Collector):
    """Sums over all trackers, read at each scrape."""

    def __init__(self, trackers: TrackerRegistry) -> None:
        self._trackers = trackers

    def collect(self) -> Iterator[Metric]:
        """Every family, each with all of its label values from the first scrape on."""
        counters = self._trackers.counters
        operations = CounterMetricFamily(
            "delayed_tracker_bucket_operations",
            "Operations on bucket snapshots that succeeded, and attempts at them that failed.",
            labels=("type", "state"),
        )
        for labels, name in _OPERATIONS.items():
            operations.add_metric(labels, getattr(counters, name))
        yield operations
        for name, documentation in _SHELL_COUNTERS.items():
            yield CounterMetricFamily(f"delayed_tracker_{name}", documentation, value=getattr(counters, name))
        tally = self._trackers.tally()
        events = CounterMetricFamily(
            "delayed_tracker_indexes", "What happened to indexes, in all trackers there ever were.", labels=("event",)
        )
        for event, name in _INDEX_EVENTS.items():
            events.add_metric((event,), tally[name])
        yield events
        yield CounterMetricFamily(
            "delayed_tracker_effects_failed",
            "Storage operations that failed after all their attempts, and were left to be begun again.",
            value=tally["effects_failed_count"],
        )
        for name, (field, documentation) in _SIZES.items():
            yield GaugeMetricFamily(f"delayed_tracker_{name}", documentation, value=tally[field])


class ServiceMetrics:
    """Every metric of one service, in a registry of its own.

    Args:
        trackers: read at each scrape.
        version: this distribution's version, for ``delayed_tracker_build_info``.
    """

    def __init__(self, trackers: TrackerRegistry, *, version: str) -> None:
        self._trackers = trackers
        metrics = self._metrics = CollectorRegistry()
        ProcessCollector(registry=metrics)
        PlatformCollector(registry=metrics)
        GCCollector(registry=metrics)
        build = Info("delayed_tracker_build", "The running version.", registry=metrics)
        build.info({"version": version})
        open_trackers = Gauge("delayed_tracker_open_trackers", "Trackers open now.", registry=metrics)
        open_trackers.set_function(lambda: trackers.tracker_count)
        waiting_polls = Gauge("delayed_tracker_waiting_polls", "Polls waiting for a message now.", registry=metrics)
        waiting_polls.set_function(lambda: trackers.waiting_poll_count)
        metrics.register(_TrackerCollector(trackers))

    def render(self) -> bytes:
        """The exposition in text format 0.0.4."""
        return generate_latest(self._metrics) + "".join(self._pip_lines()).encode()

    def _pip_lines(self) -> Iterator[str]:
        """Pulsar's own names: the memory of all trackers, and PIP-195's counts of operations.

        Their state ``all`` is the sum of the others, as in the proposal's table.
        """
        yield f"# HELP {PIP_MEMORY} Memory of delayed message indexes, about.\n"
        yield f"# TYPE {PIP_MEMORY} gauge\n"
        yield f"{PIP_MEMORY} {self._trackers.tally()['memory_bytes']}\n"
        counters = self._trackers.counters
        yield f"# HELP {PIP_OPERATIONS} Operations on bucket snapshots (PIP-195).\n"
        yield f"# TYPE {PIP_OPERATIONS} counter\n"
        sums: dict[str, int] = {}
        for (kind, state), name in _OPERATIONS.items():
            count = getattr(counters, name)
            sums[kind] = sums.get(kind, 0) + count
            yield f'{PIP_OPERATIONS}{{state="{state}",type="{kind}"}} {count}\n'
        for kind, count in sums.items():
            yield f'{PIP_OPERATIONS}{{state="all",type="{kind}"}} {count}\n'
