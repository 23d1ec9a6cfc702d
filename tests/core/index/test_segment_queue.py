"""The queue of buckets with segments to load: idle, in flight, or waiting for a retry."""

import numpy as np

from delayed_tracker.core.index.buckets import Bucket, SnapshotSegments
from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.index.segment_queue import SegmentQueue
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.verb_results import BucketState


def bucket(key: int, *first_deadlines: int) -> Bucket:
    column = np.array(first_deadlines, np.int64)
    sealed = Bucket(key, BucketState.SEALED, memory=None)
    sealed.snapshot = SnapshotSegments(
        key, PackedBounds(SegmentGroups.of(SegmentBounds(np.ones_like(column), column, column))), 0
    )
    return sealed


def load(queue: SegmentQueue, of: Bucket, effect_id: int) -> None:
    """Start the load of the next segment of a bucket."""
    assert of.snapshot is not None
    of.snapshot.load_effect_id, of.snapshot.load_first = effect_id, of.snapshot.next_group
    of.snapshot.next_group += 1
    queue.update(of)


def loaded(queue: SegmentQueue, of: Bucket) -> None:
    assert of.snapshot is not None
    of.snapshot.load_effect_id = None
    queue.update(of)


def failed(queue: SegmentQueue, of: Bucket, retry_at_ms: int) -> None:
    assert of.snapshot is not None
    of.snapshot.load_effect_id, of.snapshot.next_group = None, of.snapshot.load_first
    queue.retry_later(of, retry_at_ms)


def test_the_bucket_with_the_earliest_unloaded_segment_is_first():
    """The first bucket is the one with the earliest deadline, then with the lowest key."""
    queue, late, early = SegmentQueue(), bucket(1, 50), bucket(2, 10)
    queue.update(late)
    queue.update(early)
    assert queue.first_idle() == (10, 2)
    assert queue.first_min_ms() == 10
    queue.check({1: late, 2: early})


def test_a_bucket_in_flight_is_not_idle_but_still_counts_for_the_next_deadline():
    """A bucket whose segment is loading is not idle, but the segment is not in memory yet."""
    queue, one = SegmentQueue(), bucket(1, 10, 20)
    queue.update(one)
    load(queue, one, 7)
    assert (queue.first_idle(), queue.first_min_ms()) == (None, 10)
    queue.check({1: one})


def test_a_loaded_segment_moves_its_bucket_to_the_next_one():
    """A loaded segment moves its bucket to the next segment, and the last segment removes the bucket from the queue."""
    queue, one = SegmentQueue(), bucket(1, 10, 20)
    queue.update(one)
    load(queue, one, 7)
    loaded(queue, one)
    assert queue.first_idle() == (20, 1)
    load(queue, one, 8)
    loaded(queue, one)
    assert (queue.first_idle(), queue.first_min_ms()) == (None, None)
    queue.check({1: one})


def test_a_failed_load_waits_and_is_then_idle_again():
    """The segment of a failed load is still the first missing one, and others are loaded before its retry."""
    queue, one, two = SegmentQueue(), bucket(1, 10), bucket(2, 20)
    queue.update(one)
    queue.update(two)
    load(queue, one, 7)
    failed(queue, one, 500)
    assert (queue.first_idle(), queue.first_min_ms(), queue.next_retry_ms()) == ((20, 2), 10, 500)
    queue.check({1: one, 2: two})
    queue.release_retries(499)
    assert queue.first_idle() == (20, 2)
    queue.release_retries(500)
    assert (queue.first_idle(), queue.next_retry_ms()) == ((10, 1), None)
    queue.check({1: one, 2: two})


def test_a_bucket_that_is_removed_leaves_nothing_behind():
    """A bucket in any state is removed without a trace; removing an unknown one does nothing."""
    queue, idle, flying, waiting = SegmentQueue(), bucket(1, 10), bucket(2, 20), bucket(3, 30)
    for one in (idle, flying, waiting):
        queue.update(one)
    load(queue, flying, 7)
    load(queue, waiting, 8)
    failed(queue, waiting, 500)
    for key in (1, 2, 3, 99):
        queue.remove(key)
    assert (queue.first_idle(), queue.first_min_ms(), queue.next_retry_ms()) == (None, None, None)
    queue.release_retries(1_000)
    queue.check({})


def test_clear_forgets_all_buckets():
    """A clear removes all buckets from the queue."""
    queue, one = SegmentQueue(), bucket(1, 10)
    queue.update(one)
    queue.clear()
    assert queue.first_min_ms() is None
    queue.check({})
