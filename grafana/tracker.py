"""One tracker: its buckets over time, its content in memory, and its next deadlines, under Pulsar's names."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana.panels import (
    SERVICE,
    TRACKER,
    Query,
    add_row,
    board,
    choice,
    graph,
    number,
    rate,
    service_choices,
    times_to_deadlines,
    total,
)

UID = "delayed-tracker-tracker"
_PULSAR = "pulsar_delayed_message_index"
_OWN = "delayed_tracker_subscription"


def tracker() -> builders.Dashboard:
    """Return the dashboard of one subscription, or of several together."""
    made = board(
        UID,
        "Delayed-delivery tracker / One tracker",
        "One subscription: buckets, memory and deadlines.",
        *service_choices(),
        choice("topic", "Topic", f"{_OWN}_pending_indexes", SERVICE),
        choice("subscription", "Subscription", f"{_OWN}_pending_indexes", SERVICE + ',topic=~"$topic"'),
    )
    _now(made)
    _over_time(made)
    _buckets(made)
    return made


def _now(made: builders.Dashboard) -> None:
    add_row(
        made,
        "Now",
        number("Pending", "Tracked and not leased.", "short", Query(total(f"{_OWN}_pending_indexes", "", TRACKER))),
        number("Leased", "Handed out, not acknowledged.", "short", Query(total(f"{_OWN}_leased_indexes", "", TRACKER))),
        number(
            "Due, not handed out",
            "No dispatcher polls for them, or they are being read from the storage.",
            "short",
            Query(total(f"{_OWN}_due_indexes", "", TRACKER)),
        ),
        number(
            "Next deadline",
            "The first deadline of what is pending.",
            "dateTimeFromNow",
            Query(f"min ({_OWN}_earliest_deadline_timestamp_seconds{{{TRACKER}}}) * 1000"),
        ),
        number(
            "Last deadline",
            "The last deadline of what is pending, or a later one of the same bucket.",
            "dateTimeFromNow",
            Query(f"max ({_OWN}_latest_deadline_timestamp_seconds{{{TRACKER}}}) * 1000"),
        ),
        number(
            "Buckets", "Sealed ones and the mutable one.", "short", Query(total(f"{_PULSAR}_bucket_total", "", TRACKER))
        ),
    )


def _over_time(made: builders.Dashboard) -> None:
    add_row(
        made,
        "Messages",
        graph(
            "Tracked",
            "What waits for its deadline, for a poll, or for an acknowledgement.",
            "short",
            Query(total(f"{_OWN}_pending_indexes", "", TRACKER), "pending"),
            Query(total(f"{_OWN}_leased_indexes", "", TRACKER), "leased"),
            Query(total(f"{_OWN}_due_indexes", "", TRACKER), "due"),
        ),
        graph(
            "What becomes of indexes",
            "Every index that was added or recovered is pending or leased, or is in exactly one of the others.",
            "cps",
            Query(rate(f"{_OWN}_indexes_total", "event", TRACKER), "{{event}}"),
        ),
        graph(
            "Time to the deadlines",
            "How far the first and the last deadline are away. The first near 0 for long: no dispatcher polls.",
            "s",
            *times_to_deadlines(_OWN, TRACKER),
        ),
        graph(
            "Leases that ended",
            "Each is a message that is handed out again, because it was not acknowledged in time.",
            "cps",
            Query(rate(f"{_OWN}_lease_expirations_total", "subscription", TRACKER), "{{subscription}}"),
        ),
    )


def _buckets(made: builders.Dashboard) -> None:
    add_row(
        made,
        "Buckets",
        graph(
            "Buckets over time",
            "A seal adds one, a merge takes some away, a drained one goes.",
            "short",
            Query(total(f"{_PULSAR}_bucket_total", "topic, subscription", TRACKER), "{{topic}} {{subscription}}"),
            stacked=True,
        ),
        graph(
            "Operations on snapshots",
            "By type and state. Anything that failed is tried again, and nothing is lost by it.",
            "cps",
            Query(rate(f"{_PULSAR}_bucket_op_count", "type, state", TRACKER + ',state!="all"'), "{{type}} {{state}}"),
        ),
        graph(
            "Time of operations",
            "How many took from the range below up to so many milliseconds; ranges are separate.",
            "cps",
            Query(rate(f"{_PULSAR}_bucket_op_latency_ms", "quantile", TRACKER), "{{quantile}} ms"),
            stacked=True,
        ),
        graph(
            "Indexes in memory",
            "What is nearly due, and the bucket that still fills.",
            "short",
            Query(total(f"{_PULSAR}_loaded", "topic, subscription", TRACKER), "{{topic}} {{subscription}}"),
        ),
        graph(
            "Memory",
            "Of rows, bitmaps, leases, buckets and segment bounds.",
            "bytes",
            Query(total(f"{_PULSAR}_size_bytes", "topic, subscription", TRACKER), "{{topic}} {{subscription}}"),
        ),
        graph(
            "Snapshots",
            "What is stored.",
            "bytes",
            Query(
                total(f"{_PULSAR}_bucket_snapshot_size_bytes", "topic, subscription", TRACKER),
                "{{topic}} {{subscription}}",
            ),
        ),
    )
