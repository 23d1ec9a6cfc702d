"""Taking the earliest rows of several sorted runs, without merging more than is asked for.

    run A  1 4 9 ...        From each run a block is looked at; rows up to the smallest "last row of a block that has
    run B  2 3 5 ...   ->   more behind it" are certainly the earliest. If that is not enough, look further, with blocks
    run C  7 8     .        twice the size, so that one run holding all early rows costs O(log) rounds.

A heap of single rows was rejected: one Python step per index is what this project exists to avoid.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracker.core.columns import IndexColumns, Int64Array

_BLOCK_MIN = 32


@dataclass(frozen=True, slots=True)
class Taken:
    """The earliest rows, where each came from, and how far each run was consumed."""

    indexes: IndexColumns
    run: Int64Array
    """For each row, the number of its run in the call's sequence."""
    consumed: list[int]
    """For each run, how many of its rows were taken."""


def take_earliest(runs: Sequence[IndexColumns], count: int) -> Taken:
    """The first ``count`` rows of the sorted union of sorted runs.

    Args:
        runs: each ascending by (deliver_at_ms, ledger_id, entry_id); any may be empty. Not copied unless merged.
        count: at least 1.
    Returns: min(count, rows there are) rows, ascending; equal rows of different runs are all kept.
    Cost: O(count log count + runs) when the runs interleave.
    """
    consumed = [0] * len(runs)
    if len(runs) == 1:
        consumed[0] = min(count, len(runs[0]))
        rows = runs[0].take(slice(0, consumed[0]))
        return Taken(rows, np.zeros(len(rows), np.int64), consumed)
    parts: list[IndexColumns] = []
    origins: list[Int64Array] = []
    missing = count
    block = max(_BLOCK_MIN, 2 * count // max(1, len(runs)))
    while missing > 0:
        open_runs = [number for number, run in enumerate(runs) if consumed[number] < len(run)]
        if not open_runs:
            break
        blocks = [runs[number].take(slice(consumed[number], consumed[number] + block)) for number in open_runs]
        rows = IndexColumns.concat(blocks)
        origin = np.repeat(np.array(open_runs, np.int64), [len(part) for part in blocks])
        order = np.lexsort((rows.entry_id, rows.ledger_id, rows.deliver_at_ms))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        ends = np.cumsum([len(part) for part in blocks]) - 1
        unfinished = [
            int(rank[end])
            for end, number, part in zip(ends, open_runs, blocks, strict=True)
            if consumed[number] + len(part) < len(runs[number])
        ]
        safe = min(unfinished) + 1 if unfinished else len(order)
        chosen = order[: min(safe, missing)]
        parts.append(rows.take(chosen))
        origins.append(origin[chosen])
        for number, taken in zip(*np.unique(origin[chosen], return_counts=True), strict=True):
            consumed[int(number)] += int(taken)
        missing -= len(chosen)
        block *= 2
    none = np.empty(0, np.int64)
    return Taken(IndexColumns.concat(parts), np.concatenate(origins) if origins else none, consumed)
