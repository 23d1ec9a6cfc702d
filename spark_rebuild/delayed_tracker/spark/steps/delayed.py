"""Transaction outcomes of delayed messages; they do not depend on the subscription."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's customary name

from delayed_tracker.ledger.topic.transactions import ABORT_MARKER, COMMIT_MARKER, TransactionOutcome
from delayed_tracker.spark import schema

_TXN_ID: Final = (schema.TXN_ID_MOST, schema.TXN_ID_LEAST)
Step = Callable[[DataFrame], DataFrame]


def settle_transactions(kept: DataFrame) -> DataFrame:
    """Return the delayed messages of transactions with the outcomes of these; the markers are removed.

    If a transaction has several markers, the one at the highest position counts.

    Input: topic_number, ledger_id, entry_id, deliver_at_ms, marker_type, txn_id_most, txn_id_least.
    Output: topic_number, ledger_id, entry_id, deliver_at_ms (0 or more), transaction tinyint (``TransactionOutcome``).
    No order; rows are shuffled.
    """
    is_end = F.col(schema.MARKER_TYPE).isNotNull()
    ends = (
        kept.where(is_end)
        .groupBy(schema.TOPIC_NUMBER, *_TXN_ID)
        .agg(F.max_by(schema.MARKER_TYPE, F.struct(schema.LEDGER_ID, schema.ENTRY_ID)).alias("end"))
    )
    outcome = (
        F.when(F.col("end") == COMMIT_MARKER, int(TransactionOutcome.COMMITTED))
        .when(F.col("end") == ABORT_MARKER, int(TransactionOutcome.ABORTED))
        .otherwise(int(TransactionOutcome.OPEN))
    )
    decided = kept.where(~is_end).join(ends, [schema.TOPIC_NUMBER, *_TXN_ID], "left")
    return decided.select(
        F.col(schema.TOPIC_NUMBER),
        F.col(schema.LEDGER_ID),
        F.col(schema.ENTRY_ID),
        F.greatest(F.col(schema.DELIVER_AT_MS), F.lit(0)).cast("long").alias(schema.DELIVER_AT_MS),
        outcome.cast("tinyint").alias(schema.TRANSACTION),
    )
