"""The part and the task of each index, compared with a search through all buckets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.metadata.cursor import nothing_acked
from delayed_tracker.spark.plan.bucket_plan import PlannedBucket
from delayed_tracker.spark.plan.part_plan import NO_PART, Bucket, PartMap, plan_parts, tasks_of
from delayed_tracker.spark.plan.subscribers import Subscriber

positions = st.tuples(st.integers(1, 5), st.integers(0, 20))
LIMITS = TrackerLimits()


def bucket(
    content: list[tuple[int, int]], *, topic: str = "a", limits: TrackerLimits = LIMITS, deadlines: int = 0
) -> Bucket:
    bits = PositionBitmap.of(IndexColumns.of([(0, *position) for position in content]).positions)
    planned = PlannedBucket(Position(*min(content)), Position(*max(content)), len(content))
    return Bucket.of(
        Subscriber(0, topic, "s", nothing_acked()), planned, bits, limits, dict.fromkeys(bits.ledgers(), deadlines)
    )


@given(
    st.sets(positions, min_size=1, max_size=40).map(sorted),
    st.lists(st.integers(1, 8), min_size=1, max_size=6),
    st.lists(st.integers(0, 90), min_size=60, max_size=60),
    st.lists(st.integers(1, 80), max_size=3, unique=True).map(sorted),
)
def test_an_index_goes_to_the_part_of_its_bucket_and_deadline(content, sizes, deadlines, cuts):
    """Each index maps to the part of its bucket and deadline, and an index of the tail to no part."""
    groups, start = [], 0
    for size in sizes:
        if start < len(content):
            groups.append(content[start : start + size])
            start += size
    buckets = [bucket(group) for group in groups]
    part_map = PartMap.of(buckets, [10 * number for number in range(len(buckets))], {0: cuts} if cuts else {})
    rows = [(deadline, *position) for deadline, position in zip(deadlines, content, strict=False)]
    found = part_map.parts_of(IndexColumns.of(rows)).tolist()
    for (deadline, *position), part in zip(rows, found, strict=True):
        number = next((n for n, group in enumerate(groups) if tuple(position) in group), None)
        if number is None:
            assert part == NO_PART
        else:
            assert part == 10 * number + (sum(cut <= deadline for cut in cuts) if number == 0 else 0)


def test_the_same_content_is_planned_once():
    """Two subscriptions with the same pending messages share parts; other topics, limits, positions and deadlines do not."""
    first, second = bucket([(1, 1), (1, 2)]), bucket([(1, 1), (1, 2)])
    others = [
        bucket([(1, 1), (1, 2)], topic="b"),
        bucket([(1, 1), (1, 3)]),
        bucket([(1, 1), (1, 2)], limits=TrackerLimits(max_indexes_per_segment=7)),
        bucket([(1, 1), (1, 2)], deadlines=2**64 - 1),
    ]
    plan = plan_parts([first, second, *others], {first.digest: [50]})
    assert plan.of(first) == plan.of(second)
    assert [(part.first_ms, part.end_ms) for part in plan.of(first)] == [(0, 50), (50, 2**63 - 1)]
    assert len({part.name for part in plan.parts}) == len(plan.parts) == 6
    # The parts of a bucket with other cuts have other names.
    assert {part.name for part in plan_parts([first], {}).parts}.isdisjoint(part.name for part in plan.of(first))


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 40))
def test_tasks_are_filled_in_order(counts, indexes_per_task):
    """Neighbouring parts share a task as long as they fit; only a part that is too large exceeds the limit."""
    tasks = tasks_of(counts, indexes_per_task=indexes_per_task).tolist()
    assert tasks == sorted(tasks)
    assert set(tasks) == set(range(len(set(tasks))))
    for task in set(tasks):
        held = [count for count, of in zip(counts, tasks, strict=True) if of == task]
        assert sum(held) <= indexes_per_task or sum(count > 0 for count in held) == 1
    assert np.all(np.diff(tasks) <= 1)
