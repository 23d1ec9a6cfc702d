"""Reads the format ``delayed_snapshots``: planned once for a query from the catalogues, then read part by part in tasks."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.spark import schema
from delayed_tracker.spark.errors import SnapshotsUnreadable
from delayed_tracker.spark.runtime.python_worker import freeze_heap
from delayed_tracker.spark.snapshots.live_buckets import BucketPiece, LostBucket
from delayed_tracker.spark.snapshots.live_snapshots import LiveSnapshots, LostPart, SnapshotPart, parts_of
from delayed_tracker.spark.snapshots.snapshot_options import SnapshotOptions, require_storage
from delayed_tracker.spark.source.arrow_rows import require_columns

_BATCH_ROWS: Final = 1 << 16
"""Rows of a batch for Spark, which has the names of the tracker in each row."""


class DelayedSnapshotsReader(DataSourceReader):
    """Reader that plans on the driver and reads in the workers."""

    def __init__(self, options: SnapshotOptions, wanted: StructType) -> None:
        """Select the columns.

        Args:
            options: the trackers and their storage.
            wanted: some or all columns of :data:`schema.SNAPSHOT_SCHEMA`, in any order.
        Raises:
            InvalidInput: a column is unknown or has another type.
        """
        require_columns(wanted, schema.SNAPSHOT_COLUMNS)
        self._options = options
        self._wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts to read."""
        options = self._options
        require_storage(options.url)
        with LiveSnapshots(options.url) as storage:
            planned = storage.plan(options.chosen(storage.trackers()), part_bytes=options.partition_bytes)
            parts = parts_of(planned, part_bytes=options.partition_bytes)
        for part in parts:
            if isinstance(part, LostPart):
                self._refuse(part.lost[0])
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part."""
        freeze_heap()
        match partition:
            case LostPart():
                for bucket in partition.lost:
                    yield self._lost(bucket, None)
            case SnapshotPart():
                with LiveSnapshots(self._options.url) as storage:
                    for piece, rows in storage.read(partition.pieces):
                        if isinstance(rows, LostBucket):
                            self._refuse(rows)
                            yield self._lost(rows, piece.seal_number)
                        else:
                            yield from self._rows(piece, rows)

    def _refuse(self, lost: LostBucket) -> None:
        """Raise SnapshotsUnreadable, unless what is lost becomes a row."""
        if self._options.on_error is ErrorPolicy.FAIL:
            raise SnapshotsUnreadable(
                f"{lost.subscription!r} of {lost.topic!r}: {lost.error}; onError=skip reads the others"
            )

    def _rows(self, piece: BucketPiece, rows: IndexColumns) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(rows), _BATCH_ROWS):
            some = rows.take(slice(start, start + _BATCH_ROWS))
            columns = {
                schema.DELIVER_AT_MS: some.deliver_at_ms,
                schema.LEDGER_ID: some.ledger_id,
                schema.ENTRY_ID: some.entry_id,
            }
            yield self._batch(piece, piece.seal_number, {name: pa.array(of) for name, of in columns.items()}, len(some))

    def _lost(self, bucket: LostBucket, seal_number: int | None) -> pa.RecordBatch:
        return self._batch(bucket, seal_number, {schema.ERROR: pa.array([bucket.error])}, 1)

    def _batch(
        self, bucket: BucketPiece | LostBucket, seal_number: int | None, columns: dict[str, pa.Array], count: int
    ) -> pa.RecordBatch:
        """Return a batch of the selected columns: given ones, those that all rows share, and nulls."""
        shared = {
            schema.TOPIC: bucket.topic,
            schema.SUBSCRIPTION: bucket.subscription,
            schema.BUCKET_ID: bucket.bucket_id,
            schema.SEAL_NUMBER: seal_number,
        }
        selected = to_arrow_schema(self._wanted, timezone="UTC")
        arrays = [
            columns[field.name]
            if field.name in columns
            else pa.repeat(pa.scalar(shared.get(field.name), field.type), count)
            for field in selected
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=selected)
