"""Command ``spark-rebuild rebuild``: makes snapshots from ledgers, which the service opens like its own."""

from pathlib import Path
from typing import Annotated

import typer

from delayed_tracker.cli.service.config import index_settings_from
from delayed_tracker.cli.spark.bad_entry_report import bad_rows, print_bad_entries
from delayed_tracker.cli.spark.commit_target import Commit, check_target, commit_target
from delayed_tracker.cli.spark.options import (
    IgnoreAcks,
    Now,
    SourceArguments,
    SparkArguments,
    Subscriptions,
    moment_ms,
    with_source,
    with_spark,
)
from delayed_tracker.cli.spark.running_job import spark_job
from delayed_tracker.cli.spark.textfile import write_metrics
from delayed_tracker.cli.terminal.failures import BadUsage
from delayed_tracker.cli.terminal.options import AsJson, BrokerConf, Config, Set, reject_tilde_path
from delayed_tracker.cli.terminal.output import instant, notice_console, print_json, say, show, size, table
from delayed_tracker.cli.terminal.service import with_credentials
from delayed_tracker.client import ClientCredentials
from delayed_tracker.spark.commit.pulsar_commit import SCHEME as PULSAR_SCHEME
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.settings import INDEXES_PER_TASK, RebuildSettings
from delayed_tracker.spark.summary import Summary, TrackerSummary

_ACCOUNT = (
    ("delayed", "delayed"),
    ("- acknowledged", "acknowledged"),
    ("- of aborted transactions", "aborted"),
    ("- of open transactions", "open_transaction"),
    ("- due", "due"),
    ("- beyond the maximum delay", "beyond_max_delay"),
    ("- duplicate", "duplicate"),
    ("= in buckets", "written"),
    ("+ too few for a bucket", "tail"),
    ("buckets", "buckets"),
)


@with_credentials
@with_spark
@with_source
def rebuild_command(
    *,
    source: SourceArguments,
    subscription: Subscriptions = None,
    ignore_acks: IgnoreAcks = False,
    now: Now = None,
    commit: Commit = None,
    staging: Annotated[
        str,
        typer.Option(
            "--staging",
            help="Where tasks leave their work: a directory, or s3://, gs://, az://, that driver and workers reach.",
            metavar="URL",
            callback=reject_tilde_path,
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and count everything, and write nothing, not even staged work.")
    ] = False,
    indexes_per_task: Annotated[
        int, typer.Option("--indexes-per-task", help="Indexes that one task sorts, approximately.", metavar="COUNT")
    ] = INDEXES_PER_TASK,
    config: Config = None,
    broker_conf: BrokerConf = None,
    overrides: Set = None,
    spark: SparkArguments,
    credentials: ClientCredentials,
    as_json: AsJson = False,
) -> None:
    """Rebuild the index of all subscriptions of all topics from their ledgers, and replace the existing index.

    The settings of buckets must be the service's: give the same --config. To continue a job that was killed, run the
    same command again within 7 days: it uses the staged work, and the time of that job as --now. No snapshot of a
    subscription is visible before all are complete.

    Example: spark-rebuild rebuild --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --staging /shared/staging --commit sqlite:data/tracker.db
    """
    if not dry_run and commit is None:
        raise BadUsage(
            "missing option '--commit': give a storage, such as sqlite:PATH, or grpc://HOST:PORT, or --dry-run to write nothing"
        )
    if not dry_run and not staging:
        raise BadUsage("missing option '--staging': give a directory or URL that the driver and all workers reach")
    limits = index_settings_from(config, overrides, broker_conf)
    settings = RebuildSettings(
        source=source.format_options(),
        now_ms=moment_ms(now),
        staging=staging,
        subscriptions=tuple(subscription or ()),
        ignore_acks=ignore_acks,
        limits=limits.tracker_limits(),
        whole_ledgers=commit is not None and commit.startswith(PULSAR_SCHEME),
        metadata_bytes_max=limits.storage.snapshot_metadata_bytes_max,
        indexes_per_task=indexes_per_task,
    )
    target = None
    if commit is not None and not dry_run:
        target = commit_target(commit, credentials)
        check_target(commit, target)
    with spark_job(spark, command="rebuild", source=source.text, as_json=as_json) as (session, report):
        summary = rebuild(session, settings, target=target, resume=now is None, report=report)
    if as_json:
        print_json({**summary.document(), "dry_run": dry_run})
    else:
        _show(summary, dry_run=dry_run)
        if summary.now_ms != settings.now_ms:
            say(f"continued the run of {instant(summary.now_ms)}: what was due then counts as due")
    # Last: a disk that is full by now must not hide what was done.
    if spark.prometheus is not None:
        _write_metrics(spark.prometheus, summary)


def _write_metrics(path: Path, summary: Summary) -> None:
    whole = summary.document()
    counts = {
        "read_entries": summary.read,
        "delayed_entries": summary.delayed,
        "acknowledged_indexes": whole["acknowledged"],
        "aborted_indexes": whole["aborted"],
        "due_indexes": whole["due"],
        "duplicate_indexes": whole["duplicate"],
        "written_indexes": whole["written"],
        "unsealed_indexes": whole["tail"],
        "snapshot_bytes": whole["snapshot_bytes"],
        "bad_entries": summary.bad_count,
    }
    write_metrics(path, "rebuild", counts, summary.seconds)


def _show(summary: Summary, *, dry_run: bool) -> None:
    for tracker in summary.trackers:
        rows = table(f"{tracker.subscription} of {tracker.topic}", "what", "count", numbers=("count",))
        for name, field in _ACCOUNT:
            rows.add_row(name, str(getattr(tracker, field)))
        rows.add_row("replay from", "-" if tracker.replay_from is None else str(tracker.replay_from))
        if not dry_run:
            rows.add_row("size", size(tracker.snapshot_bytes))
            rows.add_row("epoch", f"{tracker.epoch}, as it was" if tracker.unchanged else str(tracker.epoch))
        show(rows)
    say(f"{summary.read} entries read, {summary.delayed} of them delayed, {len(summary.trackers)} subscriptions")
    print_bad_entries(bad_rows(summary))
    say(", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in summary.seconds.items()))
    if dry_run:
        say("nothing was written")
    for tracker in summary.trackers:
        if tracker.unread:
            _warn(tracker)


def _warn(tracker: TrackerSummary) -> None:
    """Print on stderr the entries that a rebuild with skipped errors has left out of a tracker."""
    lost = (
        f" {tracker.replaced} buckets were deleted, none written;" if tracker.replaced and not tracker.buckets else ""
    )
    notice_console().print(
        f"{tracker.subscription} of {tracker.topic}:{lost} {tracker.unread} entries could not be read: replay from "
        f"{tracker.replay_from}, or give a source that has them"
    )
