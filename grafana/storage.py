"""Storage and recovery: the health of the storage, the progress of merges, and losses of a recovery."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana.panels import (
    SERVICE,
    Query,
    add_row,
    board,
    graph,
    number,
    quantile,
    quantiles,
    rate,
    service_choices,
    total,
)

UID = "delayed-tracker-storage"
_CALLS = "delayed_tracker_storage_operations_total"
_RECOVERY = "delayed_tracker_recovery_duration_seconds"


def storage() -> builders.Dashboard:
    """Return the dashboard of the storages of the chosen services."""
    made = board(
        UID,
        "Delayed-delivery tracker / Storage and recovery",
        "Is the storage healthy, do merges keep up, did a recovery lose time or anything else.",
        *service_choices(),
    )
    _calls(made)
    _log(made)
    _buckets(made)
    _recovery(made)
    _bookies(made)
    _objects(made)
    return made


def _calls(made: builders.Dashboard) -> None:
    add_row(
        made,
        "Storage",
        graph(
            "Calls", "Each attempt, by operation.", "cps", Query(rate(_CALLS, "backend, operation"), "{{operation}}")
        ),
        graph(
            "Calls that failed",
            "Unavailable ones are tried again; corrupt and missing snapshots cost their bucket, which a replay restores.",
            "cps",
            Query(
                rate(_CALLS, "operation, outcome", SERVICE + ',outcome!~"ok|cancelled"'), "{{operation}} {{outcome}}"
            ),
        ),
        graph(
            "Time of calls, 99th percentile",
            "Each attempt, whatever became of it.",
            "s",
            Query(quantile(0.99, "delayed_tracker_storage_operation_duration_seconds", "operation"), "{{operation}}"),
        ),
        graph(
            "Retries and failures",
            "Effects that failed after all their attempts are begun again later.",
            "cps",
            Query(rate("delayed_tracker_storage_retries_total"), "retries"),
            Query(rate("delayed_tracker_effects_failed_total"), "given up for now"),
        ),
        graph(
            "Space",
            "What the storage takes, and what is left where it lies.",
            "bytes",
            Query(total("delayed_tracker_storage_used_bytes", "backend"), "used {{backend}}"),
            Query(f"min by (backend) (delayed_tracker_storage_free_bytes{{{SERVICE}}})", "free {{backend}}"),
        ),
        graph(
            "Snapshots",
            "The bytes of all snapshots in catalogues.",
            "bytes",
            Query(total("delayed_tracker_snapshot_bytes"), "snapshots"),
        ),
    )


def _log(made: builders.Dashboard) -> None:
    log = "delayed_tracker_log"
    add_row(
        made,
        "Add log",
        graph(
            "Records",
            "Bytes in the log, and how many there may be. From half of the limit on, trackers are sealed so that it shrinks.",
            "bytes",
            Query(total(f"{log}_bytes"), "records"),
            Query(total(f"{log}_bytes_max"), "limit"),
        ),
        graph(
            "Waiting to be written",
            "Bytes in memory, and how many there may be. They grow while commits fail or are slow.",
            "bytes",
            Query(total(f"{log}_pending_bytes"), "waiting"),
            Query(total(f"{log}_pending_bytes_max"), "limit"),
        ),
        graph(
            "Commits and records",
            "Each second; many records share a commit. Checkpoints are what makes the log shorter.",
            "cps",
            Query(rate(f"{log}_commits_total"), "commits"),
            Query(rate(f"{log}_records_total"), "records"),
            Query(rate(f"{log}_commits_failed_total"), "failed commits"),
            Query(rate(f"{log}_checkpoints_total"), "checkpoints"),
        ),
        graph(
            "Idle trackers",
            "Open trackers that are not in memory, and how many leave it and come back each second.",
            "short",
            Query(total("delayed_tracker_unloaded_trackers"), "not in memory"),
            Query(rate("delayed_tracker_tracker_unloads_total"), "leave"),
            Query(rate("delayed_tracker_tracker_reloads_total"), "come back"),
        ),
        graph(
            "Time of commits",
            "An add waits for one commit, or for two if one is under way.",
            "s",
            *(
                Query(
                    quantile(
                        share,
                        "delayed_tracker_storage_operation_duration_seconds",
                        selector=SERVICE + ',operation="log_append"',
                    ),
                    f"p{share * 100:g}",
                )
                for share in (0.5, 0.99)
            ),
        ),
        graph(
            "Consumed and not written",
            "Positions that a crash would hand out again, and the window: at its limit acknowledgements wait.",
            "short",
            Query(total("delayed_tracker_unwritten_consumed_positions"), "positions"),
            Query(total("delayed_tracker_unwritten_consumed_positions_max"), "limit"),
        ),
        number(
            "Failing",
            "Services whose commits fail now: look at the disk.",
            "short",
            Query(total(f"{log}_failing")),
            width=6,
            red_from=1,
        ),
        number(
            "Broken",
            "Services with a failed fsync: check the disk, then restart them.",
            "short",
            Query(total(f"{log}_broken")),
            width=6,
            red_from=1,
        ),
        number(
            "Records lost",
            "Damaged or missing when a tracker was recovered; dispatchers were asked to offer everything again.",
            "short",
            Query(total(f"{log}_records_corrupt_total")),
            width=6,
            red_from=1,
        ),
    )


def _buckets(made: builders.Dashboard) -> None:
    operations = "delayed_tracker_bucket_operation"
    add_row(
        made,
        "Buckets",
        graph(
            "Operations",
            "By type and state.",
            "cps",
            Query(rate(f"{operations}s_total", "type, state"), "{{type}} {{state}}"),
        ),
        graph(
            "Time of operations, 99th percentile",
            "Of those that succeeded, waiting for their turn included.",
            "s",
            Query(quantile(0.99, f"{operations}_duration_seconds", "type"), "{{type}}"),
        ),
        graph(
            "Merges",
            "Indexes written again by merges: what a limit on buckets costs.",
            "cps",
            Query(rate("delayed_tracker_merged_indexes_total"), "indexes merged"),
        ),
        graph(
            "Buckets and the backlog of merges",
            "Buckets above delayedDeliveryMaxNumBuckets. If it stays, merging does not keep up.",
            "short",
            Query(total("delayed_tracker_buckets"), "buckets"),
            Query(total("delayed_tracker_merge_backlog_buckets"), "above the limit"),
        ),
        graph(
            "Fallback to memory",
            "Indexes in memory because their snapshot could not be stored. Replay restores them after a crash.",
            "short",
            Query(total("delayed_tracker_fallback_indexes"), "indexes"),
        ),
        graph(
            "In no snapshot",
            "Indexes in memory only, and how many may be. At the limit adds are refused or held back.",
            "short",
            Query(total("delayed_tracker_unstored_indexes"), "indexes"),
            Query(total("delayed_tracker_unstored_indexes_max"), "limit"),
        ),
        graph(
            "Adds refused and held back",
            "Calls refused and streams that began to wait, each second; streams that wait now.",
            "short",
            Query(rate("delayed_tracker_refused_adds_total"), "calls refused"),
            Query(rate("delayed_tracker_streams_held_back_total"), "streams held back"),
            Query(total("delayed_tracker_held_back_streams"), "streams waiting"),
        ),
        graph(
            "Read from snapshots",
            "Rows in memory or being read, and how many may be read ahead; trackers that wait for room.",
            "short",
            Query(total("delayed_tracker_read_indexes"), "rows"),
            Query(total("delayed_tracker_read_indexes_max"), "limit"),
            Query(total("delayed_tracker_waiting_reads"), "trackers waiting"),
        ),
        graph(
            "Lead of reads",
            "Time before a deadline at which its segment is read without room to read ahead: about twice what reads take.",
            "s",
            Query(f"max by (instance) (delayed_tracker_read_lead_seconds{{{SERVICE}}})", "{{instance}}"),
        ),
        graph(
            "Not quite in order",
            "Late results after a clear, orphans swept or left, closes that could not record what was consumed, buckets that "
            "were stored in pieces.",
            "short",
            *(
                Query(total(f"delayed_tracker_{name}_total"), name.replace("_", " "))
                for name in (
                    "results_forgotten",
                    "orphans_swept",
                    "orphans_left",
                    "checkpoints_failed",
                    "snapshots_split",
                )
            ),
        ),
    )


def _recovery(made: builders.Dashboard) -> None:
    add_row(
        made,
        "Recovery",
        number(
            "Being recovered", "Trackers now.", "short", Query(total("delayed_tracker_recovering_trackers")), width=6
        ),
        number(
            "Longest under way",
            "For how long the oldest recovery has been running.",
            "s",
            Query(f"max (delayed_tracker_longest_recovery_seconds{{{SERVICE}}})"),
            width=6,
            red_from=60,
        ),
        number(
            "Snapshots lost",
            "Missing, damaged or unreadable when a tracker was recovered: reset its cursor or rebuild its index.",
            "short",
            Query(
                f"{total('delayed_tracker_snapshots_missing_total')} + {total('delayed_tracker_snapshots_corrupt_total')}"
            ),
            width=6,
            red_from=1,
        ),
        number(
            "Summaries unreadable",
            "Catalogue entries whose bucket is read whole instead.",
            "short",
            Query(total("delayed_tracker_summaries_unreadable_total")),
            width=6,
            red_from=1,
        ),
        graph(
            "Recoveries",
            "By outcome, and those that went on without the add log of the last owner.",
            "cps",
            Query(rate(f"{_RECOVERY}_count", "outcome"), "{{outcome}}"),
            Query(rate("delayed_tracker_add_logs_missing_total", "job"), "add log elsewhere"),
        ),
        graph(
            "Time of recoveries",
            "From the opening of a tracker to its first correct answer.",
            "s",
            *quantiles(_RECOVERY, 0.5, 0.99),
        ),
    )


def _bookies(made: builders.Dashboard) -> None:
    bookie = "delayed_tracker_bookie"
    requests = f"{bookie}_requests_total"
    add_row(
        made,
        "BookKeeper",
        graph("Requests by bookie", "Each second.", "cps", Query(rate(requests, "bookie"), "{{bookie}}")),
        graph(
            "Requests without success",
            "A bookie that cannot be reached, does not answer in time, or answers with an error.",
            "cps",
            Query(rate(requests, "bookie, outcome", SERVICE + ',outcome!="ok"'), "{{bookie}} {{outcome}}"),
        ),
        graph(
            "Time of adds by bookie, 99th percentile",
            "From sending to the reply. A commit waits for the slower bookies of its ack quorum.",
            "s",
            Query(
                quantile(0.99, f"{bookie}_request_duration_seconds", "bookie", SERVICE + ',operation="add_entry"'),
                "{{bookie}}",
            ),
        ),
        graph(
            "Bytes by bookie",
            "Sent and received each second.",
            "Bps",
            Query(rate(f"{bookie}_sent_bytes_total", "bookie"), "to {{bookie}}"),
            Query(rate(f"{bookie}_received_bytes_total", "bookie"), "from {{bookie}}"),
        ),
        graph(
            "Without a reply",
            "Requests that are on their way now.",
            "short",
            Query(total(f"{bookie}_requests_in_flight", "bookie"), "{{bookie}}"),
        ),
        graph(
            "Bytes without a reply",
            "Bytes of these requests.",
            "bytes",
            Query(total(f"{bookie}_in_flight_bytes", "bookie"), "{{bookie}}"),
        ),
        graph(
            "Connections and ensemble changes",
            "Attempts to connect to a bookie, and how often another one took its place in a ledger, each second.",
            "cps",
            Query(rate(f"{bookie}_connections_total", "bookie"), "connections {{bookie}}"),
            Query(rate(f"{bookie}_ensemble_changes_total", "bookie"), "changes {{bookie}}"),
        ),
        graph(
            "ZooKeeper",
            "Services that are connected, and how many sessions they began: more than one means that it was away for 10 s.",
            "short",
            Query(total("delayed_tracker_zookeeper_connected"), "connected"),
            Query(total("delayed_tracker_zookeeper_sessions_total"), "sessions"),
        ),
    )


def _objects(made: builders.Dashboard) -> None:
    store = "delayed_tracker_object"
    add_row(
        made,
        "Object store",
        graph(
            "Requests to the store",
            "Each second, by operation.",
            "cps",
            Query(rate(f"{store}_requests_total", "operation"), "{{operation}}"),
        ),
        graph(
            "Requests that failed",
            "Conflicts are writes by several processes at a time; they are read back and tried again.",
            "cps",
            Query(
                rate(f"{store}_requests_total", "operation, outcome", SERVICE + ',outcome=~"failed|conflict"'),
                "{{operation}} {{outcome}}",
            ),
        ),
        graph(
            "Time of requests, 99th percentile",
            "Whatever became of them.",
            "s",
            Query(quantile(0.99, f"{store}_request_duration_seconds", "operation"), "{{operation}}"),
        ),
        graph(
            "Bytes and requests on their way",
            "Bytes each second; requests that wait for an answer now.",
            "short",
            Query(rate(f"{store}_bytes_total", "direction"), "bytes {{direction}}"),
            Query(total(f"{store}_requests_in_flight"), "requests without an answer"),
        ),
    )
