"""Runs of index copies in memory, and the shared heap of (head deadline, run).

A run belongs to one home and its copies count only under that home's bits. It is sorted when somebody looks inside: the
run that adds go to is a list of unsorted chunks with a known minimum, so adding costs no comparison.
"""

import heapq
from collections.abc import Iterator

import numpy as np

from tracker.core.columns import IndexColumns
from tracker.core.errors import InvariantViolation
from tracker.core.k_way_merge import Taken, take_earliest

_RUNS_FEW = 64
"""So many runs are looked into before it is asked whether they are enough."""
_STALE_SLACK = 64
_ROW_BYTES = 24
_CHUNK_BYTES = 880
"""Three arrays and what holds them together, beyond the rows."""


class Run:
    """Copies of indexes of one home: a sorted part with a cursor, and chunks that wait to be sorted in."""

    __slots__ = ("_chunks", "_head", "_pending", "_rows", "home_key", "min_deliver_at_ms", "run_id", "suspect")

    def __init__(self, run_id: int, home_key: int, rows: IndexColumns | None = None) -> None:
        self.run_id = run_id
        self.home_key = home_key
        self.suspect = False
        """A copy in here may have died since it was put in unsorted."""
        self._rows = IndexColumns.empty() if rows is None else rows
        self._head = 0
        self._chunks: list[IndexColumns] = []
        self._pending = 0
        self.min_deliver_at_ms = int(self._rows.deliver_at_ms[0]) if len(self._rows) else -1

    def __len__(self) -> int:
        """Copies left, dead ones included."""
        return len(self._rows) - self._head + self._pending

    @property
    def nbytes(self) -> int:
        """Memory that is held, consumed rows that were not let go included. O(1)."""
        return _ROW_BYTES * (len(self._rows) + self._pending) + _CHUNK_BYTES * (1 + len(self._chunks))

    @property
    def is_sorted(self) -> bool:
        """Whether nothing waits to be sorted in."""
        return not self._chunks

    def append(self, chunk: IndexColumns) -> None:
        """Put an unsorted, non-empty chunk in. O(chunk)."""
        lowest = int(chunk.deliver_at_ms.min())
        self.min_deliver_at_ms = min(lowest, self.min_deliver_at_ms) if len(self) else lowest
        self._chunks.append(chunk)
        self._pending += len(chunk)

    def sort(self) -> None:
        """Sort the waiting chunks in. O(n log n) if there are any."""
        if self._chunks:
            self._rows = IndexColumns.concat([self.rows, *self._chunks]).sorted()
            self._head, self._chunks, self._pending = 0, [], 0

    def chunks(self) -> list[IndexColumns]:
        """All copies left, as they lie; shares memory."""
        return [part for part in (self.rows, *self._chunks) if len(part)]

    @property
    def rows(self) -> IndexColumns:
        """The sorted part that is left; shares memory."""
        return self._rows.take(slice(self._head, None)) if self._head else self._rows

    def count_before(self, deliver_at_ms: int) -> int:
        """At least how many copies have an earlier deadline; none are counted while some wait to be sorted in."""
        if self._chunks:
            return 0
        return max(0, int(np.searchsorted(self._rows.deliver_at_ms, deliver_at_ms)) - self._head)

    def due_prefix(self, cutoff_ms: int, count: int) -> IndexColumns:
        """The first ``count`` rows at most that are due, of a sorted run."""
        window = self._rows.take(slice(self._head, self._head + count))
        return window.take(slice(0, int(np.searchsorted(window.deliver_at_ms, cutoff_ms, side="right"))))

    def advance(self, count: int) -> None:
        """Consume rows from the front of a sorted run."""
        self._head += count
        if self._head < len(self._rows):
            self.min_deliver_at_ms = int(self._rows.deliver_at_ms[self._head])
        if self._head > 4_096 and 2 * self._head > len(self._rows):
            # A view would keep the consumed rows alive for as long as the last one waits.
            rest = self.rows
            self._rows = IndexColumns(rest.deliver_at_ms.copy(), rest.ledger_id.copy(), rest.entry_id.copy())
            self._head = 0

    def check(self) -> None:
        """Raise InvariantViolation unless the rows ascend and the minimum is right."""
        rows = self.rows
        if self._pending != sum(len(chunk) for chunk in self._chunks):
            raise InvariantViolation(f"run {self.run_id} miscounts the copies that wait to be sorted in")
        if len(rows) > 1:
            order = np.lexsort((rows.entry_id, rows.ledger_id, rows.deliver_at_ms))
            deadlines = rows.deliver_at_ms
            if not (order == np.arange(len(order))).all() and (
                (deadlines[1:] < deadlines[:-1]).any() or not _same_rows(rows.take(order), rows)
            ):
                raise InvariantViolation(f"run {self.run_id} is not sorted")
        if len(self) and min(int(chunk.deliver_at_ms.min()) for chunk in self.chunks()) != self.min_deliver_at_ms:
            raise InvariantViolation(f"run {self.run_id} announces a wrong first deadline")


def _same_rows(left: IndexColumns, right: IndexColumns) -> bool:
    return bool(
        (left.deliver_at_ms == right.deliver_at_ms).all()
        and (left.ledger_id == right.ledger_id).all()
        and (left.entry_id == right.entry_id).all()
    )


class RunHeap:
    """All runs, found by id, by home, and by head deadline."""

    __slots__ = ("_by_home", "_heap", "_next_run_id", "_runs", "loaded_count", "nbytes")

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}
        self._by_home: dict[int, dict[int, Run]] = {}
        self._heap: list[tuple[int, int]] = []
        self._next_run_id = 1
        self.loaded_count = 0
        """Copies in all runs, dead ones included."""
        self.nbytes = 0
        """Memory that all runs hold."""

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs.values())

    def __len__(self) -> int:
        return len(self._runs)

    def of_home(self, home_key: int) -> list[Run]:
        """The runs of one home."""
        return list(self._by_home.get(home_key, {}).values())

    def new_run(self, home_key: int, rows: IndexColumns | None = None) -> Run:
        """Start a run of sorted rows (or none yet) for a home."""
        run = Run(self._next_run_id, home_key, rows)
        self._next_run_id += 1
        self._runs[run.run_id] = run
        self._by_home.setdefault(home_key, {})[run.run_id] = run
        self.loaded_count += len(run)
        self.nbytes += run.nbytes
        self._push(run)
        return run

    def append(self, run: Run, chunk: IndexColumns) -> None:
        """Put an unsorted, non-empty chunk into a run. O(chunk), O(log runs) if it brings an earlier deadline."""
        before = run.min_deliver_at_ms if len(run) else None
        self.nbytes -= run.nbytes
        run.append(chunk)
        self.nbytes += run.nbytes
        self.loaded_count += len(chunk)
        if before != run.min_deliver_at_ms:
            self._push(run)

    def advance(self, run: Run, count: int) -> None:
        """Consume rows from the front of a sorted run; an empty run is dropped."""
        self.nbytes -= run.nbytes
        run.advance(count)
        self.nbytes += run.nbytes
        self.loaded_count -= count
        if len(run):
            self._push(run)
        else:
            self._forget(run)

    def sort(self, run: Run) -> None:
        """Sort the waiting chunks of a run in."""
        self.nbytes -= run.nbytes
        run.sort()
        self.nbytes += run.nbytes

    def drop(self, run: Run) -> None:
        """Forget a run with everything in it."""
        self.loaded_count -= len(run)
        self._forget(run)

    def move(self, run: Run, home_key: int) -> None:
        """Let a run belong to another home, which has taken over the bits of its own."""
        runs = self._by_home[run.home_key]
        del runs[run.run_id]
        if not runs:
            del self._by_home[run.home_key]
        run.home_key = home_key
        self._by_home.setdefault(home_key, {})[run.run_id] = run

    def drop_home(self, home_key: int) -> None:
        """Forget all runs of a home."""
        for run in self.of_home(home_key):
            self.drop(run)

    def first(self) -> Run | None:
        """The run with the earliest head, or None. Amortised O(log runs)."""
        while self._heap:
            deliver_at_ms, run_id = self._heap[0]
            run = self._runs.get(run_id)
            if run is not None and len(run) and run.min_deliver_at_ms == deliver_at_ms:
                return run
            heapq.heappop(self._heap)
        return None

    def due_runs(self, cutoff_ms: int, count: int) -> list[Run]:
        """The runs that hold the earliest ``count`` due copies; all that are due, if they hold fewer.

        They leave the heap until :meth:`advance` puts them back. O(runs that are needed), not all that are due.
        """
        due: dict[int, Run] = {}
        look_at = _RUNS_FEW
        while self._heap and self._heap[0][0] <= cutoff_ms:
            if len(due) >= look_at:
                if sum(run.count_before(self._heap[0][0]) for run in due.values()) >= count:
                    break
                look_at *= 2
            deliver_at_ms, run_id = heapq.heappop(self._heap)
            run = self._runs.get(run_id)
            if run is not None and len(run) and run.min_deliver_at_ms == deliver_at_ms:
                due[run_id] = run
        return list(due.values())

    def take(self, runs: list[Run], cutoff_ms: int, count: int) -> Taken:
        """The earliest due rows of sorted runs taken off the heap by :meth:`due_runs`; consumes them."""
        taken = take_earliest([run.due_prefix(cutoff_ms, count) for run in runs], count)
        for run, consumed in zip(runs, taken.consumed, strict=True):
            self.advance(run, consumed)
        return taken

    def clear(self) -> None:
        """Forget everything."""
        self._runs, self._by_home, self._heap, self.loaded_count, self.nbytes = {}, {}, [], 0, 0

    def _push(self, run: Run) -> None:
        if len(run):
            heapq.heappush(self._heap, (run.min_deliver_at_ms, run.run_id))
        if len(self._heap) > 2 * len(self._runs) + _STALE_SLACK:
            # Entries of runs that are gone, or that have got an earlier head, would stay until their time comes.
            self._heap = [(run.min_deliver_at_ms, run_id) for run_id, run in self._runs.items() if len(run)]
            heapq.heapify(self._heap)

    def _forget(self, run: Run) -> None:
        del self._runs[run.run_id]
        self.nbytes -= run.nbytes
        runs = self._by_home[run.home_key]
        del runs[run.run_id]
        if not runs:
            del self._by_home[run.home_key]

    def check(self) -> None:
        """Raise InvariantViolation unless every run is well-formed, counted, and on the heap under its head."""
        on_heap = set(self._heap)
        for run in self._runs.values():
            run.check()
            if len(run) and (run.min_deliver_at_ms, run.run_id) not in on_heap:
                raise InvariantViolation(f"run {run.run_id} has lost its place on the heap")
        by_home = {(run.home_key, run.run_id): run for run in self._runs.values()}
        if {(key, run_id): run for key, runs in self._by_home.items() for run_id, run in runs.items()} != by_home:
            raise InvariantViolation("the runs of a home are not those that name it")
        if sum(len(run) for run in self._runs.values()) != self.loaded_count:
            raise InvariantViolation(f"{self.loaded_count} loaded copies are counted, the runs hold others")
        if sum(run.nbytes for run in self._runs.values()) != self.nbytes:
            raise InvariantViolation(f"{self.nbytes} bytes are counted for the runs, they hold others")
