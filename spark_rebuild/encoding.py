"""Sorting, cutting and encoding: from accepted indexes to staged parts of snapshots.

Spark brings the rows of a task together and sorts them; the core's functions cut and encode them as they come. A task
holds a batch of rows and one segment, and of each part its metadata.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from spark_rebuild import schema
from spark_rebuild.acceptance import Acceptance, Fate
from spark_rebuild.arrow_columns import index_columns_of, numbers
from spark_rebuild.counting import SubscribersByTopic, offered
from spark_rebuild.delayed import Step
from spark_rebuild.part_plan import NO_PART, PartMap
from spark_rebuild.staging import Staging
from tracker.core.columns import IndexColumns, Int64Array
from tracker.core.limits import TrackerLimits
from tracker.core.seal import without_repeats
from tracker.core.segment_cutter import SegmentCutter

PLACED_SCHEMA: Final = StructType(
    [
        StructField(schema.TASK, IntegerType(), nullable=False),
        StructField(schema.PART, IntegerType(), nullable=False),
        StructField(schema.DELIVER_AT_MS, LongType(), nullable=False),
        StructField(schema.LEDGER_ID, LongType(), nullable=False),
        StructField(schema.ENTRY_ID, LongType(), nullable=False),
    ]
)
STAGED_SCHEMA: Final = StructType(
    [
        StructField(schema.PART, IntegerType(), nullable=False),
        StructField(schema.KEY, StringType(), nullable=False),
        StructField(schema.INDEX_COUNT, LongType(), nullable=False),
        StructField(schema.SEGMENT_BYTES, LongType(), nullable=False),
        StructField(schema.METADATA_BYTES, LongType(), nullable=False),
    ]
)
"""What a task tells of each part: where it lies, and what is in it."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Which index goes where: what every task needs to know."""

    maps: Mapping[int, PartMap]
    """By the number of the subscriber."""
    task_of_part: Int64Array
    """The task of each part; -1 for parts that need not be made."""


def place(subscribers: Broadcast[SubscribersByTopic], placement: Broadcast[Placement], acceptance: Acceptance) -> Step:
    """Accepted indexes with the part and the task they belong to, for each subscription whose buckets are to be made.

    Input: topic_number, ledger_id, entry_id, deliver_at_ms, transaction; any order. Output: :data:`PLACED_SCHEMA`.
    """

    def placed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = placement.value
        for subscriber, indexes, transaction in offered(batches, subscribers.value):
            part_map = known.maps.get(subscriber.number)
            if part_map is None:
                continue
            fate = acceptance.fates(indexes, transaction, subscriber.cursor)
            accepted = indexes.take(fate == Fate.ACCEPTED)
            part = part_map.parts_of(accepted)
            task = np.where(part == NO_PART, -1, known.task_of_part[part])
            kept = task >= 0
            if kept.any():
                yield _placed_batch(task[kept], part[kept], accepted.take(kept))

    return lambda rows: rows.mapInArrow(placed, PLACED_SCHEMA)


def sort_into_tasks(task_count: int) -> Step:
    """The same rows, one partition for each task, in the order in which they are stored.

    Input and output: :data:`PLACED_SCHEMA`; the output ascends by (part, deliver_at_ms, ledger_id, entry_id).
    """

    def step(rows: DataFrame) -> DataFrame:
        brought = rows.repartitionById(task_count, schema.TASK)
        return brought.sortWithinPartitions(schema.PART, schema.DELIVER_AT_MS, schema.LEDGER_ID, schema.ENTRY_ID)

    return step


def stage(names: Broadcast[list[str]], staging: Staging, run: str, limits: TrackerLimits) -> Step:
    """Cut, encode and stage sorted rows; nothing but messages comes back.

    Args:
        names: of the parts, by number.
        staging: where to.
        run: of this job, part of each object's name.
        limits: how to cut segments.
    Input: as :func:`sort_into_tasks` gives it. Output: :data:`STAGED_SCHEMA`, one row for each part; no order.
    """

    def staged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = _pieces(batches)
        piece = next(pieces, None)
        while piece is not None:
            part, rows = piece
            with staging.writer(names.value[part], run) as (key, writer):
                cutter = SegmentCutter(step_ms=limits.max_step_per_segment_ms, count_max=limits.max_indexes_per_segment)
                ended = False
                while not ended:
                    cutter.feed([rows])
                    piece = next(pieces, None)
                    ended = piece is None or piece[0] != part
                    whole = cutter.take(at_end=ended)
                    if whole is not None:
                        writer.add(whole)
                    if piece is not None:
                        rows = piece[1]
                writer.end()
                message = [part], [key], [writer.index_count], [writer.segment_bytes], [writer.metadata_bytes]
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, kind) for column, kind in zip(message, _MESSAGE_TYPES, strict=True)],
                names=STAGED_SCHEMA.fieldNames(),
            )

    return lambda rows: rows.mapInArrow(staged, STAGED_SCHEMA)


_MESSAGE_TYPES: Final = (pa.int32(), pa.string(), pa.int64(), pa.int64(), pa.int64())


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, IndexColumns]]:
    """Sorted batches as runs of rows of one part, without rows that repeat their predecessor."""
    last: IndexColumns | None = None
    last_part = NO_PART
    for batch in batches:
        part, indexes = numbers(batch, schema.PART), index_columns_of(batch)
        starts = np.flatnonzero(np.diff(part, prepend=NO_PART - 1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(part)], strict=True):
            number, rows = int(part[start]), indexes.take(slice(start, end))
            if last is not None and number == last_part:
                rows = without_repeats(IndexColumns.concat([last, rows])).take(slice(1, None))
            else:
                rows = without_repeats(rows)
            if len(rows):
                last, last_part = rows.take(slice(-1, None)).copy(), number
                yield number, rows


def _placed_batch(task: NDArray[np.int64], part: NDArray[np.int64], indexes: IndexColumns) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(task.astype(np.int32)),
            pa.array(part.astype(np.int32)),
            pa.array(indexes.deliver_at_ms),
            pa.array(indexes.ledger_id),
            pa.array(indexes.entry_id),
        ],
        names=PLACED_SCHEMA.fieldNames(),
    )
