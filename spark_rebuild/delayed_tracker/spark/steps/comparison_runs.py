"""Distributed comparison: brings the rows of both sides together by position, and compares them task by task.

A task gets the positions of some blocks of entries, from all subscriptions, so that its share does not depend on which
subscription, ledger or deadline has many rows. Rows travel packed. Only counts and listed positions leave a task.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from delayed_tracker.core.values.columns import IndexColumns, Int64Array
from delayed_tracker.spark import schema
from delayed_tracker.spark.plan.acceptance import Acceptance, IndexOutcome
from delayed_tracker.spark.steps.arrow_columns import index_columns_of, numbers
from delayed_tracker.spark.steps.comparing import LISTED, ComparisonRules, NumberedIndexes, compare
from delayed_tracker.spark.steps.delayed import Step
from delayed_tracker.spark.steps.packed_rows import packed, unpacked
from delayed_tracker.spark.steps.subscriber_rows import SubscribersByTopic, offered

IN_INDEX: Final = "in_index"
FINDING: Final = "finding"
LEDGER_MS: Final = "ledger_ms"
INDEX_MS: Final = "index_ms"
RUN_SCHEMA: Final = StructType(
    [
        StructField(schema.TASK, IntegerType(), nullable=False),
        StructField(IN_INDEX, BooleanType(), nullable=False),
        StructField(schema.ROWS, BinaryType(), nullable=True),
        StructField(schema.ERROR, StringType(), nullable=True),
    ]
)
"""A run: packed rows (subscriber, deliver_at_ms, ledger_id, entry_id) of one side for one task; or a bucket of the index
that cannot be read.
"""
FINDING_SCHEMA: Final = StructType(
    [
        StructField(FINDING, IntegerType(), nullable=True),
        StructField(schema.SUBSCRIBER, IntegerType(), nullable=True),
        StructField(schema.INDEX_COUNT, LongType(), nullable=True),
        StructField(schema.LEDGER_ID, LongType(), nullable=True),
        StructField(schema.ENTRY_ID, LongType(), nullable=True),
        StructField(LEDGER_MS, LongType(), nullable=True),
        StructField(INDEX_MS, LongType(), nullable=True),
        StructField(schema.ERROR, StringType(), nullable=True),
    ]
)
"""A row is one of three: how many positions of one kind (``comparing.Finding``) a task found in a subscription; a listed
position; a bucket of the index that cannot be read. Columns of the other kinds are null.
"""
ROWS_PER_TASK: Final = 500_000
"""Rows of both sides that a task compares, about; 120 bytes each while they are sorted."""
_HELD_MAX: Final = 1 << 19
"""Rows that a task holds before it passes on what it has for each other task."""
_BLOCK_BITS: Final = 12
"""Entries of a block, which one task compares, as a power of two."""
_TASKS_MAX: Final = 1 << 14


def task_count_of(row_count: int) -> int:
    """Return the number of tasks that compare so many rows."""
    return min(_TASKS_MAX, 1 + row_count // ROWS_PER_TASK)


def runs_of_ledgers(subscribers: Broadcast[SubscribersByTopic], acceptance: Acceptance, task_count: int) -> Step:
    """Return the step that yields the indexes that each subscription accepts, as runs.

    Input: packed delayed messages, any order. Output: :data:`RUN_SCHEMA`.
    """

    def accepted(batches: Iterable[pa.RecordBatch]) -> Iterator[NumberedIndexes]:
        for subscriber, indexes, transaction in offered(batches, subscribers.value):
            kept = indexes.take(acceptance.outcomes(indexes, transaction, subscriber.cursor) == IndexOutcome.ACCEPTED)
            yield NumberedIndexes(np.full(len(kept), subscriber.number, np.int64), kept)

    def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _runs(accepted(batches), task_count, in_index=False)

    return lambda rows: rows.mapInArrow(runs, RUN_SCHEMA)


def runs_of_index(task_count: int) -> Step:
    """Return the step that yields the rows of an index as runs.

    Input: ``delayed_tracker.spark.steps.live_index.INDEX_ROWS_SCHEMA``, any order. Output: :data:`RUN_SCHEMA`.
    """

    def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        errors: list[str] = []

        def pieces() -> Iterator[NumberedIndexes]:
            for batch in batches:
                errors.extend(batch.column(schema.ERROR).drop_null().to_pylist())
                for piece in unpacked(batch.column(schema.ROWS).drop_null()):
                    yield NumberedIndexes(numbers(piece, schema.SUBSCRIBER), index_columns_of(piece))

        yield from _runs(pieces(), task_count, in_index=True)
        for error in errors:
            yield _run(0, in_index=True, error=error)

    return lambda rows: rows.mapInArrow(runs, RUN_SCHEMA)


def compare_runs(rules: Broadcast[ComparisonRules], task_count: int) -> Step:
    """Return the step that compares what each task gets.

    Input: :data:`RUN_SCHEMA` of both sides, any order. Output: :data:`FINDING_SCHEMA`, no order; listed positions are the
    first of their task.
    """

    def compared(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sides: tuple[list[NumberedIndexes], list[NumberedIndexes]] = ([], [])
        for batch in batches:
            for error in batch.column(schema.ERROR).drop_null().to_pylist():
                yield _findings({schema.ERROR: pa.array([error], pa.string())}, 1)
            in_index = batch.column(IN_INDEX)
            for number, side in enumerate(sides):
                runs = batch.filter(in_index if number else pc.invert(in_index)).column(schema.ROWS)
                side.extend(
                    NumberedIndexes(numbers(run, schema.SUBSCRIBER), index_columns_of(run))
                    for run in unpacked(runs.drop_null())
                )
        expected, found = map(NumberedIndexes.concat, sides)
        for side in sides:
            side.clear()
        if len(expected) or len(found):
            yield from _compared(expected, found, rules.value)

    def step(runs: DataFrame) -> DataFrame:
        return runs.repartitionById(task_count, schema.TASK).mapInArrow(compared, FINDING_SCHEMA)

    return step


def _compared(expected: NumberedIndexes, found: NumberedIndexes, rules: ComparisonRules) -> Iterator[pa.RecordBatch]:
    one = compare(expected, found, rules)
    counts = one.counts(len(rules.is_compared))
    finding, subscriber = np.nonzero(counts)
    yield _findings(
        {
            FINDING: pa.array(finding.astype(np.int32)),
            schema.SUBSCRIBER: pa.array(subscriber.astype(np.int32)),
            schema.INDEX_COUNT: pa.array(counts[finding, subscriber]),
        },
        len(finding),
    )
    for kind in LISTED:
        rows = one.listed(kind)
        positions = one.positions.take(rows)
        columns = {
            FINDING: np.full(len(rows), kind, np.int32),
            schema.SUBSCRIBER: one.subscriber[rows].astype(np.int32),
            schema.LEDGER_ID: positions.ledger_id,
            schema.ENTRY_ID: positions.entry_id,
            LEDGER_MS: one.ledger_ms[rows],
            INDEX_MS: one.index_ms[rows],
        }
        yield _findings({name: pa.array(column) for name, column in columns.items()}, len(rows))


def _runs(pieces: Iterable[NumberedIndexes], task_count: int, *, in_index: bool) -> Iterator[pa.RecordBatch]:
    """Yield rows as runs, one for each task and ``_HELD_MAX`` rows."""
    held: list[NumberedIndexes] = []
    count = 0
    for piece in pieces:
        if len(piece):
            held.append(piece)
            count += len(piece)
        if count >= _HELD_MAX:
            yield from _divided(held, task_count, in_index=in_index)
            held, count = [], 0
    if held:
        yield from _divided(held, task_count, in_index=in_index)


def _divided(held: Sequence[NumberedIndexes], task_count: int, *, in_index: bool) -> Iterator[pa.RecordBatch]:
    rows = NumberedIndexes.concat(held)
    task = _tasks(rows, task_count)
    order = np.argsort(task.astype(np.int16), kind="stable")  # of 16 bits: a radix sort
    ordered = numbered_batch(rows.subscriber[order], rows.indexes.take(order))
    present, starts = np.unique(task[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for number, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
        yield _run(number, in_index=in_index, rows=packed(ordered.slice(start, end - start)))


def _tasks(rows: NumberedIndexes, task_count: int) -> Int64Array:
    """Return the task of each row: the same for all rows of a subscription in one block of entries."""
    mixed = np.zeros(len(rows), np.uint64)
    for column in (rows.subscriber, rows.indexes.ledger_id, rows.indexes.entry_id >> _BLOCK_BITS):
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return (mixed % np.uint64(task_count)).astype(np.int64)


def numbered_batch(subscriber: Int64Array, indexes: IndexColumns) -> pa.RecordBatch:
    """Return rows in the form in which they are packed."""
    return pa.RecordBatch.from_pydict(
        {
            schema.SUBSCRIBER: pa.array(subscriber.astype(np.int32)),
            schema.DELIVER_AT_MS: pa.array(indexes.deliver_at_ms),
            schema.LEDGER_ID: pa.array(indexes.ledger_id),
            schema.ENTRY_ID: pa.array(indexes.entry_id),
        }
    )


def _run(task: int, *, in_index: bool, rows: bytes | None = None, error: str | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([task], pa.int32()),
            pa.array([in_index]),
            pa.array([rows], pa.binary()),
            pa.array([error], pa.string()),
        ],
        names=RUN_SCHEMA.fieldNames(),
    )


_FINDING_ARROW: Final = pa.schema(
    [
        (FINDING, pa.int32()),
        (schema.SUBSCRIBER, pa.int32()),
        *((name, pa.int64()) for name in (schema.INDEX_COUNT, schema.LEDGER_ID, schema.ENTRY_ID, LEDGER_MS, INDEX_MS)),
        (schema.ERROR, pa.string()),
    ]
)


def _findings(columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
    """Return a batch with nulls for the columns that are not given."""
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in _FINDING_ARROW]
    return pa.RecordBatch.from_arrays(arrays, schema=_FINDING_ARROW)
