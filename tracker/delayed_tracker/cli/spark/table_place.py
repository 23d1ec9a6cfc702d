"""Where ``spark-rebuild index`` writes its table: a job would find out at its end that nothing can be written there."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark.sql import SparkSession

from delayed_tracker.core.values.errors import InvalidInput

REMEDY: Final = "give a place that the driver and all workers can write to"
_LOCAL: Final = "file"


def require_place(session: SparkSession, url: str) -> None:
    """Refuse a place on this machine in which nothing can be made. Others are taken as they are.

    Args:
        session: whose configuration says which file system a path belongs to.
        url: of the table, which need not be there.
    Raises:
        InvalidInput: nothing can be made there; says why.
        Py4JJavaError: Spark knows no such file system.
    """
    path = _local_path(session, url)
    if path is None:
        return
    try:
        found = next(place for place in (path, *path.parents) if place.exists())
        # A table that is there is taken away and made again.
        with TemporaryDirectory(prefix=".spark-rebuild-", dir=path.parent if found == path else found):
            pass
    except OSError as error:
        raise InvalidInput("--output", url, f"nothing can be made there ({error.strerror}): {REMEDY}") from error


def _local_path(session: SparkSession, url: str) -> Path | None:
    java: Any = session._jvm  # noqa: SLF001  Spark's own answer: a path may belong to a cluster's file system
    place = java.org.apache.hadoop.fs.Path(url)
    system = place.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    if system.getScheme() != _LOCAL:
        return None
    return Path(system.makeQualified(place).toUri().getPath())
