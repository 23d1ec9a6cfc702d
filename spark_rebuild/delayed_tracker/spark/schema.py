"""Names and types of all columns: those that the data source gives, and those that steps of the pipeline add.

Steps name columns by these constants only. Times are milliseconds since 1970-01-01 UTC, as the ledgers hold them.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType

TOPIC: Final = "topic"
LEDGER_ID: Final = "ledger_id"
ENTRY_ID: Final = "entry_id"
PUBLISH_TIME: Final = "publish_time"
DELIVER_AT_MS: Final = "deliver_at_ms"
BROKER_TIMESTAMP: Final = "broker_timestamp"
INDEX: Final = "index"
NUM_MESSAGES: Final = "num_messages"
MARKER_TYPE: Final = "marker_type"
TXN_ID_MOST: Final = "txn_id_most"
TXN_ID_LEAST: Final = "txn_id_least"
FLAGS: Final = "flags"
SIZE_BYTES: Final = "size_bytes"
ENTRY_COUNT: Final = "entry_count"
ERROR: Final = "error"

SUBSCRIPTION: Final = "subscription"
BUCKET: Final = "bucket"
"""Which of a subscription's buckets, from 0 in the order of sealing."""
SEGMENT: Final = "segment"
"""Which of a bucket's segments, from 0 in the order of deadlines."""
TOPIC_NUMBER: Final = "topic_number"
"""Which of a job's topics, from 0: rows between steps carry numbers, not names."""
TRANSACTION: Final = "transaction"
"""What became of an entry's transaction: ``delayed_tracker.ledger.topic.transactions.TransactionOutcome``."""
SUBSCRIBER: Final = "subscriber"
"""Which of a job's subscriptions of topics, from 0."""
TASK: Final = "task"
"""Which task encodes a row, from 0."""
PART: Final = "part"
"""Which part of a bucket's snapshot a row belongs to, from 0 among all parts of a job."""
INDEX_COUNT: Final = "index_count"
ROWS: Final = "rows"
"""Many rows as one value: ``delayed_tracker.spark.steps.packed_rows``."""
KEY: Final = "key"
"""Of a staged object."""
SEGMENT_BYTES: Final = "segment_bytes"
METADATA_BYTES: Final = "metadata_bytes"


@dataclass(frozen=True, slots=True)
class Column:
    """One column, and what README says about it."""

    name: str
    type: DataType
    nullable: bool
    meaning: str

    @property
    def field(self) -> StructField:
        """The same for Spark."""
        return StructField(self.name, self.type, self.nullable)


ENTRY_COLUMNS: Final = (
    Column(TOPIC, StringType(), True, "full name; null if damage hides which it was"),
    Column(LEDGER_ID, LongType(), True, "null if damage hides which it was"),
    Column(ENTRY_ID, LongType(), True, "null if a whole ledger, or a stretch of a file, cannot be read"),
    Column(PUBLISH_TIME, LongType(), True, "by the producer's clock"),
    Column(DELIVER_AT_MS, LongType(), True, "null unless delayed; as stored, so it may be negative: due at once"),
    Column(BROKER_TIMESTAMP, LongType(), True, "by the broker's clock; null if the broker did not note it"),
    Column(INDEX, LongType(), True, "broker's index of the entry's last message; null if the broker did not note it"),
    Column(NUM_MESSAGES, IntegerType(), True, "of a batch; 1 for everything else"),
    Column(MARKER_TYPE, IntegerType(), True, "null for messages; 21 commits a transaction, 22 aborts it"),
    Column(
        TXN_ID_MOST, LongType(), True, "of its transaction: the upper 64 bits, as a signed number; null without one"
    ),
    Column(TXN_ID_LEAST, LongType(), True, "the lower 64 bits"),
    Column(FLAGS, IntegerType(), True, "bits of `delayed_tracker.ledger.entry.entry_columns.EntryFlag`"),
    Column(SIZE_BYTES, IntegerType(), True, "stored bytes, metadata included, the storage's own digest not"),
    Column(ENTRY_COUNT, LongType(), False, "1; of a bad row, how many entries from `entry_id` on share the error"),
    Column(ERROR, StringType(), True, "why it cannot be read, with file and byte; null for what is whole"),
)
"""Columns of ``spark.read.format("pulsar_ledger")``: a row for each entry, and with ``onError=skip`` one for each
entry, or run of entries, that is missing or damaged. Of bad rows all but topic, position, entry count and error are
null."""

ENTRY_SCHEMA: Final = StructType([column.field for column in ENTRY_COLUMNS])
"""Each position occurs once, whatever copies there are. Rows have no order."""


def entry_columns(*names: str) -> StructType:
    """Some of the columns of entries, for ``.schema(...)``: what is not read is not made."""
    return StructType([column.field for column in ENTRY_COLUMNS if column.name in names])


INDEX_SCHEMA: Final = StructType(
    [
        StructField(TOPIC, StringType(), nullable=False),
        StructField(SUBSCRIPTION, StringType(), nullable=False),
        StructField(LEDGER_ID, LongType(), nullable=False),
        StructField(ENTRY_ID, LongType(), nullable=False),
        StructField(DELIVER_AT_MS, LongType(), nullable=False),
    ]
)
"""What one subscription is still to get later: a row for each delayed message that it has not acknowledged."""
