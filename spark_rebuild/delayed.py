"""From entries to delayed messages: the steps that look at what an entry is, whoever subscribes to its topic."""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that everybody uses

from spark_rebuild import schema
from tracker.ledger.transactions import ABORT_MARKER, COMMIT_MARKER, TransactionOutcome

_TXN_ID: Final = (schema.TXN_ID_MOST, schema.TXN_ID_LEAST)
Step = Callable[[DataFrame], DataFrame]


def number_topics(numbers: Mapping[str, int]) -> Step:
    """Rows of the given topics, with their number in place of their name.

    Input: topic string. Output: topic_number int; everything else stays. Order and partitions stay.
    """

    def step(entries: DataFrame) -> DataFrame:
        names = entries.sparkSession.createDataFrame(
            list(numbers.items()), f"{schema.TOPIC} string, {schema.TOPIC_NUMBER} int"
        )
        return entries.join(F.broadcast(names), schema.TOPIC).drop(schema.TOPIC)

    return step


def keep_delayed(entries: DataFrame) -> DataFrame:
    """Delayed messages and the ends of transactions; neither bad entries nor other markers.

    Input and output: columns of the data source. Order and partitions stay.
    """
    return entries.where(F.col(schema.ERROR).isNull() & (_is_delayed() | _ends_transaction()))


def settle_transactions(kept: DataFrame) -> DataFrame:
    """Delayed messages with what became of their transaction; the markers that say so leave.

    Of several markers of one transaction the one at the highest position counts.

    Input: topic_number, ledger_id, entry_id, deliver_at_ms, marker_type, txn_id_most, txn_id_least.
    Output: topic_number, ledger_id, entry_id, deliver_at_ms (0 or more), transaction tinyint
    (``TransactionOutcome``; COMMITTED also for what was written in none). No order; rows of transactions are shuffled.
    """
    of_transaction = F.col(schema.TXN_ID_MOST).isNotNull()
    delayed = kept.where(_is_delayed())
    ends = (
        kept.where(_ends_transaction())
        .groupBy(schema.TOPIC_NUMBER, *_TXN_ID)
        .agg(F.max_by(schema.MARKER_TYPE, F.struct(schema.LEDGER_ID, schema.ENTRY_ID)).alias("end"))
    )
    outcome = (
        F.when(F.col("end") == COMMIT_MARKER, int(TransactionOutcome.COMMITTED))
        .when(F.col("end") == ABORT_MARKER, int(TransactionOutcome.ABORTED))
        .otherwise(int(TransactionOutcome.OPEN))
    )
    plain = delayed.where(~of_transaction).select(*_columns(F.lit(int(TransactionOutcome.COMMITTED))))
    decided = delayed.where(of_transaction).join(ends, [schema.TOPIC_NUMBER, *_TXN_ID], "left")
    return plain.unionByName(decided.select(*_columns(outcome)))


def without_transactions(kept: DataFrame) -> DataFrame:
    """The same for rows of which none was written in a transaction: nothing is shuffled."""
    return kept.where(_is_delayed()).select(*_columns(F.lit(int(TransactionOutcome.COMMITTED))))


def _columns(outcome: Column) -> list[Column]:
    return [
        F.col(schema.TOPIC_NUMBER),
        F.col(schema.LEDGER_ID),
        F.col(schema.ENTRY_ID),
        F.greatest(F.col(schema.DELIVER_AT_MS), F.lit(0)).cast("long").alias(schema.DELIVER_AT_MS),
        outcome.cast("tinyint").alias(schema.TRANSACTION),
    ]


def _is_delayed() -> Column:
    return F.col(schema.DELIVER_AT_MS).isNotNull() & F.col(schema.MARKER_TYPE).isNull()


def _ends_transaction() -> Column:
    return F.col(schema.MARKER_TYPE).isin(COMMIT_MARKER, ABORT_MARKER) & F.col(schema.TXN_ID_MOST).isNotNull()
