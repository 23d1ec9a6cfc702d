"""The Spark session of a rebuild: for a machine of one's own, or for any cluster."""

import os
import sys
from collections.abc import Mapping
from subprocess import Popen
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from delayed_tracker.spark.runtime.java import find_java
from delayed_tracker.spark.source.pulsar_ledger import PulsarLedgerSource

_ALWAYS: Final = {
    # What the data source is told to leave out, it need not read.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rows of a batch between Spark and Python: some hundred kilobytes each way.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
    # One partition with most of the rows is divided, many small ones are joined.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # Importing the libraries and loading the kernels takes a worker a second.
    "spark.python.worker.reuse": "true",
    # Over TCP each task of reading waits for a delayed acknowledgement, a fifth of the time of all.
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
    """A session that knows the format ``pulsar_ledger``; the one that is active, if there is one.

    Args:
        master: a Spark master, such as ``local[*]`` or ``spark://host:7077``; None leaves it to spark-submit, and to
            all cores of this machine without it.
        name: what Spark's pages call the job.
        options: settings of Spark that go before those of this function.
        output: a file descriptor for what Spark's Java process, its Python workers included, writes to stdout and
            stderr; None leaves it those of this process. Without effect on a Java process that runs already.
    Raises:
        JavaNotFound: no Java of 17 or newer is on this machine, and Spark is not running already.
    Cost: some seconds; sets JAVA_HOME and PYSPARK_PYTHON of this process, which Spark's own processes inherit.
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
    """Whether spark-submit has started this process."""
    return _UNDER_SPARK_SUBMIT in os.environ


def java_process() -> Popen[bytes] | None:
    """Return the Java process that this one has started for Spark; None without one, as under spark-submit."""
    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  told nowhere else
    return process


def _has_java() -> bool:
    return is_submitted() or SparkContext._gateway is not None  # noqa: SLF001  told nowhere else


def _start_context(settings: Mapping[str, str], output: int) -> None:
    """Start Java, and the context that ``SparkSession.builder`` finds then."""
    conf = SparkConf().setAll(list(settings.items()))
    gateway = launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)


def register_sources(session: SparkSession) -> None:
    """Teach a session the format ``pulsar_ledger``, as a session of somebody else's making needs it."""
    session.dataSource.register(PulsarLedgerSource)
