"""Rebuilds of one small topic, whose result depends on the target."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.spark.commit.commit import StorageCommit
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.settings import RebuildSettings
from tests.spark.harness.clusters import NOW_MS, Cursor, Entry, Topic, write_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class OfSmallEntries(StorageCommit):
    """Storage that takes entries of 150 bytes."""

    entry_bytes_max = 150


def test_no_merge_is_larger_than_the_target_takes(spark: SparkSession, tmp_path: Path):
    """A merge whose metadata fit no entry of the storage is not made, as in the service, whatever the settings allow."""
    ledgers = {ledger: [Entry(60_000 * (1 + entry)) for entry in range(30)] for ledger in (3, 5, 8, 9)}
    job = RebuildSettings(
        {"url": write_cluster(tmp_path, [Topic("orders", ledgers, {"billing": Cursor((3, -1))})])},
        now_ms=NOW_MS,
        staging=str(tmp_path / "staging"),
        limits=TrackerLimits(min_index_count_per_bucket=10, max_indexes_per_segment=10, max_num_buckets=1),
    )
    (whole,) = rebuild(spark, job, target=StorageCommit(f"sqlite:{tmp_path}/whole.db")).trackers
    (small,) = rebuild(spark, job, target=OfSmallEntries(f"sqlite:{tmp_path}/small.db")).trackers
    assert whole.merges > small.merges
    assert small.written == whole.written
