"""Spark session of a rebuild, local or on a cluster."""

import os
import sys
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from delayed_tracker.spark.runtime.java_start import JavaStart, has_java
from delayed_tracker.spark.runtime.session_settings import session_settings
from delayed_tracker.spark.snapshots.delayed_snapshots import DelayedSnapshotsSource
from delayed_tracker.spark.source.pulsar_ledger import PulsarLedgerSource


def build_session(
    master: str | None = None,
    *,
    name: str = "spark-rebuild",
    options: Mapping[str, str] | None = None,
    output: int | None = None,
    start: JavaStart | None = None,
    with_formats: bool = True,
) -> SparkSession:
    """Return a session with the formats of :func:`register_sources`: the active session if there is one, else a new one.

    Args:
        master: a Spark master, such as ``local[*]`` or ``spark://host:7077``. None uses the master of spark-submit, or
            all cores of this machine without spark-submit.
        name: name of the job on Spark's pages.
        options: settings of Spark that override those of this function.
        output: a file descriptor for the stdout and stderr of Spark's Java process and its Python workers. None keeps
            those of this process. Without effect if the Java process runs already.
        start: a Java that is being started with the settings of :func:`session_settings`.
        with_formats: False leaves the formats out, which saves 1.2 s: before the first, Spark looks for others in all
            installed packages.
    Raises:
        JavaNotFound: this machine has no Java 17 or newer, and Spark is not running yet.
    Cost: some seconds; sets JAVA_HOME and PYSPARK_PYTHON of this process, which Spark's processes inherit.
    """
    settings = session_settings(master, name=name, options=options)
    # Workers must have the same packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not has_java():
        gateway = (start or JavaStart(settings, output=output)).gateway()
        # SparkSession.builder then uses this context.
        SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=gateway)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    if with_formats:
        register_sources(session)
    return session


def register_sources(session: SparkSession) -> None:
    """Register the formats ``pulsar_ledger`` and ``delayed_snapshots`` with a session that :func:`build_session` did not build."""
    session.dataSource.register(PulsarLedgerSource)
    session.dataSource.register(DelayedSnapshotsSource)
