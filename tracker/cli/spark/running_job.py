"""A Spark session for one command, and how far its job is: a bar on a terminal, log lines elsewhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession
from rich import progress as bars

from spark_rebuild.session import build_session
from tracker.cli.ledger_source import READABLE_FILES, files_usable
from tracker.cli.output import LOG_LINE_EVERY_S, notice_console
from tracker.cli.spark.job_errors import job_error
from tracker.cli.spark.options import spark_options

_LOOK_EVERY_S: Final = 0.25

Report = Callable[[str], None]
"""Called with the name of a stage when it begins."""


class Stages:
    """How long each stage of a command takes, in order."""

    def __init__(self, report: Report) -> None:
        self.seconds: dict[str, float] = {}
        self._report = report

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Everything in the block."""
        self._report(name)
        begun = perf_counter()
        yield
        self.seconds[name] = perf_counter() - begun


@contextmanager
def spark_job(
    master: str | None, options: Sequence[str] | None, *, command: str, source: Sequence[str], as_json: bool
) -> Iterator[tuple[SparkSession, Report]]:
    """A session for the length of a command, whose progress is shown; one that is active already is used, and goes on.

    Args:
        master: as Spark takes it.
        options: settings of Spark, each NAME=VALUE.
        command: its name.
        source: what it reads, for errors.
        as_json: the answer is JSON, and nothing else is said: stderr has the error, and spark-submit makes one stream of both.
    Raises:
        InvalidInput: an option is not of that form, or a file cannot be read.
        SourceUnreadable: a bucket cannot be read.
        JavaNotFound: Spark cannot start.
        SparkJobFailed: it failed in a way that is not ours.
    """
    settings = spark_options(options)
    with (
        _session(master, settings, command, " ".join(source)) as session,
        _progress(session, "starting", is_quiet=as_json) as report,
    ):
        yield session, report


@contextmanager
def _session(master: str | None, options: Mapping[str, str], command: str, source: str) -> Iterator[SparkSession]:
    is_ours = not _is_running()
    session = build_session(master, name=f"spark-rebuild {command}", options=options)
    try:
        with files_usable(source, READABLE_FILES):
            yield session
    except (PySparkException, Py4JJavaError) as error:
        raise job_error(error, source) from error
    finally:
        if is_ours:
            session.stop()


def _is_running() -> bool:
    """Whether somebody else's session is there, in whichever thread."""
    try:
        SparkSession.active()
    except PySparkRuntimeError:
        return False
    return True


@contextmanager
def _progress(session: SparkSession, first: str, *, is_quiet: bool) -> Iterator[Report]:
    """Show how many of Spark's tasks are done; what is yielded is told the name of each stage of the work."""
    if is_quiet:
        yield lambda _: None
        return
    console = notice_console()
    ended = Event()
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

            def watch() -> None:
                while not ended.wait(_LOOK_EVERY_S):
                    done, total = _tasks(session)
                    bar.update(task, completed=done, total=total or None)

            with _running(watch, ended):
                yield lambda name: bar.update(task, description=name, completed=0, total=None)
        return
    stage = [first]

    def say() -> None:
        while not ended.wait(LOG_LINE_EVERY_S):
            done, total = _tasks(session)
            console.print(f"{stage[0]}: {done} of {total} tasks")

    def report(name: str) -> None:
        stage[0] = name
        console.print(f"{name} ...")

    with _running(say, ended):
        yield report


@contextmanager
def _running(watch: Callable[[], None], ended: Event) -> Iterator[None]:
    thread = Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _tasks(session: SparkSession) -> tuple[int, int]:
    """Tasks done, and all, of the stages that run now."""
    tracker = session.sparkContext.statusTracker()
    done = total = 0
    for stage_id in tracker.getActiveStageIds():
        stage = tracker.getStageInfo(stage_id)
        if stage is not None:
            done += stage.numCompletedTasks
            total += stage.numTasks
    return done, total
