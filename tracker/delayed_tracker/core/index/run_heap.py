"""Heap of (head, run) over all runs: gives the copies that come next.

Runs that are merged ahead (:mod:`delayed_tracker.core.index.merged_rows`) are off the heap until the merged rows are
put away.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Final

from delayed_tracker.core.index.merged_rows import MergedRows, last_key, merge_ahead
from delayed_tracker.core.index.runs import HeadKey, Run
from delayed_tracker.core.values.columns import BoolArray, IndexColumns
from delayed_tracker.core.values.errors import InvariantViolation

_RUNS_FEW = 4
"""Runs to collect before the first test that they are enough."""
_STALE_SLACK = 64
_AHEAD_MIN = 16_384
_AHEAD_MAX = 65_536
"""Maximum of rows merged ahead: 32 bytes each while they wait."""
_HORIZON_MIN_MS = 1_000
_HORIZON_MAX_MS = 3_600_000
"""Maximum of the time for which rows are merged before they are due."""


_NO_RUNS: Final[dict[int, Run]] = {}  # shared by idle trackers, as is the next: the first entry replaces both
_NO_BUCKETS: Final[dict[int, dict[int, Run]]] = {}


class RunHeap:
    """All runs, by id, by bucket, and by head deadline."""

    __slots__ = (
        "_ahead_count",
        "_by_bucket",
        "_heap",
        "_horizon_ms",
        "_next_run_id",
        "_runs",
        "loaded_count",
        "merged",
        "nbytes",
        "stored_count",
    )

    def __init__(self) -> None:
        self._runs = _NO_RUNS
        self._by_bucket: dict[int, dict[int, Run]] = _NO_BUCKETS
        self._heap: list[tuple[HeadKey, int]] = []
        self._next_run_id = 1
        self.loaded_count = 0
        """Copies in all runs that were not passed, removed ones included."""
        self.stored_count = 0
        """Copies in runs that a snapshot also has. Rows merged ahead count until they are put away."""
        self.nbytes = 0
        """Memory of all runs, in bytes, without the rows merged ahead."""
        self.merged: MergedRows | None = None
        """Rows merged ahead out of runs that are off the heap."""
        self._ahead_count = _AHEAD_MIN
        self._horizon_ms = 0
        """Rows that will be due within this time are merged with those that are due: 0 until merged rows are used up."""

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs.values())

    def __len__(self) -> int:
        return len(self._runs)

    def of_bucket(self, bucket_number: int) -> list[Run]:
        """Return the runs of one bucket."""
        return list(self._by_bucket.get(bucket_number, {}).values())

    def new_run(self, bucket_number: int, rows: IndexColumns | None = None, *, is_stored: bool = False) -> Run:
        """Start a run for a bucket, empty or with sorted rows; ``is_stored`` is True if a snapshot also has them."""
        run = Run(self._next_run_id, bucket_number, rows, is_stored=is_stored)
        self._next_run_id += 1
        if not self._runs:
            self._runs, self._by_bucket = {}, {}
        self._runs[run.run_id] = run
        self._by_bucket.setdefault(bucket_number, {})[run.run_id] = run
        self.loaded_count += len(run)
        self.stored_count += len(run) if is_stored else 0
        self.nbytes += run.nbytes
        self._push(run)
        return run

    def append(self, run: Run, chunk: IndexColumns, lowest_ms: int) -> None:
        """Append an unsorted, non-empty chunk to a run, with its first deadline.

        O(log runs) if that is the earliest.
        """
        assert not run.is_stored
        before = run.min_deliver_at_ms if len(run) else None
        self.nbytes += run.append(chunk, lowest_ms)
        self.loaded_count += len(chunk)
        if before != run.min_deliver_at_ms:
            self._push(run)

    def advance(self, run: Run, count: int) -> None:
        """Consume rows from the front of a sorted run; an empty run is dropped."""
        self.nbytes += run.advance(count)
        self.loaded_count -= count
        self.stored_count -= count if run.is_stored else 0
        if len(run):
            self._push(run)
        else:
            self._forget(run)

    def sort(self, run: Run) -> None:
        """Sort the waiting chunks of a run into its rows."""
        self.nbytes -= run.nbytes
        run.sort()
        self.nbytes += run.nbytes

    def drop(self, run: Run) -> None:
        """Forget a run and its rows."""
        self.loaded_count -= len(run)
        self.stored_count -= len(run) if run.is_stored else 0
        self._forget(run)

    def move(self, run: Run, bucket_number: int) -> None:
        """Move a run to another bucket, which has taken over the bits of its own."""
        runs = self._by_bucket[run.bucket_number]
        del runs[run.run_id]
        if not runs:
            del self._by_bucket[run.bucket_number]
        run.bucket_number = bucket_number
        self._by_bucket.setdefault(bucket_number, {})[run.run_id] = run

    def drop_bucket(self, bucket_number: int) -> None:
        """Forget all runs of a bucket."""
        for run in self.of_bucket(bucket_number):
            self.drop(run)

    @property
    def head_ms(self) -> int | None:
        """Earliest deadline of all copies, or None. Amortised O(log runs)."""
        first = self.first()
        if self.merged:
            return self.merged.head_ms if first is None else min(self.merged.head_ms, first.min_deliver_at_ms)
        return None if first is None else first.min_deliver_at_ms

    def may_have_due(self, cutoff_ms: int) -> bool:
        """Return True if a copy is due, or if merged rows are used up, whose runs may hold more."""
        if self.merged is not None and not self.merged:
            return True
        head_ms = self.head_ms
        return head_ms is not None and head_ms <= cutoff_ms

    def first(self) -> Run | None:
        """Return the run with the earliest head, or None; runs merged ahead are left out. Amortised O(log runs)."""
        while self._heap:
            key, run_id = self._heap[0]
            run = self._runs.get(run_id)
            if run is not None and run.heap_key == key:
                return run
            heapq.heappop(self._heap)
        return None

    def due_runs(self, cutoff_ms: int, count: int) -> list[Run]:
        """Return the runs that hold the earliest ``count`` due copies; all due runs, if they hold fewer.

        They leave the heap until :meth:`advance` puts them back. O(runs that are needed), not all that are due.
        """
        due: list[Run] = []
        look_at = _RUNS_FEW
        while (run := self.first()) is not None and run.min_deliver_at_ms <= cutoff_ms:
            if len(due) >= look_at:
                if sum(other.count_before(self._heap[0][0]) for other in due) >= count:
                    break
                look_at *= 2
            heapq.heappop(self._heap)
            run.heap_key = None
            due.append(run)
        return due

    def merge_ahead(
        self,
        cutoff_ms: int,
        count: int,
        sort: Callable[[Run], None],
        is_live: Callable[[Run, IndexColumns], BoolArray] | None,
        unread_ms: int | None = None,
    ) -> bool:
        """Merge the rows that are due next, for :meth:`take_merged`; none may be merged ahead already.

        As long as merged rows are used up, those that will be due soon are merged with them: few rows that become due in
        many runs at each poll would cost a step for each run. ``is_live`` is None if every copy counts. ``unread_ms`` is the
        first deadline of rows that are not in memory yet: what is merged beyond it would be merged again when they come.

        Returns: False if no copy is due.
        """
        assert self.merged is None
        if not self.may_have_due(cutoff_ms):
            return False
        target = max(count, self._ahead_count)
        horizon_ms = cutoff_ms + self._horizon_ms
        if unread_ms is not None:
            horizon_ms = max(cutoff_ms, min(horizon_ms, unread_ms))
        runs = self.due_runs(horizon_ms, target)
        for run in runs:
            if not run.is_sorted:
                sort(run)
        # Buckets follow each other in the topic, so equal deadlines come out of the merge in order.
        runs.sort(key=lambda run: run.head_key[1:])
        before = self._heap[0][0] if self.first() else None
        self.merged = merge_ahead(runs, horizon_ms, count=count, target=target, before=before, is_live=is_live)
        self.loaded_count -= self.merged.consumed_count
        return True

    def take_merged(self, cutoff_ms: int, count: int) -> IndexColumns | None:
        """Return the next due rows that are merged ahead.

        Returns: None if there are none, or if rows of other runs may come earlier.
        """
        merged = self.merged
        if not merged:
            return None
        rows = merged.window(cutoff_ms, count)
        if not len(rows) or (self.first() is not None and self._heap[0][0] <= last_key(rows)):
            return None
        passed = merged.consumed_count
        merged.head += len(rows)
        self.loaded_count -= merged.consumed_count - passed
        return rows

    @property
    def is_half_taken(self) -> bool:
        """True if half of the merged rows are taken: they are in memory until all are put away."""
        return self.merged is not None and 2 * self.merged.consumed_count >= len(self.merged.origin)

    def put_merged_away(self) -> None:
        """Consume from the runs the merged rows that were taken, and put the runs back on the heap."""
        merged, self.merged = self.merged, None
        if merged is None:
            return
        # Adapt the length of the next merge to the rows that are taken before other code needs the runs.
        if not len(merged):
            self._ahead_count = min(2 * self._ahead_count, _AHEAD_MAX)
            self._horizon_ms = min(max(2 * self._horizon_ms, _HORIZON_MIN_MS), _HORIZON_MAX_MS)
        elif 2 * merged.head < len(merged.indexes):
            self._ahead_count = max(self._ahead_count // 2, _AHEAD_MIN)
            self._horizon_ms = self._horizon_ms // 4 if self._horizon_ms > 4 * _HORIZON_MIN_MS else 0
        self.loaded_count += merged.consumed_count
        for run, consumed in zip(merged.runs, merged.consumed(), strict=True):
            self.advance(run, consumed)

    def clear(self) -> None:
        """Forget all runs."""
        self._runs, self._by_bucket, self._heap, self.merged = _NO_RUNS, _NO_BUCKETS, [], None
        self.loaded_count = self.stored_count = self.nbytes = 0

    def _push(self, run: Run) -> None:
        run.heap_key = run.head_key if len(run) else None
        if run.heap_key is not None:
            heapq.heappush(self._heap, (run.heap_key, run.run_id))
        if len(self._heap) > 2 * len(self._runs) + _STALE_SLACK:
            # Entries of runs that are gone, or that have an earlier head now, would stay until their deadline comes.
            self._heap = [(run.heap_key, run_id) for run_id, run in self._runs.items() if run.heap_key is not None]
            heapq.heapify(self._heap)

    def _forget(self, run: Run) -> None:
        del self._runs[run.run_id]
        self.nbytes -= run.nbytes
        runs = self._by_bucket[run.bucket_number]
        del runs[run.run_id]
        if not runs:
            del self._by_bucket[run.bucket_number]

    def check(self) -> None:
        """Raise InvariantViolation unless every run is well-formed, counted, and on the heap under its head.

        No rows may be merged ahead.
        """
        assert self.merged is None
        on_heap = set(self._heap)
        for run in self._runs.values():
            run.check()
            key = run.heap_key
            if len(run) and (key is None or key[0] != run.min_deliver_at_ms or (key, run.run_id) not in on_heap):
                raise InvariantViolation(f"run {run.run_id} has lost its place on the heap")
        by_bucket = {(run.bucket_number, run.run_id): run for run in self._runs.values()}
        if {(key, run_id): run for key, runs in self._by_bucket.items() for run_id, run in runs.items()} != by_bucket:
            raise InvariantViolation("the runs of a bucket are not those that name it")
        if sum(len(run) for run in self._runs.values()) != self.loaded_count:
            raise InvariantViolation(f"{self.loaded_count} loaded copies are counted, the runs hold others")
        if sum(len(run) for run in self._runs.values() if run.is_stored) != self.stored_count:
            raise InvariantViolation(
                f"{self.stored_count} copies are counted that snapshots have, the runs hold others"
            )
        if sum(run.nbytes for run in self._runs.values()) != self.nbytes:
            raise InvariantViolation(f"{self.nbytes} bytes are counted for the runs, they hold others")
