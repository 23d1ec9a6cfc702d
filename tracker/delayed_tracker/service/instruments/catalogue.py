"""All metric families: name, type, labels and meaning. The exporter writes exactly these.

PIP-195's families have the proposal's names, types and label values. Each has a twin by Prometheus' conventions: base
units, ``_total``, cumulative histograms. Families with the labels of a tracker have one set of series for each of the
first trackers, and one without these labels for all others together. All other families are of the whole service.

Source: PIP-195 "Metrics Changes"; labels as Pulsar's ``TopicStats`` writes them.
"""

from typing import Final

from delayed_tracker.service.instruments.bucket_operations import OPERATIONS, QUANTILES, STATES
from delayed_tracker.service.instruments.call_counts import CALL_CODES
from delayed_tracker.service.instruments.family import Family, Kind, Origin
from delayed_tracker.service.instruments.measured_add_log import LOG_OPERATIONS
from delayed_tracker.service.instruments.measured_calls import STORAGE_OUTCOMES
from delayed_tracker.service.instruments.measured_storage import STORAGE_OPERATIONS
from delayed_tracker.service.instruments.recovery_times import RECOVERY_OUTCOMES

TRACKER_LABELS: Final[dict[str, tuple[str, ...]]] = {"cluster": (), "namespace": (), "topic": (), "subscription": ()}

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_DIRECTIONS: Final[dict[str, tuple[str, ...]]] = {"direction": ("request", "answer")}
_OF_TYPE: Final[dict[str, tuple[str, ...]]] = {"type": OPERATIONS}
_OF_STORAGE: Final[dict[str, tuple[str, ...]]] = {"backend": (), "operation": (*STORAGE_OPERATIONS, *LOG_OPERATIONS)}

# -- Pulsar's, by tracker ----------------------------------------------------------------------------------------------

PIP_BUCKETS: Final = Family(
    "pulsar_delayed_message_index_bucket_total",
    _GAUGE,
    "The number of delayed message index buckets (immutable buckets + LastMutableBucket).",
    TRACKER_LABELS,
    Origin.PULSAR,
)
PIP_LOADED: Final = Family(
    "pulsar_delayed_message_index_loaded",
    _GAUGE,
    "The total number of delayed message indexes in memory.",
    TRACKER_LABELS,
    Origin.PULSAR,
)
PIP_OPERATIONS: Final = Family(
    "pulsar_delayed_message_index_bucket_op_count",
    _COUNTER,
    "The total number of operations on delayed message index bucket snapshots; state all is the sum of the others.",
    TRACKER_LABELS | {"state": STATES} | _OF_TYPE,
    Origin.PULSAR,
)
PIP_SNAPSHOT_BYTES: Final = Family(
    "pulsar_delayed_message_index_bucket_snapshot_size_bytes",
    _GAUGE,
    "The total size of delayed message index bucket snapshots (in bytes).",
    TRACKER_LABELS,
    Origin.PULSAR,
)
PIP_LATENCY: Final = Family(
    "pulsar_delayed_message_index_bucket_op_latency_ms",
    _HISTOGRAM,
    "The latency of operations on delayed message index bucket snapshots that succeeded: how many took from the range "
    "below up to so many milliseconds. Ranges are separate, not cumulative.",
    TRACKER_LABELS | {"quantile": QUANTILES} | _OF_TYPE,
    Origin.PULSAR,
)
PIP_MEMORY: Final = Family(
    "pulsar_delayed_message_index_size_bytes",
    _GAUGE,
    "The memory of delayed message indexes, about.",
    TRACKER_LABELS,
    Origin.PULSAR,
)

# -- the same by Prometheus' conventions -------------------------------------------------------------------------------

BUCKETS: Final = Family(
    "delayed_tracker_buckets",
    _GAUGE,
    "Buckets: sealed ones, the mutable one of each tracker, and one for late positions where there are any.",
    origin=Origin.TWIN,
)
LOADED: Final = Family("delayed_tracker_loaded_indexes", _GAUGE, "Copies of indexes in memory.", origin=Origin.TWIN)
BUCKET_OPERATIONS: Final = Family(
    "delayed_tracker_bucket_operations_total",
    _COUNTER,
    "Operations on bucket snapshots that succeeded, and those that failed after all attempts.",
    _OF_TYPE | {"state": STATES[:2]},
    Origin.TWIN,
)
SNAPSHOT_BYTES: Final = Family("delayed_tracker_snapshot_bytes", _GAUGE, "Size of all snapshots.", origin=Origin.TWIN)
BUCKET_DURATIONS: Final = Family(
    "delayed_tracker_bucket_operation_duration_seconds",
    _HISTOGRAM,
    "How long operations on bucket snapshots took that succeeded, waiting for their turn included.",
    _OF_TYPE,
    Origin.TWIN,
)
MEMORY: Final = Family(
    "delayed_tracker_memory_bytes",
    _GAUGE,
    "Memory of what is tracked, about: rows, bitmaps, leases and segment bounds.",
    origin=Origin.TWIN,
)

# -- ours: events of indexes -------------------------------------------------------------------------------------------

INDEX_EVENTS: Final = (
    "added",
    "recovered",
    "acked",
    "handed_off",
    "cancelled",
    "trimmed",
    "cleared",
    "refused_as_due",
    "dropped_as_corrupt",
    "unloaded",
)
"""Events of indexes. At any moment, added + recovered = pending + leased + all other events."""

OFFERS: Final = {
    "added": "added",
    "due": "due_on_offer",
    "duplicate": "duplicate",
    "beyond_max_delay": "beyond_max_delay",
    "below_mark_delete": "below_mark_delete",
}
"""The counter of a tracker for each result of an add."""

INDEXES: Final = Family(
    "delayed_tracker_indexes_total",
    _COUNTER,
    "What has happened to indexes: added + recovered = pending + leased + all others. Unloaded ones were tracked when "
    "their tracker was closed.",
    {"event": INDEX_EVENTS},
)
OFFERED: Final = Family(
    "delayed_tracker_offered_indexes_total",
    _COUNTER,
    "Indexes in add requests of dispatchers, by result.",
    {"result": tuple(OFFERS)},
)
LATENESS: Final = Family(
    "delayed_tracker_handoff_lateness_seconds",
    _HISTOGRAM,
    "How long after their deadlines indexes were handed out, each time they were; with a lease or without.",
)
EARLY: Final = Family(
    "delayed_tracker_early_handoffs_total",
    _COUNTER,
    "Indexes handed out earlier than their deadline allows; always 0 unless there is a bug.",
)
LEASE_EXPIRATIONS: Final = Family(
    "delayed_tracker_lease_expirations_total", _COUNTER, "Leased indexes that came back because their lease ended."
)
RESCHEDULED: Final = Family(
    "delayed_tracker_rescheduled_indexes_total",
    _COUNTER,
    "Indexes that were given another deadline, by a reschedule or a nack; each time counts.",
)
MERGED: Final = Family(
    "delayed_tracker_merged_indexes_total", _COUNTER, "Indexes that merges of buckets have written again."
)
PENDING: Final = Family("delayed_tracker_pending_indexes", _GAUGE, "Indexes tracked and not leased.")
LEASED: Final = Family("delayed_tracker_leased_indexes", _GAUGE, "Indexes leased now.")
DUE: Final = Family(
    "delayed_tracker_due_indexes",
    _GAUGE,
    "Indexes that are due and not handed out: no dispatcher polls for them, or they are being read.",
)
MUTABLE: Final = Family("delayed_tracker_mutable_indexes", _GAUGE, "Indexes in buckets that are still filling.")
LATE: Final = Family("delayed_tracker_late_indexes", _GAUGE, "Indexes below sealed ledgers, in memory.")
UNSTORED: Final = Family(
    "delayed_tracker_unstored_indexes",
    _GAUGE,
    "Indexes in memory that are in no snapshot: after a crash they are in the add log, or a replay adds them again.",
)
UNSTORED_MAX: Final = Family(
    "delayed_tracker_unstored_indexes_max",
    _GAUGE,
    "Limit of unstored indexes (unstoredIndexesMax). At the limit, adds are refused or wait.",
)
READ: Final = Family(
    "delayed_tracker_read_indexes", _GAUGE, "Rows of snapshots in memory, or being read, for delivery and for merges."
)
READ_MAX: Final = Family(
    "delayed_tracker_read_indexes_max",
    _GAUGE,
    "Limit of rows read from snapshots (loadedIndexesMax). At the limit, no segment is read ahead.",
)
READ_WAITING: Final = Family(
    "delayed_tracker_waiting_reads", _GAUGE, "Trackers that wait for room to read segments ahead."
)
REFUSED_ADDS: Final = Family(
    "delayed_tracker_refused_adds_total",
    _COUNTER,
    "Calls that were refused because too many indexes are in no snapshot yet.",
)
HELD_BACK: Final = Family(
    "delayed_tracker_held_back_streams",
    _GAUGE,
    "Streams of adds that wait now because too many indexes are in no snapshot yet.",
)
HELD_BACK_TOTAL: Final = Family(
    "delayed_tracker_streams_held_back_total",
    _COUNTER,
    "Times that a stream of adds began to wait because too many indexes were in no snapshot.",
)
FALLBACK: Final = Family(
    "delayed_tracker_fallback_indexes",
    _GAUGE,
    "Indexes that stay in memory because their snapshot could not be stored; that is tried again.",
)
MERGE_BACKLOG: Final = Family(
    "delayed_tracker_merge_backlog_buckets", _GAUGE, "Sealed buckets above delayedDeliveryMaxNumBuckets."
)
MEMBERSHIP: Final = Family(
    "delayed_tracker_membership_bytes", _GAUGE, "Memory of the bitmaps that say what is tracked, about."
)
EARLIEST: Final = Family(
    "delayed_tracker_earliest_deadline_timestamp_seconds",
    _GAUGE,
    "The first deadline of all that is pending; no sample if nothing is.",
)
LATEST: Final = Family(
    "delayed_tracker_latest_deadline_timestamp_seconds",
    _GAUGE,
    "The last deadline of all that is pending, or a later one of the same bucket; no sample if nothing is.",
)

# -- ours: by tracker --------------------------------------------------------------------------------------------------

TRACKER_INDEXES: Final = Family(
    "delayed_tracker_subscription_indexes_total",
    _COUNTER,
    "What has happened to the indexes of one tracker since it was opened.",
    TRACKER_LABELS | {"event": INDEX_EVENTS},
)
TRACKER_PENDING: Final = Family(
    "delayed_tracker_subscription_pending_indexes", _GAUGE, "Indexes of one tracker, not leased.", TRACKER_LABELS
)
TRACKER_LEASED: Final = Family(
    "delayed_tracker_subscription_leased_indexes", _GAUGE, "Indexes of one tracker leased now.", TRACKER_LABELS
)
TRACKER_DUE: Final = Family(
    "delayed_tracker_subscription_due_indexes",
    _GAUGE,
    "Indexes of one tracker that are due and not handed out.",
    TRACKER_LABELS,
)
TRACKER_EARLIEST: Final = Family(
    "delayed_tracker_subscription_earliest_deadline_timestamp_seconds",
    _GAUGE,
    "The first deadline of what one tracker has pending; no sample if nothing is.",
    TRACKER_LABELS,
)
TRACKER_LATEST: Final = Family(
    "delayed_tracker_subscription_latest_deadline_timestamp_seconds",
    _GAUGE,
    "The last deadline of what one tracker has pending, or a later one of the same bucket; no sample if nothing is.",
    TRACKER_LABELS,
)
TRACKER_LEASE_EXPIRATIONS: Final = Family(
    "delayed_tracker_subscription_lease_expirations_total",
    _COUNTER,
    "Leased indexes of one tracker that came back because their lease ended.",
    TRACKER_LABELS,
)

# -- ours: the service -------------------------------------------------------------------------------------------------

BUILD: Final = Family("delayed_tracker_build_info", _GAUGE, "The running version; always 1.", {"version": ()})
OPEN_TRACKERS: Final = Family("delayed_tracker_open_trackers", _GAUGE, "Trackers open now.")
AGGREGATED: Final = Family(
    "delayed_tracker_aggregated_trackers",
    _GAUGE,
    "Open trackers without series of their own: metricsTrackersMax was reached when they were opened.",
)
AGGREGATED_TOTAL: Final = Family(
    "delayed_tracker_trackers_aggregated_total",
    _COUNTER,
    "How often a tracker was opened that got no series of its own.",
)
WAITING_POLLS: Final = Family("delayed_tracker_waiting_polls", _GAUGE, "Polls waiting for a message now.")
OPEN_CALLS: Final = Family(
    "delayed_tracker_open_calls", _GAUGE, "Calls under way now, waiting polls and open streams included."
)
IN_FLIGHT: Final = Family(
    "delayed_tracker_in_flight_bytes",
    _GAUGE,
    "Bytes of requests being received or processed, and of large answers being made or not yet sent.",
    _DIRECTIONS,
)
IN_FLIGHT_MAX: Final = Family(
    "delayed_tracker_in_flight_bytes_max",
    _GAUGE,
    "What may be in flight: grpcRequestBytesInFlightMax and grpcAnswerBytesInFlightMax.",
    _DIRECTIONS,
)
IN_FLIGHT_WAITING: Final = Family(
    "delayed_tracker_in_flight_waiting_calls",
    _GAUGE,
    "Calls that wait for room in flight before their request is read or their answer is made.",
    _DIRECTIONS,
)
IN_FLIGHT_REFUSED: Final = Family(
    "delayed_tracker_in_flight_refused_total",
    _COUNTER,
    "Calls refused because there was no room in flight.",
    _DIRECTIONS,
)
OPEN_STREAMS: Final = Family(
    "delayed_tracker_open_streams", _GAUGE, "Streams open now, watches of health and reflection included."
)
RECOVERING: Final = Family("delayed_tracker_recovering_trackers", _GAUGE, "Trackers being recovered now.")
LONGEST_RECOVERY: Final = Family(
    "delayed_tracker_longest_recovery_seconds",
    _GAUGE,
    "Age of the oldest recovery in progress; 0 if there is none.",
)
RECOVERIES: Final = Family(
    "delayed_tracker_recovery_duration_seconds",
    _HISTOGRAM,
    "How long recoveries of trackers took, from the first call on: most wait for their turn.",
    {"outcome": RECOVERY_OUTCOMES},
)
LOOP_LAG: Final = Family(
    "delayed_tracker_event_loop_lag_seconds",
    _HISTOGRAM,
    "Delay of event loop timers after their scheduled time, measured ten times a second.",
)

# -- ours: the storage -------------------------------------------------------------------------------------------------

EFFECTS_FAILED: Final = Family(
    "delayed_tracker_effects_failed_total",
    _COUNTER,
    "Storage operations that failed after all their attempts, and are tried again later.",
)
SHELL_COUNTERS: Final = {
    name: Family(f"delayed_tracker_{name}_total", _COUNTER, meaning)
    for name, meaning in {
        "storage_retries": "Calls to the storage that were made again.",
        "results_forgotten": "Results of storage operations that came after a clear.",
        "orphans_swept": "Snapshots in no catalogue that a recovery deleted.",
        "orphans_left": "Snapshots in no catalogue that could not be deleted.",
        "checkpoints_failed": "Closes that could not record what was consumed.",
        "log_records_corrupt": "Records of the add log that were gone, failed their checksum or did not decode.",
        "snapshots_missing": "Catalogued snapshots that were gone.",
        "snapshots_corrupt": "Snapshots that failed their checksum or did not decode.",
        "summaries_unreadable": "Catalogue summaries that did not decode.",
    }.items()
}
"""Families by the name of the service's counter."""
STORAGE_CALLS: Final = Family(
    "delayed_tracker_storage_operations_total",
    _COUNTER,
    "Calls to the storage and to its add log (log_...), by outcome; each attempt counts.",
    _OF_STORAGE | {"outcome": STORAGE_OUTCOMES},
)
STORAGE_DURATIONS: Final = Family(
    "delayed_tracker_storage_operation_duration_seconds",
    _HISTOGRAM,
    "Duration of calls to the storage and to its add log (log_append: commits); each attempt counts, whatever its "
    "outcome.",
    _OF_STORAGE,
)

STORAGE_USED: Final = Family(
    "delayed_tracker_storage_used_bytes",
    _GAUGE,
    "Disk space that the storage uses, free pages included; no sample if the backend does not report it.",
    {"backend": ()},
)
STORAGE_FREE: Final = Family(
    "delayed_tracker_storage_free_bytes",
    _GAUGE,
    "Free space on the disk of the storage; no sample if the backend does not report it.",
    {"backend": ()},
)

# -- ours: the add log; no samples without one -------------------------------------------------------------------------

LOG_BYTES: Final = Family(
    "delayed_tracker_log_bytes", _GAUGE, "Records in the add log, and those that wait to be written to it."
)
LOG_BYTES_MAX: Final = Family(
    "delayed_tracker_log_bytes_max",
    _GAUGE,
    "Limit of the records in the add log (addLogBytesMax). At the limit, adds are refused.",
)
LOG_PENDING: Final = Family(
    "delayed_tracker_log_pending_bytes", _GAUGE, "Records in memory that wait to be written to the add log."
)
LOG_PENDING_MAX: Final = Family(
    "delayed_tracker_log_pending_bytes_max",
    _GAUGE,
    "Limit of the records that wait (addLogPendingBytesMax). At the limit, adds are refused.",
)
LOG_COMMITS: Final = Family(
    "delayed_tracker_log_commits_total", _COUNTER, "Commits to the add log that succeeded, each for many trackers."
)
LOG_RECORDS: Final = Family(
    "delayed_tracker_log_records_total", _COUNTER, "Records that commits have made durable in the add log."
)
LOG_COMMITS_FAILED: Final = Family(
    "delayed_tracker_log_commits_failed_total", _COUNTER, "Commits to the add log that failed, repetitions included."
)
LOG_FAILING: Final = Family(
    "delayed_tracker_log_failing",
    _GAUGE,
    "Whether commits fail: 1 from a failed one until the next that succeeds or breaks the log, else 0.",
)
LOG_BROKEN: Final = Family(
    "delayed_tracker_log_broken",
    _GAUGE,
    "Whether the log is broken: 1 after a failed fsync, when nothing is written until a restart, else 0.",
)
LOG_CHECKPOINTS: Final = Family(
    "delayed_tracker_log_checkpoints_total",
    _COUNTER,
    "Times that the consumed positions of an open tracker were recorded, so that its records can be cut.",
)
UNLOADED_TRACKERS: Final = Family(
    "delayed_tracker_unloaded_trackers",
    _GAUGE,
    "Open trackers that are idle and not in memory (trackerIdleUnloadMillis).",
)
UNLOADS: Final = Family(
    "delayed_tracker_tracker_unloads_total", _COUNTER, "Times that an idle tracker has left memory."
)
RELOADS: Final = Family(
    "delayed_tracker_tracker_reloads_total",
    _COUNTER,
    "Times that a tracker was brought back into memory, for a call or because its next delivery was near.",
)
UNWRITTEN: Final = Family(
    "delayed_tracker_unwritten_consumed_positions",
    _GAUGE,
    "Consumed positions that wait to be written to the add log: a crash now would hand them out again.",
)
UNWRITTEN_MAX: Final = Family(
    "delayed_tracker_unwritten_consumed_positions_max",
    _GAUGE,
    "Limit of consumed positions that wait (consumptionWindowPositions). At the limit, acknowledgements wait.",
)

# -- calls, by the names of the gRPC ecosystem -------------------------------------------------------------------------

_METHOD: Final[dict[str, tuple[str, ...]]] = {
    "grpc_type": ("unary", "bidi_stream"),
    "grpc_service": (),
    "grpc_method": (),
}

GRPC_STARTED: Final = Family("grpc_server_started_total", _COUNTER, "Calls that were begun.", _METHOD)
GRPC_HANDLED: Final = Family(
    "grpc_server_handled_total",
    _COUNTER,
    "Calls that have ended, by status.",
    _METHOD | {"grpc_code": CALL_CODES},
)
GRPC_HANDLING: Final = Family(
    "grpc_server_handling_seconds",
    _HISTOGRAM,
    "How long calls took in the service; polls wait for as long as they were asked to.",
    _METHOD,
)

FAMILIES: Final = (
    *(family for family in tuple(vars().values()) if isinstance(family, Family)),
    *SHELL_COUNTERS.values(),
)
"""All families, in the order of this file."""

FROM_THE_LIBRARY: Final = ("process_", "python_")
"""Prefixes of the metrics of Prometheus' client library: memory, processor time, open files, garbage collection."""
