"""Verifications in many small tasks: each difference is found, whoever reads the index."""

import asyncio

import pytest
from pyspark.sql import SparkSession

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.spark.jobs import verify as job
from delayed_tracker.spark.jobs.verify import Verification, verify
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.snapshots.live_snapshots import LiveSnapshots
from delayed_tracker.spark.steps import comparison_runs
from delayed_tracker.spark.steps.comparing import DeadlineMismatch
from delayed_tracker.spark.steps.live_index import DriverIndex, SharedIndex
from delayed_tracker.storage.registry import open_storage
from tests.spark.harness.buckets import store_bucket
from tests.spark.harness.clusters import NOW_MS, Cursor, Entry, Topic, write_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TOPIC = "persistent://lab/main/orders"
BILLING, SHIPPING = TrackerKey(TOPIC, "billing"), TrackerKey(TOPIC, "shipping")
LENGTHS = {1: 6_000, 2: 40, 3: 5}
PENDING = {
    (ledger, entry): NOW_MS + 10**9 + ledger * entry for ledger, length in LENGTHS.items() for entry in range(length)
}
ADDED = {(1, 2): NOW_MS + 10**9, (9, 9): NOW_MS + 10**10}
"""Positions of an acknowledged message, and of one above all ledgers."""
BEHIND = {place: at_ms for place, at_ms in PENDING.items() if place > (1, 3)}


async def write(url: str) -> int:
    """Store an index that differs in known ways; return the id of the bucket whose snapshot is lost."""
    storage = open_storage(url)
    await storage.start()
    held = {place: at_ms for place, at_ms in BEHIND.items() if place < (3, 0) and place != (1, 10)}
    older = await store_bucket(storage, BILLING, {**held, (1, 12): 1, **ADDED}, seal_number=1)
    newer = await store_bucket(storage, BILLING, {(1, 11): NOW_MS + 10**8, (1, 12): PENDING[1, 12]}, seal_number=2)
    await storage.replace(*BILLING, remove=(), add=[older, newer], epoch=1)
    whole = {place: at_ms for place, at_ms in PENDING.items() if (2, 0) <= place < (3, 0)}
    found = await store_bucket(storage, SHIPPING, whole, seal_number=2)
    lost = await store_bucket(storage, SHIPPING, {(1, 0): PENDING[1, 0]}, seal_number=1)
    await storage.replace(*SHIPPING, remove=(), add=[lost, found], epoch=1)
    await storage.delete_bucket_snapshot(lost.bucket_id)
    await storage.close()
    return lost.bucket_id


def check(found: Verification, lost_id: int) -> None:
    billing, shipping = found.comparisons
    assert (billing.subscription, billing.expected, billing.found) == ("billing", len(BEHIND), len(BEHIND) - 4)
    assert (billing.missing, billing.extra, billing.differing, billing.too_recent) == (1, 1, 1, 5)
    assert billing.newer == 1
    assert billing.missing_positions == (Position(1, 10),)
    assert billing.extra_positions == (Position(1, 2),)
    assert billing.differing_positions == (DeadlineMismatch(Position(1, 11), PENDING[1, 11], NOW_MS + 10**8),)
    assert (shipping.expected, shipping.found, shipping.missing) == (len(PENDING), 40, 6_000)
    assert (shipping.extra, shipping.differing, shipping.too_recent) == (0, 0, 5)
    assert shipping.missing_positions == tuple(Position(1, entry) for entry in range(50))
    (lost,) = found.lost
    assert lost.startswith(f"bucket {lost_id}: ")


def test_differences_are_found_whoever_reads_the_index(spark: SparkSession, tmp_path, monkeypatch):
    """Tasks that read a shared storage and a driver that passes on rows piece by piece find the same."""
    monkeypatch.setattr(comparison_runs, "ROWS_PER_TASK", 2_000)
    monkeypatch.setattr(job, "LISTED_MAX", 50)
    entries = {
        ledger: [Entry(PENDING[ledger, entry] - NOW_MS) for entry in range(length)]
        for ledger, length in LENGTHS.items()
    }
    cursors = {"billing": Cursor((1, 3)), "shipping": Cursor((1, -1))}
    url = write_cluster(tmp_path / "cluster", [Topic(TOPIC, entries, cursors)])
    settings = RebuildSettings(
        {"url": url}, now_ms=NOW_MS, limits=TrackerLimits(min_index_count_per_bucket=20, max_num_buckets=-1)
    )
    shared = f"file://{tmp_path / 'storage'}"
    lost_id = asyncio.run(write(shared))
    stages: list[str] = []
    check(verify(spark, settings, SharedIndex(shared), report=stages.append), lost_id)
    assert stages[-2:] == ["index", "compare"]

    of_one = f"sqlite:{tmp_path / 'tracker.db'}"
    lost_id = asyncio.run(write(of_one))
    with LiveSnapshots(of_one) as storage:
        check(verify(spark, settings, DriverIndex(storage, rows_max=1_000)), lost_id)

        at_ms = PENDING[1, 10]
        read_ms = at_ms - settings.limits.tick_ms
        billing, _ = verify(spark, settings, DriverIndex(storage), clock=lambda: read_ms).comparisons
        assert billing.expected == sum(other_ms > at_ms for other_ms in BEHIND.values())
        # The index has (1, 11) with an earlier deadline, and lacks (1, 10), which is due when it was read.
        assert (billing.missing_positions, billing.extra) == ((Position(1, 11),), 0)
