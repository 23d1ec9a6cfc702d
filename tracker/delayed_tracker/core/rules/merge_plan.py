"""Choice of the adjacent buckets to merge: pure, with one sort key.

Source: PIP-195 "Merge delayed message index buckets": the adjacent buckets with the least delayed messages. Up to four
buckets at once, as in Pulsar's ``BucketDelayedDeliveryTracker``, so that not every new bucket needs a merge of its own.
"""

from collections.abc import Callable, Collection, Sequence

MERGE_GROUP_MAX = 4


def merge_group_size(bucket_count: int, bucket_count_max: int) -> int:
    """Return the number of buckets to merge into one: enough to get back to the limit, at most four.

    Below 2 there is nothing to merge.

    Args:
        bucket_count: sealed buckets now.
        bucket_count_max: the limit, 1 or more; -1 for no limit.
    """
    if bucket_count_max == -1:
        return 0
    return min(MERGE_GROUP_MAX, bucket_count - bucket_count_max + 1)


def adjacent_with_fewest(
    remaining: Sequence[int], group_size: int, *, barred: Collection[int] = frozenset()
) -> int | None:
    """Return the first bucket of the group to merge, or None if there is no group of that size.

    The key is (indexes remaining in the group, place): of equal groups the earliest. For the proposal's example, [5, 3,
    2, 4, 3] in pairs, the answer is 1: the second and the third.

    Args:
        remaining: indexes that remain in each bucket, in the order of their ranges.
        group_size: 2 or more.
        barred: groups, by their first bucket, that must not be merged.
    """
    starts = [start for start in range(len(remaining) - group_size + 1) if start not in barred]
    return min(starts, key=lambda start: (sum(remaining[start : start + group_size]), start), default=None)


def group_to_merge(
    remaining: Sequence[int], bucket_count_max: int, *, is_barred: Callable[[int, int], bool]
) -> tuple[int, int] | None:
    """Return the group to merge now, as (its first bucket, its size), or None if no merge is needed or allowed.

    Larger groups come first. After a group that must not be merged, others of its size are tried, then smaller ones.

    Args:
        remaining: indexes that remain in each sealed bucket, in the order of their ranges.
        bucket_count_max: the limit, 1 or more; -1 for no limit.
        is_barred: returns True if the group with a first bucket and a size must not be merged.
    """
    for group_size in range(merge_group_size(len(remaining), bucket_count_max), 1, -1):
        barred = {start for start in range(len(remaining) - group_size + 1) if is_barred(start, group_size)}
        start = adjacent_with_fewest(remaining, group_size, barred=barred)
        if start is not None:
            return start, group_size
    return None
