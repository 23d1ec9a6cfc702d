"""Statistics of topics whose deadlines and publish times lie at the ends of what 64 bits can hold."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.spark import schema
from delayed_tracker.spark.jobs.statistics import READ_SCHEMA, count_deadlines, describe_topics

TOPIC = "persistent://lab/main/orders"
NOW_MS = 1_795_000_000_000
INT64_MIN = -INT63_MAX - 1


def messages(spark: SparkSession, *times: tuple[int, int]) -> DataFrame:
    """Return one message for each pair of a deadline and a publish time."""
    rows = []
    for entry, (deliver_at_ms, publish_time) in enumerate(times):
        row = {
            schema.TOPIC: TOPIC,
            schema.LEDGER_ID: 1,
            schema.ENTRY_ID: entry,
            schema.PUBLISH_TIME: publish_time,
            schema.DELIVER_AT_MS: deliver_at_ms,
            schema.NUM_MESSAGES: 1,
            schema.SIZE_BYTES: 10,
            schema.ENTRY_COUNT: 1,
        }
        rows.append(tuple(row.get(column.name) for column in READ_SCHEMA))
    return spark.createDataFrame(rows, READ_SCHEMA)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "longest_ms"),
    [
        # A deadline before 1970 is due at once, like 0; a publish time before 1970 counts as 0 too.
        ([(INT64_MIN, NOW_MS)], -NOW_MS),
        ([(INT64_MIN, 0), (INT64_MIN, -1), (INT64_MIN, INT64_MIN)], 0),
        ([(INT63_MAX, 0), (INT63_MAX, -1), (INT64_MIN, -1)], INT63_MAX),
        ([(INT63_MAX, INT64_MIN), (INT64_MIN, INT63_MAX)], INT63_MAX),
        ([(NOW_MS + 500, NOW_MS), (INT64_MIN, NOW_MS)], 500),
    ],
)
def test_deadlines_and_publish_times_at_their_limits(spark: SparkSession, times, longest_ms):
    """The longest delay is exact, and no difference leaves 64 bits."""
    (topic,) = describe_topics(messages(spark, *times), now_ms=NOW_MS)
    deadlines = [deadline for deadline, _ in times]
    assert (topic.delayed, topic.due) == (len(times), deadlines.count(INT64_MIN))
    assert (topic.first_deadline_ms, topic.last_deadline_ms) == (min(deadlines), max(deadlines))
    assert topic.longest_delay_ms == longest_ms


@pytest.mark.slow
@pytest.mark.parametrize("from_ms", [1, NOW_MS, INT63_MAX - 2_000])
def test_deadlines_at_their_limits_are_counted(spark: SparkSession, from_ms: int):
    """The lowest deadline lies before all intervals; those at both edges of an interval lie where they belong."""
    deadlines = [INT64_MIN, -1, from_ms, from_ms + 999, from_ms + 1_000, from_ms + 1_999, INT63_MAX]
    bars = count_deadlines(
        messages(spark, *((deadline, 0) for deadline in deadlines)), from_ms=from_ms, step_ms=1_000, bar_count=2
    )
    assert (bars.before, bars.counts, bars.after) == (2, (2, 2), 1)
