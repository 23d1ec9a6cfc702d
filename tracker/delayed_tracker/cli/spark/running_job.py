"""Runs a Spark session for one command, and shows the job's progress: a bar on a terminal, log lines elsewhere."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Event, Thread
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession
from rich import progress as bars

from delayed_tracker.cli.ledger_source import READABLE_FILES, translate_file_errors
from delayed_tracker.cli.spark.job_errors import SparkJobFailed, first_message, job_error
from delayed_tracker.cli.spark.options import SparkArguments, spark_options
from delayed_tracker.cli.spark.spark_output import SparkOutput
from delayed_tracker.cli.spark.starting.early_java import take_early_java
from delayed_tracker.cli.terminal.output import LOG_LINE_EVERY_S, notice_console
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.spark.jobs.session import build_session
from delayed_tracker.spark.runtime.java_start import JavaStart, java_process
from delayed_tracker.spark.runtime.session_settings import is_submitted, session_settings
from delayed_tracker.spark.stage_timer import Report

_LOOK_EVERY_S: Final = 0.25
_JAVA_ENDS_WITHIN_S: Final = 1.0
"""Longest time in seconds between the end of a process's sockets and its own end."""

_MASTER: Final = re.compile(r"local(-cluster)?(\[.+\])?|yarn|(spark|k8s)://.+")
_NO_MASTER: Final = "Cannot call methods on a stopped SparkContext"
"""Message of Spark when it has given up to reach its master."""


@contextmanager
def spark_job(
    spark: SparkArguments, *, command: str, source: str, as_json: bool, with_formats: bool = False
) -> Iterator[tuple[SparkSession, Report]]:
    """Create a session for one command and show its progress; use a session that is already active, and do not stop it.

    Args:
        spark: how Spark runs.
        command: name of the command.
        source: the command's source, for errors.
        as_json: True prints no progress: stderr contains only an error, because spark-submit merges both streams.
        with_formats: True if the command reads data frames of this project's formats.
    Raises:
        InvalidInput: an option has another form, or a file cannot be read or written.
        SourceUnreadable: a bucket cannot be read.
        JavaNotFound: Spark cannot start.
        SparkJobFailed: Spark failed for a reason that is not this project's.
    """
    settings = spark_options(spark.settings)
    master, log = spark.master, spark.log
    if master is not None and not _MASTER.fullmatch(master):
        raise InvalidInput("--master", master, "give local, local[N], local[*], spark://HOST:PORT, yarn or k8s://URL")
    if log is not None and is_submitted():
        raise InvalidInput(
            "--spark-log", str(log), "leave it out: spark-submit has started Spark and decides where its log goes"
        )
    with (
        _session(master, settings, command, source, log, with_formats=with_formats) as session,
        _progress(session, "starting", is_quiet=as_json) as report,
    ):
        yield session, report


@contextmanager
def _session(
    master: str | None,
    options: Mapping[str, str],
    command: str,
    source: str,
    log: Path | None,
    *,
    with_formats: bool,
) -> Iterator[SparkSession]:
    name = f"spark-rebuild {command}"
    if _is_running():
        with _job_errors(source):
            yield build_session(master, name=name, options=options)
        return
    early = take_early_java(session_settings(master, name=name, options=options), log)
    with SparkOutput(log) if early is None else early.output as output:
        try:
            with (
                session_until_stopped(
                    master,
                    name,
                    options,
                    output,
                    start=None if early is None else early.start,
                    with_formats=with_formats,
                ) as session,
                _job_errors(source),
            ):
                yield session
        except SparkJobFailed as error:
            if is_submitted():
                raise
            raise SparkJobFailed(f"{error.message}; {output.place()}") from error


@contextmanager
def session_until_stopped(
    master: str | None,
    name: str,
    options: Mapping[str, str],
    output: SparkOutput,
    *,
    start: JavaStart | None,
    with_formats: bool,
) -> Iterator[SparkSession]:
    """Yield a new session, and stop it after the block. Arguments and errors are those of :func:`build_session`.

    Raises:
        SparkJobFailed: Spark cannot start.
    """
    with _starting(master, output):
        session = build_session(
            master, name=name, options=options, output=output.fileno(), start=start, with_formats=with_formats
        )
    try:
        yield session
    finally:
        _stop(session)


@contextmanager
def _starting(master: str | None, output: SparkOutput) -> Iterator[None]:
    """Convert an error of Spark's start to one of this project."""
    try:
        yield
    except PySparkRuntimeError as error:
        # Java ended before it sent an answer to Python.
        raise SparkJobFailed(f"Spark cannot start: {output.first_error() or first_message(error)}") from error
    except (PySparkException, Py4JError) as error:
        said = first_message(error)
        if _NO_MASTER in said:
            said = f"no Spark master answers at {master}"
        raise SparkJobFailed(f"Spark cannot start: {said}") from error


def _stop(session: SparkSession) -> None:
    with warnings.catch_warnings(), suppress(Py4JError, OSError):
        # If Java has ended, there is nothing to stop, and the command reports that itself.
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark", RuntimeWarning)
        _stop_accumulators(session.sparkContext)
        session.stop()


def _stop_accumulators(context: Any) -> None:
    """End the server for counts of tasks, which reads until a message comes or a second has passed, by a message of Java's.

    This would otherwise be most of the time that a session takes to stop.
    """
    server, context._accumulatorServer = context._accumulatorServer, None  # noqa: SLF001  no public access
    Thread(target=server.shutdown, name="accumulators", daemon=True).start()
    counts = context._javaAccumulator  # noqa: SLF001
    counts.merge(counts.copyAndReset())


@contextmanager
def _job_errors(source: str) -> Iterator[None]:
    """Convert the failure of a job to one error of this project."""
    try:
        with translate_file_errors(source, READABLE_FILES), _java_runs():
            yield
    except (PySparkException, Py4JError) as error:
        raise job_error(error, source) from error


@contextmanager
def _java_runs() -> Iterator[None]:
    """Raise SparkJobFailed in place of any error of the block that is caused by the end of Spark's Java process.

    An error that Py4J meets while it handles Ctrl-C becomes KeyboardInterrupt again.
    """
    try:
        yield
    except (Py4JError, EOFError, OSError, pa.ArrowInvalid) as error:
        if _is_of_interrupt(error):
            raise KeyboardInterrupt from error
        java = java_process()
        is_of_others = (
            isinstance(error, Py4JJavaError | BrokenPipeError) or getattr(error, "filename", None) is not None
        )
        if java is None or is_of_others:
            raise
        try:
            status = java.wait(_JAVA_ENDS_WITHIN_S)
        except TimeoutExpired:
            raise error from None
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        raise SparkJobFailed(f"Spark's Java process {how} during the job") from error


def _is_of_interrupt(error: BaseException) -> bool:
    """Return True if an error was raised while Ctrl-C was being handled."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before is not None


def _is_running() -> bool:
    """Return True if another program's session exists, in any thread."""
    try:
        SparkSession.active()
    except PySparkRuntimeError:
        return False
    return True


@contextmanager
def _progress(session: SparkSession, first: str, *, is_quiet: bool) -> Iterator[Report]:
    """Show how many of Spark's tasks are done; yields a function that is called with the name of each stage."""
    if is_quiet:
        yield lambda _: None
        return
    console = notice_console()
    if console.is_terminal:
        columns = (
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TextColumn("tasks"),
            bars.TimeElapsedColumn(),
        )
        with bars.Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(first, total=None)

            def update(done: int, total: int) -> None:
                bar.update(task, completed=done, total=total or None)

            with _watched(session, _LOOK_EVERY_S, update):
                yield lambda name: bar.update(task, description=name, completed=0, total=None)
        return
    stage = [first]

    def say(done: int, total: int) -> None:
        console.print(f"{stage[0]}: {done} of {total} tasks")

    def report(name: str) -> None:
        stage[0] = name
        console.print(f"{name} ...")

    with _watched(session, LOG_LINE_EVERY_S, say):
        yield report


@contextmanager
def _watched(session: SparkSession, every_s: float, show: Callable[[int, int], None]) -> Iterator[None]:
    """Call ``show`` repeatedly with the number of done tasks and of all tasks."""
    ended = Event()

    def watch() -> None:
        # If Java has ended, there is nothing to show, and the command reports that itself.
        with suppress(Py4JError, OSError):
            while not ended.wait(every_s):
                show(*_tasks(session))

    thread = Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _tasks(session: SparkSession) -> tuple[int, int]:
    """Return the number of done tasks, and of all tasks, of the stages that run now."""
    tracker = session.sparkContext.statusTracker()
    done = total = 0
    for stage_id in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(stage_id)
        if stage is not None:
            done += stage.numCompletedTasks
            total += stage.numTasks
    return done, total
