"""Tells what of the storage does not work now, while the service answers with what it has in memory."""

from typing import Final

from delayed_tracker.service.storage.log_writer import LogWriter
from delayed_tracker.service.telemetry.storage_log import LOAD_FAILED, STORE_FAILED, FailureLog
from delayed_tracker.storage.capabilities import ClusterReport

_FAILURES: Final = {STORE_FAILED: "snapshots are not stored", LOAD_FAILED: "segments are not loaded"}


def degradation_of(log: LogWriter | None, failures: FailureLog, cluster: ClusterReport | None = None) -> str:
    """Return what fails now, for an operator; empty if nothing does.

    Args:
        log: writer of the add log, if there is one.
        failures: those of the snapshot storage that last.
        cluster: state of BookKeeper's client, if the storage is there.
    """
    reasons = []
    if cluster is not None and not cluster.zookeeper_connected:
        reasons.append(f"ZooKeeper at {cluster.zookeeper} is not connected, no tracker can be opened")
    if log is not None and log.failure is not None:
        effect = "is broken, nothing is added until a restart" if log.is_broken else "is not written, adds fail"
        reasons.append(f"the add log {effect} ({log.failure.message})")
    for event, effect in _FAILURES.items():
        if count := failures.lasting_count(event):
            reasons.append(f"{effect} (trackers: {count})")
    return "; ".join(reasons)
