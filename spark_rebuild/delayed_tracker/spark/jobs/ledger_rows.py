"""First half of a rebuild or a verification: reads the ledgers once, keeps their rows in Spark, and counts outcomes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pyspark import Broadcast, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's customary name

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.spark import schema
from delayed_tracker.spark.commit.commit import CommitTarget
from delayed_tracker.spark.jobs.tracker_plan import TrackerPlan, plan_tracker
from delayed_tracker.spark.plan.acceptance import Acceptance
from delayed_tracker.spark.plan.scope import Scope, read_scope
from delayed_tracker.spark.plan.subscribers import Subscribers
from delayed_tracker.spark.runtime.task_slots import task_slots
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.source.chosen_source import running_clusters
from delayed_tracker.spark.source.source_options import KeptEntries, parse_options
from delayed_tracker.spark.stage_timer import Report, StageTimer
from delayed_tracker.spark.steps.counting import LedgerTally, count_outcomes, tallies_of
from delayed_tracker.spark.steps.read_step import read_kept, settled_rows
from delayed_tracker.spark.steps.subscriber_rows import SubscribersByTopic
from delayed_tracker.spark.steps.unread import RUN_SCHEMA, BadRun, UnreadEntries, bad_runs
from delayed_tracker.spark.summary import LISTED_MAX, BadRow, Summary, TrackerSummary

# Rows are packed, each an array of megabytes: a heap full of them is lost to fragmentation before Spark evicts any.
KEPT: Final = StorageLevel.DISK_ONLY
"""Level at which Spark keeps what a job reads twice: on the executors' disks."""


class ReadResult:
    """Result of reading the ledgers: rows that Spark keeps, and their counts on the driver.

    Args:
        rows: delayed messages, packed.
        shared: subscribers by topic number.
        acceptance: the rules by which the rows were counted.
        stages: timer of the whole job.
        settings: of the job.
        scope: topics, ledgers and subscriptions.
        tallies: for each subscription, its counts by ledger, ascending.
        facts: counts of everything that was read.
    """

    def __init__(
        self,
        rows: DataFrame,
        shared: Broadcast[SubscribersByTopic],
        acceptance: Acceptance,
        stages: StageTimer,
        *,
        settings: RebuildSettings,
        scope: Scope,
        tallies: Sequence[Mapping[int, LedgerTally]],
        facts: "_Facts",
    ) -> None:
        self.rows = rows
        self.shared = shared
        self.acceptance = acceptance
        self.stages = stages
        self._settings = settings
        self._scope = scope
        self._tallies = tallies
        self._facts = facts

    def plans(self, too_large: Sequence[set[tuple[Position, Position]]] | None = None) -> list[TrackerPlan]:
        """Return the plan of each subscription.

        Args:
            too_large: for each, merged buckets that must not be made, by first and last position.
        """
        barred = too_large or [set() for _ in self._tallies]
        with self.stages.of("plan"):
            unread = self.unread()
            return [
                plan_tracker(
                    subscriber,
                    tally,
                    self._settings.limits,
                    too_large=own,
                    whole_ledgers=self._settings.whole_ledgers,
                    unread=unread.of(subscriber.topic, subscriber.cursor),
                )
                for subscriber, tally, own in zip(self._scope.subscribers.all, self._tallies, barred, strict=True)
            ]

    @property
    def ends(self) -> Mapping[str, Position]:
        """Positions behind the last entry that each topic had when the job began."""
        return self._scope.ends

    def unread(self) -> UnreadEntries:
        """Return the entries that could not be read."""
        return UnreadEntries(self._facts.bad, self._scope.entry_counts)

    def summary(self, trackers: Sequence[TrackerSummary]) -> Summary:
        """Return the summary of the job, without the counts of parts."""
        return self._facts.summary(self._scope, trackers, self._settings.now_ms, self.stages.seconds)


@contextmanager
def reading(
    session: SparkSession,
    settings: RebuildSettings,
    *,
    target: CommitTarget | None = None,
    report: Report | None = None,
) -> Iterator[ReadResult]:
    """Read and count the ledgers of the settings; arguments and errors are those of :func:`rebuild`."""
    stages = StageTimer(report)
    acceptance = Acceptance(settings.limits, settings.now_ms)
    with ExitStack() as stack:
        with stages.of("look"):
            if target is not None:
                stack.enter_context(target)
            options = replace(parse_options(settings.source), kept=KeptEntries.DELAYED)
            options = replace(options, tasks_at_once=options.tasks_at_once or task_slots(session))
            running = stack.enter_context(running_clusters(options))
            scope = read_scope(settings, running)
            subscribers = scope.subscribers
            if target is not None:
                target.begin([subscriber.key for subscriber in subscribers.all])
        numbers = {topic: number for number, topic in enumerate(subscribers.by_topic())}
        with stages.of("read"):
            kept = read_kept(session, options, numbers, running).persist(KEPT)
            stack.callback(kept.unpersist)
            facts = _facts(kept, has_bad=options.on_error is ErrorPolicy.SKIP)
        rows = settled_rows(kept, has_transactions=facts.has_transactions)
        shared = session.sparkContext.broadcast(
            {numbers[topic]: group for topic, group in subscribers.by_topic().items()}
        )
        stack.callback(shared.destroy)
        with stages.of("count"):
            tallies = _by_subscriber(
                tallies_of(rows.transform(count_outcomes(shared, acceptance)).toArrow()), subscribers
            )
        yield ReadResult(rows, shared, acceptance, stages, settings=settings, scope=scope, tallies=tallies, facts=facts)


@dataclass(frozen=True, slots=True)
class _Facts:
    """Counts known after everything was read."""

    delayed_count: int
    has_transactions: bool
    bad: tuple[BadRun, ...]
    listed: tuple[BadRow, ...]
    """The first of ``bad``, with their errors."""

    def summary(
        self, scope: Scope, trackers: Sequence[TrackerSummary], now_ms: int, seconds: Mapping[str, float]
    ) -> Summary:
        """Return the summary of the job, without the counts of parts."""
        of_cursors = [
            BadRow(topic, found.ledger_id, found.entry_id, found.entry_count, str(found))
            for topic, found in scope.subscribers.bad_entries
        ]
        return Summary(
            read=sum(scope.entry_counts.values()) - self._unread_count(scope),
            delayed=self.delayed_count,
            now_ms=now_ms,
            trackers=tuple(trackers),
            bad_entries=(*of_cursors, *self.listed)[:LISTED_MAX],
            bad_count=sum(row.entry_count for row in of_cursors) + sum(run.entry_count for run in self.bad),
            parts_made=0,
            parts_reused=0,
            seconds=dict(seconds),
        )

    def _unread_count(self, scope: Scope) -> int:
        """Count the entries that were expected and could not be read: single ones, and those of whole ledgers."""
        whole = {run.ledger_id for run in self.bad if run.entry_id is None and run.ledger_id is not None}
        single = [run for run in self.bad if run.entry_id is not None and run.ledger_id not in whole]
        return sum(scope.entry_counts.get(ledger, 0) for ledger in whole) + sum(run.entry_count for run in single)


def _facts(kept: DataFrame, *, has_bad: bool) -> _Facts:
    """Count all rows once; Spark keeps them on the way."""
    counts = kept.agg(
        F.sum(schema.INDEX_COUNT).alias("plain"),
        F.count(F.when(F.col(schema.MARKER_TYPE).isNull(), F.col(schema.TXN_ID_MOST))).alias("of_transactions"),
        F.count(schema.TXN_ID_MOST).alias("transactional"),
    ).first()
    assert counts is not None
    runs, listed = _bad(kept) if has_bad else ((), ())
    return _Facts((counts["plain"] or 0) + counts["of_transactions"], counts["transactional"] > 0, runs, listed)


def _bad(kept: DataFrame) -> tuple[tuple[BadRun, ...], tuple[BadRow, ...]]:
    """Return all bad entries as runs, and the first of them with their errors."""
    bad, columns = kept.where(F.col(schema.ERROR).isNotNull()), RUN_SCHEMA.fieldNames()
    runs = bad.select(*columns).mapInArrow(bad_runs, RUN_SCHEMA).toArrow()
    listed = bad.select(*columns, schema.ERROR).orderBy(*columns[:3]).limit(LISTED_MAX).collect() if len(runs) else []
    return tuple(map(BadRun, *(column.to_pylist() for column in runs.columns))), tuple(BadRow(*row) for row in listed)


def _by_subscriber(
    tallies: Mapping[tuple[int, int], LedgerTally], subscribers: Subscribers
) -> list[dict[int, LedgerTally]]:
    """Return for each subscriber its tallies by ledger, ascending."""
    found: list[dict[int, LedgerTally]] = [{} for _ in subscribers.all]
    for (number, ledger_id), tally in sorted(tallies.items(), key=lambda item: item[0]):
        found[number][ledger_id] = tally
    return found
