"""Spark session of a rebuild, local or on a cluster."""

import os
import sys
from collections.abc import Mapping
from subprocess import Popen
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from delayed_tracker.spark.runtime.java import find_java
from delayed_tracker.spark.snapshots.delayed_snapshots import DelayedSnapshotsSource
from delayed_tracker.spark.source.pulsar_ledger import PulsarLedgerSource

_ALWAYS: Final = {
    # The data source skips rows that a pushed filter excludes.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows in a batch between Spark and Python: some hundred kilobytes in each direction.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
    # Spark divides a partition that has most of the rows, and joins small ones.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # A worker needs a second to import the libraries and to load the kernels.
    "spark.python.worker.reuse": "true",
    # Over TCP, each task that reads waits for a delayed acknowledgement: a fifth of its time.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
_UNDER_SPARK_SUBMIT: Final = "PYSPARK_GATEWAY_PORT"


def build_session(
    master: str | None = None,
    *,
    name: str = "spark-rebuild",
    options: Mapping[str, str] | None = None,
    output: int | None = None,
) -> SparkSession:
    """Return a session with the formats of :func:`register_sources`: the active session if there is one, else a new one.

    Args:
        master: a Spark master, such as ``local[*]`` or ``spark://host:7077``. None uses the master of spark-submit, or
            all cores of this machine without spark-submit.
        name: name of the job on Spark's pages.
        options: settings of Spark that override those of this function.
        output: a file descriptor for the stdout and stderr of Spark's Java process and its Python workers. None keeps
            those of this process. Without effect if the Java process runs already.
    Raises:
        JavaNotFound: this machine has no Java 17 or newer, and Spark is not running yet.
    Cost: some seconds; sets JAVA_HOME and PYSPARK_PYTHON of this process, which Spark's processes inherit.
    """
    settings = {"spark.app.name": name, **_ALWAYS, **(options or {})}
    if not is_submitted():
        os.environ["JAVA_HOME"] = str(find_java())
        settings["spark.master"] = master or "local[*]"
    elif master is not None:
        settings["spark.master"] = master
    # Workers must have the same packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if output is not None and not _has_java():
        _start_context(settings, output)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    register_sources(session)
    return session


def is_submitted() -> bool:
    """Return True if spark-submit started this process."""
    return _UNDER_SPARK_SUBMIT in os.environ


def java_process() -> Popen[bytes] | None:
    """Return the Java process that this process started for Spark; None if there is none, as under spark-submit."""
    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  no public access
    return process


def _has_java() -> bool:
    return is_submitted() or SparkContext._gateway is not None  # noqa: SLF001  no public access


def _start_context(settings: Mapping[str, str], output: int) -> None:
    """Start Java and a context, which ``SparkSession.builder`` then uses."""
    conf = SparkConf().setAll(list(settings.items()))
    gateway = launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


def register_sources(session: SparkSession) -> None:
    """Register the formats ``pulsar_ledger`` and ``delayed_snapshots`` with a session that :func:`build_session` did not build."""
    session.dataSource.register(PulsarLedgerSource)
    session.dataSource.register(DelayedSnapshotsSource)
