"""Exit codes of the project's commands. Scripts and supervisors may rely on these numbers."""

import enum

from delayed_tracker.core.values.errors import DelayedTrackerError


class ExitCode(enum.IntEnum):
    """Exit codes, one for each remedy of a supervisor."""

    OK = 0
    """Success. For a service: it received a request to stop, and stopped in order."""
    FAILURE = 1
    """A failure without a number of its own; the message on stderr contains the reason."""
    USAGE = 2
    """The command line or the configuration is wrong: starting the command again cannot help."""
    ADDRESS_IN_USE = 3
    """Another process listens on the service's address: stop that process, or configure another address."""
    STORAGE_UNUSABLE = 4
    """The storage is open in another process, of a newer format, damaged, full or unreachable."""
    SERVICE_UNAVAILABLE = 5
    """The service cannot be reached, or cannot answer now: try again later."""
    TRACKER_CONFLICT = 6
    """The tracker has another owner, was cleared, or is not open: open it, if it should be yours."""
    BAD_DATA = 7
    """Ledgers, metadata or the demo's sample are damaged or incomplete: give others."""
    ACCESS_REFUSED = 8
    """The service refuses the token or the certificate, no rule permits the call, or TLS fails: give other credentials,
    or ask for a rule."""


_BY_REASON = {
    "ADD_LOG_BROKEN": ExitCode.STORAGE_UNUSABLE,
    "ADD_LOG_MISSING": ExitCode.USAGE,
    "ADDRESS_IN_USE": ExitCode.ADDRESS_IN_USE,
    "ADDRESS_UNUSABLE": ExitCode.USAGE,
    "ARCHIVE_NOT_WRITTEN": ExitCode.STORAGE_UNUSABLE,
    "BAD_USAGE": ExitCode.USAGE,
    "BATCH_TOO_LARGE": ExitCode.USAGE,
    "BOOKKEEPER_LEDGER_UNREADABLE": ExitCode.SERVICE_UNAVAILABLE,
    "BOOKKEEPER_NOT_ENOUGH_BOOKIES": ExitCode.SERVICE_UNAVAILABLE,
    "BROKER_METADATA_DISABLED": ExitCode.USAGE,
    "BROKER_METADATA_MISSING": ExitCode.BAD_DATA,
    "CLEARED": ExitCode.TRACKER_CONFLICT,
    "CLOSED": ExitCode.TRACKER_CONFLICT,
    "DATA_LOSS": ExitCode.BAD_DATA,
    "DEADLINE_EXCEEDED": ExitCode.SERVICE_UNAVAILABLE,
    "ENTRIES_UNREADABLE": ExitCode.BAD_DATA,
    "FENCED": ExitCode.TRACKER_CONFLICT,
    "IMPORT_REJECTED": ExitCode.BAD_DATA,
    "IMPORT_UNDER_WAY": ExitCode.TRACKER_CONFLICT,
    "INVALID_INPUT": ExitCode.USAGE,
    "INVALID_SETTINGS": ExitCode.USAGE,
    "JAVA_NOT_FOUND": ExitCode.USAGE,
    "LEASES_EXHAUSTED": ExitCode.SERVICE_UNAVAILABLE,
    "LEDGERS_NOT_WRITTEN": ExitCode.STORAGE_UNUSABLE,
    "LEDGER_DAMAGED": ExitCode.BAD_DATA,
    "LEDGER_ERROR": ExitCode.BAD_DATA,
    "LEDGER_FILE_INVALID": ExitCode.BAD_DATA,
    "LEDGER_IN_USE": ExitCode.STORAGE_UNUSABLE,
    "LEDGER_METADATA_INVALID": ExitCode.BAD_DATA,
    "LEDGER_METADATA_UNAVAILABLE": ExitCode.SERVICE_UNAVAILABLE,
    "LEDGER_NOT_FOUND": ExitCode.BAD_DATA,
    "LEDGER_SOURCE_NOT_SET": ExitCode.USAGE,
    "MESSAGE_INDEX_INVALID": ExitCode.USAGE,
    "MESSAGE_NOT_FOUND": ExitCode.BAD_DATA,
    "MESSAGE_NOT_VISIBLE": ExitCode.BAD_DATA,
    "NAMESPACE_NOT_FOUND": ExitCode.BAD_DATA,
    "OPEN_FILES_LIMIT_TOO_LOW": ExitCode.USAGE,
    "OVERLOADED": ExitCode.SERVICE_UNAVAILABLE,
    "PARTITIONED_TOPIC": ExitCode.USAGE,
    "PERMISSION_DENIED": ExitCode.ACCESS_REFUSED,
    "PULSAR_BACKUP_INVALID": ExitCode.BAD_DATA,
    "PULSAR_BACKUP_UNUSABLE": ExitCode.STORAGE_UNUSABLE,
    "PULSAR_BROKER_UNAVAILABLE": ExitCode.SERVICE_UNAVAILABLE,
    "PULSAR_CURSOR_CHANGED": ExitCode.TRACKER_CONFLICT,
    "PULSAR_GC_STATE_INVALID": ExitCode.BAD_DATA,
    "PULSAR_GC_STATE_UNUSABLE": ExitCode.STORAGE_UNUSABLE,
    "PULSAR_NODE_INVALID": ExitCode.BAD_DATA,
    "PULSAR_TOO_MANY_BUCKETS": ExitCode.USAGE,
    "PULSAR_TOO_MANY_TRACKERS": ExitCode.USAGE,
    "PULSAR_TOPIC_LOADED": ExitCode.TRACKER_CONFLICT,
    "PULSAR_TOPIC_TERMINATED": ExitCode.USAGE,
    "QUOTA_EXCEEDED": ExitCode.SERVICE_UNAVAILABLE,
    "RECOVERING": ExitCode.SERVICE_UNAVAILABLE,
    "SAMPLE_DAMAGED": ExitCode.BAD_DATA,
    "SHUTTING_DOWN": ExitCode.SERVICE_UNAVAILABLE,
    "SOURCE_UNREADABLE": ExitCode.BAD_DATA,
    "SUBSCRIPTION_NOT_FOUND": ExitCode.BAD_DATA,
    "TLS_FAILED": ExitCode.ACCESS_REFUSED,
    "TOPIC_NOT_FOUND": ExitCode.BAD_DATA,
    "TRACKER_BROKEN": ExitCode.SERVICE_UNAVAILABLE,
    "TRACKER_IN_MEMORY": ExitCode.USAGE,
    "TRACKER_NOT_OPEN": ExitCode.TRACKER_CONFLICT,
    "UNAUTHENTICATED": ExitCode.ACCESS_REFUSED,
    "UNAVAILABLE": ExitCode.SERVICE_UNAVAILABLE,
    "UNKNOWN_STORAGE_SCHEME": ExitCode.USAGE,
    "SNAPSHOT_CONFLICT": ExitCode.TRACKER_CONFLICT,
    "SNAPSHOT_CORRUPT": ExitCode.STORAGE_UNUSABLE,
    "SNAPSHOTS_UNREADABLE": ExitCode.STORAGE_UNUSABLE,
    "STAGED_WORK_INVALID": ExitCode.BAD_DATA,
    "STAGING_UNAVAILABLE": ExitCode.STORAGE_UNUSABLE,
    "STORAGE_BACKEND_MISSING": ExitCode.USAGE,
    "STORAGE_FORMAT_UNSUPPORTED": ExitCode.STORAGE_UNUSABLE,
    "STORAGE_IN_USE": ExitCode.STORAGE_UNUSABLE,
    "STORAGE_UNAVAILABLE": ExitCode.STORAGE_UNUSABLE,
    "ZOOKEEPER_UNAVAILABLE": ExitCode.SERVICE_UNAVAILABLE,
}


def exit_code_of(error: DelayedTrackerError) -> ExitCode:
    """Return the exit code of a command that ends with this error."""
    return _BY_REASON.get(error.reason, ExitCode.FAILURE)
