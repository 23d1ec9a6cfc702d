"""Complete verification: compares the delayed messages of the ledgers with a live index."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.spark import schema
from delayed_tracker.spark.errors import IndexNotReadable
from delayed_tracker.spark.plan.acceptance import Acceptance, IndexOutcome
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.steps.arrow_columns import longs, numbers
from delayed_tracker.spark.steps.comparing import Comparison, LiveIndex, NotCompared, compare, positions_of
from delayed_tracker.spark.steps.delayed import Step
from delayed_tracker.spark.steps.reading import Report, reading
from delayed_tracker.spark.steps.subscriber_rows import SubscribersByTopic, offered
from delayed_tracker.spark.summary import Summary

ACCEPTED_SCHEMA: Final = StructType(
    [
        StructField(schema.SUBSCRIBER, IntegerType(), nullable=False),
        StructField(schema.DELIVER_AT_MS, LongType(), nullable=False),
        StructField(schema.LEDGER_ID, LongType(), nullable=False),
        StructField(schema.ENTRY_ID, LongType(), nullable=False),
    ]
)
"""One index that a subscription accepts."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a verification."""

    summary: Summary
    """Summary as a dry run of a rebuild returns it."""
    comparisons: tuple[Comparison, ...]
    not_compared: tuple[NotCompared, ...]
    """Subscriptions whose index could not be read, in the order of the others."""

    @property
    def has_differences(self) -> bool:
        """True if a compared subscription has missing, extra or different positions."""
        return not all(comparison.is_equal for comparison in self.comparisons)


def verify(
    session: SparkSession, settings: RebuildSettings, live: LiveIndex, *, report: Report | None = None
) -> Verification:
    """Compare all chosen subscriptions of all chosen topics with a live index.

    Args:
        session: a session with the format ``pulsar_ledger``.
        settings: as for a rebuild; nothing is staged.
        live: the index.
        report: called with the name of each stage.
    Returns: a comparison for each subscription, or the reason why there is none.
    Raises: as ``delayed_tracker.spark.jobs.rebuild.rebuild`` without a target, and all errors of ``live`` but
        IndexNotReadable.
    Cost: reads each ledger once; the driver holds the indexes of all the subscriptions, 28 bytes each.
    """
    with reading(session, settings, report=report) as work:
        plans, unread = work.plans(), work.unread()
        accounts = [plan.summary() for plan in plans]
        with work.stages.of("collect"):
            table = work.rows.transform(accepted_indexes(work.shared, work.acceptance)).toArrow()
        comparisons: list[Comparison] = []
        not_compared: list[NotCompared] = []
        with work.stages.of("compare"):
            for plan, account, expected in zip(plans, accounts, _by_subscriber(table, len(plans)), strict=True):
                topic, subscription = plan.subscriber.key
                try:
                    found = live.read(topic, subscription)
                except IndexNotReadable as error:
                    count = positions_of(expected)
                    not_compared.append(NotCompared(topic, subscription, count, error.reason, error.message))
                    continue
                comparisons.append(
                    compare(
                        topic,
                        subscription,
                        expected,
                        found,
                        tail_first=plan.plan.tail_first,
                        cutoff_ms=settings.limits.cutoff_ms(settings.now_ms),
                        replay_from=account.replay_from,
                        unread=unread.positions(topic),
                    )
                )
        return Verification(work.summary(accounts), tuple(comparisons), tuple(not_compared))


def accepted_indexes(subscribers: Broadcast[SubscribersByTopic], acceptance: Acceptance) -> Step:
    """Return the step that yields the indexes that each subscription accepts, with repeats.

    Input: packed delayed messages, any order.
    Output: :data:`ACCEPTED_SCHEMA`, no order.
    """

    def accept(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for subscriber, indexes, transaction in offered(batches, subscribers.value):
            kept = indexes.take(acceptance.outcomes(indexes, transaction, subscriber.cursor) == IndexOutcome.ACCEPTED)
            if len(kept):
                number = np.full(len(kept), subscriber.number, np.int32)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(number),
                        pa.array(kept.deliver_at_ms),
                        pa.array(kept.ledger_id),
                        pa.array(kept.entry_id),
                    ],
                    names=ACCEPTED_SCHEMA.fieldNames(),
                )

    def step(rows: DataFrame) -> DataFrame:
        return rows.mapInArrow(accept, ACCEPTED_SCHEMA)

    return step


def _by_subscriber(table: pa.Table, count: int) -> Iterator[IndexColumns]:
    """Yield the indexes of each subscription, also of those without any."""
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    number = numbers(batch, schema.SUBSCRIBER)
    order = np.argsort(number, kind="stable")
    places = np.searchsorted(number[order], np.arange(count + 1))
    columns = IndexColumns(
        longs(batch, schema.DELIVER_AT_MS), longs(batch, schema.LEDGER_ID), longs(batch, schema.ENTRY_ID)
    )
    for subscriber in range(count):
        yield columns.take(order[places[subscriber] : places[subscriber + 1]])
