"""Command ``spark-rebuild index``: writes the table of message indexes (PIP-415) as Parquet."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from delayed_tracker.cli.spark.bad_entry_report import BadEntries, bad_entries, print_bad_entries
from delayed_tracker.cli.spark.job_errors import SparkJobFailed, first_cause, first_message, job_error
from delayed_tracker.cli.spark.options import SourceArguments, SparkArguments, with_source, with_spark
from delayed_tracker.cli.spark.running_job import spark_job
from delayed_tracker.cli.spark.textfile import write_metrics
from delayed_tracker.cli.terminal.options import AsJson, reject_tilde_path
from delayed_tracker.cli.terminal.output import print_json, say
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.spark.jobs.message_index import (
    MESSAGE_INDEX_SCHEMA,
    READ_SCHEMA,
    count_others,
    index_messages,
    write_parquet,
)
from delayed_tracker.spark.runtime.task_slots import task_slots
from delayed_tracker.spark.stage_timer import StageTimer

_WRITE_FAILED: Final = "[TASK_WRITE_FAILED]"
_FILE_SYSTEMS: Final = ("java.io.", "java.net.", "java.nio.", "org.apache.hadoop.")
"""Packages of the Java errors that concern the table's place."""
_WORKERS: Final = frozenset({"java.io.EOFException", "org.apache.spark.api.python.PythonException"})
"""Java errors that end a task if its Python worker has ended or failed."""
REMEDY: Final = "give a place that the driver and all workers can write to"
_LOCAL: Final = "file"


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """Result of the command."""

    output: str
    written: int
    """Rows: entries to which the broker gave an index."""
    without_index: int
    """Entries without an index."""
    bad_entries: BadEntries
    seconds: dict[str, float]


@with_spark
@with_source
def index_command(
    *,
    source: SourceArguments,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            help="Directory or URL of the table, as the driver and all workers see it.",
            metavar="URL",
            callback=reject_tilde_path,
        ),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing table.")] = False,
    spark: SparkArguments,
    as_json: AsJson = False,
) -> None:
    """Write the entry and the broker's time of each message index as Parquet, partitioned by topic.

    Columns: first_index, last_index, ledger_id, entry_id, broker_timestamp, and topic, by which the table is
    partitioned.

    Example: spark-rebuild index --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl' --output
    message-index
    """
    options = source.format_options()
    with spark_job(spark, command="index", source=source.text, as_json=as_json, with_formats=True) as (session, report):
        stages = StageTimer(report)
        options["tasksAtOnce"] = str(task_slots(session))
        entries = session.read.format("pulsar_ledger").schema(READ_SCHEMA).options(**options).load()
        try:
            require_place(session, output)
            with stages.of("write"):
                write_parquet(index_messages(entries), output, overwrite=overwrite)
        except AnalysisException as error:
            if error.getCondition() != "PATH_ALREADY_EXISTS":
                raise
            raise InvalidInput("--output", output, "it already exists: give another URL, or --overwrite") from error
        except (PySparkException, Py4JJavaError) as error:
            raise _write_error(error, output, source.text) from error
        with stages.of("count"):
            # Spark cannot infer the columns of a table without rows.
            written = session.read.schema(MESSAGE_INDEX_SCHEMA).parquet(output).count()
            without_index, bad_count = count_others(entries)
            bad = bad_entries(entries, bad_count)
        summary = IndexSummary(output, written, without_index, bad, stages.seconds)
    if as_json:
        print_json(summary)
    else:
        say(f"{written} entries in {output}")
        if without_index:
            say(f"{without_index} entries have no index: the broker that wrote them was not configured to add it")
        print_bad_entries(bad)
    if spark.prometheus is not None:
        counts = {
            "read_entries": written + without_index,
            "written_indexes": written,
            "bad_entries": bad.count,
        }
        write_metrics(spark.prometheus, "index", counts, summary.seconds)


def _write_error(error: PySparkException | Py4JJavaError, output: str, source: str) -> DelayedTrackerError:
    """Return the error of a failed write: of the table's place, or of the source."""
    kind, cause = first_cause(error)
    is_written = _WRITE_FAILED in first_message(error) or kind.startswith(_FILE_SYSTEMS)
    failed = job_error(error, source)
    if isinstance(failed, SparkJobFailed) and is_written and kind not in _WORKERS:
        return InvalidInput("--output", output, f"{cause}: {REMEDY}")
    return failed


def require_place(session: SparkSession, url: str) -> None:
    """Refuse a place on this machine that is not writable. Other places are not checked.

    The check is early because a job would fail only at its end.

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
