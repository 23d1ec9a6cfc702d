"""A tracker with many buckets over BookKeeper: it is recovered and drained, and ZooKeeper holds no more than the guide says."""

import uuid
from dataclasses import dataclass
from typing import Self

import numpy as np
import pytest

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.storage.registry import open_storage
from tests.benchmarks.inputs.hosted import hosted_over
from tests.benchmarks.inputs.shapes import ALL_DUE_MS, HOUR_MS, NOW_MS, Shape, batches, offered
from tests.bookkeeper.servers.cluster import ZooKeeperServer

BATCH = 10_000


@dataclass(frozen=True)
class Footprint:
    """Memory that ZooKeeper says it needs: nodes, and the bytes of their paths and values."""

    nodes: int
    bytes: int

    @classmethod
    def of(cls, zookeeper: ZooKeeperServer) -> Self:
        """Ask the server."""
        with zookeeper.connected() as client:
            said = {
                name: value for name, _, value in (row.partition("\t") for row in client.command(b"mntr").splitlines())
            }
        return cls(int(said["zk_znode_count"]), int(said["zk_approximate_data_size"]))

    def above(self, other: Self) -> Self:
        """Return the difference."""
        return type(self)(self.nodes - other.nodes, self.bytes - other.bytes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("buckets", "bucket_indexes"),
    [
        (20, 50),
        pytest.param(1_000, 20, marks=[pytest.mark.deep, pytest.mark.timeout(1_800)]),
        pytest.param(1_000, 10_000, marks=[pytest.mark.deep, pytest.mark.timeout(3_600)]),
    ],
)
async def test_many_buckets_take_little_of_zookeeper(cluster, buckets: int, bucket_indexes: int):
    """Each bucket is two nodes of some 500 bytes and 65 bytes of the catalogue, whatever is pending; in the end all go."""
    cluster.require(1)
    url = (
        f"bookkeeper:zk://{cluster.zookeeper.address}/ledgers?root=/{uuid.uuid4().hex}"
        "&ensemble=1&writeQuorum=1&ackQuorum=1"
    )
    # Segments of an hour: those of five minutes would be two million entries, which say nothing of ZooKeeper.
    limits = TrackerLimits(min_index_count_per_bucket=bucket_indexes, max_step_per_segment_ms=HOUR_MS)
    pending = buckets * bucket_indexes
    async with hosted_over(open_storage(url), limits) as tracker:
        before = Footprint.of(cluster.zookeeper)
        for ledger in range(1, buckets + 1):
            indexes = offered(Shape.WEEK, bucket_indexes, per_ledger=bucket_indexes, first_ledger=ledger, seed=ledger)
            assert await tracker.add(batches(indexes, BATCH)) == bucket_indexes
        tracker.host.seal(tracker.epoch)
        await tracker.until(lambda: tracker.host.counters.snapshots_stored == buckets)
    full = Footprint.of(cluster.zookeeper).above(before)
    print(f"{buckets} buckets, {pending:,} pending: {full}")
    # The document, and ledgers of large values: at most 17 of two nodes, and one parent of ledgers for 10,000 ids.
    assert 2 * buckets <= full.nodes <= 2 * buckets + 40
    assert full.bytes <= 850 * buckets + 30_000

    async with hosted_over(open_storage(url), limits, now_ms=NOW_MS) as tracker:
        assert tracker.host.stats().pending_count == pending
        assert tracker.host.stats().bucket_count == buckets
        tracker.clock.advance(ALL_DUE_MS - NOW_MS)
        taken = IndexColumns.concat(await tracker.take(pending, BATCH))
        assert len(np.unique(taken.ledger_id * bucket_indexes + taken.entry_id)) == pending
        await tracker.until(lambda: tracker.host.counters.snapshots_deleted == buckets)
    assert Footprint.of(cluster.zookeeper).above(before).nodes <= 10
