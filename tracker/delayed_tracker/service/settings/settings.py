"""The service's settings: one frozen value with a section for each part of the service.

Keys that Pulsar has keep their name and meaning of ``broker.conf``. A key whose feature does not exist yet is known,
but accepts only its default, so that a configuration written for Pulsar either works or is refused with the reason.

``delayed_tracker.service.settings.load`` reads them from a file and the environment; ``docs/reference`` generates
``conf/tracker.conf`` and the documentation's table from them.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.settings.address import ListenAddress
from delayed_tracker.service.settings.dispatcher import DispatcherSettings
from delayed_tracker.service.settings.keys import Section, SettingKey, SettingValue, check_order
from delayed_tracker.service.settings.ledger import LedgerSettings
from delayed_tracker.service.settings.pulsar import PulsarSettings
from delayed_tracker.service.settings.security import SecuritySettings
from delayed_tracker.service.settings.server import ServerSettings
from delayed_tracker.service.settings.storage import StorageSettings
from delayed_tracker.service.settings.telemetry import TelemetrySettings
from delayed_tracker.service.settings.tls import TlsSettings
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec

_POSITION_BYTES = 24
"""Bytes of one position of a batch on the wire: three 64-bit columns."""
_READ_ENTRY_BYTES = 256
"""Bytes of one entry of an answer beside its payload, or of the reason why it cannot be read."""
_MESSAGE_OVERHEAD_BYTES = 16 * 1024
"""Bytes of a message beside its columns: two names of up to 4 KiB, and small fields."""

LOAD_INDEXES_MIN = 256
"""One read takes the segments that follow along until it has this many indexes: small segments would be many reads."""
READ_AHEAD_INDEXES = 400_000
"""A tracker reads ahead up to this many indexes, in 24 bytes each, which its buckets share, if all trackers have room."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of one service. Each section validates its values, and the constructor the combinations.

    Raises:
        InvalidInput: with the configuration key, the value and the allowed values.
    """

    pulsar: PulsarSettings = dataclasses.field(default_factory=PulsarSettings)
    storage: StorageSettings = dataclasses.field(default_factory=StorageSettings)
    ledger: LedgerSettings = dataclasses.field(default_factory=LedgerSettings)
    dispatcher: DispatcherSettings = dataclasses.field(default_factory=DispatcherSettings)
    security: SecuritySettings = dataclasses.field(default_factory=SecuritySettings)
    tls: TlsSettings = dataclasses.field(default_factory=TlsSettings)
    server: ServerSettings = dataclasses.field(default_factory=ServerSettings)
    telemetry: TelemetrySettings = dataclasses.field(default_factory=TelemetrySettings)

    def __post_init__(self) -> None:
        server = self.server
        for key, address in server.addresses():
            self.tls.require_for(key, address)
            self._require_secured(key, address)
        check_order(
            ("delayedDeliveryMinIndexCountPerBucket", self.pulsar.min_index_count_per_bucket),
            ("mutableIndexesMax", self.storage.mutable_indexes_max),
        )
        for key, in_flight in (
            ("grpcRequestBytesInFlightMax", server.grpc_request_bytes_in_flight_max),
            ("grpcAnswerBytesInFlightMax", server.grpc_answer_bytes_in_flight_max),
        ):
            check_order(("grpcMessageBytesMax", server.grpc_message_bytes_max), (key, in_flight))
        bytes_max = server.grpc_message_bytes_max - _MESSAGE_OVERHEAD_BYTES
        for key, count, fitting in (
            ("batchPositionsMax", self.dispatcher.batch_positions_max, bytes_max // _POSITION_BYTES),
            ("pollMessagesMax", self.dispatcher.poll_messages_max, bytes_max // _POSITION_BYTES),
            (
                "ledgerReadEntriesMax",
                self.ledger.ledger_read_entries_max,
                (bytes_max - self.read_bytes_max) // _READ_ENTRY_BYTES,
            ),
        ):
            if count > fitting:
                message_bytes_max = server.grpc_message_bytes_max
                remedy = f"only {fitting} fit into grpcMessageBytesMax={message_bytes_max}: lower this or raise that"
                raise InvalidInput(key, count, remedy)

    def _require_secured(self, key: str, address: ListenAddress) -> None:
        """Refuse to serve other machines in plain text or without authentication, unless that is allowed."""
        if address.address.is_loopback or self.server.allow_insecure_listen:
            return
        otherwise = "or set allowInsecureListen=true if only trusted machines reach it"
        if not address.is_secured:
            raise InvalidInput(
                key, str(address), f"other machines would connect in plain text: write tls://{address}, {otherwise}"
            )
        if not self.security.authentication_enabled:
            raise InvalidInput(
                key, str(address), f"any machine may do everything: set authenticationEnabled=true, {otherwise}"
            )

    @property
    def read_bytes_max(self) -> int:
        """Payload bytes of one answer of ReadEntries. The other half is for the other fields of its entries."""
        return self.server.grpc_message_bytes_max // 2

    def tracker_limits(self) -> TrackerLimits:
        """Return the limits of each tracker's core."""
        return TrackerLimits(
            kind=TrackerKind(self.pulsar.tracker_factory),
            fixed_delay_lookahead=self.pulsar.fixed_delay_detection_lookahead,
            tick_ms=self.pulsar.tick_ms,
            strict=self.pulsar.strict,
            min_index_count_per_bucket=self.pulsar.min_index_count_per_bucket,
            mutable_indexes_max=self.storage.mutable_indexes_max,
            late_indexes_max=self.storage.late_indexes_max,
            max_step_per_segment_ms=self.pulsar.max_step_per_segment_seconds * 1_000,
            max_indexes_per_segment=self.pulsar.max_indexes_per_segment,
            max_num_buckets=self.pulsar.buckets_max,
            prefetch_window_ms=self.storage.prefetch_window_ms,
            load_indexes_min=LOAD_INDEXES_MIN,
            read_ahead_indexes=READ_AHEAD_INDEXES,
            loads_in_flight_max=self.storage.tracker_operations_max,
            loaded_indexes_max=self.storage.loaded_indexes_max,
            max_delay_ms=self.pulsar.max_delay_ms,
            retry_backoff_ms=self.storage.retry_backoff_ms,
        )

    def service_limits(self) -> ServiceLimits:
        """Return the limits of the service around the cores."""
        return ServiceLimits(
            batch_max=self.dispatcher.batch_positions_max,
            poll_messages_max=self.dispatcher.poll_messages_max,
            poll_wait_max_ms=self.dispatcher.poll_wait_max_ms,
            waiting_polls_max=self.dispatcher.waiting_polls_max,
            calls_max=self.dispatcher.calls_max,
            message_bytes_max=self.server.grpc_message_bytes_max,
            request_bytes_in_flight_max=self.server.grpc_request_bytes_in_flight_max,
            answer_bytes_in_flight_max=self.server.grpc_answer_bytes_in_flight_max,
            unread_calls_max=self.server.grpc_unread_calls_max,
            receive_max_ms=self.server.grpc_receive_ms_max,
            streams_max=self.server.grpc_streams_max,
            trackers_max=self.dispatcher.trackers_max,
            lease_default_ms=self.dispatcher.default_lease_ms,
            lease_max_ms=self.dispatcher.lease_max_ms,
            leased_positions_max=self.dispatcher.leased_positions_max,
            add_log_bytes_max=self.storage.add_log_bytes_max,
            add_log_pending_bytes_max=self.storage.add_log_pending_bytes_max,
            consumption_window_positions=self.storage.consumption_window_positions,
            consumption_window_ms=self.storage.consumption_window_ms,
            tracker_idle_unload_ms=self.storage.tracker_idle_unload_ms,
            unstored_indexes_max=self.storage.unstored_indexes_max,
            tracker_unstored_indexes_max=self.storage.tracker_unstored_indexes_max,
            storage_operations_max=self.storage.storage_operations_max,
            tracker_operations_max=self.storage.tracker_operations_max,
            storage_attempts_max=self.storage.storage_attempts_max,
            storage_backoff_ms=self.storage.storage_backoff_ms,
            snapshot_metadata_bytes_max=self.storage.snapshot_metadata_bytes_max,
            snapshot_codec=SnapshotCodec(self.storage.snapshot_codec),
            worker_threads=self.storage.worker_threads,
            labelled_trackers_max=self.telemetry.metrics_trackers_max,
        )

    def by_key(self) -> dict[str, SettingValue]:
        """Return every value by its configuration key, in the order of ``conf/tracker.conf``."""
        return {key: value for section in self.sections().values() for key, value in section.by_key().items()}

    def with_values(self, values: Mapping[str, SettingValue]) -> Self:
        """Return the settings with these values, by configuration key, each of which must be known.

        Raises:
            InvalidInput: a value is not allowed, alone or together with others.
        """
        changed: dict[str, Any] = {name: section.with_values(values) for name, section in self.sections().items()}
        return dataclasses.replace(self, **changed)

    def sections(self) -> dict[str, Section]:
        """Return the sections by field name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


SETTING_KEYS: Final[Mapping[str, SettingKey]] = {
    key: declared for section in Settings().sections().values() for key, declared in section.keys().items()
}
"""Declaration of every key, in the order of ``conf/tracker.conf``."""
