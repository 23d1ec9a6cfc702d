"""Writing of snapshots by tasks, into a place that processes share: each makes whole snapshots of staged parts."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from delayed_tracker.spark import schema
from delayed_tracker.spark.commit.shared_commit import (
    OpenWriter,
    SnapshotToWrite,
    WriteSnapshots,
    WrittenSnapshot,
)
from delayed_tracker.spark.plan.part_plan import tasks_of
from delayed_tracker.spark.steps.arrow_columns import numbers

POINTER: Final = "pointer"
WRITTEN_SCHEMA: Final = StructType(
    [
        StructField(schema.BUCKET, IntegerType(), nullable=False),
        StructField(schema.BUCKET_ID, LongType(), nullable=False),
        StructField(POINTER, BinaryType(), nullable=False),
    ]
)
"""A snapshot that a task has created: its number among those to write, and where it is."""


def write_in_tasks(session: SparkSession, open_writer: OpenWriter, *, indexes_per_task: int) -> WriteSnapshots:
    """Return the function that creates snapshots by Spark's tasks.

    Args:
        session: its tasks write.
        open_writer: opens, in a task, the place that gets the snapshots; processes share it.
        indexes_per_task: small snapshots share a task up to so many indexes.
    """

    def write(snapshots: Sequence[SnapshotToWrite]) -> list[WrittenSnapshot]:
        if not snapshots:
            return []
        tasks = tasks_of([one.bucket.index_count for one in snapshots], indexes_per_task=indexes_per_task)
        task_count = int(tasks[-1]) + 1
        shared = session.sparkContext.broadcast((snapshots, tasks))

        def created(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            known, task_of = shared.value
            for batch in batches:
                for task in numbers(batch, "id").tolist():
                    with open_writer() as storage:
                        for number in np.flatnonzero(task_of == task).tolist():
                            yield _created(number, storage.write(known[number]))

        try:
            rows = session.range(0, task_count, 1, task_count).mapInArrow(created, WRITTEN_SCHEMA).toArrow()
        finally:
            shared.destroy()
        found = {row[schema.BUCKET]: WrittenSnapshot(row[schema.BUCKET_ID], row[POINTER]) for row in rows.to_pylist()}
        return [found[number] for number in range(len(snapshots))]

    return write


def _created(number: int, written: WrittenSnapshot) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([number], pa.int32()),
            pa.array([written.bucket_id], pa.int64()),
            pa.array([written.pointer], pa.binary()),
        ],
        names=WRITTEN_SCHEMA.fieldNames(),
    )
