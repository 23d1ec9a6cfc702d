"""Queue of the sealed buckets with segments left to load, by the first deadline that is not in memory.

Loading is by time: a segment is wanted when its first deadline comes within the prefetch window. Memory therefore grows
with the rows that are nearly due and not with the number of buckets. (PIP-195 keeps the first segment of every bucket;
that is an infinite window.)
"""

from typing import Final

from delayed_tracker.core.index.buckets import Bucket
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.ordered_map import OrderedMap

_NO_KEYS: Final[frozenset[int]] = frozenset()


class SegmentQueue:
    """Buckets with unloaded segments in deadline order; each is idle, loading, or waiting for a retry."""

    __slots__ = ("_foreign_keys", "_idle", "_place", "_retry_at", "_retry_order", "_unloaded", "unloaded_count")

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self._unloaded: OrderedMap[tuple[int, int], int] = OrderedMap()  # -> rows that are not in memory
        self._idle: OrderedMap[tuple[int, int], None] = OrderedMap()
        self._retry_at: dict[int, int] = {}
        self._retry_order: OrderedMap[tuple[int, int], None] = OrderedMap()
        self._foreign_keys: frozenset[int] = _NO_KEYS
        self.unloaded_count = 0
        """Rows in segments that are not in memory, of all buckets."""

    def update(self, bucket: Bucket) -> None:
        """Update the entries of a sealed bucket; call it after each change to its snapshot part."""
        self.remove(bucket.key)
        snapshot = bucket.snapshot
        if snapshot is None or snapshot.next_min_ms is None:
            return
        self._place[bucket.key] = snapshot.next_min_ms
        self._unloaded[snapshot.next_min_ms, bucket.key] = rows = snapshot.unloaded_count
        self.unloaded_count += rows
        if snapshot.is_foreign:
            self._foreign_keys |= {bucket.key}
        if snapshot.load_effect_id is None:
            self._idle[snapshot.next_min_ms, bucket.key] = None

    def retry_later(self, bucket: Bucket, retry_at_ms: int) -> None:
        """Keep a bucket from being loaded before ``retry_at_ms`` of elapsed time: its last load failed."""
        self.update(bucket)
        place = (self._place[bucket.key], bucket.key)
        del self._idle[place]
        self._retry_at[bucket.key] = retry_at_ms
        self._retry_order[retry_at_ms, bucket.key] = None

    def release_retries(self, elapsed_ms: int) -> None:
        """Make buckets whose back-off is over idle again."""
        while self._retry_order and self._retry_order.first()[0][0] <= elapsed_ms:
            (_, key), _ = self._retry_order.pop_first()
            del self._retry_at[key]
            self._idle[self._place[key], key] = None

    def remove(self, key: int) -> None:
        """Forget a bucket; do nothing if it is not in the queue."""
        min_ms = self._place.pop(key, None)
        if min_ms is None:
            return
        self.unloaded_count -= self._unloaded.pop((min_ms, key))
        if self._foreign_keys:
            self._foreign_keys -= {key}
        self._idle.pop((min_ms, key), None)
        retry_at_ms = self._retry_at.pop(key, None)
        if retry_at_ms is not None:
            del self._retry_order[retry_at_ms, key]

    def clear(self) -> None:
        """Forget all buckets."""
        for key in list(self._place):
            self.remove(key)

    @property
    def bucket_count(self) -> int:
        """Buckets with segments that are not in memory."""
        return len(self._place)

    @property
    def has_foreign(self) -> bool:
        """True if a foreign bucket is queued: its bits may contain positions that no segment has."""
        return bool(self._foreign_keys)

    def first_min_ms(self) -> int | None:
        """Return the first deadline that is not in memory, whether it is being loaded or not; None if all are. O(1)."""
        return self._unloaded.first()[0][0] if self._unloaded else None

    def first_idle(self) -> tuple[int, int] | None:
        """Return (first deadline, bucket key) of the idle bucket that is wanted next, or None. O(1)."""
        return self._idle.first()[0] if self._idle else None

    def next_retry_ms(self) -> int | None:
        """Return the elapsed time of the first retry, or None. O(1)."""
        return self._retry_order.first()[0][0] if self._retry_order else None

    def waiting_moments(self) -> list[int]:
        """Return the elapsed time of each retry, in no order. O(buckets)."""
        return list(self._retry_at.values())

    def check(self, buckets: dict[int, Bucket]) -> None:
        """Raise InvariantViolation unless every unloaded segment has its wake-up: idle, in flight, or a retry."""
        expected = {
            key: bucket.snapshot.next_min_ms
            for key, bucket in buckets.items()
            if bucket.snapshot is not None and bucket.snapshot.next_min_ms is not None
        }
        if expected != self._place or set(self._unloaded) != {(ms, key) for key, ms in expected.items()}:
            raise InvariantViolation("a bucket with unloaded segments has lost its place in the queue")
        unloaded = sum(bucket.snapshot.unloaded_count for bucket in buckets.values() if bucket.snapshot is not None)
        if unloaded != self.unloaded_count:
            raise InvariantViolation(f"{self.unloaded_count} rows are counted as unloaded, {unloaded} are")
        if self._foreign_keys != {key for key in expected if getattr(buckets[key].snapshot, "is_foreign", False)}:
            raise InvariantViolation("the foreign buckets that are not loaded yet are not those that are listed")
        if not set(self._idle) <= set(self._unloaded):
            raise InvariantViolation("a bucket is queued for loading that has nothing to load")
        for key, min_ms in expected.items():
            snapshot = buckets[key].snapshot
            assert snapshot is not None
            loading = snapshot.load_effect_id is not None
            if [loading, (min_ms, key) in self._idle, key in self._retry_at].count(True) != 1:
                raise InvariantViolation(f"bucket {key} waits for a segment that is not going to be loaded")
        if set(self._retry_order) != {(at, key) for key, at in self._retry_at.items()}:
            raise InvariantViolation("a waiting load has lost its wake-up")
