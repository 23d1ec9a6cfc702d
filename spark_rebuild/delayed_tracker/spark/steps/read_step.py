"""Reading step of a job: one task reads each part, and packs its delayed messages before they leave the task.

Most delayed messages belong to no transaction, so their outcome is known as soon as they are read. Rows of transactions
and bad entries are few; they stay rows that Spark can join and sort.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's customary name
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from delayed_tracker.core.values.columns import BoolArray
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.topic.topic_log import LedgerSource
from delayed_tracker.ledger.topic.transactions import ABORT_MARKER, COMMIT_MARKER, TransactionOutcome
from delayed_tracker.spark import schema
from delayed_tracker.spark.source.entry_filter import Range
from delayed_tracker.spark.source.ledger_plan import plan_parts
from delayed_tracker.spark.source.ledger_reader import PulsarLedgerReader
from delayed_tracker.spark.source.source_options import SourceOptions
from delayed_tracker.spark.steps.arrow_columns import numbers
from delayed_tracker.spark.steps.delayed import settle_transactions
from delayed_tracker.spark.steps.packed_rows import PackedRows, Packer

_OF_TRANSACTIONS: Final = (
    schema.TOPIC_NUMBER,
    schema.LEDGER_ID,
    schema.ENTRY_ID,
    schema.DELIVER_AT_MS,
    schema.MARKER_TYPE,
    schema.TXN_ID_MOST,
    schema.TXN_ID_LEAST,
)
_OF_BAD: Final = (schema.TOPIC, schema.LEDGER_ID, schema.ENTRY_ID, schema.ENTRY_COUNT, schema.ERROR)
KEPT_SCHEMA: Final = StructType(
    [
        StructField(schema.TOPIC_NUMBER, IntegerType()),
        StructField(schema.LEDGER_ID, LongType()),
        StructField(schema.ENTRY_ID, LongType()),
        StructField(schema.DELIVER_AT_MS, LongType()),
        StructField(schema.MARKER_TYPE, IntegerType()),
        StructField(schema.TXN_ID_MOST, LongType()),
        StructField(schema.TXN_ID_LEAST, LongType()),
        StructField(schema.TOPIC, StringType()),
        StructField(schema.ENTRY_COUNT, LongType()),
        StructField(schema.ERROR, StringType()),
        StructField(schema.INDEX_COUNT, LongType()),
        StructField(schema.ROWS, BinaryType()),
    ]
)
"""A row is one of three: packed rows and their number; a delayed message in a transaction or the end of one; a bad
entry. Columns of the other kinds are null.
"""
PACKED_SCHEMA: Final = StructType([StructField(schema.ROWS, BinaryType(), nullable=False)])
"""Packed delayed messages: topic_number, ledger_id, entry_id, deliver_at_ms (0 or more), transaction."""
_KEPT_ARROW: Final = to_arrow_schema(KEPT_SCHEMA, timezone="UTC")
_READ: Final = (schema.TOPIC, *_OF_TRANSACTIONS[1:])
_READ_BAD: Final = (schema.ENTRY_COUNT, schema.ERROR)


def read_kept(
    session: SparkSession,
    options: SourceOptions,
    topics: Mapping[str, int],
    running: Mapping[str, LedgerSource] = MappingProxyType({}),
) -> DataFrame:
    """Return the data frame of all rows that a job needs.

    Args:
        session: its tasks read.
        options: the ledgers and their sources; only delayed entries are kept.
        topics: the number of each topic.
        running: clusters that are open, by URL.
    Returns: :data:`KEPT_SCHEMA`; one partition for each part. Nothing is read yet.
    Raises: as the data source when it plans.
    """
    names = (*_READ, *_READ_BAD) if options.on_error is ErrorPolicy.SKIP else _READ
    reader = PulsarLedgerReader(options, schema.entry_columns(*names))
    parts = session.sparkContext.broadcast(plan_parts(options, Range(), running))

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known: list[InputPartition] = parts.value
        for batch in batches:
            for number in numbers(batch, "id").tolist():
                yield from _kept(reader.read(known[number]), topics)

    count = len(parts.value)
    return session.range(0, count, 1, max(count, 1)).mapInArrow(read, KEPT_SCHEMA)


def _kept(batches: Iterable[pa.RecordBatch], topics: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one part as rows of :data:`KEPT_SCHEMA`."""
    names = pa.array(list(topics), pa.string())
    plain = Packer()
    for batch in batches:
        if schema.ERROR in batch.schema.names and not batch.column(schema.ERROR).null_count:
            yield _widened({name: batch.column(name) for name in _OF_BAD}, batch.num_rows)
            continue
        # The order of ``topics`` gives the numbers, from 0.
        topic = pc.index_in(batch.column(schema.TOPIC), value_set=names)
        marker = pc.fill_null(batch.column(schema.MARKER_TYPE), 0).to_numpy()
        is_known, in_transaction = _has(topic), _has(batch.column(schema.TXN_ID_MOST))
        is_delayed = is_known & _has(batch.column(schema.DELIVER_AT_MS)) & ~_has(batch.column(schema.MARKER_TYPE))
        ends_transaction = is_known & in_transaction & ((marker == COMMIT_MARKER) | (marker == ABORT_MARKER))
        undecided = (is_delayed & in_transaction) | ends_transaction
        if undecided.any():
            rows = batch.append_column(schema.TOPIC_NUMBER, topic).filter(pa.array(undecided))
            yield _widened({name: rows.column(name) for name in _OF_TRANSACTIONS}, rows.num_rows)
        yield from map(_packed, plain.add(_settled(batch, topic, is_delayed & ~in_transaction)))
    yield from map(_packed, plain.end())


def _settled(batch: pa.RecordBatch, topic: pa.Array, which: BoolArray) -> pa.RecordBatch:
    """Return the selected rows of a batch as packed rows hold them, with the outcome of committed transactions."""
    columns = {
        schema.TOPIC_NUMBER: topic,
        schema.LEDGER_ID: batch.column(schema.LEDGER_ID),
        schema.ENTRY_ID: batch.column(schema.ENTRY_ID),
        schema.DELIVER_AT_MS: pc.max_element_wise(batch.column(schema.DELIVER_AT_MS), 0),
        schema.TRANSACTION: pa.array(np.full(len(which), TransactionOutcome.COMMITTED, np.int8)),
    }
    rows = pa.RecordBatch.from_pydict(columns)
    return rows if which.all() else rows.filter(pa.array(which))


def settled_rows(kept: DataFrame, *, has_transactions: bool) -> DataFrame:
    """Return all delayed messages with the outcomes of their transactions, packed.

    Input: :data:`KEPT_SCHEMA`. Output: :data:`PACKED_SCHEMA`, no order; rows of transactions are shuffled.
    """
    plain = kept.where(F.col(schema.ROWS).isNotNull()).select(schema.ROWS)
    if not has_transactions:
        return plain
    of_transactions = kept.where(F.col(schema.TXN_ID_MOST).isNotNull()).select(*_OF_TRANSACTIONS)
    return plain.union(of_transactions.transform(settle_transactions).mapInArrow(_pack, PACKED_SCHEMA))


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    packer = Packer()
    for batch in batches:
        for rows in packer.add(batch):
            yield pa.RecordBatch.from_pydict({schema.ROWS: [rows.value]})
    for rows in packer.end():
        yield pa.RecordBatch.from_pydict({schema.ROWS: [rows.value]})


def _packed(rows: PackedRows) -> pa.RecordBatch:
    return _widened({schema.INDEX_COUNT: pa.array([rows.row_count]), schema.ROWS: pa.array([rows.value])}, 1)


def _widened(columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
    """Return a batch with nulls for the columns that are not given."""
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in _KEPT_ARROW]
    return pa.RecordBatch.from_arrays(arrays, schema=_KEPT_ARROW)


def _has(column: pa.Array) -> BoolArray:
    present: BoolArray = column.is_valid().to_numpy(zero_copy_only=False)
    return present
