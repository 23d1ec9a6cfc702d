"""Errors of rebuilding with Spark, grouped by what the caller does next."""

from delayed_tracker.core.values.errors import DelayedTrackerError


class SparkRebuildError(DelayedTrackerError):
    """Base of all errors that only a rebuild raises."""

    reason = "SPARK_REBUILD_ERROR"


class JavaNotFound(SparkRebuildError):
    """Spark cannot start: this machine has no Java that Spark can use. The message states what to install."""

    reason = "JAVA_NOT_FOUND"


class StagedWorkInvalid(SparkRebuildError):
    """A staged part is missing, damaged, or not as planned. Run the job again: it makes invalid parts again."""

    reason = "STAGED_WORK_INVALID"


class StagingUnavailable(SparkRebuildError):
    """Staged work cannot be written, read or listed now. Run the job again: it uses what is staged."""

    reason = "STAGING_UNAVAILABLE"


class IndexNotReadable(SparkRebuildError):
    """The index of one subscription cannot be read; others may be readable. Subclasses state cause and remedy."""

    reason = "INDEX_NOT_READABLE"


class SnapshotsUnreadable(SparkRebuildError):
    """A bucket cannot be read: its snapshot is damaged or gone. Read the others with onError=skip, or rebuild the index."""

    reason = "SNAPSHOTS_UNREADABLE"
