"""Makes snapshots in Spark's tasks: divides buckets into parts, and stages the parts that do not exist yet."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar
from uuid import uuid4

import numpy as np
from pyspark import Broadcast
from pyspark.sql import DataFrame

from delayed_tracker.spark import schema
from delayed_tracker.spark.commit.rebuilt_bucket import RebuiltBucket
from delayed_tracker.spark.commit.staging import PartMade, Staging, usable_parts
from delayed_tracker.spark.jobs.tracker_plan import TrackerPlan
from delayed_tracker.spark.plan.acceptance import Acceptance
from delayed_tracker.spark.plan.part_plan import NO_PART, Bucket, Part, PartMap, PartPlan, plan_parts, tasks_of
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.steps.cutting import LargeBuckets, cut_large, cuts_by_digest, deadlines_of
from delayed_tracker.spark.steps.encoding import Placement, place, sort_into_tasks, stage
from delayed_tracker.spark.steps.subscriber_rows import SubscribersByTopic

T = TypeVar("T")


class SnapshotMaker:
    """Maker of the buckets of plans. It uses parts again that an earlier plan or an earlier run made.

    Args:
        rows: all delayed messages, packed.
        subscribers: by topic number.
        acceptance: the rules that were used to count the rows.
        settings: of the job.
        staging: staging area of the tasks.
    """

    def __init__(
        self,
        rows: DataFrame,
        subscribers: Broadcast[SubscribersByTopic],
        acceptance: Acceptance,
        settings: RebuildSettings,
        staging: Staging,
    ) -> None:
        self.staging = staging
        self.made_count = 0
        self.reused_count = 0
        self._rows = rows
        self._subscribers = subscribers
        self._acceptance = acceptance
        self._settings = settings
        self._run = uuid4().hex
        self._parts: dict[str, PartMade] = {}
        self._cuts_ms: dict[bytes, list[int]] = {}

    def make(self, plans: Sequence[TrackerPlan]) -> list[list[RebuiltBucket]]:
        """Make the buckets of each plan, staged.

        Raises:
            StagingUnavailable: the staging area cannot be reached.
            PySparkException: a task has failed too often.
        """
        by_digest = {bucket.digest: bucket for plan in reversed(plans) for bucket in reversed(plan.buckets)}
        self._divide(plans, by_digest)
        parts = plan_parts([bucket for plan in plans for bucket in plan.buckets], self._cuts_ms)
        names = {part.name for part in parts.parts} - self._parts.keys()
        found = usable_parts(self.staging, names)
        self.reused_count += len(found)
        self._parts |= found
        missing = [part for part in parts.parts if part.name not in self._parts]
        if missing:
            self._stage(plans, by_digest, parts, missing)
        return [[self._rebuilt(bucket, parts) for bucket in plan.buckets] for plan in plans]

    def clean_up(self) -> None:
        """Delete all staged objects of the parts that this job used, from every attempt: they are committed."""
        self.staging.remove([staged.key for staged in self.staging.objects() if staged.part in self._parts])

    def _divide(self, plans: Sequence[TrackerPlan], by_digest: Mapping[bytes, Bucket]) -> None:
        """Find the cuts of buckets that are too large for one task."""
        large = [
            digest
            for digest, bucket in by_digest.items()
            if bucket.planned.index_count > self._settings.indexes_per_task and digest not in self._cuts_ms
        ]
        if not large:
            return
        numbers = {digest: number for number, digest in enumerate(large)}
        maps = dict(_maps(plans, by_digest, numbers, {}))
        with _shared(self._rows, LargeBuckets(maps)) as known:
            deadlines = self._rows.transform(deadlines_of(self._subscribers, known, self._acceptance))
            cut = cut_large(len(large), self._settings.limits, indexes_per_part=self._settings.indexes_per_task)
            self._cuts_ms |= cuts_by_digest(deadlines.transform(cut).toArrow(), large)

    def _stage(
        self,
        plans: Sequence[TrackerPlan],
        by_digest: Mapping[bytes, Bucket],
        parts: PartPlan,
        missing: Sequence[Part],
    ) -> None:
        """Run the tasks that encode the missing parts."""
        task_of_part = np.full(len(parts.parts), -1, np.int64)
        numbers = np.array([part.number for part in missing], np.int64)
        tasks = tasks_of(
            [parts.index_counts[part.number] for part in missing], indexes_per_task=self._settings.indexes_per_task
        )
        task_of_part[numbers] = tasks
        first_parts = {digest: own[0].number for digest, own in parts.by_digest.items()}
        cuts = {digest: [part.first_ms for part in own[1:]] for digest, own in parts.by_digest.items() if own[1:]}
        placement = Placement(dict(_maps(plans, by_digest, first_parts, cuts)), task_of_part)
        with (
            _shared(self._rows, placement) as known,
            _shared(self._rows, [part.name for part in parts.parts]) as names,
        ):
            staged = (
                self._rows.transform(place(self._subscribers, known, self._acceptance))
                .transform(sort_into_tasks(int(tasks[-1]) + 1))
                .transform(stage(names, self.staging, self._run, self._settings.limits))
                .toArrow()
            )
        for row in staged.to_pylist():
            self._parts[parts.parts[row[schema.PART]].name] = PartMade(
                row[schema.KEY], row[schema.INDEX_COUNT], row[schema.SEGMENT_BYTES], row[schema.METADATA_BYTES]
            )
        self.made_count += staged.num_rows

    def _rebuilt(self, bucket: Bucket, parts: PartPlan) -> RebuiltBucket:
        made = [self._parts[part.name] for part in parts.of(bucket)]
        planned = bucket.planned
        return RebuiltBucket(planned.first, planned.last, planned.index_count, bucket.bits, self.staging, made)


def _maps(
    plans: Sequence[TrackerPlan],
    by_digest: Mapping[bytes, Bucket],
    first_parts: Mapping[bytes, int],
    cuts_ms: Mapping[bytes, Sequence[int]],
) -> Iterator[tuple[int, PartMap]]:
    """Yield the map of each subscription with buckets to encode; only the first bucket with a digest is encoded."""
    for plan in plans:
        mine = [by_digest[bucket.digest] is bucket for bucket in plan.buckets]
        if any(mine):
            yield (
                plan.subscriber.number,
                PartMap.of(
                    plan.buckets,
                    [
                        first_parts.get(bucket.digest, NO_PART) if own else NO_PART
                        for bucket, own in zip(plan.buckets, mine, strict=True)
                    ],
                    {
                        number: cuts_ms[bucket.digest]
                        for number, (bucket, own) in enumerate(zip(plan.buckets, mine, strict=True))
                        if own and bucket.digest in cuts_ms
                    },
                ),
            )


@contextmanager
def _shared(rows: DataFrame, value: T) -> Iterator[Broadcast[T]]:
    """Broadcast a value to all tasks for the length of the block."""
    broadcast = rows.sparkSession.sparkContext.broadcast(value)
    try:
        yield broadcast
    finally:
        broadcast.destroy()
