"""How snapshots are divided among tasks: buckets into parts of consecutive segments, small parts into one task.

What a part holds follows from its bucket's positions, its limits and its span of deadlines, because entries of ledgers
never change. So parts are named by a digest of these: a bucket that several subscriptions share is encoded once, and
what an earlier run staged is known again.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import INT63_MAX, IndexColumns, Int64Array
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap, by_ledger
from delayed_tracker.spark.plan.bucket_plan import PlannedBucket
from delayed_tracker.spark.plan.subscribers import Subscriber

_FORMAT: Final = b"part 1"
NO_PART: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """A bucket of one subscription, with what is in it."""

    subscriber: Subscriber
    planned: PlannedBucket
    bits: PositionBitmap
    digest: bytes
    """The same for buckets with the same content."""

    @classmethod
    def of(
        cls, subscriber: Subscriber, planned: PlannedBucket, bits: PositionBitmap, limits: TrackerLimits
    ) -> "Bucket":
        """A bucket and its digest. O(bitmaps)."""
        content = hashlib.sha256(_FORMAT)
        for piece in (
            subscriber.topic.encode(),
            f"{limits.max_step_per_segment_ms} {limits.max_indexes_per_segment}".encode(),
            bits.serialize(),
        ):
            content.update(len(piece).to_bytes(8, "little"))
            content.update(piece)
        return cls(subscriber, planned, bits, content.digest())


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive segments of a bucket: those whose rows have deadlines from ``first_ms`` on, and before ``end_ms``."""

    number: int
    name: str
    """A digest of its content."""
    first_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class PartPlan:
    """All parts of a job, each content once."""

    parts: tuple[Part, ...]
    by_digest: Mapping[bytes, tuple[Part, ...]]
    """The parts of each bucket, by its digest, in order of deadlines."""
    index_counts: Mapping[int, int]
    """About how many indexes each part has."""

    def of(self, bucket: Bucket) -> tuple[Part, ...]:
        """The parts of a bucket."""
        return self.by_digest[bucket.digest]


def plan_parts(buckets: Iterable[Bucket], cuts_ms: Mapping[bytes, Sequence[int]]) -> PartPlan:
    """Divide buckets into parts.

    Args:
        buckets: of all subscriptions; of those with one digest the first counts.
        cuts_ms: for buckets that are to be divided, the deadlines at which further parts begin, ascending.
    """
    parts: list[Part] = []
    by_digest: dict[bytes, tuple[Part, ...]] = {}
    index_counts: dict[int, int] = {}
    for bucket in buckets:
        if bucket.digest in by_digest:
            continue
        edges = [0, *cuts_ms.get(bucket.digest, ()), INT63_MAX]
        own = []
        for first_ms, end_ms in pairwise(edges):
            span = f" {first_ms} {end_ms}".encode()
            own.append(Part(len(parts), hashlib.sha256(bucket.digest + span).hexdigest(), first_ms, end_ms))
            index_counts[len(parts)] = bucket.planned.index_count // (len(edges) - 1)
            parts.append(own[-1])
        by_digest[bucket.digest] = tuple(own)
    return PartPlan(tuple(parts), by_digest, index_counts)


def tasks_of(index_counts: Sequence[int], *, indexes_per_task: int) -> Int64Array:
    """The task for each part: neighbours share one until it has enough.

    Args:
        index_counts: of each part.
        indexes_per_task: a task that has so many takes no further part.
    """
    tasks, task, held = [], 0, 0
    for count in index_counts:
        if held and held + count > indexes_per_task:
            task, held = task + 1, 0
        tasks.append(task)
        held += count
    return np.array(tasks, np.int64)


@dataclass(frozen=True, slots=True)
class PartMap:
    """For one subscription, from an index to its part: looked up in every task."""

    last_ledger: Int64Array
    last_entry: Int64Array
    """The last position of each bucket, ascending."""
    first_part: Int64Array
    """The first part of each bucket; NO_PART if somebody else encodes it."""
    cuts_ms: Mapping[int, Int64Array]
    """Buckets of several parts: the deadlines at which the second and further ones begin."""

    @classmethod
    def of(
        cls, buckets: Sequence[Bucket], first_part: Sequence[int], cuts_ms: Mapping[int, Sequence[int]]
    ) -> "PartMap":
        """The map of one subscription's buckets, ascending; see the fields."""
        return cls(
            np.array([bucket.planned.last.ledger_id for bucket in buckets], np.int64),
            np.array([bucket.planned.last.entry_id for bucket in buckets], np.int64),
            np.array(first_part, np.int64),
            {number: np.array(cuts, np.int64) for number, cuts in cuts_ms.items()},
        )

    def buckets_of(self, indexes: IndexColumns) -> Int64Array:
        """For each accepted index its bucket; the number of buckets for what lies behind the last one. O(n)."""
        bucket = np.empty(len(indexes), np.int64)
        for ledger_id, rows in by_ledger(indexes.ledger_id):
            first = int(np.searchsorted(self.last_ledger, ledger_id, side="left"))
            end = int(np.searchsorted(self.last_ledger, ledger_id, side="right"))
            bucket[rows] = first + np.searchsorted(self.last_entry[first:end], indexes.entry_id[rows], side="left")
        return bucket

    def parts_of(self, indexes: IndexColumns) -> NDArray[np.int64]:
        """For each accepted index its part, or NO_PART. O(n)."""
        bucket = self.buckets_of(indexes)
        part = np.append(self.first_part, NO_PART)[bucket]
        for number, cuts_ms in self.cuts_ms.items():
            rows = np.flatnonzero(bucket == number)
            if len(rows):
                part[rows] += np.searchsorted(cuts_ms, indexes.deliver_at_ms[rows], side="right")
        return part
