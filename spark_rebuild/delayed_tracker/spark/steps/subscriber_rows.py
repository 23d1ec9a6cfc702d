"""Rows of topics, offered to each subscription of the topic, and the rows that it accepts."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.position_bitmap import by_ledger
from delayed_tracker.spark import schema
from delayed_tracker.spark.plan.acceptance import Acceptance, IndexOutcome
from delayed_tracker.spark.plan.part_plan import NO_PART, PartMap
from delayed_tracker.spark.plan.subscribers import Subscriber
from delayed_tracker.spark.steps.arrow_columns import index_columns_of, numbers
from delayed_tracker.spark.steps.packed_rows import unpacked

SubscribersByTopic = dict[int, tuple[Subscriber, ...]]


def offered(
    batches: Iterable[pa.RecordBatch], subscribers: SubscribersByTopic
) -> Iterator[tuple[Subscriber, IndexColumns, NDArray[np.uint8]]]:
    """Yield packed rows for each subscription of their topics: the indexes, and the outcomes of their transactions."""
    for batch in (rows for values in batches for rows in unpacked(values.column(schema.ROWS))):
        indexes = index_columns_of(batch)
        transaction = numbers(batch, schema.TRANSACTION).astype(np.uint8)
        for topic, rows in by_ledger(numbers(batch, schema.TOPIC_NUMBER)):
            of_topic, outcome = indexes.take(rows), transaction[rows]
            for subscriber in subscribers.get(topic, ()):
                yield subscriber, of_topic, outcome


def accepted_by_part(
    batches: Iterable[pa.RecordBatch],
    subscribers: SubscribersByTopic,
    maps: Mapping[int, PartMap],
    acceptance: Acceptance,
) -> Iterator[tuple[int, IndexColumns]]:
    """Yield the packed rows that subscriptions accept, with their part; a part may occur many times.

    Args:
        batches: packed delayed messages, any order.
        subscribers: of each topic.
        maps: by the number of the subscriber; rows that are in no part are left out.
        acceptance: rules of acceptance.
    """
    for subscriber, indexes, transaction in offered(batches, subscribers):
        part_map = maps.get(subscriber.number)
        if part_map is None:
            continue
        outcome = acceptance.outcomes(indexes, transaction, subscriber.cursor)
        accepted = indexes.take(outcome == IndexOutcome.ACCEPTED)
        for part, rows in by_ledger(part_map.parts_of(accepted)):
            if part != NO_PART:
                yield part, accepted.take(rows)
