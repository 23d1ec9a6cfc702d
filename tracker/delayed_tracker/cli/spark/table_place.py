"""Checks the table's place of ``spark-rebuild index`` early: a job would fail only at its end."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.sql import SparkSession

from delayed_tracker.core.values.errors import InvalidInput

REMEDY: Final = "give a place that the driver and all workers can write to"
_LOCAL: Final = "file"


def require_place(session: SparkSession, url: str) -> None:
    """Refuse a place on this machine that is not writable. Other places are not checked.

    Args:
        session: session whose configuration maps a path to a file system.
        url: URL of the table, which need not exist.
    Raises:
        InvalidInput: nothing can be created there; with the reason.
        Py4JJavaError: Spark has no such file system.
    """
    path = _local_path(session, url)
    if path is None:
        return
    try:
        found = next(place for place in (path, *path.parents) if place.exists())
        # An existing table is removed and created again.
        with TemporaryDirectory(prefix=".spark-rebuild-", dir=path.parent if found == path else found):
            pass
    except OSError as error:
        raise InvalidInput("--output", url, f"nothing can be made there ({error.strerror}): {REMEDY}") from error


def _local_path(session: SparkSession, url: str) -> Path | None:
    java: Any = session._jvm  # noqa: SLF001  only Spark maps a path to its file system, which may be a cluster's
    place = java.org.apache.hadoop.fs.Path(url)
    system = place.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    if system.getScheme() != _LOCAL:
        return None
    return Path(system.makeQualified(place).toUri().getPath())
