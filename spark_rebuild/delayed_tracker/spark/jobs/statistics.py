"""Statistics of topics: counts of messages and delayed messages, and the distribution of deadlines."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's customary name

from delayed_tracker.spark import schema

READ_SCHEMA: Final = schema.entry_columns(
    schema.TOPIC,
    schema.LEDGER_ID,
    schema.ENTRY_ID,
    schema.PUBLISH_TIME,
    schema.DELIVER_AT_MS,
    schema.NUM_MESSAGES,
    schema.MARKER_TYPE,
    schema.SIZE_BYTES,
    schema.ENTRY_COUNT,
    schema.ERROR,
)
"""Columns that the statistics are computed from."""
_BAR: Final = "bar"
_COUNT: Final = "count"


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """Statistics of one topic. Deadlines and times are None if there are no values."""

    topic: str
    entries: int
    """Readable entries, markers included."""
    messages: int
    """Messages in the entries; each message of a batch counts."""
    bytes: int
    markers: int
    """Ends of transactions and other entries that brokers write."""
    ledgers: int
    delayed: int
    """Entries with a deadline."""
    due: int
    """Delayed entries that are due at the given time."""
    first_deadline_ms: int | None
    last_deadline_ms: int | None
    longest_delay_ms: int | None
    """Longest time from publishing to the deadline, in milliseconds; times before 1970 count as 0."""
    bad: int
    """Entries that cannot be read."""


@dataclass(frozen=True, slots=True)
class DeadlineHistogram:
    """Counts of deadlines in intervals of equal width, and before and after them."""

    from_ms: int
    step_ms: int
    before: int
    counts: tuple[int, ...]
    after: int


def describe_topics(entries: DataFrame, *, now_ms: int) -> list[TopicStatistics]:
    """Return the statistics of each topic, ascending by name. A Spark action: it reads all entries.

    Args:
        entries: :data:`READ_SCHEMA`.
        now_ms: deadlines at or before it are due.
    """
    whole, deadline = F.col(schema.ERROR).isNull(), F.col(schema.DELIVER_AT_MS)
    is_message = whole & F.col(schema.MARKER_TYPE).isNull()
    is_delayed = is_message & deadline.isNotNull()
    described = entries.groupBy(schema.TOPIC).agg(
        F.count(F.when(whole, 1)).alias("entries"),
        F.coalesce(F.sum(F.when(is_message, F.col(schema.NUM_MESSAGES))), F.lit(0)).alias("messages"),
        F.coalesce(F.sum(F.when(whole, F.col(schema.SIZE_BYTES))), F.lit(0)).alias("bytes"),
        F.count(F.when(whole & ~is_message, 1)).alias("markers"),
        F.count_distinct(F.when(whole, F.col(schema.LEDGER_ID))).alias("ledgers"),
        F.count(F.when(is_delayed, 1)).alias("delayed"),
        F.count(F.when(is_delayed & (deadline <= now_ms), 1)).alias("due"),
        F.min(F.when(is_delayed, deadline)).alias("first_deadline_ms"),
        F.max(F.when(is_delayed, deadline)).alias("last_deadline_ms"),
        F.max(F.when(is_delayed, _from_1970(deadline) - _from_1970(F.col(schema.PUBLISH_TIME)))).alias(
            "longest_delay_ms"
        ),
        F.coalesce(F.sum(F.when(~whole, F.col(schema.ENTRY_COUNT))), F.lit(0)).alias("bad"),
    )
    rows = (row.asDict() for row in described.orderBy(schema.TOPIC).collect())
    return [TopicStatistics(**{**row, schema.TOPIC: row[schema.TOPIC] or "?"}) for row in rows]


def count_deadlines(entries: DataFrame, *, from_ms: int, step_ms: int, bar_count: int) -> DeadlineHistogram:
    """Count the deadlines of all topics in intervals. A Spark action: it reads all entries.

    Args:
        entries: :data:`READ_SCHEMA`.
        from_ms: start of the first interval, 0 or more.
        step_ms: width of an interval, 1 or more.
        bar_count: number of intervals, 1 or more.
    """
    deadline = F.col(schema.DELIVER_AT_MS)
    is_delayed = F.col(schema.ERROR).isNull() & F.col(schema.MARKER_TYPE).isNull() & deadline.isNotNull()
    bar = F.floor((_from_1970(deadline) - from_ms) / step_ms)
    counted = (
        entries.where(is_delayed)
        .select(F.greatest(F.lit(-1), F.least(F.lit(bar_count), bar)).alias(_BAR))
        .groupBy(_BAR)
        .count()
        .collect()
    )
    by_bar = {int(row[_BAR]): int(row[_COUNT]) for row in counted}
    counts = [by_bar.get(number, 0) for number in range(-1, bar_count + 1)]
    return DeadlineHistogram(from_ms, step_ms, counts[0], tuple(counts[1:-1]), counts[-1])


def _from_1970(time_ms: Column) -> Column:
    """Return times of producers with 0 in place of negative ones: Spark fails if a difference leaves 64 bits."""
    return F.greatest(time_ms, F.lit(0))
