"""Planned buckets, compared with a core that is given the same indexes in batches."""

import asyncio
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.spark.plan.bucket_plan import BucketPlan, PlannedBucket, plan_buckets
from delayed_tracker.storage.memory import MemoryStorage
from tests.spark.harness.live import live_catalogue

NOW_MS = 1_000_000

small_limits = st.builds(
    TrackerLimits,
    min_index_count_per_bucket=st.integers(1, 8),
    mutable_indexes_max=st.integers(1, 12),
    max_num_buckets=st.sampled_from((-1, 1, 2, 3, 5)),
    max_indexes_per_segment=st.sampled_from((-1, 1, 4)),
    max_step_per_segment_ms=st.sampled_from((1, 50, 300_000)),
)
ledgers = st.dictionaries(st.integers(0, 30), st.sets(st.integers(0, 40), min_size=1, max_size=30), max_size=8)


def plan_of(ledgers: dict[int, set[int]], limits: TrackerLimits, **options) -> BucketPlan:
    entries = {ledger: sorted(ledgers[ledger]) for ledger in sorted(ledgers)}
    return plan_buckets(
        [(ledger, len(ids)) for ledger, ids in entries.items()],
        limits,
        entry_at=lambda ledger, rank: entries[ledger][rank],
        **options,
    )


@pytest.mark.long
@given(ledgers, small_limits, st.integers(1, 20), st.sampled_from((200, 2**22)))
def test_equals_what_a_service_seals_and_merges(ledgers, limits, batch, metadata_bytes_max):
    """The plan equals the core's buckets for any ledgers, bucket limit, batch size and metadata limit."""
    rows = [
        (NOW_MS + 10_000 + 37 * ledger + 11 * entry % 400, ledger, entry)
        for ledger in sorted(ledgers)
        for entry in sorted(ledgers[ledger])
    ]
    storage = MemoryStorage()
    live = asyncio.run(
        live_catalogue(
            storage, IndexColumns.of(rows), limits, NOW_MS, batch=batch, metadata_bytes_max=metadata_bytes_max
        )
    )
    plan = plan_of(ledgers, limits, too_large=live.too_large)
    assert [(bucket.first, bucket.last) for bucket in plan.buckets] == [(e.first, e.last) for e in live.entries]
    stored = sum(bucket.index_count for bucket in plan.buckets)
    assert stored + plan.tail_count == len(rows)
    assert plan.tail_first == (Position(*rows[stored][1:]) if stored < len(rows) else None)


def test_a_merge_that_is_too_large_makes_room_for_another():
    """If the first of two possible merges is barred, the second is made."""
    limits = TrackerLimits(min_index_count_per_bucket=2, max_num_buckets=2)
    ledgers = {1: {0, 1}, 2: {0, 1}, 3: {0, 1}, 4: {5}}
    free = plan_of(ledgers, limits)
    assert free.buckets == (
        PlannedBucket(Position(1, 0), Position(2, 1), 4, is_merged=True),
        PlannedBucket(Position(3, 0), Position(3, 1), 2),
    )
    barred = plan_of(ledgers, limits, too_large={(Position(1, 0), Position(2, 1))})
    assert [bucket.first.ledger_id for bucket in barred.buckets] == [1, 2]
    assert barred.tail_first == Position(4, 5)
    assert bisect_left([bucket.index_count for bucket in barred.buckets], 4) == 1


@given(ledgers, small_limits)
def test_whole_ledgers_are_ranges_for_a_broker(ledgers, limits):
    """No two buckets share a ledger, each but the last and those that were merged have enough, and nothing is left over."""
    plan = plan_of(ledgers, limits, whole_ledgers=True)
    assert (plan.tail_first, plan.tail_count) == (None, 0)
    spans = [(bucket.first.ledger_id, bucket.last.ledger_id) for bucket in plan.buckets]
    assert [ledger for span in spans for ledger in sorted(ledgers) if span[0] <= ledger <= span[1]] == sorted(ledgers)
    assert sum(bucket.index_count for bucket in plan.buckets) == sum(map(len, ledgers.values()))
    assert all(bucket.index_count >= limits.min_index_count_per_bucket for bucket in plan.buckets[:-1])
