"""Metric families of the whole service: trackers and calls under way, the storage, the add log, gRPC."""

from typing import Final

from delayed_tracker.service.instruments.call_counts import CALL_CODES
from delayed_tracker.service.instruments.family import Family, Kind
from delayed_tracker.service.instruments.measured_add_log import LOG_OPERATIONS
from delayed_tracker.service.instruments.measured_calls import STORAGE_OUTCOMES
from delayed_tracker.service.instruments.measured_storage import STORAGE_OPERATIONS
from delayed_tracker.service.instruments.recovery_times import RECOVERY_OUTCOMES

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_DIRECTIONS: Final[dict[str, tuple[str, ...]]] = {"direction": ("request", "answer")}
_OF_STORAGE: Final[dict[str, tuple[str, ...]]] = {"backend": (), "operation": (*STORAGE_OPERATIONS, *LOG_OPERATIONS)}

# -- the service -------------------------------------------------------------------------------------------------

BUILD: Final = Family("delayed_tracker_build_info", _GAUGE, "The running version; always 1.", {"version": ()})
OPEN_TRACKERS: Final = Family("delayed_tracker_open_trackers", _GAUGE, "Trackers open now.")
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
AGGREGATED: Final = Family(
    "delayed_tracker_aggregated_trackers",
    _GAUGE,
    "Open trackers without series of their own: metricsTrackersMax was reached when they were opened, or their names "
    "have more than 1024 bytes.",
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
    "delayed_tracker_open_streams",
    _GAUGE,
    "Streams open now that grpcStreamsMax counts, without watches of health and reflection.",
)
RECOVERING: Final = Family(
    "delayed_tracker_recovering_trackers", _GAUGE, "Trackers being recovered now, or waiting for their turn."
)
LONGEST_RECOVERY: Final = Family(
    "delayed_tracker_longest_recovery_seconds",
    _GAUGE,
    "Age of the oldest recovery in progress, without its wait for a turn; 0 if there is none.",
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

CLOCK_STEPS: Final = Family(
    "delayed_tracker_clock_steps_total",
    _COUNTER,
    "Times that the wall clock moved by half a second or more beside the elapsed time: it was set, or the machine suspended.",
    {"direction": ("forward", "back")},
)

# -- the storage -------------------------------------------------------------------------------------------------

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
        "snapshots_split": "Buckets that were stored in pieces, since the storage takes no entry as large.",
        "add_logs_missing": "Recoveries of trackers whose add log is elsewhere, so that only the snapshots counted.",
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

# -- the add log; no samples without one -------------------------------------------------------------------------

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
    "grpc_type": ("unary", "server_stream", "bidi_stream"),
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
