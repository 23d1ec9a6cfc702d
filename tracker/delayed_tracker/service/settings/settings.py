"""The service's settings: every key with its default and range, in one frozen value without components.

Keys that Pulsar has keep their name and meaning of ``broker.conf``. A key whose feature does not exist yet is known,
but accepts only its default, so that a configuration written for Pulsar either works or is refused with the reason.

``delayed_tracker.service.settings.load`` reads them from a file and the environment; ``docs/reference`` generates
``conf/tracker.conf`` and the documentation's table from them.
"""

import dataclasses
from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.settings.address import Address
from delayed_tracker.service.settings.connections import ConnectionSettings
from delayed_tracker.service.settings.in_flight import InFlightSettings
from delayed_tracker.service.settings.keys import Group, SettingKey, SettingValue, setting, setting_of
from delayed_tracker.service.settings.ledger import LedgerSettings
from delayed_tracker.service.settings.pulsar import PulsarSettings
from delayed_tracker.service.settings.storage import StorageSettings

_POSITION_BYTES = 24
"""Bytes of one position of a batch on the wire: three 64-bit columns."""
_READ_ENTRY_BYTES = 256
"""Bytes of one entry of an answer beside its payload, or of the reason why it cannot be read."""
_MESSAGE_OVERHEAD_BYTES = 16 * 1024
"""Bytes of a message beside its columns: two names of up to 4 KiB, and small fields."""

_DAY_MS = 86_400_000
LOAD_INDEXES_MIN = 256
"""One read takes the segments that follow along until it has this many indexes: small segments would be many reads."""
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Settings(ConnectionSettings, InFlightSettings, LedgerSettings, StorageSettings, PulsarSettings):
    """All settings of one service. The constructor validates each value and the combinations.

    Raises:
        InvalidInput: with the configuration key, the value and the allowed values.
    """

    default_lease_ms: int = setting(
        30_000,
        "defaultLeaseMillis",
        Group.DISPATCHER,
        "How long polled messages are leased if the poll does not say.",
        unit="ms",
        minimum=1,
        maximum=_INT32_MAX,
        reloadable=True,
    )
    lease_max_ms: int = setting(
        43_200_000,
        "leaseMillisMax",
        Group.DISPATCHER,
        "A poll that asks for a longer lease is refused.",
        unit="ms",
        minimum=1,
        maximum=_INT32_MAX,
        reloadable=True,
    )
    poll_wait_max_ms: int = setting(
        60_000,
        "pollWaitMillisMax",
        Group.DISPATCHER,
        "A poll waits at most this long, whatever it asks for.",
        unit="ms",
        minimum=1,
        maximum=_INT32_MAX,
        reloadable=True,
    )
    poll_messages_max: int = setting(
        10_000,
        "pollMessagesMax",
        Group.DISPATCHER,
        "A poll that asks for more messages is refused.",
        unit="messages",
        minimum=1,
        maximum=10_000_000,
        reloadable=True,
    )
    batch_positions_max: int = setting(
        100_000,
        "batchPositionsMax",
        Group.DISPATCHER,
        "A call that carries more positions is refused.",
        unit="positions",
        minimum=1,
        maximum=10_000_000,
        reloadable=True,
    )
    leased_positions_max: int = setting(
        1_000_000,
        "leasedPositionsMax",
        Group.DISPATCHER,
        "Positions of one tracker that are leased at the same time; a poll for more is refused.",
        unit="positions",
        minimum=1,
        maximum=1_000_000_000,
        reloadable=True,
    )
    waiting_polls_max: int = setting(
        10_000,
        "waitingPollsMax",
        Group.DISPATCHER,
        "Polls of all trackers that wait at the same time; one more is refused.",
        unit="polls",
        minimum=1,
        maximum=1_000_000,
        reloadable=True,
    )
    calls_max: int = setting(
        20_000,
        "grpcConcurrentCallsMax",
        Group.DISPATCHER,
        "Calls that are under way at the same time, waiting polls and open streams included; one more is refused. Leave "
        "room above waitingPollsMax, or polls keep everything else out.",
        unit="calls",
        minimum=1,
        maximum=10_000_000,
        reloadable=True,
    )
    trackers_max: int = setting(
        100_000,
        "trackersMax",
        Group.DISPATCHER,
        "Trackers that are open at the same time; one more is refused.",
        unit="trackers",
        minimum=1,
        maximum=10_000_000,
        reloadable=True,
    )

    grpc_listen_address: str = setting(
        "127.0.0.1:7650",
        "grpcListenAddress",
        Group.SERVER,
        "Where dispatchers connect. There is no authentication: keep it on a network you trust. Port 0 takes any free "
        "one.",
        address=True,
    )
    http_listen_address: str = setting(
        "127.0.0.1:7651",
        "httpListenAddress",
        Group.SERVER,
        "Where /metrics, /health/live, /health/ready and getMessageIdByIndex answer. Port 0 takes any free one.",
        address=True,
    )
    grpc_message_bytes_max: int = setting(
        16 * 1024 * 1024,
        "grpcMessageBytesMax",
        Group.SERVER,
        "Size of the largest request and the largest answer.",
        unit="bytes",
        minimum=1024 * 1024,
        maximum=1024 * 1024 * 1024,
    )
    shutdown_grace_ms: int = setting(
        10_000,
        "shutdownGraceMillis",
        Group.SERVER,
        "After SIGTERM or SIGINT the service finishes what it has begun within this time.",
        unit="ms",
        maximum=3_600_000,
    )
    metrics_trackers_max: int = setting(
        1_000,
        "metricsTrackersMax",
        Group.SERVER,
        "Trackers whose metrics have series of their own, with the labels namespace, topic and subscription. Of trackers "
        "opened beyond that there is the sum.",
        unit="trackers",
        maximum=10_000_000,
    )
    metrics_names: str = setting(
        "both",
        "metricsNames",
        Group.SERVER,
        "Where /metrics says the same under PIP-195's name and by Prometheus' conventions: which of the two are shown.",
        choices={name: name for name in ("both", "pulsar", "prometheus")},
    )
    cluster_name: str = setting(
        "",
        "clusterName",
        Group.SERVER,
        "The label cluster of metrics of trackers, as Pulsar's brokers have it; empty leaves it out.",
    )
    log_format: str = setting(
        "console",
        "logFormat",
        Group.SERVER,
        "How log lines on stderr read: console for people, json for machines.",
        choices={"console": "console", "json": "json"},
    )
    log_level: str = setting(
        "info",
        "logLevel",
        Group.SERVER,
        "The least important lines that are logged.",
        choices={level: level for level in ("debug", "info", "warning", "error")},
        reloadable=True,
    )
    slow_storage_ms: int = setting(
        1_000,
        "slowStorageMillis",
        Group.SERVER,
        "A call to the storage that takes longer is logged, up to ten a minute of each operation; 0 logs none.",
        unit="ms",
        maximum=_DAY_MS,
    )
    tracing_endpoint: str = setting(
        "",
        "tracingEndpoint",
        Group.SERVER,
        "OpenTelemetry collector (OTLP over gRPC) that spans of calls and storage operations are sent to: "
        "http://HOST:PORT, or https: for TLS. Needs the extra tracing; OTEL_* variables say the rest. Empty: no tracing.",
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            setting_of(field).check(getattr(self, field.name))
        if ":" not in self.storage_url:
            raise InvalidInput(
                "bucketSnapshotStorageUrl", self.storage_url, "give SCHEME:..., such as sqlite:data/tracker.db"
            )
        if self.ledger_source_url and ":" not in self.ledger_source_url:
            remedy = "give SCHEME:PLACE, such as bookkeeper+file:/disk?metadata=/disk/dump.jsonl"
            raise InvalidInput("ledgerSourceUrl", self.ledger_source_url, remedy)
        if self.tracing_endpoint and not self.tracing_endpoint.startswith(("http://", "https://")):
            remedy = "give http://HOST:PORT, such as http://127.0.0.1:4317, or https: for TLS"
            raise InvalidInput("tracingEndpoint", self.tracing_endpoint, remedy)
        _check_order(
            ("delayedDeliveryMinIndexCountPerBucket", self.min_index_count_per_bucket),
            ("mutableIndexesMax", self.mutable_indexes_max),
        )
        _check_order(
            ("trackerUnstoredIndexesMax", self.tracker_unstored_indexes_max),
            ("unstoredIndexesMax", self.unstored_indexes_max),
        )
        _check_order(("defaultLeaseMillis", self.default_lease_ms), ("leaseMillisMax", self.lease_max_ms))
        for key, in_flight in (
            ("grpcRequestBytesInFlightMax", self.grpc_request_bytes_in_flight_max),
            ("grpcAnswerBytesInFlightMax", self.grpc_answer_bytes_in_flight_max),
        ):
            _check_order(("grpcMessageBytesMax", self.grpc_message_bytes_max), (key, in_flight))
        bytes_max = self.grpc_message_bytes_max - _MESSAGE_OVERHEAD_BYTES
        for key, count, fitting in (
            ("batchPositionsMax", self.batch_positions_max, bytes_max // _POSITION_BYTES),
            ("pollMessagesMax", self.poll_messages_max, bytes_max // _POSITION_BYTES),
            (
                "ledgerReadEntriesMax",
                self.ledger_read_entries_max,
                (bytes_max - self.read_bytes_max) // _READ_ENTRY_BYTES,
            ),
        ):
            if count > fitting:
                raise InvalidInput(
                    key,
                    count,
                    f"only {fitting} fit into grpcMessageBytesMax={self.grpc_message_bytes_max}: lower this or raise that",
                )

    @property
    def grpc_address(self) -> Address:
        """Address of ``grpcListenAddress``."""
        return Address.parse(self.grpc_listen_address)

    @property
    def http_address(self) -> Address:
        """Address of ``httpListenAddress``."""
        return Address.parse(self.http_listen_address)

    @property
    def read_bytes_max(self) -> int:
        """Payload bytes of one answer of ReadEntries. The other half is for the other fields of its entries."""
        return self.grpc_message_bytes_max // 2

    def tracker_limits(self) -> TrackerLimits:
        """Return the limits of each tracker's core."""
        return TrackerLimits(
            kind=TrackerKind(self.tracker_factory),
            fixed_delay_lookahead=self.fixed_delay_detection_lookahead,
            tick_ms=self.tick_ms,
            strict=self.strict,
            min_index_count_per_bucket=self.min_index_count_per_bucket,
            mutable_indexes_max=self.mutable_indexes_max,
            late_indexes_max=self.late_indexes_max,
            max_step_per_segment_ms=self.max_step_per_segment_seconds * 1_000,
            max_indexes_per_segment=self.max_indexes_per_segment,
            max_num_buckets=self.buckets_max,
            prefetch_window_ms=self.prefetch_window_ms,
            load_indexes_min=LOAD_INDEXES_MIN,
            loaded_indexes_max=self.loaded_indexes_max,
            max_delay_ms=self.max_delay_ms,
            retry_backoff_ms=self.retry_backoff_ms,
        )

    def service_limits(self) -> ServiceLimits:
        """Return the limits of the service around the cores."""
        return ServiceLimits(
            batch_max=self.batch_positions_max,
            poll_messages_max=self.poll_messages_max,
            poll_wait_max_ms=self.poll_wait_max_ms,
            waiting_polls_max=self.waiting_polls_max,
            calls_max=self.calls_max,
            message_bytes_max=self.grpc_message_bytes_max,
            request_bytes_in_flight_max=self.grpc_request_bytes_in_flight_max,
            answer_bytes_in_flight_max=self.grpc_answer_bytes_in_flight_max,
            unread_calls_max=self.grpc_unread_calls_max,
            receive_max_ms=self.grpc_receive_ms_max,
            streams_max=self.grpc_streams_max,
            trackers_max=self.trackers_max,
            lease_default_ms=self.default_lease_ms,
            lease_max_ms=self.lease_max_ms,
            leased_positions_max=self.leased_positions_max,
            unstored_indexes_max=self.unstored_indexes_max,
            tracker_unstored_indexes_max=self.tracker_unstored_indexes_max,
            storage_operations_max=self.storage_operations_max,
            tracker_operations_max=self.tracker_operations_max,
            storage_attempts_max=self.storage_attempts_max,
            storage_backoff_ms=self.storage_backoff_ms,
            snapshot_metadata_bytes_max=self.snapshot_metadata_bytes_max,
            worker_threads=self.worker_threads,
            labelled_trackers_max=self.metrics_trackers_max,
        )

    def by_key(self) -> dict[str, SettingValue]:
        """Return every value by its configuration key, in the order of ``conf/tracker.conf``."""
        return {setting_of(field).key: getattr(self, field.name) for field in dataclasses.fields(self)}


def setting_fields() -> dict[str, tuple[str, SettingKey]]:
    """Return the field name and the declaration of each key, in the order of ``conf/tracker.conf``."""
    return {setting_of(field).key: (field.name, setting_of(field)) for field in dataclasses.fields(Settings)}


def _check_order(lower: tuple[str, int], upper: tuple[str, int]) -> None:
    if lower[1] > upper[1]:
        raise InvalidInput(lower[0], lower[1], f"it must not be above {upper[0]}={upper[1]}: lower this or raise that")
