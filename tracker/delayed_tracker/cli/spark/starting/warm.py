"""Command ``spark-rebuild warm``: prepares what each start of Spark needs, for example when an image is built."""

from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from delayed_tracker.cli.spark.job_errors import SparkJobFailed
from delayed_tracker.cli.spark.running_job import session_until_stopped
from delayed_tracker.cli.spark.spark_output import SparkOutput
from delayed_tracker.cli.terminal.output import print_json, progress, say, size
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.spark.commit.commit import StorageCommit
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.runtime.class_archive import ClassArchive
from delayed_tracker.spark.runtime.java import find_java
from delayed_tracker.spark.runtime.java_start import JavaStart, archive_of
from delayed_tracker.spark.runtime.session_settings import session_settings
from delayed_tracker.spark.settings import RebuildSettings

_SAMPLE: Final = Path(__file__).parents[2] / "sample"
_NAME: Final = "spark-rebuild warm"
_BUCKET: Final = 50
"""Indexes of a bucket: few enough that the sample fills some."""
_JAVA_ENDS_WITHIN_S: Final = 120


def warm_command(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Prepare the start of Spark on this machine: a third less time until the first task of a job runs.

    It runs a job of a few messages, and keeps Spark's classes in the form in which Java uses them, about 170 MB, in
    delayed-tracker under the user's cache directory (XDG_CACHE_HOME). Repeat it after another version of Java or Spark is
    installed: jobs do not use what another version has kept. The functions of tasks are compiled, too.

    Example: spark-rebuild warm
    """
    with TemporaryDirectory(prefix="spark-rebuild-") as place, progress("starting Spark once", "starts"):
        options = {"spark.local.dir": place, "spark.sql.shuffle.partitions": "2"}
        settings = session_settings(name=_NAME, options=options)
        archive = archive_of(find_java(), settings)
        if archive is None:
            raise InvalidInput(
                "Java or class path",
                str(find_java()),
                "Java cannot keep classes: give JAVA_HOME of one that has lib/server/classes.jsa, and no class path of your own",
            )
        try:
            _make(archive, options, settings, Path(place))
        except OSError as error:
            remedy = f"{error.strerror}: give a directory that can be written, with 200 MB, in XDG_CACHE_HOME"
            raise InvalidInput("cache directory", str(archive.directory), remedy) from error
    file = archive.file
    assert file is not None
    bytes_kept = file.stat().st_size
    if as_json:
        print_json({"file": str(file), "bytes": bytes_kept})
    else:
        say(f"Spark's classes are kept in {file}, {size(bytes_kept)}")


def _make(archive: ClassArchive, options: dict[str, str], settings: dict[str, str], place: Path) -> None:
    """Run a job of each kind in a session whose Java makes the archive."""
    with archive.made() as class_options, SparkOutput(None) as output:
        start = JavaStart(settings, output=output.fileno(), class_options=class_options)
        with session_until_stopped(None, _NAME, options, output, start=start, with_formats=True) as session:
            source = {"url": f"bookkeeper+file:{_SAMPLE / 'bookie'}?metadata={_SAMPLE / 'metadata.jsonl'}"}
            session.read.format("pulsar_ledger").options(**source).load().groupBy("topic").count().toArrow()
            job = RebuildSettings(
                source,
                now_ms=0,
                staging=str(place / "staging"),
                ignore_acks=True,
                limits=TrackerLimits(min_index_count_per_bucket=_BUCKET),
            )
            rebuild(session, job, target=StorageCommit(f"sqlite:{place / 'tracker.db'}"))
        java = start.process
        assert java.stdin is not None
        java.stdin.close()
        try:
            java.wait(_JAVA_ENDS_WITHIN_S)
        except TimeoutExpired as error:
            java.kill()
            raise SparkJobFailed(f"Java did not write its classes within {_JAVA_ENDS_WITHIN_S} s") from error
