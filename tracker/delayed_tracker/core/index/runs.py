"""Runs of index copies in memory.

A run belongs to one bucket and its copies count only under the bits of that bucket. It is sorted when it is read: the
run that adds go to is a list of unsorted chunks with a known minimum, so adding costs no comparison.
"""

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvariantViolation

_ROW_BYTES = 24
_CHUNK_BYTES = 880
"""Memory of three arrays and the objects around them, without the rows, in bytes."""

_SMALL_CHUNK = 256
"""Shorter chunks are joined: otherwise single adds would take forty times the memory of their rows."""

HeadKey = tuple[int, int, int]
"""Rank of a copy in delivery order: (deadline, ledger, entry)."""


class Run:
    """Copies of indexes of one bucket: a sorted part with a cursor, and chunks that wait to be sorted in."""

    __slots__ = (
        "_chunks",
        "_head",
        "_latest",
        "_pending",
        "_rows",
        "bucket_number",
        "heap_key",
        "is_stored",
        "min_deliver_at_ms",
        "run_id",
        "suspect",
    )

    def __init__(
        self, run_id: int, bucket_number: int, rows: IndexColumns | None = None, *, is_stored: bool = False
    ) -> None:
        self.run_id = run_id
        self.bucket_number = bucket_number
        self.is_stored = is_stored
        """True if a snapshot also has its copies."""
        self.suspect = False
        """True if a copy may have been removed since it was added unsorted."""
        self.heap_key: HeadKey | None = None
        """Key of the run on the heap; at or before its head. None if it is not on the heap."""
        self._rows = IndexColumns.empty() if rows is None else rows
        self._head = 0
        self._chunks: list[IndexColumns] = []
        self._latest = (0, -1)  # the latest deadline of this many chunks
        self._pending = 0
        self.min_deliver_at_ms = int(self._rows.deliver_at_ms[0]) if len(self._rows) else -1

    def __len__(self) -> int:
        """Return the number of copies left, removed ones included."""
        return len(self._rows) - self._head + self._pending

    @property
    def nbytes(self) -> int:
        """Memory of the run in bytes, including consumed rows that are not freed yet. O(1)."""
        return _ROW_BYTES * (len(self._rows) + self._pending) + _CHUNK_BYTES * (1 + len(self._chunks))

    @property
    def is_sorted(self) -> bool:
        """True if no chunk waits to be sorted in."""
        return not self._chunks

    @property
    def max_deliver_at_ms(self) -> int:
        """Latest deadline of all copies; there must be one. O(chunks added since the last read)."""
        seen, latest = self._latest
        fresh = self._chunks[seen:]
        if fresh:
            latest = max(latest, *(int(chunk.deliver_at_ms.max()) for chunk in fresh))
            self._latest = (len(self._chunks), latest)
        return max(latest, int(self._rows.deliver_at_ms[-1])) if self._head < len(self._rows) else latest

    def append(self, chunk: IndexColumns, lowest_ms: int) -> int:
        """Append an unsorted, non-empty chunk with its first deadline; return the bytes of memory added.

        Amortised O(1).
        """
        self.min_deliver_at_ms = min(lowest_ms, self.min_deliver_at_ms) if len(self) else lowest_ms
        count, chunk_count = len(chunk), len(self._chunks)
        self._pending += count
        self._chunks.append(chunk)
        if count < _SMALL_CHUNK:
            self._join_small_chunks()
        return _ROW_BYTES * count + _CHUNK_BYTES * (len(self._chunks) - chunk_count)

    def _join_small_chunks(self) -> None:
        """Join the last chunks, each with one of at least its length: a row is copied at most eight times."""
        chunks = self._chunks
        while len(chunks) > 1 and len(chunks[-2]) <= len(chunks[-1]) < _SMALL_CHUNK:
            last = chunks.pop()
            chunks[-1] = IndexColumns.concat([chunks[-1], last])
        seen, latest = self._latest
        self._latest = (min(seen, len(chunks) - 1), latest)

    def sort(self) -> None:
        """Sort the waiting chunks into the rows. O(n log n) if there are any."""
        if self._chunks:
            self._rows = IndexColumns.concat([self.rows, *self._chunks]).sorted()
            self._head, self._chunks, self._pending, self._latest = 0, [], 0, (0, -1)

    def chunks(self) -> list[IndexColumns]:
        """Return all copies left, in their present order; shares memory."""
        return [part for part in (self.rows, *self._chunks) if len(part)]

    @property
    def rows(self) -> IndexColumns:
        """Remaining sorted part; shares memory."""
        return self._rows.take(slice(self._head, None)) if self._head else self._rows

    @property
    def head_key(self) -> HeadKey:
        """(deadline, ledger, entry) of the first copy; if unsorted, a key before all of the first deadline."""
        if self._chunks:
            return self.min_deliver_at_ms, -1, -1
        rows, head = self._rows, self._head
        return self.min_deliver_at_ms, int(rows.ledger_id[head]), int(rows.entry_id[head])

    def count_before(self, key: HeadKey) -> int:
        """Return a lower bound of the copies that come before a key; 0 while chunks wait to be sorted in."""
        if self._chunks:
            return 0
        start, end = self._head, len(self._rows)
        columns = (self._rows.deliver_at_ms, self._rows.ledger_id, self._rows.entry_id)
        for column, value in zip(columns, key, strict=True):
            part = column[start:end]
            end = start + int(part.searchsorted(value, side="right"))
            start += int(part.searchsorted(value, side="left"))
            if start == end:
                break
        return start - self._head

    def due_prefix(self, cutoff_ms: int, count: int) -> IndexColumns:
        """Return the first due rows of a sorted run, at most ``count``."""
        window = self._rows.take(slice(self._head, self._head + count))
        deadlines = window.deliver_at_ms
        if len(deadlines) and deadlines[-1] <= cutoff_ms:
            return window
        return window.take(slice(0, int(deadlines.searchsorted(cutoff_ms, side="right"))))

    def count_due(self, cutoff_ms: int) -> int:
        """Return the number of copies left with a deadline at or before ``cutoff_ms``.

        O(log rows + rows of waiting chunks).
        """
        due = int(self.rows.deliver_at_ms.searchsorted(cutoff_ms, side="right"))
        return due + sum(int((chunk.deliver_at_ms <= cutoff_ms).sum()) for chunk in self._chunks)

    def advance(self, count: int) -> int:
        """Consume rows from the front of a sorted run; return the change of its memory in bytes."""
        held = len(self._rows)
        self._head += count
        if self._head < len(self._rows):
            self.min_deliver_at_ms = int(self._rows.deliver_at_ms[self._head])
        if self._head > 4_096 and 2 * self._head > len(self._rows):
            # A view would keep the consumed rows in memory until the last one is consumed.
            self._rows = self.rows.copy()
            self._head = 0
        return _ROW_BYTES * (len(self._rows) - held)

    def check(self) -> None:
        """Raise InvariantViolation unless the rows ascend and the first and last deadlines are right."""
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
        if len(self) and max(int(chunk.deliver_at_ms.max()) for chunk in self.chunks()) != self.max_deliver_at_ms:
            raise InvariantViolation(f"run {self.run_id} announces a wrong last deadline")
        if len(self) and min(int(chunk.deliver_at_ms.min()) for chunk in self.chunks()) != self.min_deliver_at_ms:
            raise InvariantViolation(f"run {self.run_id} announces a wrong first deadline")


def _same_rows(left: IndexColumns, right: IndexColumns) -> bool:
    return bool(
        (left.deliver_at_ms == right.deliver_at_ms).all()
        and (left.ledger_id == right.ledger_id).all()
        and (left.entry_id == right.entry_id).all()
    )
