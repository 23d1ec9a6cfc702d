"""Complete rebuild: from ledgers to committed snapshots, equal to those that a live service would have stored.

    settings = RebuildSettings({"url": "bookkeeper+file:DIR?metadata=DUMP"}, now_ms=..., staging="file:///staging")
    summary = rebuild(session, settings, target=StorageCommit("sqlite:data/tracker.db"))

    parts of ledgers -> read and pack -> settle transactions -> count outcomes -> plan buckets (on the driver)
                                      -> place and sort -> bring to tasks -> merge and stage -> commit (on the driver)

Into a storage that processes share, tasks write the snapshots from the staged parts; the driver commits the catalogues. For
brokers, tasks write the ledgers of buckets; the driver switches the cursors.

The ledgers are read once; Spark keeps their delayed messages, packed, for the later steps. A repeated job that resumes
makes the same buckets as a killed run, and uses the parts that it staged.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import SparkSession

from delayed_tracker.core.values.columns import Position
from delayed_tracker.spark.commit.commit import CommitTarget, RebuiltTracker
from delayed_tracker.spark.commit.pulsar_commit import PulsarCommit
from delayed_tracker.spark.commit.rebuilt_bucket import RebuiltBucket
from delayed_tracker.spark.commit.shared_commit import SharedCommit
from delayed_tracker.spark.commit.staging import KEPT, Staging
from delayed_tracker.spark.jobs.ledger_rows import ReadResult, reading
from delayed_tracker.spark.jobs.snapshot_maker import SnapshotMaker
from delayed_tracker.spark.jobs.tracker_plan import TrackerPlan
from delayed_tracker.spark.jobs.writing import write_in_tasks
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.stage_timer import Report
from delayed_tracker.spark.summary import Summary, TrackerSummary

_BUCKETS_PER_CORE: Final = 4
"""Buckets that tasks write before the driver commits their trackers, for each core."""


def rebuild(
    session: SparkSession,
    settings: RebuildSettings,
    *,
    target: CommitTarget | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> Summary:
    """Rebuild the trackers of all chosen subscriptions of all chosen topics.

    Args:
        session: a session with the format ``pulsar_ledger``.
        settings: of the job.
        target: destination of the buckets, entered before anything is read. None is a dry run: it writes nothing, not
            even staged work.
        resume: if a run of the same settings has left staged work and no commit, take its time in the place of
            ``now_ms``, since other messages would be in other parts.
        report: called with the name of each stage: look, read, count, plan, stage, commit.
    Raises:
        StorageInUse: the target is in use.
        InvalidInput: a setting, an option or a name is wrong.
        EntriesUnreadable, LedgerError: as the data source raises them, with onError=fail.
        SnapshotConflict: another process wrote to a tracker meanwhile. That tracker is unchanged; trackers committed
            before it stay committed.
        StagedWorkInvalid, StagingUnavailable: staged work is damaged, gone or unreachable; no partial tracker is
            visible.
    Cost: reads each ledger once; the driver holds a set of positions for each subscription.
    """
    if isinstance(target, PulsarCommit):
        settings = replace(settings, whole_ledgers=True)
    # Opened first, so that an unusable URL fails before anything is read.
    staging = None if target is None else Staging(settings.staging)
    job = settings.digest()
    begun_ms = staging.begun_ms(job, settings.now_ms) if staging is not None and resume else None
    if begun_ms is not None:
        settings = replace(settings, now_ms=begun_ms)
    with reading(session, settings, target=target, report=report) as work:
        stages = work.stages
        if target is None or staging is None:
            return work.summary([plan.summary() for plan in work.plans()])
        if resume:
            staging.begin(job, settings.now_ms)
        maker = SnapshotMaker(work.rows, work.shared, work.acceptance, settings, staging)
        largest = target.entry_bytes_max or settings.metadata_bytes_max
        plans, buckets = _make(maker, work, min(settings.metadata_bytes_max, largest))
        with stages.of("commit"):
            trackers = _commit_all(session, settings, target, plans, buckets)
            maker.clean_up()
            staging.end(job)
            staging.sweep(older_than=KEPT)
        return replace(work.summary(trackers), parts_made=maker.made_count, parts_reused=maker.reused_count)


def _make(
    maker: SnapshotMaker, work: ReadResult, metadata_bytes_max: int
) -> tuple[list[TrackerPlan], list[list[RebuiltBucket]]]:
    """Plan the buckets and make them; repeat without the merges whose metadata is too large.

    Only final buckets are made: an intermediate merge is assumed to fit if the larger merge fits.
    """
    plans = work.plans()
    too_large: list[set[tuple[Position, Position]]] = [set() for _ in plans]
    while True:
        with work.stages.of("stage"):
            buckets = maker.make(plans)
        found = False
        for plan, made, barred in zip(plans, buckets, too_large, strict=True):
            for planned, bucket in zip(plan.plan.buckets, made, strict=True):
                if planned.is_merged and bucket.metadata_bytes > metadata_bytes_max:
                    barred.add((planned.first, planned.last))
                    found = True
        if not found:
            return plans, buckets
        plans = work.plans(too_large)


def _commit_all(
    session: SparkSession,
    settings: RebuildSettings,
    target: CommitTarget,
    plans: Sequence[TrackerPlan],
    buckets: Sequence[Sequence[RebuiltBucket]],
) -> list[TrackerSummary]:
    """Commit all trackers, in order. Tasks write into a storage that processes share, and for brokers; the driver into any other target."""
    trackers = [_tracker(plan, made) for plan, made in zip(plans, buckets, strict=True)]
    if isinstance(target, SharedCommit | PulsarCommit):
        write = write_in_tasks(session, target.open_writer, indexes_per_task=settings.indexes_per_task)
        at_once = _BUCKETS_PER_CORE * session.sparkContext.defaultParallelism
        committed = target.commit_all(trackers, write, buckets_at_once=at_once)
    else:
        committed = [target.commit(tracker) for tracker in trackers]
    return [
        replace(
            plan.summary(),
            snapshot_bytes=sum(bucket.snapshot_bytes for bucket in made),
            epoch=one.epoch,
            unchanged=one.unchanged,
            replaced=0 if one.unchanged else one.replaced_count,
        )
        for plan, made, one in zip(plans, buckets, committed, strict=True)
    ]


def _tracker(plan: TrackerPlan, buckets: Sequence[RebuiltBucket]) -> RebuiltTracker:
    subscriber = plan.subscriber
    return RebuiltTracker(
        subscriber.topic,
        subscriber.subscription,
        subscriber.cursor.mark_delete,
        buckets,
        offered_through=plan.offered_through(),
    )
