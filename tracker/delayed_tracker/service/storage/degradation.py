"""Tells what of the storage does not work now, while the service answers with what it has in memory."""

from typing import Final

from delayed_tracker.service.storage.log_writer import LogWriter
from delayed_tracker.service.telemetry.storage_log import LOAD_FAILED, STORE_FAILED, FailureLog

_FAILURES: Final = {STORE_FAILED: "snapshots are not stored", LOAD_FAILED: "segments are not loaded"}


def degradation_of(log: LogWriter | None, failures: FailureLog) -> str:
    """Return what fails now, for an operator; empty if nothing does.

    Args:
        log: writer of the add log, if there is one.
        failures: those of the snapshot storage that last.
    """
    reasons = []
    if log is not None and log.failure is not None:
        effect = "is broken, nothing is added until a restart" if log.is_broken else "is not written, adds fail"
        reasons.append(f"the add log {effect} ({log.failure.message})")
    for event, effect in _FAILURES.items():
        if count := failures.lasting_count(event):
            reasons.append(f"{effect} (trackers: {count})")
    return "; ".join(reasons)
