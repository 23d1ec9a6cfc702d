"""Table of message indexes (PIP-415): the entry of each index, and the time at which the broker wrote it."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's customary name
from pyspark.sql.types import LongType, StringType, StructField, StructType

from delayed_tracker.spark import schema

FIRST_INDEX: Final = "first_index"
LAST_INDEX: Final = "last_index"

MESSAGE_INDEX_SCHEMA: Final = StructType(
    [
        StructField(schema.TOPIC, StringType(), nullable=True),
        StructField(FIRST_INDEX, LongType(), nullable=True),
        StructField(LAST_INDEX, LongType(), nullable=True),
        StructField(schema.LEDGER_ID, LongType(), nullable=True),
        StructField(schema.ENTRY_ID, LongType(), nullable=True),
        StructField(schema.BROKER_TIMESTAMP, LongType(), nullable=True),
    ]
)
"""One row for each entry: the first and the last index that the broker counted for it, both included."""
READ_SCHEMA: Final = schema.entry_columns(
    schema.TOPIC,
    schema.LEDGER_ID,
    schema.ENTRY_ID,
    schema.BROKER_TIMESTAMP,
    schema.INDEX,
    schema.NUM_MESSAGES,
    schema.TXN_ID_MOST,
    schema.ENTRY_COUNT,
    schema.ERROR,
)
"""Columns that the table is computed from."""


def index_messages(entries: DataFrame) -> DataFrame:
    """Return the table of all entries whose index the broker noted.

    Input: topic, ledger_id, entry_id, broker_timestamp, index, num_messages, txn_id_most; any order.
    Output: :data:`MESSAGE_INDEX_SCHEMA`, no order. Ranges of a topic are disjoint. An index of 2^63 or more is damage.
    """
    last, messages = F.col(schema.INDEX), F.col(schema.NUM_MESSAGES)
    # A broker counts a batch in a transaction as one message; ``delayed_tracker.ledger.queries.message_index`` does so,
    # too.
    counts_as_many = (messages > 1) & F.col(schema.TXN_ID_MOST).isNull()
    return entries.where(last >= 0).select(
        schema.TOPIC,
        F.when(counts_as_many, last - messages + 1).otherwise(last).alias(FIRST_INDEX),
        last.alias(LAST_INDEX),
        schema.LEDGER_ID,
        schema.ENTRY_ID,
        schema.BROKER_TIMESTAMP,
    )


def count_others(entries: DataFrame) -> tuple[int, int]:
    """Count the entries without an index from the broker, and the entries that cannot be read.

    A Spark action: it reads all entries.

    Input: index, entry_count, error.
    """
    is_whole = F.col(schema.ERROR).isNull()
    counted = entries.agg(
        F.count_if(is_whole & (F.coalesce(F.col(schema.INDEX), F.lit(-1)) < 0)),
        F.coalesce(F.sum(F.when(~is_whole, F.col(schema.ENTRY_COUNT))), F.lit(0)),
    ).first()
    assert counted is not None
    return counted[0], counted[1]


def write_parquet(table: DataFrame, url: str, *, overwrite: bool) -> None:
    """Write the table: a directory for each topic, the messages in order within each file.

    Args:
        table: :data:`MESSAGE_INDEX_SCHEMA`.
        url: a directory that the driver and the workers can reach.
        overwrite: replace existing data; if False, Spark raises an error when there is any.
    """
    # Range partitioning divides one large topic and lets many small topics share a task.
    ordered = table.repartitionByRange(schema.TOPIC, schema.LEDGER_ID, schema.ENTRY_ID).sortWithinPartitions(
        schema.TOPIC, schema.LEDGER_ID, schema.ENTRY_ID
    )
    ordered.write.partitionBy(schema.TOPIC).mode("overwrite" if overwrite else "errorifexists").parquet(url)
