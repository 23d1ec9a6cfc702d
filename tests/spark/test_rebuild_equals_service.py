"""Rebuild and service agree: for any ledgers, cursors, settings and clock, a rebuild stores what a service stores."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.ledger.source_url import open_source
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.spark.commit.commit import StorageCommit
from delayed_tracker.spark.commit.shared_commit import SharedCommit
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.registry import open_storage
from tests.service.harness.shell import elapse, make_registry, rows
from tests.spark.harness.clusters import NOW_MS, Topic, clusters, write_cluster
from tests.spark.harness.live import Live, live_catalogue, stored

pytestmark = pytest.mark.timeout(600)
EXAMPLES = {"dev": 4, "ci": 6, "deep": 100}

tracker_limits = st.builds(
    TrackerLimits,
    tick_ms=st.sampled_from((0, 1_000)),
    strict=st.booleans(),
    min_index_count_per_bucket=st.integers(1, 20),
    mutable_indexes_max=st.integers(5, 40),
    max_num_buckets=st.sampled_from((-1, 1, 2, 4)),
    max_indexes_per_segment=st.sampled_from((-1, 1, 7)),
    max_step_per_segment_ms=st.sampled_from((1, 60_000, 300_000)),
    max_delay_ms=st.sampled_from((0, 0, 86_400_000)),
)


TARGETS = {"sqlite": StorageCommit, "file": SharedCommit}
"""The driver writes into the first, tasks into the second."""


async def rebuilt_catalogue(url: str, key: TrackerKey) -> Live:
    storage = open_storage(url)
    await storage.start()
    try:
        return await stored(storage, key)
    finally:
        await storage.close()


async def popped(storage, key: TrackerKey, limits: TrackerLimits) -> list[tuple[int, int]]:
    """Open the tracker in a service, let time pass, and return the positions that it hands out.

    They are sorted, because segments load in any order.
    """
    clock = ManualClock(NOW_MS)
    registry = make_registry(storage, clock, limits=limits)
    await registry.start()
    opened = await registry.open(key, owner="dispatcher", mark_delete=None)
    found = []
    while registry.host(key).next_delivery_ms() is not None:
        delivery = await registry.host(key).poll(opened.epoch, max_count=10_000, wait_ms=0, lease_ms=0)
        found += rows(delivery)
        await elapse(clock, 3_600_000)
    await registry.close()
    return sorted(found)


def expected(url: str, topic: str, subscription: str, limits: TrackerLimits, metadata_bytes_max: int):
    """Return the catalogue of a service that is offered the pending messages of the ledger reader, and its storage."""
    with open_source(url) as source:
        report = source.pending(topic, subscription)
    storage = MemoryStorage()
    live = asyncio.run(
        live_catalogue(
            storage,
            report.indexes,
            limits,
            NOW_MS,
            key=TrackerKey(topic, subscription),
            mark_delete=report.mark_delete,
            metadata_bytes_max=metadata_bytes_max,
        )
    )
    return live, report, storage


@pytest.mark.long
@settings(
    max_examples=EXAMPLES[settings.get_current_profile_name()],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a smaller example is not worth minutes of Spark
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    topics=clusters(),
    limits=tracker_limits,
    indexes_per_task=st.sampled_from((3, 250_000)),
    metadata_bytes_max=st.sampled_from((400, 2**22)),
    scheme=st.sampled_from(list(TARGETS)),
)
def test_stores_what_a_service_would_have_stored(
    spark: SparkSession,
    *,
    topics: list[Topic],
    limits: TrackerLimits,
    indexes_per_task: int,
    metadata_bytes_max: int,
    scheme: str,
):
    """Metadata, segments, ranges and summaries are equal byte by byte, and a tracker delivers the same from them."""
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        url = write_cluster(here, topics)
        job = RebuildSettings(
            {"url": url},
            now_ms=NOW_MS,
            staging=str(here / "staging"),
            limits=limits,
            indexes_per_task=indexes_per_task,
            metadata_bytes_max=metadata_bytes_max,
        )
        target = f"{scheme}:{'//' if scheme == 'file' else ''}{here}/tracker.db"
        summary = rebuild(spark, job, target=TARGETS[scheme](target))
        for tracker in summary.trackers:
            key = TrackerKey(tracker.topic, tracker.subscription)
            live, report, storage = expected(url, *key, limits, metadata_bytes_max)
            rebuilt = asyncio.run(rebuilt_catalogue(target, key))
            event(f"target: {scheme}")
            event(f"buckets: {min(3, len(live.entries))}")
            event(f"merged too large: {bool(live.too_large)}")
            assert rebuilt.snapshots == live.snapshots
            assert [(e.first, e.last, e.summary, e.consumed, e.mark_delete) for e in rebuilt.entries] == [
                (e.first, e.last, e.summary, e.consumed, e.mark_delete) for e in live.entries
            ]
            account = tracker.acknowledged + tracker.aborted + tracker.open_transaction + tracker.due
            account += tracker.beyond_max_delay + tracker.duplicate + tracker.written + tracker.tail
            assert tracker.delayed == account
            assert tracker.written + tracker.tail + tracker.due + tracker.beyond_max_delay == len(report.indexes)
            assert (tracker.mark_delete, tracker.epoch) == (report.mark_delete, 1 if tracker.buckets else 0)
            rebuilt_storage = open_storage(target)
            assert asyncio.run(popped(rebuilt_storage, key, limits)) == asyncio.run(popped(storage, key, limits))
        assert {(t.topic, t.subscription) for t in summary.trackers} == {
            (topic.name, subscription) for topic in topics for subscription in topic.cursors
        }
        assert summary.read == sum(len(of) for topic in topics for of in topic.ledgers.values())
