"""Errors of rebuilding with Spark, sorted by what the caller does next."""

from tracker.core.errors import DelayedTrackerError


class SparkRebuildError(DelayedTrackerError):
    """Base of every error that only a rebuild raises."""

    reason = "SPARK_REBUILD_ERROR"


class JavaNotFound(SparkRebuildError):
    """Spark cannot start: this machine has no Java that it can use. The message says what to install."""

    reason = "JAVA_NOT_FOUND"
