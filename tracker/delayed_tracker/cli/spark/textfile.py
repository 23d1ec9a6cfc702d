"""Writes the results of a job as Prometheus metrics to a file, for the node exporter's textfile collector."""

import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.home_paths import refuse_home_path

_MEANINGS = {
    "read_entries": "Entries read by the last job",
    "delayed_entries": "Delayed messages among them",
    "acknowledged_indexes": "Indexes left out because they are acknowledged",
    "aborted_indexes": "Indexes left out because their transaction was aborted",
    "due_indexes": "Indexes left out because they were due",
    "duplicate_indexes": "Indexes that occurred more than once",
    "written_indexes": "Indexes in the buckets of a rebuild, or rows in the table of message indexes",
    "unsealed_indexes": "Indexes that are too few to fill a bucket, and come back with the replay",
    "snapshot_bytes": "Size of the snapshots",
    "bad_entries": "Entries that could not be read",
    "missing_positions": "Positions that the ledgers have and the compared index lacks",
    "extra_positions": "Positions that the compared index has and the ledgers lack",
    "differing_positions": "Positions with another deadline in the compared index",
    "uncompared_trackers": "Subscriptions whose index could not be read, with messages to be delivered later",
}
_PREFIX = "delayed_tracker_rebuild_"
_STAGES = f"{_PREFIX}stage_duration_seconds"
_ENDED = f"{_PREFIX}last_success_timestamp_seconds"

COUNTS = tuple(_MEANINGS)
"""Names of the counts."""
METRIC_NAMES = (*(f"{_PREFIX}{name}" for name in COUNTS), _STAGES, _ENDED)
"""Names of all metrics that a file may contain."""


def writable(path: Path | None) -> Path | None:
    """Return the path if metrics can be written there; checked early, because a job would fail only at its end.

    Raises:
        InvalidInput: the path is not writable.
    """
    if path is None:
        return None
    refuse_home_path("--prometheus", str(path), str(path))
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with TemporaryFile(dir=path.parent):
            return path
    except OSError as error:
        raise _unusable(path, error) from error


def write_metrics(path: Path, command: str, counts: Mapping[str, int], seconds: Mapping[str, float]) -> None:
    """Write the metrics of a successful job; the file is replaced in one step.

    Args:
        path: path of the file, whose name ends with .prom.
        command: name of the command.
        counts: some of the names above.
        seconds: duration of each stage.
    Raises:
        InvalidInput: the file cannot be written.
    """
    registry = CollectorRegistry()
    for name, value in counts.items():
        gauge = Gauge(f"{_PREFIX}{name}", f"{_MEANINGS[name]}.", ["command"], registry=registry)
        gauge.labels(command).set(value)
    stage = Gauge(
        _STAGES,
        "How long each stage of the last job took.",
        ["command", "stage"],
        registry=registry,
    )
    for name, duration in seconds.items():
        stage.labels(command, name).set(duration)
    ended = Gauge(
        _ENDED,
        "When the last job that ended well did.",
        ["command"],
        registry=registry,
    )
    ended.labels(command).set(time.time())
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput("--prometheus", str(path), f"{error.strerror}: give a file that can be written")
