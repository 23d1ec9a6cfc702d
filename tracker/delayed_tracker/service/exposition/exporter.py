"""The exposition: every family of the catalogue with its samples, in the text format or in OpenMetrics.

A scrape reads the values that have changed since the last one, a few milliseconds at a time, and then writes them. It
takes no lock, and an idle tracker costs nothing: series of trackers that did not change are already text.

Prometheus' client library does not write PIP-195's families: it would end the name of each counter with ``_total``, and
it has no histogram of separate ranges. It writes its own metrics of the process.
"""

import enum
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from delayed_tracker.service.exposition.security_samples import security_lines
from delayed_tracker.service.exposition.server_samples import server_lines
from delayed_tracker.service.exposition.tracker_samples import OF_ALL, OF_TRACKERS, sample
from delayed_tracker.service.instruments import service_families, tracker_families
from delayed_tracker.service.instruments.bucket_operations import COUNTERS
from delayed_tracker.service.instruments.call_counts import MethodCalls
from delayed_tracker.service.instruments.family import Family, Format, Origin, label
from delayed_tracker.service.instruments.histogram import Histogram
from delayed_tracker.service.instruments.measured_add_log import MeasuredAddLog
from delayed_tracker.service.instruments.measured_calls import MeasuredCalls
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.service.instruments.tracker_rows import LabelledTracker
from delayed_tracker.service.trackers.registry import TrackerRegistry


class Names(enum.Enum):
    """The choice between families that show the same value under two names."""

    BOTH = "both"
    PULSAR = "pulsar"
    PROMETHEUS = "prometheus"

    def shows(self, family: Family) -> bool:
        """Return True if a family is shown."""
        if family.origin is Origin.PULSAR:
            return self is not Names.PROMETHEUS
        return family.origin is not Origin.TWIN or self is not Names.PULSAR


class ServiceMetrics:
    """All metrics of one service.

    Args:
        trackers: read at each scrape.
        version: version of this distribution, for ``delayed_tracker_build_info``.
        storage: storage of the trackers, if it is measured.
        add_log: add log of the trackers, if it is measured.
        cluster: value of Pulsar's label ``cluster``; empty for no label.
        names: the choice between Pulsar's families and their twins.
    """

    def __init__(
        self,
        trackers: TrackerRegistry,
        *,
        version: str,
        storage: MeasuredStorage | None = None,
        add_log: MeasuredAddLog | None = None,
        cluster: str = "",
        names: Names = Names.BOTH,
    ) -> None:
        self._trackers = trackers
        self._version = version
        self._storage = storage
        self._measured: list[MeasuredCalls] = [each for each in (storage, add_log) if each is not None]
        self._cluster = label("cluster", cluster) if cluster else ""
        self._names = names
        self._of_trackers = [(family, samples) for family, samples in OF_TRACKERS if names.shows(family)]
        self._library = CollectorRegistry()
        ProcessCollector(registry=self._library)
        PlatformCollector(registry=self._library)
        GCCollector(registry=self._library)

    async def scrape(self, accept: str = "") -> tuple[bytes, str]:
        """Return an exposition and its content type.

        Args:
            accept: the request's header of that name. OpenMetrics is written if it accepts that, else the text format.
        """
        form = Format.accepted(accept)
        encode_library = openmetrics.generate_latest if form is Format.OPENMETRICS else generate_latest
        await self._trackers.rows.refresh(self._lines_of)
        # No await from here on: sums and parts must be of one moment. The library's part comes last, and ends
        # OpenMetrics.
        return b"".join(self._parts(form)) + encode_library(self._library), form.value

    def _parts(self, form: Format) -> Iterator[bytes]:
        for family, lines in (*self._trackers_lines(), *self._totals_lines(), *self._shell_lines(form)):
            if self._names.shows(family):
                yield family.header(form)
                yield from lines

    # -- trackers ------------------------------------------------------------------------------------------------------

    def _trackers_lines(self) -> Iterator[tuple[Family, Iterable[bytes]]]:
        """Yield the series of each tracker that has its own, then those of all others together."""
        rows = self._trackers.rows
        columns: Iterable[tuple[bytes, ...]] = zip(*map(self._lines_of, rows.labelled.values()), strict=True)
        own = list(columns) or [()] * len(self._of_trackers)
        sums = rows.aggregated().row()
        for (family, samples), lines in zip(self._of_trackers, own, strict=True):
            yield family, (*lines, samples(self._cluster, sums, rows.shared_account).encode())

    def _lines_of(self, tracker: LabelledTracker) -> tuple[bytes, ...]:
        if not tracker.lines and tracker.row:
            labels = self._labels(tracker)
            tracker.lines = tuple(
                samples(labels, tracker.row, tracker.account).encode() for _, samples in self._of_trackers
            )
        return tracker.lines or (b"",) * len(self._of_trackers)

    def _labels(self, tracker: LabelledTracker) -> str:
        topic, subscription = tracker.key
        parts = [
            label("namespace", _namespace(topic)),
            label("topic", topic),
            label("subscription", subscription),
        ]
        return ",".join([self._cluster, *parts] if self._cluster else parts)

    def _totals_lines(self) -> Iterator[tuple[Family, Iterable[bytes]]]:
        rows = self._trackers.rows
        row = rows.totals().row()
        for family, samples in OF_ALL:
            yield family, (samples("", row, rows.shared_account).encode(),)
        counters = self._trackers.counters
        operations = (
            sample(
                tracker_families.BUCKET_OPERATIONS.name,
                f'type="{kind}",state="{state}"',
                getattr(counters, name),
            )
            for (kind, state), name in COUNTERS.items()
        )
        yield tracker_families.BUCKET_OPERATIONS, ("".join(operations).encode(),)
        for name, family in service_families.SHELL_COUNTERS.items():
            yield family, (sample(family.name, "", getattr(counters, name)).encode(),)

    # -- the shell -----------------------------------------------------------------------------------------------------

    def _shell_lines(self, form: Format) -> Iterator[tuple[Family, Iterable[bytes]]]:
        trackers, measured = self._trackers, self._trackers.instruments
        rows, unstored, loads = trackers.rows, trackers.unstored, trackers.loads
        yield (
            service_families.BUILD,
            (sample(service_families.BUILD.name, label("version", self._version), 1).encode(),),
        )
        for family, value in (
            (service_families.OPEN_TRACKERS, trackers.tracker_count),
            (service_families.AGGREGATED, rows.aggregated_count),
            (service_families.AGGREGATED_TOTAL, rows.aggregated_total),
            (service_families.WAITING_POLLS, trackers.waiting_poll_count),
            (service_families.OPEN_CALLS, trackers.calls.open_count),
            (service_families.OPEN_STREAMS, trackers.calls.requests.stream_count),
            (service_families.RECOVERING, trackers.recovering_count),
            (service_families.LONGEST_RECOVERY, measured.recoveries.longest_ms / 1_000),
            (tracker_families.EARLY, measured.early_count),
            (tracker_families.UNSTORED, unstored.unstored_count),
            (tracker_families.UNSTORED_MAX, unstored.limits.unstored_indexes_max),
            (tracker_families.REFUSED_ADDS, unstored.refused_count),
            (tracker_families.HELD_BACK, unstored.waiting_count),
            (tracker_families.HELD_BACK_TOTAL, unstored.held_back_count),
            (tracker_families.READ, loads.held_count),
            (tracker_families.READ_MAX, loads.rows_max),
            (tracker_families.READ_WAITING, loads.waiting_count),
            (tracker_families.READ_LEAD, loads.lead_ms / 1_000),
        ):
            yield family, (sample(family.name, "", value).encode(),)
        yield from self._in_flight()
        yield service_families.CLOCK_STEPS, self._clock_steps()
        for family, histograms in (
            (tracker_families.BUCKET_DURATIONS, _labelled("type", measured.operations)),
            (tracker_families.LATENESS, [("", measured.lateness.histogram())]),
            (service_families.RECOVERIES, _labelled("outcome", measured.recoveries.by_outcome)),
            (service_families.LOOP_LAG, [("", measured.loop_lag)]),
            (service_families.STORAGE_DURATIONS, self._storage_durations()),
            (service_families.GRPC_HANDLING, self._call_durations()),
        ):
            yield family, _histogram_lines(family, histograms, form)
        yield service_families.STORAGE_CALLS, self._storage_calls()
        yield from self._storage_space()
        yield from self._log_lines()
        if self._storage is not None:
            yield from server_lines(self._storage.inner, self._storage.backend, form)
        yield from security_lines(measured.security)
        yield service_families.GRPC_STARTED, self._calls_started()
        yield service_families.GRPC_HANDLED, self._calls_handled()

    def _in_flight(self) -> Iterator[tuple[Family, Iterable[bytes]]]:
        calls = self._trackers.calls
        requests, answers = calls.requests.budget, calls.answers.budget
        for family, of_requests, of_answers in (
            (service_families.IN_FLIGHT, requests.held_bytes, answers.held_bytes),
            (service_families.IN_FLIGHT_MAX, requests.bytes_max, answers.bytes_max),
            (service_families.IN_FLIGHT_WAITING, requests.waiting_count, answers.waiting_count),
            (service_families.IN_FLIGHT_REFUSED, requests.refused_count, answers.refused_count),
        ):
            yield (
                family,
                (
                    sample(family.name, 'direction="request"', of_requests).encode(),
                    sample(family.name, 'direction="answer"', of_answers).encode(),
                ),
            )

    def _clock_steps(self) -> Iterator[bytes]:
        steps = self._trackers.instruments.clock_steps
        for direction, count in (("forward", steps.forward_count), ("back", steps.back_count)):
            yield sample(service_families.CLOCK_STEPS.name, label("direction", direction), count).encode()

    def _storage_durations(self) -> Iterator[tuple[str, Histogram]]:
        for measured in self._measured:
            backend = label("backend", measured.backend)
            for operation, calls in measured.operations.items():
                yield f'{backend},operation="{operation}"', calls.durations

    def _storage_calls(self) -> Iterator[bytes]:
        for measured in self._measured:
            backend = label("backend", measured.backend)
            for operation, calls in measured.operations.items():
                for outcome, count in calls.outcomes.items():
                    labels = f'{backend},operation="{operation}",outcome="{outcome}"'
                    yield sample(service_families.STORAGE_CALLS.name, labels, count).encode()

    def _storage_space(self) -> Iterator[tuple[Family, Iterable[bytes]]]:
        space = self._storage.space.space if self._storage is not None else None
        if self._storage is not None and space is not None:
            backend = label("backend", self._storage.backend)
            used, free = service_families.STORAGE_USED, service_families.STORAGE_FREE
            yield used, (sample(used.name, backend, space.used_bytes).encode(),)
            yield free, (sample(free.name, backend, space.free_bytes).encode(),)

    def _log_lines(self) -> Iterator[tuple[Family, Iterable[bytes]]]:
        log, keeper, idle = self._trackers.log, self._trackers.log_keeper, self._trackers.idle
        if log is not None and keeper is not None and idle is not None:
            for family, value in (
                (service_families.LOG_BYTES, log.log_bytes),
                (service_families.LOG_BYTES_MAX, log.limits.add_log_bytes_max),
                (service_families.LOG_PENDING, log.pending_bytes),
                (service_families.LOG_PENDING_MAX, log.limits.add_log_pending_bytes_max),
                (service_families.LOG_COMMITS, log.commit_count),
                (service_families.LOG_RECORDS, log.record_count),
                (service_families.LOG_COMMITS_FAILED, log.failed_count),
                (service_families.LOG_FAILING, log.failure is not None and not log.is_broken),
                (service_families.LOG_BROKEN, log.is_broken),
                (service_families.LOG_CHECKPOINTS, keeper.checkpoint_count),
                (service_families.UNLOADED_TRACKERS, idle.unloaded_count),
                (service_families.UNLOADS, idle.unload_count),
                (service_families.RELOADS, idle.reload_count),
                (service_families.UNWRITTEN, log.unwritten_removed_count),
                (service_families.UNWRITTEN_MAX, log.limits.consumption_window_positions),
            ):
                yield family, (sample(family.name, "", int(value)).encode(),)

    def _methods(self) -> Iterator[tuple[str, MethodCalls]]:
        for calls in self._trackers.calls.counts.methods:
            yield f'grpc_type="{calls.kind.value}",grpc_service="{calls.service}",grpc_method="{calls.method}"', calls

    def _call_durations(self) -> Iterator[tuple[str, Histogram]]:
        return ((labels, calls.durations) for labels, calls in self._methods())

    def _calls_started(self) -> Iterator[bytes]:
        for labels, calls in self._methods():
            yield sample(service_families.GRPC_STARTED.name, labels, calls.started).encode()

    def _calls_handled(self) -> Iterator[bytes]:
        for labels, calls in self._methods():
            for code, count in calls.handled.items():
                yield sample(service_families.GRPC_HANDLED.name, f'{labels},grpc_code="{code}"', count).encode()


def _labelled(name: str, histograms: dict[str, Histogram]) -> list[tuple[str, Histogram]]:
    return [(label(name, value), histogram) for value, histogram in histograms.items()]


def _histogram_lines(family: Family, histograms: Iterable[tuple[str, Histogram]], form: Format) -> Iterator[bytes]:
    for labels, histogram in histograms:
        yield from histogram.lines(family.name, labels, form)


def _namespace(topic: str) -> str:
    """Return ``tenant/namespace`` of ``persistent://tenant/namespace/topic``; empty for names of other forms."""
    scheme, slashes, rest = topic.partition("://")
    parts = rest.split("/")
    return "/".join(parts[:2]) if scheme and slashes and len(parts) >= 3 else ""
