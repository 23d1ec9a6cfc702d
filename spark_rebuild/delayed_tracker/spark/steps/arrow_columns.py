"""Conversion between rows of Spark's batches and the columns that the core takes, without a copy row by row."""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import IndexColumns, Int64Array
from delayed_tracker.spark import schema

LONG: Final = pa.int64()


def index_columns_of(batch: pa.RecordBatch) -> IndexColumns:
    """Return the indexes of a batch that has deliver_at_ms, ledger_id and entry_id, none of them null."""
    return IndexColumns(
        longs(batch, schema.DELIVER_AT_MS), longs(batch, schema.LEDGER_ID), longs(batch, schema.ENTRY_ID)
    )


def longs(batch: pa.RecordBatch, name: str) -> Int64Array:
    """Return a column of 64-bit numbers; shares memory."""
    values: Int64Array = batch.column(name).to_numpy(zero_copy_only=False)
    return values


def numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Return a column of whole numbers of any width."""
    return longs(batch, name).astype(np.int64, copy=False)
