"""Rows of the index that a verification compares: read by the tasks, or by the driver if nobody else can read it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.spark import schema
from delayed_tracker.spark.errors import IndexNotReadable
from delayed_tracker.spark.runtime.python_worker import freeze_heap
from delayed_tracker.spark.snapshots.live_buckets import LostBucket
from delayed_tracker.spark.snapshots.live_snapshots import LiveSnapshots, LostPart, SnapshotPart, parts_of
from delayed_tracker.spark.steps.arrow_columns import numbers
from delayed_tracker.spark.steps.comparison_runs import numbered_batch
from delayed_tracker.spark.steps.packed_rows import PackedRows, Packer

INDEX_ROWS_SCHEMA: Final = StructType(
    [StructField(schema.ROWS, BinaryType(), nullable=True), StructField(schema.ERROR, StringType(), nullable=True)]
)
"""Packed rows (subscriber, deliver_at_ms, ledger_id, entry_id); or a bucket that cannot be read."""
FED_ROWS_MAX: Final = 2_000_000
"""Rows that the driver holds before Spark gets them: some 20 MB, packed."""


@dataclass(frozen=True, slots=True)
class LiveRows:
    """Rows of an index."""

    frame: DataFrame
    """:data:`INDEX_ROWS_SCHEMA`."""
    row_count: int
    """Rows of the frame, about."""
    not_readable: Mapping[int, IndexNotReadable]
    """By number, subscriptions that cannot be read; the frame may have some of their rows."""
    lost: Sequence[str] = ()
    """Buckets that cannot be read, beside those in the frame."""


class LiveIndex(Protocol):
    """Index that is in use."""

    def rows(self, session: SparkSession, trackers: Sequence[tuple[str, str]]) -> LiveRows:
        """Return all pending indexes of some (topic, subscription), each with its number in ``trackers``.

        A tracker that does not exist has none. The rows are in any order.
        """


class PagedIndex(Protocol):
    """Index that one process reads, some rows at a time."""

    def pending(self, topic: str, subscription: str) -> Iterator[IndexColumns | LostBucket]:
        """Yield all pending indexes of one subscription in any order, and its buckets that cannot be read.

        Raises:
            IndexNotReadable: for this subscription; others may be readable.
        """


class SharedIndex:
    """``LiveIndex`` in a storage that processes share: tasks read its snapshots themselves.

    Args:
        url: of the storage.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def rows(self, session: SparkSession, trackers: Sequence[tuple[str, str]]) -> LiveRows:
        """See :class:`LiveIndex`.

        Raises:
            StorageUnavailable: the catalogues cannot be read now.
        """
        with LiveSnapshots(self._url) as storage:
            parts = parts_of(storage.plan(trackers))
        row_count = sum(piece.index_count for part in parts if isinstance(part, SnapshotPart) for piece in part.pieces)
        return LiveRows(self._frame(session, parts, trackers), row_count, {})

    def _frame(
        self, session: SparkSession, parts: Sequence[InputPartition], trackers: Sequence[tuple[str, str]]
    ) -> DataFrame:
        url = self._url
        shared = session.sparkContext.broadcast((parts, {key: number for number, key in enumerate(trackers)}))

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            freeze_heap()
            for batch in batches:
                for number in numbers(batch, "id").tolist():
                    yield from _read(url, shared.value[0][number], shared.value[1])

        count = len(parts)
        return session.range(0, count, 1, max(count, 1)).mapInArrow(read, INDEX_ROWS_SCHEMA)


def _read(url: str, part: InputPartition, trackers: Mapping[tuple[str, str], int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one part."""
    if isinstance(part, LostPart):
        yield from (_row(error=bucket.error) for bucket in part.lost)
        return
    assert isinstance(part, SnapshotPart)
    packer = Packer()
    with LiveSnapshots(url) as storage:
        for piece, rows in storage.read(part.pieces):
            if isinstance(rows, LostBucket):
                yield _row(error=rows.error)
                continue
            number = np.full(len(rows), trackers[piece.topic, piece.subscription], np.int64)
            yield from (_row(value.value) for value in packer.add(numbered_batch(number, rows)))
    yield from (_row(value.value) for value in packer.end())


def _row(rows: bytes | None = None, error: str | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {schema.ROWS: pa.array([rows], pa.binary()), schema.ERROR: pa.array([error], pa.string())}
    )


class DriverIndex:
    """``LiveIndex`` that the driver alone can read: it passes the rows on to Spark, a bounded number at a time.

    Args:
        index: the index.
        rows_max: rows that the driver holds.
    """

    def __init__(self, index: PagedIndex, *, rows_max: int = FED_ROWS_MAX) -> None:
        self._index = index
        self._rows_max = rows_max

    def rows(self, session: SparkSession, trackers: Sequence[tuple[str, str]]) -> LiveRows:
        """See :class:`LiveIndex`. Raises: as ``PagedIndex.pending``, but for IndexNotReadable."""
        feed = _Feed(session, self._rows_max)
        not_readable: dict[int, IndexNotReadable] = {}
        lost: list[str] = []
        for number, (topic, subscription) in enumerate(trackers):
            try:
                for found in self._index.pending(topic, subscription):
                    if isinstance(found, LostBucket):
                        lost.append(found.error)
                    else:
                        feed.add(numbered_batch(np.full(len(found), number, np.int64), found))
            except IndexNotReadable as error:
                not_readable[number] = error
        return LiveRows(feed.end(), feed.row_count, not_readable, lost)


class _Feed:
    """Rows on their way from the driver to Spark."""

    def __init__(self, session: SparkSession, rows_max: int) -> None:
        self.row_count = 0
        self._session = session
        self._rows_max = rows_max
        self._packer = Packer()
        self._values: list[bytes] = []
        self._held_count = 0
        self._frames: list[DataFrame] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; pass on what is held if it is enough."""
        self._take(self._packer.add(batch))
        if self._held_count >= self._rows_max:
            # The executors write the rows to their disks, and the plan forgets where they came from: the driver's Java
            # process does not keep them either.
            self._frames.append(self._frame().localCheckpoint(storageLevel=StorageLevel.DISK_ONLY))
            self._values, self._held_count = [], 0

    def end(self) -> DataFrame:
        """Return all rows."""
        self._take(self._packer.end())
        whole = self._frame()
        for frame in self._frames:
            whole = whole.union(frame)
        return whole

    def _take(self, values: Iterable[PackedRows]) -> None:
        for value in values:
            self._values.append(value.value)
            self._held_count += value.row_count
            self.row_count += value.row_count

    def _frame(self) -> DataFrame:
        rows = pa.table(
            {
                schema.ROWS: pa.array(self._values, pa.binary()),
                schema.ERROR: pa.nulls(len(self._values), pa.string()),
            }
        )
        return self._session.createDataFrame(rows, INDEX_ROWS_SCHEMA)
