"""The dashboard to open first: late messages, anything stuck, pending messages and their deadlines."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana.panels import (
    SERVICE,
    Query,
    add_row,
    board,
    distribution,
    graph,
    number,
    quantile,
    quantiles,
    ranking,
    rate,
    service_choices,
    times_to_deadlines,
    total,
)

UID = "delayed-tracker-overview"
_LATENESS = "delayed_tracker_handoff_lateness_seconds"
_POLL = 'grpc_method!~"PollScheduledMessages|.*Stream|Watch"'


def overview() -> builders.Dashboard:
    """Return the dashboard of the whole service, or of several services."""
    made = board(
        UID,
        "Delayed-delivery tracker / Overview",
        "Are messages late, is anything stuck, how much is pending and when is it due.",
        *service_choices(),
    )
    _at_a_glance(made)
    _lateness(made)
    _traffic(made)
    _contents(made)
    _service(made)
    return made


def _at_a_glance(made: builders.Dashboard) -> None:
    add_row(
        made,
        "At a glance",
        number(
            "Early hand-offs",
            "Handed out before their deadline. Always 0; anything else is a bug.",
            "short",
            Query(total("delayed_tracker_early_handoffs_total")),
            red_from=1,
        ),
        number(
            "Lateness, 99th percentile",
            "How long after their deadlines messages are handed out.",
            "s",
            Query(quantile(0.99, _LATENESS)),
            red_from=5,
        ),
        number(
            "Due, not handed out",
            "Due, and no dispatcher polls for them, or they are being read from the storage.",
            "short",
            Query(total("delayed_tracker_due_indexes")),
        ),
        number("Pending", "Tracked and not leased.", "short", Query(total("delayed_tracker_pending_indexes"))),
        number(
            "Next deadline",
            "The first deadline of all that is pending.",
            "dateTimeFromNow",
            Query(f"min (delayed_tracker_earliest_deadline_timestamp_seconds{{{SERVICE}}}) * 1000"),
        ),
        number("Trackers", "Subscriptions that are open now.", "short", Query(total("delayed_tracker_open_trackers"))),
    )


def _lateness(made: builders.Dashboard) -> None:
    add_row(
        made,
        "Are messages late?",
        graph(
            "Lateness",
            "From the deadline to the hand-off. Polls that come late show here as much as a slow service.",
            "s",
            *quantiles(_LATENESS, 0.5, 0.99, 0.999),
        ),
        distribution("Lateness, all of it", "How many hand-offs a second were how late.", "s", _LATENESS),
    )


def _traffic(made: builders.Dashboard) -> None:
    add_row(
        made,
        "What moves?",
        graph(
            "Offered",
            "What dispatchers ask to track, by the answer: due ones are sent at once, duplicates are tracked already.",
            "cps",
            Query(rate("delayed_tracker_offered_indexes_total", "result"), "{{result}}"),
        ),
        graph(
            "What becomes of indexes",
            "Every index that was added or recovered is pending or leased, or is in exactly one of the others. Rescheduled "
            "ones stay pending.",
            "cps",
            Query(rate("delayed_tracker_indexes_total", "event"), "{{event}}"),
            Query(rate("delayed_tracker_rescheduled_indexes_total"), "rescheduled"),
        ),
        graph(
            "Hand-offs and leases that ended",
            "A lease that ends means that its dispatcher did not acknowledge in time: the message comes again.",
            "cps",
            Query(rate(f"{_LATENESS}_count"), "handed out"),
            Query(rate("delayed_tracker_lease_expirations_total"), "leases ended"),
        ),
        graph(
            "Balance of the books",
            "Added and recovered, less what is pending, leased or gone. Anything but 0 is a bug.",
            "short",
            Query(
                f'sum (delayed_tracker_indexes_total{{{SERVICE},event=~"added|recovered"}})'
                f' - sum (delayed_tracker_indexes_total{{{SERVICE},event!~"added|recovered"}})'
                f" - {total('delayed_tracker_pending_indexes')} - {total('delayed_tracker_leased_indexes')}",
                "unaccounted",
            ),
        ),
    )


def _contents(made: builders.Dashboard) -> None:
    add_row(
        made,
        "How much is pending?",
        graph(
            "Tracked",
            "Due ones wait for a poll; leased ones for an acknowledgement.",
            "short",
            Query(total("delayed_tracker_pending_indexes"), "pending"),
            Query(total("delayed_tracker_leased_indexes"), "leased"),
            Query(total("delayed_tracker_due_indexes"), "due"),
        ),
        graph(
            "In memory",
            "Loaded ones are nearly due. Fallback ones could not be stored, which is tried again.",
            "short",
            Query(total("delayed_tracker_loaded_indexes"), "loaded"),
            Query(total("delayed_tracker_mutable_indexes"), "mutable"),
            Query(total("delayed_tracker_late_indexes"), "late"),
            Query(total("delayed_tracker_fallback_indexes"), "fallback"),
        ),
        graph(
            "Time to the deadlines",
            "How far the first and the last deadline are away.",
            "s",
            *times_to_deadlines("delayed_tracker"),
        ),
        graph(
            "Versions",
            "Services that run, by version.",
            "short",
            Query(f"count by (version) (delayed_tracker_build_info{{{SERVICE}}})", "{{version}}"),
        ),
        ranking(
            "Most due",
            "The subscriptions with the most messages that are due and not handed out.",
            "short",
            Query(f"topk (20, delayed_tracker_subscription_due_indexes{{{SERVICE}}})"),
        ),
        ranking(
            "Most pending",
            "The subscriptions with the most messages pending.",
            "short",
            Query(f"topk (20, delayed_tracker_subscription_pending_indexes{{{SERVICE}}})"),
        ),
    )


def _service(made: builders.Dashboard) -> None:
    add_row(
        made,
        "How is the service?",
        graph(
            "Calls", "By method.", "reqps", Query(rate("grpc_server_handled_total", "grpc_method"), "{{grpc_method}}")
        ),
        graph(
            "Calls that failed",
            "By status. RESOURCE_EXHAUSTED is a limit, UNAVAILABLE a recovery or a stop; INTERNAL is a bug.",
            "reqps",
            Query(rate("grpc_server_handled_total", "grpc_code", SERVICE + ',grpc_code!="OK"'), "{{grpc_code}}"),
        ),
        graph(
            "Time of calls, 99th percentile",
            "Without calls that wait for as long as they are asked to.",
            "s",
            Query(
                quantile(0.99, "grpc_server_handling_seconds", "grpc_method", f"{SERVICE},{_POLL}"), "{{grpc_method}}"
            ),
        ),
        graph(
            "Lag of the event loop",
            "How much later than asked for something runs. Above 20 ms something holds it up.",
            "s",
            *quantiles("delayed_tracker_event_loop_lag_seconds", 0.5, 0.99),
        ),
        graph(
            "Processor",
            "Cores in use.",
            "none",
            Query(rate("process_cpu_seconds_total", "instance"), "{{instance}}"),
        ),
        graph(
            "Memory",
            "Of the process, and what tracking takes of it.",
            "bytes",
            Query(total("process_resident_memory_bytes"), "resident"),
            Query(total("delayed_tracker_memory_bytes"), "tracking"),
            Query(total("delayed_tracker_membership_bytes"), "bitmaps"),
        ),
        graph(
            "Who waits",
            "Polls that wait for a message, and all calls under way.",
            "short",
            Query(total("delayed_tracker_waiting_polls"), "waiting polls"),
            Query(total("delayed_tracker_open_calls"), "open calls"),
            Query(total("delayed_tracker_open_streams"), "open streams"),
        ),
        graph(
            "Bytes in flight",
            "Requests and large answers that are in memory, and the bounds; at a bound calls wait, and streams are held back.",
            "bytes",
            Query(total("delayed_tracker_in_flight_bytes", "direction"), "{{direction}}s"),
            Query(total("delayed_tracker_in_flight_bytes_max", "direction"), "{{direction}}s at most"),
        ),
        graph(
            "Calls without room",
            "Calls that wait for room in flight, and those refused for want of it, a second.",
            "short",
            Query(total("delayed_tracker_in_flight_waiting_calls", "direction"), "waiting: {{direction}}"),
            Query(rate("delayed_tracker_in_flight_refused_total", "direction"), "refused: {{direction}}"),
        ),
        graph(
            "Callers that are refused",
            "Calls without a valid credential, without a rule that grants them, or above a quota of their principal, a second.",
            "short",
            Query(rate("delayed_tracker_refused_calls_total", "reason"), "{{reason}}"),
            Query(rate("delayed_tracker_quota_refused_calls_total", "limit"), "quota: {{limit}}"),
        ),
        graph(
            "Certificates, keys, rules and quotas read again",
            "Changed files that are in force (ok), and those that cannot be used (failed), so that the old content stays.",
            "short",
            Query(total("delayed_tracker_security_reloads_total", "kind, outcome"), "{{kind}}: {{outcome}}"),
            Query(total("delayed_tracker_security_stale", "kind"), "{{kind}} is stale"),
        ),
        graph(
            "Trackers without series of their own",
            "Their numbers are in the totals and in the series without labels: raise metricsTrackersMax to see them.",
            "short",
            Query(total("delayed_tracker_aggregated_trackers"), "now"),
            Query(total("delayed_tracker_trackers_aggregated_total"), "since the start"),
        ),
    )
