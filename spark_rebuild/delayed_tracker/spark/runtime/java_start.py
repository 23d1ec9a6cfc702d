"""Starts Spark's Java without waiting for it, so that this process can import meanwhile what it needs itself.

    start = JavaStart(settings, output=descriptor)   # returns at once
    ...                                              # imports of a second
    SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=start.gateway())

Source: pyspark.java_gateway.launch_gateway, which waits until Java listens.
"""

import os
import shlex
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import mkdtemp
from typing import Any, Final

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from delayed_tracker.spark.runtime.class_archive import ClassArchive, class_archive
from delayed_tracker.spark.runtime.java import find_java
from delayed_tracker.spark.runtime.session_settings import is_local, is_submitted

LATE_OPTIMIZER: Final = (
    # A Java that is not HotSpot has none of these.
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Options of Java: a method is compiled with all optimizations after ten times the usual number of calls.

By default these compilations take 7 of 17 s of Java's processor time in a job of seconds. Methods that are called for each
row reach the higher number a moment later.
"""
UNCHECKED_ARROW: Final = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")
"""Options of Java: values of Arrow's columns are read without a check of place and null, which Spark makes itself.

The checks take a tenth of a query that only reads.
"""
_OPTIONS_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
"""Variable with options for the Java of Spark's driver. They go before those of the user, which override them."""
_LOOK_EVERY_S: Final = 0.02


class JavaStart:
    """Java process that is being started for Spark."""

    def __init__(
        self, settings: Mapping[str, str], *, output: int | None, class_options: Sequence[str] | None = None
    ) -> None:
        """Begin to start Java.

        Args:
            settings: of Spark, with a master; those of the driver's Java hold from its start.
            output: a file descriptor for the stdout and stderr of Java and of Python workers; None keeps those of this process.
            class_options: options that make an archive of classes; None uses one if there is one.
        Raises:
            JavaNotFound: this machine has no Java 17 or newer.
        Cost: 0.1 to 0.5 s, to find Java; sets JAVA_HOME of this process.
        """
        home = find_java()
        os.environ["JAVA_HOME"] = str(home)
        self.settings = dict(settings)
        if class_options is None:
            archive = archive_of(home, settings)
            class_options = archive.use if archive is not None else ()
        options = [*LATE_OPTIMIZER, *UNCHECKED_ARROW, *class_options] if is_local(settings) else []
        self._directory = Path(mkdtemp(prefix="spark-rebuild-"))
        self._connection = self._directory / "connection"
        configured = [argument for item in settings.items() for argument in ("--conf", "=".join(item))]
        self.process = Popen(  # noqa: S603  Spark's own program
            [
                str(Path(_find_spark_home(), "bin", "spark-submit")),
                *configured,
                *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")),
            ],
            # Java ends when the pipe does.
            stdin=PIPE,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "SPARK_CONNECT_MODE": "0",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection),
                _OPTIONS_VARIABLE: " ".join([*map(_quoted, options), os.environ.get(_OPTIONS_VARIABLE, "")]).strip(),
            },
            preexec_fn=_ignore_interrupts,  # noqa: PLW1509  calls one function of the system
        )

    def gateway(self) -> Any:
        """Return the connection to Java, as PySpark makes it.

        Raises:
            PySparkRuntimeError: Java ended before it listened.
        """
        try:
            while not self._connection.is_file():
                if self.process.poll() is not None:
                    raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
                time.sleep(_LOOK_EVERY_S)
            with self._connection.open("rb") as told:
                port, secret = read_int(told), UTF8Deserializer().loads(told)  # type: ignore[no-untyped-call]
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
        try:
            gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self.process
        return gateway

    def discard(self) -> None:
        """End Java, which nothing has used."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def java_process() -> Popen[bytes] | None:
    """Return the Java process that this process started for Spark; None if there is none, as under spark-submit."""
    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  no public access
    return process


def has_java() -> bool:
    """Return True if this process has started Spark's Java, or was started by it."""
    return is_submitted() or SparkContext._gateway is not None  # noqa: SLF001  no public access


def archive_of(java_home: Path, settings: Mapping[str, str]) -> ClassArchive | None:
    """Return the archive of classes for a session; None if Java would not use one."""
    spark_home = Path(_find_spark_home())
    return class_archive(java_home, spark_home, settings) if is_local(settings) else None


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver, which then ends Java."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _quoted(option: str) -> str:
    """Return an option as Spark's launcher divides them: a path may contain spaces."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if " " in option else escaped
