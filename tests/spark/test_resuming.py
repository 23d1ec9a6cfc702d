"""A job that ended before its commit, run again: it uses its staged work and gives the same result."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.spark.commit.commit import RebuiltTracker, StorageCommit
from delayed_tracker.spark.commit.staging import Staging
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.settings import RebuildSettings
from tests.spark.commit.test_commit import looked_at
from tests.spark.harness.clusters import NOW_MS, Cursor, Entry, Topic, write_cluster

pytestmark = pytest.mark.timeout(600)

TOPIC = "persistent://lab/main/orders"
LEDGERS = {ledger: [Entry(60_000 * (1 + entry)) for entry in range(30)] for ledger in (3, 5, 8)}
FIRST, SECOND = TrackerKey(TOPIC, "billing"), TrackerKey(TOPIC, "shipping")


class CutOff(StorageCommit):
    """Commit target whose driver dies after some trackers are committed."""

    def __init__(self, url: str, *, after: int) -> None:
        super().__init__(url)
        self.left = after

    def commit(self, tracker: RebuiltTracker):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super().commit(tracker)


@pytest.mark.long
@pytest.mark.parametrize("after", [0, 1])
def test_staged_work_is_used_again(spark: SparkSession, tmp_path: Path, after: int):
    """After a cut before the first commit or between two, the rerun stages nothing and completes the job."""
    # Two subscriptions with equal acknowledgements share the parts of their buckets.
    cursors = {key.subscription: Cursor((3, 9)) for key in (FIRST, SECOND)}
    job = RebuildSettings(
        {"url": write_cluster(tmp_path, [Topic(TOPIC, LEDGERS, cursors)])},
        now_ms=NOW_MS,
        staging=str(tmp_path / "staging"),
        limits=TrackerLimits(min_index_count_per_bucket=10, max_indexes_per_segment=4),
        indexes_per_task=12,
    )
    storage = f"sqlite:{tmp_path}/tracker.db"
    with pytest.raises(KeyboardInterrupt):
        rebuild(spark, job, target=CutOff(storage, after=after), resume=True)
    staging = Staging(job.staging)
    staged_count = len(staging.objects())
    assert staged_count == 2 + 3
    done = looked_at(tmp_path / "tracker.db", FIRST)
    assert len(done[0].entries) == (2 if after else 0)
    assert not looked_at(tmp_path / "tracker.db", SECOND)[0].entries

    # Meanwhile the first message of each ledger became due.
    summary = rebuild(spark, replace(job, now_ms=NOW_MS + 61_000), target=StorageCommit(storage), resume=True)

    assert summary.now_ms == NOW_MS
    assert (summary.parts_made, summary.parts_reused) == (0, staged_count)
    first, second = (looked_at(tmp_path / "tracker.db", key) for key in (FIRST, SECOND))
    assert first[0].snapshots == second[0].snapshots
    assert [tracker.unchanged for tracker in summary.trackers] == [bool(after), False]
    assert not after or first == done
    assert list((tmp_path / "staging").iterdir()) == []
    # A third run stages everything again; the buckets are the same, so nothing is written.
    again = rebuild(spark, job, target=StorageCommit(storage))
    assert again.parts_made == staged_count
    assert all(tracker.unchanged for tracker in again.trackers)
    assert looked_at(tmp_path / "tracker.db", FIRST) == first


@pytest.mark.long
def test_parts_of_another_cluster_are_not_used(spark: SparkSession, tmp_path: Path):
    """Parts that another cluster with the same topic and positions left are passed over: the deadlines are its own."""

    def job(cluster: str, delay_ms: int, staging: str) -> RebuildSettings:
        ledgers = {ledger: [Entry(delay_ms * (1 + entry)) for entry in range(30)] for ledger in LEDGERS}
        cursors = {FIRST.subscription: Cursor((3, 9))}
        return RebuildSettings(
            {"url": write_cluster(tmp_path / cluster, [Topic(TOPIC, ledgers, cursors)])},
            now_ms=NOW_MS,
            staging=str(tmp_path / staging),
            limits=TrackerLimits(min_index_count_per_bucket=10, max_indexes_per_segment=4),
        )

    with pytest.raises(KeyboardInterrupt):
        rebuild(spark, job("first", 60_000, "staging"), target=CutOff(f"sqlite:{tmp_path}/first.db", after=0))
    assert Staging(str(tmp_path / "staging")).objects()

    summary = rebuild(spark, job("second", 90_000, "staging"), target=StorageCommit(f"sqlite:{tmp_path}/second.db"))

    rebuild(spark, job("again", 90_000, "empty"), target=StorageCommit(f"sqlite:{tmp_path}/expected.db"))
    found, expected = (looked_at(tmp_path / name, FIRST)[0] for name in ("second.db", "expected.db"))
    assert found.snapshots
    assert found.snapshots == expected.snapshots
    assert summary.parts_reused == 0
