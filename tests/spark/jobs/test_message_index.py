"""Golden test: the table of message indexes has the ranges that a real broker counted."""

from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.spark.jobs.message_index import READ_SCHEMA, count_others, index_messages
from tests.golden.pulsar_pack import BOOKIE, METADATA, expected

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

Ranges = dict[tuple[str, int, int], tuple[int, int]]
"""First and last index by topic, ledger and entry."""


def broker_ranges() -> Ranges:
    """Return the ranges by the broker's counter alone: each begins after the one before it, the first at 0."""
    rows = sorted(
        (row["topic"], row["ledger"], row["entry"], row["index"])
        for row in expected("entries")
        if row["index"] is not None
    )
    ranges: Ranges = {}
    next_index: dict[str, int] = {}
    for topic, ledger, entry, last in rows:
        ranges[topic, ledger, entry] = next_index.get(topic, 0), last
        next_index[topic] = last + 1
    return ranges


def test_the_ranges_of_all_topics_are_those_that_the_broker_counted(spark: SparkSession):
    """Ranges of batches, batches in transactions (one index each), markers and chunks match, without gap or overlap."""
    entries = (
        spark.read.format("pulsar_ledger")
        .schema(READ_SCHEMA)
        .options(url=f"bookkeeper+file:{BOOKIE}?metadata={METADATA}", onError="fail")
        .load()
    )
    found = {
        (row["topic"], row["ledger_id"], row["entry_id"]): (row["first_index"], row["last_index"])
        for row in index_messages(entries).toArrow().to_pylist()
    }
    counted = broker_ranges()
    assert {key: found.get(key) for key in counted if found.get(key) != counted[key]} == {}
    # There are no recorded answers for the broker's own topics.
    assert {topic for topic, _, _ in found.keys() - counted.keys()} == {
        "persistent://lab/main/__transaction_buffer_snapshot"
    }
    assert len(found) > 5_000
    for (before, (_, last)), (after, (first, _)) in pairwise(sorted(found.items())):
        assert before[0] != after[0] or last < first, after


def test_an_index_that_no_broker_counts_is_left_out(spark: SparkSession):
    """An index of 2^63 or more, negative in a signed column, is damage: it has no range and counts as none."""
    rows = [
        ("t", 1, entry, 5, index, 1, None, 1, None) for entry, index in enumerate((0, -1, -(2**63), None, 2**63 - 1))
    ]
    entries = spark.createDataFrame(rows, READ_SCHEMA)
    assert [row["last_index"] for row in index_messages(entries).collect()] == [0, 2**63 - 1]
    assert count_others(entries) == (3, 0)
