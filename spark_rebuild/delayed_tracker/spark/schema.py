"""Names and types of all columns: those of the data source, and those that steps of the pipeline add.

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
BUCKET_ID: Final = "bucket_id"
SEAL_NUMBER: Final = "seal_number"
BUCKET: Final = "bucket"
"""Number of a bucket in its subscription, from 0 in the order of sealing."""
TOPIC_NUMBER: Final = "topic_number"
"""Number of a topic in the job, from 0: rows between steps carry numbers, not names."""
TRANSACTION: Final = "transaction"
"""Outcome of the entry's transaction: ``delayed_tracker.ledger.topic.transactions.TransactionOutcome``."""
SUBSCRIBER: Final = "subscriber"
"""Number of a subscription of a topic in the job, from 0."""
TASK: Final = "task"
"""Number of the task that encodes a row, from 0."""
PART: Final = "part"
"""Number of the part of a snapshot that a row belongs to, from 0 among all parts of a job."""
INDEX_COUNT: Final = "index_count"
ROWS: Final = "rows"
"""Many rows as one value: ``delayed_tracker.spark.steps.packed_rows``."""
KEY: Final = "key"
"""Key of a staged object."""
SEGMENT_BYTES: Final = "segment_bytes"
METADATA_BYTES: Final = "metadata_bytes"


@dataclass(frozen=True, slots=True)
class Column:
    """One column, and its description in the README."""

    name: str
    type: DataType
    nullable: bool
    meaning: str

    @property
    def field(self) -> StructField:
        """The column as a Spark field."""
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
"""Columns of ``spark.read.format("pulsar_ledger")``: one row for each entry. With ``onError=skip`` also one row for
each entry, or run of entries, that is missing or damaged. Bad rows have only topic, position, entry count and error;
the other columns are null.
"""

ENTRY_SCHEMA: Final = StructType([column.field for column in ENTRY_COLUMNS])
"""Schema of entries. Each position occurs once, however many copies there are. Rows have no order."""


def entry_columns(*names: str) -> StructType:
    """Return the schema of some entry columns, for ``.schema(...)``: columns that are not read are not built."""
    return StructType([column.field for column in ENTRY_COLUMNS if column.name in names])


SNAPSHOT_COLUMNS: Final = (
    Column(TOPIC, StringType(), False, "as the catalogue has it"),
    Column(SUBSCRIPTION, StringType(), False, "the cursor's name"),
    Column(BUCKET_ID, LongType(), True, "of the bucket; null if a whole catalogue cannot be read"),
    Column(
        SEAL_NUMBER, LongType(), True, "order in which the tracker froze its buckets; null for those that Pulsar wrote"
    ),
    Column(DELIVER_AT_MS, LongType(), True, "deadline"),
    Column(LEDGER_ID, LongType(), True, "of the message"),
    Column(ENTRY_ID, LongType(), True, "of the message"),
    Column(ERROR, StringType(), True, "why the bucket, or what is left of it, cannot be read; null for what is whole"),
)
"""Columns of ``spark.read.format("delayed_snapshots")``: one row for each pending position of a tracker. With
``onError=skip`` also one row for each bucket that cannot be read, without deadline and position.
"""

SNAPSHOT_SCHEMA: Final = StructType([column.field for column in SNAPSHOT_COLUMNS])
