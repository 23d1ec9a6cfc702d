"""Division of large buckets at the beginnings of segments, found from deadlines alone.

Each segment begins where the one before ends, so the bounds of a bucket cannot be found in parts. But they depend only
on the sorted deadlines. One task reads the deadlines of a bucket, 8 bytes and a count each, and many tasks encode the
parts between the cuts. All rows with one deadline stay together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's customary name
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from delayed_tracker.core.rules.segment_cutter import SegmentCutter
from delayed_tracker.core.values.columns import IndexColumns, Int64Array
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.spark import schema
from delayed_tracker.spark.plan.acceptance import Acceptance
from delayed_tracker.spark.plan.part_plan import PartMap
from delayed_tracker.spark.steps.arrow_columns import numbers
from delayed_tracker.spark.steps.delayed import Step
from delayed_tracker.spark.steps.subscriber_rows import SubscribersByTopic, accepted_by_part

DEADLINES_SCHEMA: Final = StructType(
    [
        StructField(schema.BUCKET, IntegerType(), nullable=False),
        StructField(schema.DELIVER_AT_MS, LongType(), nullable=False),
        StructField(schema.INDEX_COUNT, LongType(), nullable=False),
    ]
)
CUTS_SCHEMA: Final = StructType(
    [
        StructField(schema.BUCKET, IntegerType(), nullable=False),
        StructField(schema.DELIVER_AT_MS, LongType(), nullable=False),
    ]
)
"""A deadline at which a further part of a bucket begins."""
_EXPANDED_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LargeBuckets:
    """Buckets to be divided, by number."""

    maps: Mapping[int, PartMap]
    """Maps by subscriber number; their part numbers are the numbers of large buckets."""


def deadlines_of(
    subscribers: Broadcast[SubscribersByTopic], large: Broadcast[LargeBuckets], acceptance: Acceptance
) -> Step:
    """Return the step that counts the accepted indexes of large buckets by deadline.

    Input: packed delayed messages. Output: :data:`DEADLINES_SCHEMA`; a deadline may occur several times.
    """

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, indexes in accepted_by_part(batches, subscribers.value, large.value.maps, acceptance):
            deadline, times = np.unique(indexes.deliver_at_ms, return_counts=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(np.full(len(deadline), number, np.int32)), pa.array(deadline), pa.array(times)],
                names=DEADLINES_SCHEMA.fieldNames(),
            )

    return lambda rows: rows.mapInArrow(count, DEADLINES_SCHEMA)


def cut_large(bucket_count: int, limits: TrackerLimits, *, indexes_per_part: int) -> Step:
    """Return the step that finds the beginnings of parts of about the wanted size.

    Input: :data:`DEADLINES_SCHEMA`, any order. Output: :data:`CUTS_SCHEMA`, no order.
    """

    def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, runs in _buckets(batches):
            cuts = list(part_starts(runs, limits, indexes_per_part=indexes_per_part))
            yield pa.RecordBatch.from_arrays(
                [pa.array(np.full(len(cuts), number, np.int32)), pa.array(np.array(cuts, np.int64))],
                names=CUTS_SCHEMA.fieldNames(),
            )

    def step(deadlines: DataFrame) -> DataFrame:
        brought = deadlines.repartitionById(bucket_count, F.col(schema.BUCKET))
        return brought.sortWithinPartitions(schema.DELIVER_AT_MS).mapInArrow(cut, CUTS_SCHEMA)

    return step


def part_starts(
    runs: Iterable[tuple[Int64Array, Int64Array]], limits: TrackerLimits, *, indexes_per_part: int
) -> Iterator[int]:
    """Yield deadlines at which a segment begins and that no earlier row has.

    Args:
        runs: ascending deadlines, and the number of indexes with each.
        limits: of the segments.
        indexes_per_part: smallest number of indexes between two of them.
    """
    cutter = SegmentCutter(step_ms=limits.max_step_per_segment_ms, count_max=limits.max_indexes_per_segment)
    held, before_ms = 0, -1
    for deadlines, done in _expanded(runs):
        cutter.feed([IndexColumns(deadlines, deadlines, deadlines)])
        whole = cutter.take(at_end=done)
        if whole is None:
            continue
        bounds = whole.bounds
        columns = bounds.min_deliver_at_ms.tolist(), bounds.max_deliver_at_ms.tolist(), bounds.count.tolist()
        for first_ms, last_ms, count in zip(*columns, strict=True):
            if held >= indexes_per_part and first_ms > before_ms:
                yield first_ms
                held = 0
            held += count
            before_ms = last_ms


def _expanded(runs: Iterable[tuple[Int64Array, Int64Array]]) -> Iterator[tuple[Int64Array, bool]]:
    """Yield each deadline as often as it occurs, in arrays of bounded size, with True after the last one."""
    for deadlines, times in runs:
        start = 0
        ends = np.cumsum(times)
        while start < len(times):
            base = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, base + _EXPANDED_MAX, side="right")))
            yield np.repeat(deadlines[start:stop], times[start:stop]), False
            start = stop
    yield np.empty(0, np.int64), True


def _buckets(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[tuple[Int64Array, Int64Array]]]]:
    """Yield the one bucket of a partition with its runs as they arrive; nothing if it has no rows."""
    rest = iter(batches)
    first = next((batch for batch in rest if batch.num_rows), None)
    if first is None:
        return

    def runs() -> Iterator[tuple[Int64Array, Int64Array]]:
        yield numbers(first, schema.DELIVER_AT_MS), numbers(first, schema.INDEX_COUNT)
        for batch in rest:
            yield numbers(batch, schema.DELIVER_AT_MS), numbers(batch, schema.INDEX_COUNT)

    yield int(numbers(first, schema.BUCKET)[0]), runs()


def cuts_by_digest(rows: pa.Table, digests: Sequence[bytes]) -> dict[bytes, list[int]]:
    """Return the cuts of each large bucket, ascending, by its digest."""
    cuts: dict[bytes, list[int]] = {digest: [] for digest in digests}
    for row in rows.sort_by(schema.DELIVER_AT_MS).to_pylist():
        cuts[digests[row[schema.BUCKET]]].append(row[schema.DELIVER_AT_MS])
    return cuts
