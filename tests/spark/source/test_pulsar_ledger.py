"""The data source on data of a real Pulsar: its rows equal those of the ledger readers."""

import re
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from delayed_tracker.ledger.entry.entry_columns import EntryFlag, scan_entries
from delayed_tracker.ledger.source_url import open_source
from tests.repository.project_tree import ROOT

# The first test includes the start of Spark.
pytestmark = pytest.mark.timeout(300)

PULSAR_A = ROOT / "tests" / "data" / "pulsar-a"
SOURCES = {
    "entry logs": f"bookkeeper+file:{PULSAR_A}/bookie?metadata={PULSAR_A}/metadata.jsonl.gz",
    "map files": f"offload+mapfile:{PULSAR_A}/offload-filesystem/block",
    "blobs": f"offload+blob:{PULSAR_A}/offload-blob",
}


def load(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("pulsar_ledger").options(url=url, **options).load()


def whole_topics(url: str) -> list[str]:
    """Return the topics with complete data; the objects of one offloaded topic are too large for the repository."""
    with open_source(url) as source:
        return [topic for topic in source.topics() if not topic.startswith("persistent://lab/s3/blocks")]


def rows_of_reader(url: str) -> set[tuple[Any, ...]]:
    """Return all entries as the reader has them, with the columns of the schema."""
    rows: set[tuple[Any, ...]] = set()
    with open_source(url) as source:
        for topic in whole_topics(url):
            for piece in source.topic_log(topic).scan():
                columns = scan_entries(piece.entries)
                assert columns.readable.all()
                for row in range(len(columns)):
                    flags = EntryFlag(int(columns.flags[row]))

                    def value(column: Any, flag: EntryFlag, row: int = row, flags: EntryFlag = flags) -> int | None:
                        return int(column[row]) if flag in flags else None

                    rows.add(
                        (
                            topic,
                            int(columns.stored.ledger_id[row]),
                            int(columns.stored.entry_id[row]),
                            int(columns.publish_time_ms[row]),
                            value(columns.deliver_at_ms, EntryFlag.DELAYED),
                            value(columns.broker_timestamp_ms, EntryFlag.BROKER_TIMESTAMP),
                            value(columns.index, EntryFlag.INDEX),
                            int(columns.num_messages[row]),
                            value(columns.marker_type, EntryFlag.MARKER),
                            value(columns.txn_id_most.view("i8"), EntryFlag.TRANSACTION),
                            value(columns.txn_id_least.view("i8"), EntryFlag.TRANSACTION),
                            int(flags),
                            int(columns.stored.end[row] - columns.stored.start[row]),
                            1,
                            None,
                        )
                    )
    return rows


@pytest.mark.long
@pytest.mark.parametrize("url", SOURCES.values(), ids=SOURCES)
def test_rows_are_those_of_the_reader(spark: SparkSession, url: str):
    """Every column of every entry is read once from each kind of storage."""
    pattern = "|".join(re.escape(topic) for topic in whole_topics(url))
    found = [tuple(row) for row in load(spark, url, topicsPattern=pattern).collect()]
    expected = rows_of_reader(url)
    assert len(found) == len(expected)
    assert set(found) == expected


@pytest.mark.long
def test_a_frame_is_the_same_in_every_query(spark: SparkSession):
    """Spark stores pushed conditions of a Python data source with the frame, so nothing is pushed by default."""
    entries = load(spark, SOURCES["entry logs"])
    count, delayed = entries.count(), entries.where("deliver_at_ms is not null").count()
    assert 0 < delayed < count
    (ledger_id,) = entries.agg({"ledger_id": "min"}).first() or ()
    one = entries.where(entries.ledger_id == ledger_id)
    of_one = one.count()
    assert 0 < of_one < count
    assert entries.count() == count
    assert one.union(entries).count() == of_one + count


def test_conditions_are_applied_while_reading_when_that_is_asked_for(spark: SparkSession):
    """With ``pushFilters`` the rows are the same and Spark filters nothing."""
    everything = load(spark, SOURCES["entry logs"])
    filtered = everything.where("deliver_at_ms is not null")
    pushed = load(spark, SOURCES["entry logs"], pushFilters="yes").where("deliver_at_ms is not null")
    assert pushed.count() == filtered.count()
    plans = [frame._jdf.queryExecution().executedPlan().toString() for frame in (filtered, pushed)]
    assert [re.search(r"\bFilter\b", plan) is not None for plan in plans] == [True, False]
