"""Sorting, cutting and encoding: from accepted indexes to staged parts of snapshots.

Each task sorts and packs its rows of each part. Spark brings these runs together and orders them by their first rows.
Then functions of the core merge, cut and encode the runs as they arrive. A task that encodes holds the runs that
overlap: at most one part, and if very many rows share a deadline, only those whose positions are close to each other.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from delayed_tracker.core.rules.seal import without_repeats
from delayed_tracker.core.rules.segment_cutter import SegmentCutter
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Int64Array
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.spark import schema
from delayed_tracker.spark.commit.staging import Staging
from delayed_tracker.spark.plan.acceptance import Acceptance
from delayed_tracker.spark.plan.part_plan import NO_PART, PartMap
from delayed_tracker.spark.steps.arrow_columns import index_columns_of, numbers
from delayed_tracker.spark.steps.delayed import Step
from delayed_tracker.spark.steps.packed_rows import ROWS_AT_ONCE, packed, unpacked
from delayed_tracker.spark.steps.subscriber_rows import SubscribersByTopic, accepted_by_part

PLACED_SCHEMA: Final = StructType(
    [
        StructField(schema.TASK, IntegerType(), nullable=False),
        StructField(schema.PART, IntegerType(), nullable=False),
        StructField(schema.DELIVER_AT_MS, LongType(), nullable=False),
        StructField(schema.LEDGER_ID, LongType(), nullable=False),
        StructField(schema.ENTRY_ID, LongType(), nullable=False),
        StructField(schema.ROWS, BinaryType(), nullable=False),
    ]
)
"""A run: sorted, packed rows of one part, and the first of these rows."""
STAGED_SCHEMA: Final = StructType(
    [
        StructField(schema.PART, IntegerType(), nullable=False),
        StructField(schema.KEY, StringType(), nullable=False),
        StructField(schema.INDEX_COUNT, LongType(), nullable=False),
        StructField(schema.SEGMENT_BYTES, LongType(), nullable=False),
        StructField(schema.METADATA_BYTES, LongType(), nullable=False),
    ]
)
"""Result of a task for each part: its key, and the counts of its content."""
_HELD_MAX: Final = 1 << 19
"""Largest number of rows held, 24 bytes each, before the rows that are complete are sorted and passed on."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Map from indexes to parts and tasks, used in every task."""

    maps: Mapping[int, PartMap]
    """Maps by subscriber number."""
    task_of_part: Int64Array
    """Task of each part; -1 for parts that need not be made."""


def place(subscribers: Broadcast[SubscribersByTopic], placement: Broadcast[Placement], acceptance: Acceptance) -> Step:
    """Return the step that yields accepted indexes with their part and task, for subscriptions with buckets to be made.

    Input: packed delayed messages, any order. Output: :data:`PLACED_SCHEMA`.
    """

    def placed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = placement.value
        held: dict[int, list[IndexColumns]] = {}
        count = 0
        for part, indexes in accepted_by_part(batches, subscribers.value, known.maps, acceptance):
            if known.task_of_part[part] < 0:
                continue
            held.setdefault(part, []).append(indexes)
            count += len(indexes)
            if count >= _HELD_MAX:
                yield from sorted_runs(held, known.task_of_part)
                held, count = {}, 0
        yield from sorted_runs(held, known.task_of_part)

    return lambda rows: rows.mapInArrow(placed, PLACED_SCHEMA)


def sort_into_tasks(task_count: int) -> Step:
    """Return the step that brings the runs of each task into one partition.

    Input and output: :data:`PLACED_SCHEMA`; the output ascends by (part, deliver_at_ms, ledger_id, entry_id).
    """

    def step(rows: DataFrame) -> DataFrame:
        brought = rows.repartitionById(task_count, schema.TASK)
        return brought.sortWithinPartitions(schema.PART, schema.DELIVER_AT_MS, schema.LEDGER_ID, schema.ENTRY_ID)

    return step


def stage(names: Broadcast[list[str]], staging: Staging, run: str, limits: TrackerLimits) -> Step:
    """Return the step that cuts, encodes and stages sorted runs; it returns only a message for each part.

    Args:
        names: of the parts, by number.
        staging: destination of the parts.
        run: name of this run of the job, part of each object's name.
        limits: of the segments.
    Input: output of :func:`sort_into_tasks`. Output: :data:`STAGED_SCHEMA`, one row for each part; no order.
    """

    def staged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = merge_runs(batches)
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


def merge_runs(batches: Iterable[pa.RecordBatch], *, held_max: int = _HELD_MAX) -> Iterator[tuple[int, IndexColumns]]:
    """Merge runs that ascend by their first rows; yield sorted rows without repeats, one part after the other.

    Args:
        batches: :data:`PLACED_SCHEMA`.
        held_max: rows held before complete ones are passed on; more are held if so many overlap.
    Yields: the number of the part, and rows of which none sorts before rows yielded earlier for that part.
    """
    part, held, count, enough = NO_PART, list[IndexColumns](), 0, held_max
    for batch in batches:
        heads = index_columns_of(batch)
        for row, number in enumerate(numbers(batch, schema.PART).tolist()):
            if number != part:
                if held:
                    yield part, _merged(held)
                part, held, count, enough = number, [], 0, held_max
            elif count >= enough:
                # No later run has a row that sorts before the first row of this run.
                merged = _merged(held)
                done = int(np.count_nonzero(_before(merged, heads.take(slice(row, row + 1)))))
                if done:
                    yield part, merged.take(slice(done))
                held, count = [merged.take(slice(done, None)).copy()], len(merged) - done
                enough = max(held_max, 2 * count)
            for run in unpacked(batch.column(schema.ROWS).slice(row, 1)):
                held.append(index_columns_of(run))
                count += run.num_rows
    if held:
        yield part, _merged(held)


def _merged(runs: Sequence[IndexColumns]) -> IndexColumns:
    return without_repeats(IndexColumns.concat(runs).sorted())


def _before(rows: IndexColumns, head: IndexColumns) -> BoolArray:
    """Return the mask of rows that sort before the one row of ``head``."""
    earlier_entry = (rows.ledger_id == head.ledger_id) & (rows.entry_id < head.entry_id)
    earlier_position = (rows.ledger_id < head.ledger_id) | earlier_entry
    before: BoolArray = (rows.deliver_at_ms < head.deliver_at_ms) | (
        (rows.deliver_at_ms == head.deliver_at_ms) & earlier_position
    )
    return before


def sorted_runs(
    parts: Mapping[int, Sequence[IndexColumns]], task_of_part: Int64Array, *, rows_max: int = ROWS_AT_ONCE
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each part in runs of at most ``rows_max`` rows, one batch of :data:`PLACED_SCHEMA` each."""
    for part, pieces in parts.items():
        indexes = _merged(pieces)
        for start in range(0, len(indexes), rows_max):
            run = indexes.take(slice(start, start + rows_max))
            columns = {
                schema.DELIVER_AT_MS: pa.array(run.deliver_at_ms),
                schema.LEDGER_ID: pa.array(run.ledger_id),
                schema.ENTRY_ID: pa.array(run.entry_id),
            }
            yield pa.RecordBatch.from_pydict(
                {
                    schema.TASK: pa.array([int(task_of_part[part])], pa.int32()),
                    schema.PART: pa.array([part], pa.int32()),
                    **{name: column.slice(0, 1) for name, column in columns.items()},
                    schema.ROWS: [packed(pa.RecordBatch.from_pydict(columns))],
                }
            )
