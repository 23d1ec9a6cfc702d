"""``spark-rebuild verify``: whether the index in use is what the ledgers say."""

from typing import Annotated

import typer

from spark_rebuild.comparing import Comparison
from spark_rebuild.settings import RebuildSettings
from spark_rebuild.summary import Summary
from spark_rebuild.verify_job import verify
from tracker.cli.config import settings_from
from tracker.cli.options import AsJson, BrokerConf, Config, Set
from tracker.cli.output import instant, jsonable, print_json, say, show, table
from tracker.cli.replay import BAD_ENTRIES_SHOWN
from tracker.cli.spark.live_index import live_index
from tracker.cli.spark.options import (
    IgnoreAcks,
    Master,
    Metadata,
    Now,
    OnError,
    OpenLedgers,
    Prometheus,
    Source,
    SparkLog,
    SparkOptions,
    Subscriptions,
    Topics,
    TopicsPattern,
    moment_ms,
    source_options,
)
from tracker.cli.spark.running_job import spark_job
from tracker.cli.spark.shown import bad_rows, say_bad
from tracker.cli.spark.textfile import write_metrics
from tracker.service.exit_codes import ExitCode


def verify_command(
    *,
    source: Source,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="The index: sqlite:PATH, which no service has open, or grpc://HOST:PORT, a service with the trackers open.",
            metavar="TARGET",
        ),
    ],
    metadata: Metadata = None,
    topic: Topics = None,
    topics_pattern: TopicsPattern = None,
    subscription: Subscriptions = None,
    ignore_acks: IgnoreAcks = False,
    open_ledgers: OpenLedgers = None,
    on_error: OnError = "fail",
    now: Now = None,
    config: Config = None,
    broker_conf: BrokerConf = None,
    overrides: Set = None,
    master: Master = None,
    spark_option: SparkOptions = None,
    spark_log: SparkLog = None,
    prometheus: Prometheus = None,
    as_json: AsJson = False,
) -> None:
    """Compare the index in use with the ledgers: list positions that are missing, extra, or have another deadline.

    What is due by now is left out, and what is too recent to fill a bucket is not missed. Ends with 1 if there is any
    difference, and if any entry could not be read.

    Example: spark-rebuild verify --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --against sqlite:data/tracker.db
    """
    settings = RebuildSettings(
        source=source_options(
            source,
            metadata=metadata,
            topic=topic,
            topics_pattern=topics_pattern,
            open_ledgers=open_ledgers,
            on_error=on_error,
        ),
        now_ms=moment_ms(now),
        subscriptions=tuple(subscription or ()),
        ignore_acks=ignore_acks,
        limits=settings_from(config, overrides, broker_conf).settings.tracker_limits(),
    )
    with (
        live_index(against) as (live, lost),
        spark_job(master, spark_option, command="verify", source=source, as_json=as_json, log=spark_log) as (
            session,
            report,
        ),
    ):
        summary, comparisons = verify(session, settings, live, report=report)
    if prometheus is not None:
        _write_metrics(prometheus, summary, comparisons)
    equal = not (lost or summary.bad_entries) and all(comparison.is_equal for comparison in comparisons)
    if as_json:
        print_json(
            {
                "equal": equal,
                "trackers": jsonable(comparisons),
                "unreadable_buckets": lost,
                "bad_entries": jsonable(summary.bad_entries),
                "seconds": summary.seconds,
            }
        )
    else:
        _show(summary, comparisons, lost)
    if not equal:
        raise typer.Exit(ExitCode.FAILURE)


def _write_metrics(path: Prometheus, summary: Summary, comparisons: list[Comparison]) -> None:
    assert path is not None
    counts = {
        "read_entries": summary.read,
        "delayed_entries": summary.delayed,
        "bad_entries": sum(row.entry_count for row in summary.bad_entries),
        "missing_positions": sum(comparison.missing for comparison in comparisons),
        "extra_positions": sum(comparison.extra for comparison in comparisons),
        "differing_positions": sum(comparison.differing for comparison in comparisons),
    }
    write_metrics(path, "verify", counts, summary.seconds)


def _show(summary: Summary, comparisons: list[Comparison], lost: list[str]) -> None:
    numbers = ("in the ledgers", "in the index", "missing", "extra", "differing")
    rows = table("compared", "topic", "subscription", *numbers, numbers=numbers)
    for one in comparisons:
        counts = (one.expected, one.found, one.missing, one.extra, one.differing)
        rows.add_row(one.topic, one.subscription, *map(str, counts))
    show(rows)
    for one in comparisons:
        lines = [f"missing: {position}" for position in one.missing_positions]
        lines += [f"extra: {position}" for position in one.extra_positions]
        lines += [
            f"differing: {moved.position}, {instant(moved.ledger_ms)} in the ledger, {instant(moved.index_ms)} in the index"
            for moved in one.differing_positions
        ]
        for line in lines[:BAD_ENTRIES_SHOWN]:
            say(f"{one.subscription} of {one.topic}: {line}")
        if len(lines) > BAD_ENTRIES_SHOWN:
            say(f"... and {len(lines) - BAD_ENTRIES_SHOWN} more; --json lists them")
    for bucket in lost:
        say(f"unreadable: {bucket}")
    bad = bad_rows(summary.bad_entries)
    say_bad(bad)
    if lost or not all(comparison.is_equal for comparison in comparisons):
        say("the index differs from the ledgers")
    elif bad.count:
        say(
            f"the index agrees with what could be read, but {bad.count} entries could not be read: nobody knows about them"
        )
    else:
        say("the index is what the ledgers say")
