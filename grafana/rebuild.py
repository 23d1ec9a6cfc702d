"""The last jobs of ``spark-rebuild``, from the metrics that they wrote for the node exporter's textfile collector."""

from grafana_foundation_sdk.builders import dashboard as builders

from grafana.panels import Query, add_row, board, choice, graph, number

UID = "delayed-tracker-rebuild"
_NAME = "delayed_tracker_rebuild"
_SELECTED = 'instance=~"$instance",command=~"$command"'


def rebuild() -> builders.Dashboard:
    """Return the dashboard of the hosts on which jobs were run."""
    ended = f"{_NAME}_last_success_timestamp_seconds"
    made = board(
        UID,
        "Delayed-delivery tracker / Spark rebuild",
        "What the last jobs read, left out and wrote, and how long it took them.",
        choice("instance", "Host", ended),
        choice("command", "Command", ended, 'instance=~"$instance"'),
    )
    add_row(
        made,
        "The last job",
        number(
            "Ended",
            "When the last job that ended well did.",
            "dateTimeFromNow",
            Query(f"max ({ended}{{{_SELECTED}}}) * 1000"),
            width=6,
        ),
        number("Entries read", "From the ledgers.", "short", _sum("read_entries"), width=6),
        number("Indexes written", "Into buckets.", "short", _sum("written_indexes"), width=6),
        number("Bad entries", "Left out; the summary names each.", "short", _sum("bad_entries"), width=6, red_from=1),
        graph(
            "What became of delayed messages",
            "Written, or left out and why. Unsealed ones come back with the replay.",
            "short",
            *(
                _sum(name)
                for name in (
                    "delayed_entries",
                    "written_indexes",
                    "acknowledged_indexes",
                    "aborted_indexes",
                    "due_indexes",
                    "duplicate_indexes",
                    "unsealed_indexes",
                )
            ),
        ),
        graph(
            "Time of stages",
            "Of the last job.",
            "s",
            Query(f"{_NAME}_stage_duration_seconds{{{_SELECTED}}}", "{{command}} {{stage}}"),
            stacked=True,
        ),
        graph("Snapshots", "What was written.", "bytes", _sum("snapshot_bytes")),
        graph(
            "Differences that verify found",
            "Between the ledgers and the index of the service. Anything but 0 needs a rebuild, or trackers to be opened.",
            "short",
            _sum("missing_positions"),
            _sum("extra_positions"),
            _sum("differing_positions"),
            _sum("uncompared_trackers"),
        ),
    )
    return made


def _sum(name: str) -> Query:
    return Query(f"sum ({_NAME}_{name}{{{_SELECTED}}})", name.replace("_", " "))
