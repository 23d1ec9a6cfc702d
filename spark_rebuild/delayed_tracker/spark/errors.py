"""Errors of rebuilding with Spark, sorted by what the caller does next."""

from delayed_tracker.core.values.errors import DelayedTrackerError


class SparkRebuildError(DelayedTrackerError):
    """Base of every error that only a rebuild raises."""

    reason = "SPARK_REBUILD_ERROR"


class JavaNotFound(SparkRebuildError):
    """Spark cannot start: this machine has no Java that it can use. The message says what to install."""

    reason = "JAVA_NOT_FOUND"


class StagedWorkInvalid(SparkRebuildError):
    """A staged part is missing, damaged, or not what was planned. Run the job again: it makes anew what does not verify."""

    reason = "STAGED_WORK_INVALID"


class StagingUnavailable(SparkRebuildError):
    """Staged work cannot be written, read or listed now. Run the job again: what was staged is used."""

    reason = "STAGING_UNAVAILABLE"


class IndexNotReadable(SparkRebuildError):
    """The index of one subscription cannot be read; those of others may. A subclass says why, and what to do."""

    reason = "INDEX_NOT_READABLE"
