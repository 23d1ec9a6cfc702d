"""Division of snapshots among tasks: buckets are divided into parts of consecutive segments; small parts share a task.

The positions of a bucket, the deadlines in its ledgers, its limits and the bounds of a part determine the content of the
part. So a part is named by a digest of these. A bucket that several subscriptions share is encoded once, and a later run
finds the parts that an earlier run staged, but none that were made from another cluster with the same positions.
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

_FORMAT: Final = b"part 2"
NO_PART: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Bucket:
    """Bucket of one subscription, with its positions."""

    subscriber: Subscriber
    planned: PlannedBucket
    bits: PositionBitmap
    digest: bytes
    """Digest of the content; equal for buckets with the same content."""

    @classmethod
    def of(
        cls,
        subscriber: Subscriber,
        planned: PlannedBucket,
        bits: PositionBitmap,
        limits: TrackerLimits,
        contents: Mapping[int, int],
    ) -> "Bucket":
        """Return a bucket with its digest. O(bitmaps).

        Args:
            subscriber: the subscription.
            planned: the bucket.
            bits: its positions.
            limits: of the tracker.
            contents: for each ledger of ``bits``, the hash of its delayed messages, from 0 to 2^64-1.
        """
        content = hashlib.sha256(_FORMAT)
        for piece in (
            subscriber.topic.encode(),
            f"{limits.max_step_per_segment_ms} {limits.max_indexes_per_segment}".encode(),
            bits.serialize(),
            np.array([contents[ledger] for ledger in sorted(bits.ledgers())], "<u8").tobytes(),
        ):
            content.update(len(piece).to_bytes(8, "little"))
            content.update(piece)
        return cls(subscriber, planned, bits, content.digest())


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive segments of a bucket: those whose rows have deadlines from ``first_ms`` to before ``end_ms``."""

    number: int
    name: str
    """Digest of the content."""
    first_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class PartPlan:
    """All parts of a job; parts with the same content occur once."""

    parts: tuple[Part, ...]
    by_digest: Mapping[bytes, tuple[Part, ...]]
    """Parts of each bucket, by the digest of the bucket, in order of deadlines."""
    index_counts: Mapping[int, int]
    """Approximate number of indexes of each part."""

    def of(self, bucket: Bucket) -> tuple[Part, ...]:
        """Return the parts of a bucket."""
        return self.by_digest[bucket.digest]


def plan_parts(buckets: Iterable[Bucket], cuts_ms: Mapping[bytes, Sequence[int]]) -> PartPlan:
    """Divide buckets into parts.

    Args:
        buckets: of all subscriptions; if several have one digest, the first counts.
        cuts_ms: for buckets to be divided, the deadlines at which further parts begin, ascending.
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
    """Return the task of each part: neighbouring parts share a task until it has enough indexes.

    Args:
        index_counts: indexes of each part.
        indexes_per_task: a task with so many indexes takes no further part.
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
    """Map from the indexes of one subscription to parts, used in every task."""

    last_ledger: Int64Array
    last_entry: Int64Array
    """Last position of each bucket, ascending."""
    first_part: Int64Array
    """First part of each bucket; NO_PART if this subscription does not encode the bucket."""
    cuts_ms: Mapping[int, Int64Array]
    """For buckets of several parts: the deadlines at which the second and later parts begin."""

    @classmethod
    def of(
        cls, buckets: Sequence[Bucket], first_part: Sequence[int], cuts_ms: Mapping[int, Sequence[int]]
    ) -> "PartMap":
        """Return the map of the buckets of one subscription, ascending; see the fields."""
        return cls(
            np.array([bucket.planned.last.ledger_id for bucket in buckets], np.int64),
            np.array([bucket.planned.last.entry_id for bucket in buckets], np.int64),
            np.array(first_part, np.int64),
            {number: np.array(cuts, np.int64) for number, cuts in cuts_ms.items()},
        )

    def buckets_of(self, indexes: IndexColumns) -> Int64Array:
        """Return the bucket number of each accepted index; after the last bucket, the number of buckets. O(n)."""
        bucket = np.empty(len(indexes), np.int64)
        for ledger_id, rows in by_ledger(indexes.ledger_id):
            first = int(np.searchsorted(self.last_ledger, ledger_id, side="left"))
            end = int(np.searchsorted(self.last_ledger, ledger_id, side="right"))
            bucket[rows] = first + np.searchsorted(self.last_entry[first:end], indexes.entry_id[rows], side="left")
        return bucket

    def parts_of(self, indexes: IndexColumns) -> NDArray[np.int64]:
        """Return the part of each accepted index, or NO_PART. O(n)."""
        bucket = self.buckets_of(indexes)
        part = np.append(self.first_part, NO_PART)[bucket]
        for number, cuts_ms in self.cuts_ms.items():
            rows = np.flatnonzero(bucket == number)
            if len(rows):
                part[rows] += np.searchsorted(cuts_ms, indexes.deliver_at_ms[rows], side="right")
        return part
