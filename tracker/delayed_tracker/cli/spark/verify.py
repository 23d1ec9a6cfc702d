"""Command ``spark-rebuild verify``: compares the index in use with the ledgers."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.service.config import index_settings_from
from delayed_tracker.cli.spark.bad_entry_report import bad_rows, print_bad_entries
from delayed_tracker.cli.spark.live_index import IndexNotOpen, live_index
from delayed_tracker.cli.spark.options import (
    IgnoreAcks,
    Now,
    SourceArguments,
    SparkArguments,
    Subscriptions,
    clock_ms,
    moment_ms,
    with_source,
    with_spark,
)
from delayed_tracker.cli.spark.running_job import spark_job
from delayed_tracker.cli.spark.textfile import write_metrics
from delayed_tracker.cli.terminal.options import AsJson, BrokerConf, Config, Set
from delayed_tracker.cli.terminal.output import counted, instant, jsonable, print_json, say, say_first, show, table
from delayed_tracker.cli.terminal.service import with_credentials
from delayed_tracker.client import ClientCredentials
from delayed_tracker.spark.jobs.verify import Verification, verify
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.steps.comparing import Comparison, NotCompared

_REST: Final = "--json lists them"
"""Not "lists all": of differences, the answer has no more than ``LISTED_MAX`` of each kind."""


@with_credentials
@with_spark
@with_source
def verify_command(
    *,
    source: SourceArguments,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="The index: a storage's URL (sqlite:PATH, which no service has open, bookkeeper:zk://…, s3://, gs://, "
            "az://, file:///DIR), or grpc://HOST:PORT, a service with the trackers open.",
            metavar="TARGET",
        ),
    ],
    subscription: Subscriptions = None,
    ignore_acks: IgnoreAcks = False,
    now: Now = None,
    config: Config = None,
    broker_conf: BrokerConf = None,
    overrides: Set = None,
    spark: SparkArguments,
    credentials: ClientCredentials,
    as_json: AsJson = False,
) -> None:
    """Compare the index in use with the ledgers: list positions that are missing, extra, or have another deadline.

    Messages that are due when the index was read, or at --now, are left out. Messages that are too recent to fill a
    bucket are counted, but not reported as missing; nor are those extra that are above what was read of the ledgers. The
    exit status is 1 if there is any difference, or if any entry could not be read. Otherwise it is 6 if trackers with
    messages to deliver later are not open on the service: these are listed, and the others are compared.

    Example: spark-rebuild verify --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --against sqlite:data/tracker.db
    """
    settings = RebuildSettings(
        source=source.format_options(),
        now_ms=moment_ms(now),
        subscriptions=tuple(subscription or ()),
        ignore_acks=ignore_acks,
        limits=index_settings_from(config, overrides, broker_conf).tracker_limits(),
    )
    with (
        live_index(against, credentials) as live,
        spark_job(spark, command="verify", source=source.text, as_json=as_json) as (session, report),
    ):
        found = verify(session, settings, live, clock=clock_ms if now is None else None, report=report)
    status = _status(found)
    if as_json:
        print_json(
            {
                "equal": status is ExitCode.OK,
                "trackers": jsonable(found.comparisons),
                "not_compared": jsonable(found.not_compared),
                "unreadable_buckets": found.lost,
                "bad_entries": jsonable(found.summary.bad_entries),
                "bad_count": found.summary.bad_count,
                "seconds": found.summary.seconds,
            }
        )
    else:
        _show(found)
    if spark.prometheus is not None:
        _write_metrics(spark.prometheus, found)
    if status is not ExitCode.OK:
        raise typer.Exit(status)


def _status(found: Verification) -> ExitCode:
    reasons = {one.reason for one in _wanted(found)}
    if found.lost or found.summary.bad_entries or found.has_differences or reasons - {IndexNotOpen.reason}:
        return ExitCode.FAILURE
    return ExitCode.TRACKER_CONFLICT if reasons else ExitCode.OK


def _wanted(found: Verification) -> list[NotCompared]:
    """Return the trackers that should have been compared: without pending messages, a tracker need not be open."""
    return [one for one in found.not_compared if one.expected]


def _write_metrics(path: Path, found: Verification) -> None:
    summary, comparisons = found.summary, found.comparisons
    counts = {
        "read_entries": summary.read,
        "delayed_entries": summary.delayed,
        "bad_entries": summary.bad_count,
        "missing_positions": sum(comparison.missing for comparison in comparisons),
        "extra_positions": sum(comparison.extra for comparison in comparisons),
        "differing_positions": sum(comparison.differing for comparison in comparisons),
        "uncompared_trackers": len(_wanted(found)),
    }
    write_metrics(path, "verify", counts, summary.seconds)


def _show(found: Verification) -> None:
    comparisons, wanted = found.comparisons, _wanted(found)
    numbers = ("in the ledgers", "in the index", "not in a bucket yet", "missing", "extra", "differing")
    rows = table("compared", "topic", "subscription", *numbers, "replay from", numbers=numbers)
    for one in comparisons:
        counts = (one.expected, one.found, one.too_recent, one.missing, one.extra, one.differing)
        replay_from = "-" if one.replay_from is None else str(one.replay_from)
        rows.add_row(one.topic, one.subscription, *map(str, counts), replay_from)
    for skipped in found.not_compared:
        what = "not open" if skipped.reason == IndexNotOpen.reason else "not readable"
        rows.add_row(skipped.topic, skipped.subscription, str(skipped.expected), what, "-", "-", "-", "-", "-")
    show(rows)
    for one in comparisons:
        lines = [f"missing: {position}" for position in one.missing_positions]
        lines += [f"extra: {position}" for position in one.extra_positions]
        lines += [
            f"differing: {moved.position}, {instant(moved.ledger_ms)} in the ledger, {instant(moved.index_ms)} in the index"
            for moved in one.differing_positions
        ]
        say_first(f"{one.subscription} of {one.topic}", lines, rest=_REST)
    for bucket in found.lost:
        say(f"unreadable: {bucket}")
    say_first("not compared", [skipped.message for skipped in wanted], rest=_REST)
    bad = bad_rows(found.summary)
    print_bad_entries(bad)
    if found.lost or found.has_differences:
        say("the index differs from the ledgers")
        return
    for line in agreement(comparisons, bad.count, len(wanted)):
        say(line)


def agreement(comparisons: Sequence[Comparison], bad_count: int, uncompared_count: int) -> Iterator[str]:
    """Yield the conclusion from comparisons without a difference; no comparison is no evidence of agreement.

    Args:
        comparisons: comparisons of all subscriptions whose index could be read.
        bad_count: entries that could not be read.
        uncompared_count: trackers whose index could not be read.
    """
    recent = sum(one.too_recent for one in comparisons)
    offered = f"{counted(recent, 'position')} of the ledgers are not in a bucket yet: the dispatcher adds them again"
    if not any(one.compared for one in comparisons):
        nothing = "nothing was compared: the ledgers and the index share no position that is not due yet"
        yield f"{nothing}; {offered}" if recent else nothing
        if bad_count:
            yield f"{bad_count} entries could not be read and are not compared"
        if uncompared_count:
            yield f"{counted(uncompared_count, 'tracker')} could not be compared"
        return
    if bad_count:
        yield f"the index matches all readable entries, but {bad_count} entries are unreadable and were not compared"
    if uncompared_count:
        others = f"{counted(uncompared_count, 'tracker')} {'was' if uncompared_count == 1 else 'were'} not"
        yield f"the index agrees with the ledgers where it was compared; {others}"
    if not (bad_count or uncompared_count):
        yield "the index matches the ledgers"
    if recent:
        yield offered
    newer = sum(one.newer for one in comparisons)
    if newer:
        yield f"{counted(newer, 'position')} of the index are above what was read of the ledgers, and were not compared"
