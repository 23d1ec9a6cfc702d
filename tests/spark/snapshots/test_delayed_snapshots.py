"""The data source on a storage in a directory: rows, parts, columns, and what happens to a bucket that is gone."""

import asyncio

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.spark.schema import SNAPSHOT_SCHEMA
from delayed_tracker.spark.snapshots.snapshot_options import parse_snapshot_options
from delayed_tracker.spark.snapshots.snapshot_reader import DelayedSnapshotsReader
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import UnknownStorageScheme
from delayed_tracker.storage.registry import open_storage
from tests.spark.harness.buckets import store_bucket

# The first test includes the start of Spark.
pytestmark = pytest.mark.timeout(300)

ORDERS = TrackerKey("persistent://lab/main/orders", "billing")
EVENTS = TrackerKey("persistent://lab/main/events", "workers")


async def write(url: str) -> dict[str, int]:
    """Store two trackers, one with a position in two buckets of different codecs; return the bucket ids."""
    storage = open_storage(url)
    await storage.start()
    try:
        old = await store_bucket(
            storage,
            ORDERS,
            {(1, entry): 50 * entry for entry in range(100)},
            seal_number=1,
            codec=SnapshotCodec.COLUMNAR,
        )
        new = await store_bucket(storage, ORDERS, {(1, 7): 9_000, (2, 0): 9_001}, seal_number=2, consumed=[(2, 0)])
        other = await store_bucket(storage, EVENTS, {(3, 0): 10}, seal_number=None)
        await storage.replace(*ORDERS, remove=(), add=[old, new], epoch=1)
        await storage.replace(*EVENTS, remove=(), add=[other], epoch=1)
        return {"old": old.bucket_id, "new": new.bucket_id, "other": other.bucket_id}
    finally:
        await storage.close()


async def delete(url: str, bucket_id: int) -> None:
    storage = open_storage(url)
    await storage.start()
    await storage.list(*ORDERS)
    await storage.delete_bucket_snapshot(bucket_id)
    await storage.close()


@pytest.mark.long
def test_the_rows_of_a_shared_storage(spark: SparkSession, tmp_path):
    """Each pending position once, in parts of segments; a bucket that is gone ends the query, or becomes a row."""
    url = f"file://{tmp_path / 'storage'}"
    ids = asyncio.run(write(url))
    everything = spark.read.format("delayed_snapshots").options(url=url, partitionBytes="300").load()
    assert everything.schema == SNAPSHOT_SCHEMA
    assert everything.rdd.getNumPartitions() > 3
    expected = {(*ORDERS, ids["old"], 1, 50 * entry, 1, entry, None) for entry in range(100) if entry != 7}
    expected |= {(*ORDERS, ids["new"], 2, 9_000, 1, 7, None), (*EVENTS, ids["other"], None, 10, 3, 0, None)}
    rows = [tuple(row) for row in everything.collect()]
    assert (len(rows), set(rows)) == (len(expected), expected)

    of_one = spark.read.format("delayed_snapshots").schema("entry_id bigint, subscription string")
    assert [tuple(row) for row in of_one.options(path=url, topic=EVENTS.topic).load().collect()] == [(0, "workers")]
    assert of_one.options(url=url, subscription="nobody").load().collect() == []

    asyncio.run(delete(url, ids["old"]))
    orders = spark.read.format("delayed_snapshots").options(url=url, topic=ORDERS.topic)
    with pytest.raises(PySparkException, match=rf"bucket {ids['old']}: .*onError=skip reads the others"):
        orders.load().collect()
    found = {
        row.bucket_id: (row.error or "", row.entry_id) for row in orders.option("onError", "skip").load().collect()
    }
    assert found[ids["new"]] == ("", 7)
    assert found[ids["old"]][0].startswith(f"bucket {ids['old']}: there is no object")
    assert found[ids["old"]][1] is None


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, InvalidInput, "url: '' is not valid; tasks read it themselves: give a storage that processes share"),
        ({"url": "sqlite:tracker.db"}, InvalidInput, "'sqlite:tracker.db' is not valid; tasks read it themselves"),
        ({"url": "memory:"}, InvalidInput, "give a storage that processes share"),
        ({"url": "file:relative"}, InvalidInput, "write file:///DIR"),
        ({"url": "nosuch:x"}, UnknownStorageScheme, "nosuch"),
        ({"url": "file:///x", "onError": "maybe"}, InvalidInput, "onError: 'maybe' is not valid; give fail or skip"),
        ({"url": "file:///x", "partitionBytes": "0"}, InvalidInput, "partitionBytes: '0' is not valid"),
        ({"url": "file:///x", "topics": "x"}, InvalidInput, "did you mean topic? options are url, topic, subscription"),
    ],
)
def test_wrong_options_are_named(given, error: type[Exception], said):
    """The message has the option, its value and what to give."""
    with pytest.raises(error) as raised:
        parse_snapshot_options(given)
    assert said in str(raised.value)


def test_reading_creates_no_storage(tmp_path):
    """A mistyped directory is named, and nothing is created in its place."""
    options = parse_snapshot_options({"url": f"file://{tmp_path / 'typo'}"})
    with pytest.raises(InvalidInput, match="there is no storage in this directory"):
        DelayedSnapshotsReader(options, SNAPSHOT_SCHEMA).partitions()
    assert not list(tmp_path.iterdir())


def test_an_unknown_column_is_named(tmp_path):
    """The message has the column, and the columns that there are."""
    options = parse_snapshot_options({"url": f"file://{tmp_path}"})
    wanted = StructType([StructField("deadline", LongType())])
    with pytest.raises(InvalidInput, match="'deadline bigint' is not valid; columns are topic string, subscription"):
        DelayedSnapshotsReader(options, wanted)
