"""Rows that a job reads once and uses twice take the executors' disks, never their heaps."""

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.spark.jobs.ledger_rows import reading
from delayed_tracker.spark.settings import RebuildSettings
from tests.spark.harness.clusters import NOW_MS, Cursor, Entry, Topic, write_cluster

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300)]


def test_kept_rows_are_on_disk_alone(spark: SparkSession, tmp_path):
    """Kept in memory as well, the packed rows of 100 million messages end a Java whose heap is 1 GB."""
    topic = "persistent://lab/main/orders"
    entries = {1: [Entry(10**8 + entry) for entry in range(5_000)]}
    url = write_cluster(tmp_path / "cluster", [Topic(topic, entries, {"billing": Cursor((1, -1))})])
    with reading(spark, RebuildSettings({"url": url}, now_ms=NOW_MS)):
        (kept,) = spark.sparkContext._jsc.sc().getRDDStorageInfo()
        assert kept.diskSize() > 0
        assert kept.memSize() == 0
    assert not list(spark.sparkContext._jsc.sc().getRDDStorageInfo())
