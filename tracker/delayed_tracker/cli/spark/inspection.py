"""Command ``spark-rebuild inspect``: counts the content of topics, and the deadlines of delayed messages."""

from dataclasses import dataclass
from typing import Annotated

import typer

from delayed_tracker.cli.spark.bad_entry_report import BadEntries, bad_entries, print_bad_entries
from delayed_tracker.cli.spark.options import (
    Now,
    SourceArguments,
    SparkArguments,
    moment_ms,
    with_source,
    with_spark,
)
from delayed_tracker.cli.spark.running_job import spark_job
from delayed_tracker.cli.spark.textfile import write_metrics
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import duration, instant, print_json, say, show, size, table
from delayed_tracker.cli.tracker.histogram import show_bars
from delayed_tracker.client import DeliveryHistogram
from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.spark.jobs.statistics import (
    READ_SCHEMA,
    DeadlineHistogram,
    TopicStatistics,
    count_deadlines,
    describe_topics,
)
from delayed_tracker.spark.runtime.task_slots import task_slots
from delayed_tracker.spark.stage_timer import StageTimer


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of the command."""

    topics: list[TopicStatistics]
    deadlines: DeadlineHistogram
    """Deadlines of all topics together."""
    bad_entries: BadEntries
    seconds: dict[str, float]


@with_spark
@with_source
def inspect_command(
    *,
    source: SourceArguments,
    now: Now = None,
    step_s: Annotated[
        int, typer.Option("--step-s", min=1, max=INT63_MAX // 1_000, help="Width of a bar in seconds.")
    ] = 3_600,
    bar_count: Annotated[int, typer.Option("--bars", min=1, max=10_000, help="How many bars.")] = 24,
    spark: SparkArguments,
    as_json: AsJson = False,
) -> None:
    """Count the entries and delayed messages of each topic, and draw the deadlines, acknowledged messages included.

    Example: spark-rebuild inspect --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl' --step-s 600
    --bars 12
    """
    options = source.format_options()
    from_ms = moment_ms(now)
    if from_ms + bar_count * step_s * 1_000 > INT63_MAX:
        raise InvalidInput(
            "--bars", bar_count, f"with --step-s {step_s} they end beyond 2^63-1 ms: give fewer or narrower"
        )
    with spark_job(spark, command="inspect", source=source.text, as_json=as_json, with_formats=True) as (
        session,
        report,
    ):
        stages = StageTimer(report)
        options["tasksAtOnce"] = str(task_slots(session))
        entries = session.read.format("pulsar_ledger").schema(READ_SCHEMA).options(**options).load()
        with stages.of("describe"):
            topics = describe_topics(entries, now_ms=from_ms)
        with stages.of("histogram"):
            delayed = (
                session.read.format("pulsar_ledger").schema(READ_SCHEMA).options(**options, entries="delayed").load()
            )
            bars = count_deadlines(delayed, from_ms=from_ms, step_ms=step_s * 1_000, bar_count=bar_count)
        with stages.of("bad entries"):
            bad = bad_entries(entries, sum(one.bad for one in topics))
    found = Inspection(topics, bars, bad, stages.seconds)
    if as_json:
        print_json(found)
    else:
        _show(found)
    if spark.prometheus is not None:
        counts = {
            "read_entries": sum(one.entries for one in topics),
            "delayed_entries": sum(one.delayed for one in topics),
            "bad_entries": bad.count,
        }
        write_metrics(spark.prometheus, "inspect", counts, stages.seconds)


def _show(found: Inspection) -> None:
    numbers = ("ledgers", "entries", "messages", "size", "delayed", "due", "bad")
    rows = table("topics", "topic", *numbers, "first deadline", "last deadline", "longest delay", numbers=numbers)
    for one in found.topics:
        rows.add_row(
            one.topic,
            str(one.ledgers),
            str(one.entries),
            str(one.messages),
            size(one.bytes),
            str(one.delayed),
            str(one.due),
            str(one.bad),
            instant(one.first_deadline_ms),
            instant(one.last_deadline_ms),
            "-" if one.longest_delay_ms is None else duration(one.longest_delay_ms),
        )
    show(rows)
    bars = found.deadlines
    show_bars(
        "delayed messages by deadline",
        DeliveryHistogram(bars.from_ms, bars.step_ms, bars.before, bars.counts, bars.after, estimated_count=0),
    )
    print_bad_entries(found.bad_entries)
    say(f"{len(found.topics)} topics")
