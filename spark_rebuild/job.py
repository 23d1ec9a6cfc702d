"""A whole rebuild: from ledgers to committed snapshots, equal to those that a live service would have stored.

    settings = RebuildSettings({"url": "bookkeeper+file:DIR?metadata=DUMP"}, now_ms=..., staging="file:///staging")
    summary = rebuild(session, settings, target=StorageCommit("sqlite:data/tracker.db"))

    entries -> keep delayed -> settle transactions -> count fates -> plan buckets (on the driver)
                                                   -> place -> sort into tasks -> stage -> commit (on the driver)

The ledgers are read once; the delayed messages among their entries are kept by Spark for the steps that follow. Running
a job again gives the same buckets; what a killed one staged is used.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that everybody uses
from pyspark.sql.types import StructType

from spark_rebuild import schema
from spark_rebuild.acceptance import Acceptance
from spark_rebuild.commit import CommitTarget, RebuiltTracker
from spark_rebuild.counting import LedgerTally, count_fates, tallies_of
from spark_rebuild.delayed import keep_delayed, number_topics, settle_transactions, without_transactions
from spark_rebuild.rebuilt_bucket import RebuiltBucket
from spark_rebuild.settings import RebuildSettings
from spark_rebuild.snapshot_maker import SnapshotMaker
from spark_rebuild.source_options import parse_options
from spark_rebuild.subscribers import Subscribers, read_subscribers
from spark_rebuild.summary import BadRow, Summary, TrackerSummary
from spark_rebuild.tracker_plan import TrackerPlan, plan_tracker
from tracker.core.columns import Position
from tracker.ledger.combined_source import CombinedSource
from tracker.ledger.source_url import open_source

_READ_COLUMNS: Final = (
    schema.TOPIC,
    schema.LEDGER_ID,
    schema.ENTRY_ID,
    schema.DELIVER_AT_MS,
    schema.MARKER_TYPE,
    schema.TXN_ID_MOST,
    schema.TXN_ID_LEAST,
    schema.ENTRY_COUNT,
    schema.ERROR,
)
Report = Callable[[str], None]
"""Called with the name of each stage when it begins: look, read, count, plan, stage, commit."""


def rebuild(
    session: SparkSession,
    settings: RebuildSettings,
    *,
    target: CommitTarget | None = None,
    report: Report | None = None,
) -> Summary:
    """Rebuild the trackers of all wanted subscriptions of all wanted topics.

    Args:
        session: that knows the format ``pulsar_ledger``.
        settings: what to do.
        target: where the buckets go; it is entered before anything is read. None writes nothing, not even staged work:
            a dry run.
        report: told how far it is.
    Raises:
        StorageInUse: the target is in use.
        InvalidInput: a setting, an option or a name is wrong.
        EntriesUnreadable, LedgerError: as the data source says, under onError=fail.
        SnapshotConflict: somebody else wrote to a tracker meanwhile: it stays as it is. Those committed before it stay.
        StagedWorkInvalid, StagingUnavailable: staged work is damaged, gone or out of reach; nothing half is visible.
    Cost: reads each ledger once; the driver holds a set of positions for each subscription.
    """
    stages = _Stages(report)
    acceptance = Acceptance(settings.limits, settings.now_ms)
    with ExitStack() as stack:
        with stages.of("look"):
            if target is not None:
                stack.enter_context(target)
            subscribers, listed_count = _look(settings)
            if target is not None:
                target.begin([subscriber.key for subscriber in subscribers.all])
        with stages.of("read"):
            entries = _entries(session, settings).persist(StorageLevel.MEMORY_AND_DISK)
            stack.callback(entries.unpersist)
            facts = _facts(entries, subscribers)
        numbers = {topic: number for number, topic in enumerate(subscribers.by_topic())}
        rows = (
            entries.transform(keep_delayed)
            .transform(number_topics(numbers))
            .transform(settle_transactions if facts.has_transactions else without_transactions)
        )
        shared = session.sparkContext.broadcast(
            {numbers[topic]: group for topic, group in subscribers.by_topic().items()}
        )
        stack.callback(shared.destroy)
        with stages.of("count"):
            tallies = _by_subscriber(tallies_of(rows.transform(count_fates(shared, acceptance)).toArrow()), subscribers)
        if target is None:
            with stages.of("plan"):
                trackers = [plan.summary() for plan in _plans(subscribers, tallies, settings, [set()] * len(tallies))]
            return facts.summary(listed_count, trackers, stages.seconds)
        maker = SnapshotMaker(rows, shared, acceptance, settings)
        plans, buckets = _make(maker, subscribers, tallies, settings, stages)
        with stages.of("commit"):
            trackers = [_commit(target, plan, made) for plan, made in zip(plans, buckets, strict=True)]
            maker.clean_up()
        summary = facts.summary(listed_count, trackers, stages.seconds)
        return replace(summary, parts_made=maker.made_count, parts_reused=maker.reused_count)


class _Stages:
    """How long each stage takes; one that comes again takes longer."""

    def __init__(self, report: Report | None) -> None:
        self.seconds: dict[str, float] = {}
        self._report = report

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Everything in the block."""
        if self._report is not None:
            self._report(name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun


def _look(settings: RebuildSettings) -> tuple[Subscribers, int]:
    """Who gets something, and how many entries their topics have."""
    options = parse_options(settings.source)
    with CombinedSource([open_source(url) for url in options.urls]) as source:
        topics = options.chosen(source.topics() if options.topic is None else ())
        subscribers = read_subscribers(
            source.sources,
            topics,
            named=settings.subscriptions,
            ignore_acks=settings.ignore_acks,
            on_error=options.on_error,
        )
        return subscribers, sum(source.topic_log(topic).entry_count for topic in topics)


def _entries(session: SparkSession, settings: RebuildSettings) -> DataFrame:
    """Delayed messages, ends of transactions and bad entries, of all topics that are wanted."""
    wanted = StructType([column.field for column in schema.ENTRY_COLUMNS if column.name in _READ_COLUMNS])
    reader = session.read.format("pulsar_ledger").schema(wanted).options(**settings.source)
    return reader.option("entries", "delayed").load()


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known once everything was read."""

    delayed_count: int
    has_transactions: bool
    bad: tuple[BadRow, ...]

    def summary(self, listed_count: int, trackers: Sequence[TrackerSummary], seconds: Mapping[str, float]) -> Summary:
        """All there is to say, but for parts."""
        return Summary(
            read=listed_count - sum(row.entry_count for row in self.bad),
            delayed=self.delayed_count,
            trackers=tuple(trackers),
            bad_entries=self.bad,
            parts_made=0,
            parts_reused=0,
            seconds=dict(seconds),
        )


def _facts(entries: DataFrame, subscribers: Subscribers) -> _Facts:
    """Look through all entries once; they are kept on the way."""
    is_bad = F.col(schema.ERROR).isNotNull()
    counts = entries.agg(
        F.count(F.when(F.col(schema.MARKER_TYPE).isNull(), F.col(schema.DELIVER_AT_MS))).alias("delayed"),
        F.count(schema.TXN_ID_MOST).alias("transactional"),
        F.count(F.when(is_bad, 1)).alias("bad"),
    ).first()
    assert counts is not None
    bad = [
        BadRow(topic, found.ledger_id, found.entry_id, found.entry_count, str(found))
        for topic, found in subscribers.bad_entries
    ]
    if counts["bad"]:
        columns = schema.TOPIC, schema.LEDGER_ID, schema.ENTRY_ID, schema.ENTRY_COUNT, schema.ERROR
        in_order = entries.where(is_bad).select(*columns).orderBy(*columns[:3])
        bad += [BadRow(*row) for row in in_order.collect()]
    return _Facts(counts["delayed"], counts["transactional"] > 0, tuple(bad))


def _by_subscriber(
    tallies: Mapping[tuple[int, int], LedgerTally], subscribers: Subscribers
) -> list[dict[int, LedgerTally]]:
    """For each subscriber its tallies by ledger, ascending."""
    found: list[dict[int, LedgerTally]] = [{} for _ in subscribers.all]
    for (number, ledger_id), tally in sorted(tallies.items(), key=lambda item: item[0]):
        found[number][ledger_id] = tally
    return found


def _plans(
    subscribers: Subscribers,
    tallies: Sequence[Mapping[int, LedgerTally]],
    settings: RebuildSettings,
    too_large: Sequence[set[tuple[Position, Position]]],
) -> list[TrackerPlan]:
    return [
        plan_tracker(subscriber, tally, settings.limits, too_large=barred)
        for subscriber, tally, barred in zip(subscribers.all, tallies, too_large, strict=True)
    ]


def _make(
    maker: SnapshotMaker,
    subscribers: Subscribers,
    tallies: Sequence[Mapping[int, LedgerTally]],
    settings: RebuildSettings,
    stages: _Stages,
) -> tuple[list[TrackerPlan], list[list[RebuiltBucket]]]:
    """Plan, and make what is planned; again without the merges whose metadata turns out to be too large.

    Only final buckets are made: a merge on the way to a larger one that fits is taken to fit, too.
    """
    too_large: list[set[tuple[Position, Position]]] = [set() for _ in subscribers.all]
    while True:
        with stages.of("plan"):
            plans = _plans(subscribers, tallies, settings, too_large)
        with stages.of("stage"):
            buckets = maker.make(plans)
        found = False
        for plan, made, barred in zip(plans, buckets, too_large, strict=True):
            for planned, bucket in zip(plan.plan.buckets, made, strict=True):
                if planned.is_merged and bucket.metadata_bytes > settings.metadata_bytes_max:
                    barred.add((planned.first, planned.last))
                    found = True
        if not found:
            return plans, buckets


def _commit(target: CommitTarget, plan: TrackerPlan, buckets: Sequence[RebuiltBucket]) -> TrackerSummary:
    subscriber = plan.subscriber
    committed = target.commit(
        RebuiltTracker(subscriber.topic, subscriber.subscription, subscriber.cursor.mark_delete, buckets)
    )
    return replace(
        plan.summary(),
        snapshot_bytes=sum(bucket.snapshot_bytes for bucket in buckets),
        epoch=committed.epoch,
        unchanged=committed.unchanged,
    )
