"""Copies of tracked positions in memory: which of them count, and the runs of the heap that hold them.

A bit says that a position is tracked; its row is a copy, in a run of its bucket. Copies whose bit is cleared stay until
they are passed, or until there are too many.
"""

from collections.abc import Sequence

from delayed_tracker.core.engine.leases import LeaseTable
from delayed_tracker.core.index.buckets import Bucket
from delayed_tracker.core.index.membership import Membership
from delayed_tracker.core.index.run_heap import RunHeap
from delayed_tracker.core.index.runs import Run
from delayed_tracker.core.rules.seal import FrozenIndexes, without_repeats, without_rescheduled
from delayed_tracker.core.values.columns import BoolArray, IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap

_REMOVED_COPIES_SLACK = 1_024


class BucketCopies:
    """Copies of all buckets of one tracker. The bits and the leases decide which count."""

    __slots__ = ("_heap", "_leases", "_members")

    def __init__(self, members: Membership, heap: RunHeap, leases: LeaseTable) -> None:
        self._members = members
        self._heap = heap
        self._leases = leases

    def is_live(self, bucket: Bucket, indexes: IndexColumns) -> BoolArray:
        """Return a mask of the copies of a bucket that count.

        A copy counts if its bit is set, it is not leased, and its deadline is the last one given to its position.
        """
        positions = indexes.positions
        live = bucket.bits.contains(positions)
        if self._leases.bits:
            live &= ~self._leases.bits.contains(positions)
        memory = bucket.memory
        if memory is None or memory.rescheduled is None or memory.removed is None:
            return live
        # Each rescheduled position is among the removed ones; a removed one that is live was rescheduled.
        return without_rescheduled(live, indexes, memory.removed, memory.rescheduled)

    def is_live_in(self, run: Run, indexes: IndexColumns) -> BoolArray:
        """Return a mask of the copies of a run that count."""
        return self.is_live(self._members.buckets[run.bucket_number], indexes)

    def append(self, bucket: Bucket, indexes: IndexColumns, last_ledger_id: int, min_deliver_at_ms: int) -> None:
        """Add rows to the open run of an open bucket, with their highest ledger and their first deadline."""
        assert bucket.is_open
        memory = bucket.memory
        assert memory is not None
        memory.note_added(indexes)
        memory.last_ledger_id = max(memory.last_ledger_id, last_ledger_id)
        if memory.open_run is None:
            # Each hand-out that read the last open run left a sorted run. Alternating adds and polls would leave
            # thousands.
            self._merge_small_runs(bucket)
            memory.open_run = self._heap.new_run(bucket.key)
        self._heap.append(memory.open_run, indexes, min_deliver_at_ms)

    def requeue(self, indexes: IndexColumns) -> None:
        """Make rows whose lease has ended deliverable again, in their bucket and with their deadline."""
        returned: dict[int, list[IndexColumns]] = {}
        for bucket, rows in self._members.locate(indexes.positions):
            returned.setdefault(bucket.key, []).append(indexes.take(rows))
        for key, parts in returned.items():
            bucket = self._members.buckets[key]
            self._heap.new_run(key, IndexColumns.concat(parts).sorted(), is_stored=bucket.memory is None)
            self._merge_small_runs(bucket)

    def sort_run(self, run: Run) -> None:
        """Sort a run so that it can be read; later adds go to a new run."""
        bucket = self._members.buckets[run.bucket_number]
        if bucket.memory is not None and bucket.memory.open_run is run:
            bucket.memory.open_run = None
        self._heap.sort(run)
        run.suspect = False

    def compact_if_mostly_removed(self, bucket: Bucket) -> None:
        """Drop the removed copies of a bucket in memory, if they are more than its positions."""
        memory = bucket.memory
        if memory is None or memory.removed_count <= len(bucket.bits) + _REMOVED_COPIES_SLACK:
            return
        self.compact(bucket)

    def compact(self, bucket: Bucket) -> None:
        """Drop the removed copies of a bucket in memory, and what is known of them. O(its copies)."""
        assert bucket.memory is not None
        runs = self._heap.of_bucket(bucket.key)
        bucket.memory.open_run = None
        # A position that was given the same deadline again has two equal copies, one of which counts as removed.
        self._rebuild(bucket, runs, keep_repeats=False)
        bucket.memory.forget_removed()

    def drop_removed(self, bucket: Bucket) -> None:
        """Drop the copies of a bucket that do not count. O(its copies)."""
        for run in self._heap.of_bucket(bucket.key):
            if not all(self.is_live(bucket, chunk).all() for chunk in run.chunks()):
                self._rebuild(bucket, [run])

    def reachable(self, bucket: Bucket) -> PositionBitmap:
        """Return the positions of a bucket that have a live copy in memory or a lease."""
        reachable = PositionBitmap()
        for run in self._heap.of_bucket(bucket.key):
            for chunk in run.chunks():
                reachable.add(chunk.take(self.is_live(bucket, chunk)).positions)
        for leased in self._leases.outstanding():
            reachable.add(leased.take(bucket.bits.contains(leased.positions)).positions)
        return reachable

    def freeze(self, bucket: Bucket, limits: TrackerLimits) -> FrozenIndexes:
        """Return the content of a bucket in memory, for sealing within limits; later changes do not affect it.

        It is valid until the result is reported. O(runs), and a read of every ledger number; 50,000 bitmaps would take
        40 ms to copy.
        """
        assert bucket.memory is not None
        first, last = bucket.bits.first(), bucket.bits.last()
        assert first is not None
        assert last is not None
        chunks = [chunk for run in self._heap.of_bucket(bucket.key) for chunk in run.chunks()]
        # Leased positions have no copy in a run, but the snapshot must contain every position with a bit. Rows of other
        # buckets are removed when it is sealed, in another thread.
        if bucket.bits.intersection_count(self._leases.bits):
            chunks += self._leases.outstanding()
        return FrozenIndexes(
            bucket_number=bucket.key,
            chunks=tuple(chunk for chunk in chunks if len(chunk)),
            live=bucket.bits.lend(),
            rescheduled=None if bucket.memory.rescheduled is None else bucket.memory.rescheduled.copy(),
            step_ms=limits.max_step_per_segment_ms,
            count_max=limits.max_indexes_per_segment,
            first=first,
            last=last,
        )

    def _merge_small_runs(self, bucket: Bucket) -> None:
        """Keep the sizes of a bucket's sorted runs geometric, so that their number stays logarithmic."""
        open_run = bucket.memory.open_run if bucket.memory is not None else None
        merged = self._heap.merged
        busy = set() if merged is None else set(merged.runs)
        runs = [run for run in self._heap.of_bucket(bucket.key) if run is not open_run and run not in busy]
        runs.sort(key=len)
        # Afterwards each run is more than twice as long as all shorter ones together. The search goes on after the
        # first run that is too long: otherwise a single copy that is not due would keep any number of equal runs apart.
        shorter = join_count = 0
        for number, run in enumerate(runs):
            if number and len(run) <= 2 * shorter:
                join_count = number + 1
            shorter += len(run)
        if join_count:
            self._rebuild(bucket, runs[:join_count])

    def _rebuild(self, bucket: Bucket, runs: Sequence[Run], *, keep_repeats: bool = True) -> None:
        rows = IndexColumns.concat([chunk for run in runs for chunk in run.chunks()])
        for run in runs:
            self._heap.drop(run)
        # Copies of leased positions are dropped as well: a lease that ends adds its own.
        rows = rows.take(self.is_live(bucket, rows)).sorted()
        if not keep_repeats:
            rows = without_repeats(rows)
        if len(rows):
            self._heap.new_run(bucket.key, rows, is_stored=bucket.memory is None)
