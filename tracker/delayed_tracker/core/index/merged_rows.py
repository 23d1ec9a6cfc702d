"""Merged rows: the next rows of many runs, already in delivery order.

    run A  1 4 9 ...        Merging a thousand rows out of a hundred runs costs a step for each run, however few rows
    run B  2 3 5 ...   ->   it gives. So tens of thousands are merged at once, checked once, and handed out slice by
    run C  7 8     .        slice. The runs keep their rows until the merged ones are put away.

A heap of single rows was rejected: it takes one Python step for each index, which this project avoids.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.index.runs import HeadKey, Run
from delayed_tracker.core.kernels.compiled import merged_order
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Int64Array

_BLOCK_MIN = 32


def last_key(rows: IndexColumns) -> HeadKey:
    """Return (deadline, ledger, entry) of the last row."""
    return int(rows.deliver_at_ms[-1]), int(rows.ledger_id[-1]), int(rows.entry_id[-1])


@dataclass(slots=True)
class MergedRows:
    """Next live rows of some sorted runs, and the part of each run that they consume.

    Valid while none of its rows is removed and no row is added to its runs. A caller that changes either puts it away
    first.
    """

    runs: Sequence[Run]
    indexes: IndexColumns
    """Live rows, ascending, without repeats."""
    place: Int64Array
    """For each live row its rank among all merged rows."""
    origin: Int64Array
    """For each merged row, removed ones included, the number of its run."""
    head: int = 0
    """Live rows that were taken."""

    def __len__(self) -> int:
        """Return the number of live rows left."""
        return len(self.indexes) - self.head

    @property
    def head_ms(self) -> int:
        """First deadline left; there must be one."""
        return int(self.indexes.deliver_at_ms[self.head])

    @property
    def consumed_count(self) -> int:
        """Merged rows that were passed, removed ones included."""
        return int(self.place[self.head]) if len(self) else len(self.origin)

    def window(self, cutoff_ms: int, count: int) -> IndexColumns:
        """Return the first rows left that are due, at most ``count``."""
        window = self.indexes.take(slice(self.head, self.head + count))
        if len(window) and int(window.deliver_at_ms[-1]) <= cutoff_ms:
            return window
        return window.take(slice(0, int(np.searchsorted(window.deliver_at_ms, cutoff_ms, side="right"))))

    def consumed(self) -> list[int]:
        """Return for each run the number of its rows that were passed."""
        counts: list[int] = np.bincount(self.origin[: self.consumed_count], minlength=len(self.runs)).tolist()
        return counts


def merge_ahead(
    runs: Sequence[Run],
    cutoff_ms: int,
    *,
    count: int,
    target: int,
    before: HeadKey | None,
    is_live: Callable[[Run, IndexColumns], BoolArray] | None,
) -> MergedRows:
    """Merge the earliest due rows of sorted runs.

    Args:
        runs: sorted, each with at least one row; ordered by first position where deadlines are equal, for speed only.
        cutoff_ms: rows with a deadline at or before it are due.
        count: minimum of rows to merge, removed ones included, unless fewer are due or come before ``before``.
        target: number of rows to merge if that costs little more.
        before: key of the first row of all other runs: rows at or after it are left. Some row comes before it.
        is_live: returns a mask of the copies that count; None if every copy counts and none is repeated.
    Cost: O(n) for n rows merged.
    """
    blocks = [max(_BLOCK_MIN, -(-target // len(runs)))] * len(runs)
    while True:
        parts = [run.due_prefix(cutoff_ms, block) for run, block in zip(runs, blocks, strict=True)]
        rows = IndexColumns.concat(parts)
        order = merged_order(*map(np.ascontiguousarray, (rows.deliver_at_ms, rows.ledger_id, rows.entry_id)))
        ends = np.cumsum([len(part) for part in parts])
        cut_off = [number for number, part in enumerate(parts) if len(part) == blocks[number] < len(runs[number])]
        # Rows behind the last row of a part that was cut off may come after rows that are not read yet.
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        enough = {number: int(place[ends[number] - 1]) + 1 for number in cut_off}
        safe = min(enough.values(), default=len(order))
        if safe >= max(count, target // 2) or not cut_off:
            break
        # Runs that follow each other, as buckets with one deadline do, are read one after the other.
        for number in cut_off:
            if enough[number] < target:
                blocks[number] *= 4
    order = order[:safe]
    if before is not None and last_key(rows.take(order[-1:])) >= before:
        order = order[: Run(0, 0, rows.take(order)).count_before(before)]
        assert len(order)
    merged = rows.take(order)
    place = np.arange(len(order))
    if is_live is not None:
        live = np.concatenate([is_live(run, part) for run, part in zip(runs, parts, strict=True)])[order]
        merged, place = merged.take(live), place[live]
        # One of several equal copies is enough: they have the same bucket, and no other row sorts between them.
        once = ~merged.repeat_predecessors()
        merged, place = merged.take(once), place[once]
    origin = np.repeat(np.arange(len(runs)), [len(part) for part in parts])[order]
    return MergedRows(runs, merged, place, origin)
