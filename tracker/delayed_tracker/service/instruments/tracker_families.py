"""Metric families with the sums over all trackers, and with the values of each of the first trackers.

PIP-195's families have the proposal's names, types and label values. Each has a twin by Prometheus' conventions: base
units, ``_total``, cumulative histograms. Families with the labels of a tracker have one set of series for each of the
first trackers, and one without these labels for all others together.

Source: PIP-195 "Metrics Changes"; labels as Pulsar's ``TopicStats`` writes them.
"""

from typing import Final

from delayed_tracker.service.instruments.bucket_operations import OPERATIONS, QUANTILES, STATES
from delayed_tracker.service.instruments.family import Family, Kind, Origin

TRACKER_LABELS: Final[dict[str, tuple[str, ...]]] = {"cluster": (), "namespace": (), "topic": (), "subscription": ()}

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_OF_TYPE: Final[dict[str, tuple[str, ...]]] = {"type": OPERATIONS}

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
    "Memory of what is tracked, about: rows, bitmaps, leases, buckets and segment bounds.",
    origin=Origin.TWIN,
)

# -- events of indexes -------------------------------------------------------------------------------------------

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
READ_LEAD: Final = Family(
    "delayed_tracker_read_lead_seconds",
    _GAUGE,
    "Time before a deadline at which its segment is read without room to read ahead, from how long recent reads took.",
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

# -- by tracker --------------------------------------------------------------------------------------------------

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
