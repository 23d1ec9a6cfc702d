"""The core's compiled kernels; :mod:`tracker.core.jit` has the rules for writing one."""

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from tracker.core.jit import COLUMN, INT64, Kernels

Int64Array = NDArray[np.int64]

_DIGIT_BITS_MAX = 11
"""Digits of a radix sort: 2,048 counters stay in the first-level cache."""

_kernels = Kernels()
warm_up = _kernels.warm_up


@register_jitable
def _sort_rows_by(values: Int64Array, rows: Int64Array) -> Int64Array:
    """Row numbers reordered so that their values ascend; equal values keep their order. May reuse ``rows``.

    Least significant digit first, over as many bits as the values differ in.
    """
    count = len(rows)
    if not count:
        return rows
    least = values[rows[0]]
    most = least
    previous = least
    ascends = True
    for place in range(1, count):
        value = values[rows[place]]
        ascends &= previous <= value
        least = min(least, value)
        most = max(most, value)
        previous = value
    if ascends:
        return rows
    bits = 0
    while bits < 63 and (most - least) >> bits:
        bits += 1
    passes = -(-bits // _DIGIT_BITS_MAX)
    digit_bits = -(-bits // passes)
    digit_mask = (1 << digit_bits) - 1
    keys = np.empty(count, np.int64)
    for place in range(count):
        keys[place] = values[rows[place]] - least
    next_keys = np.empty(count, np.int64)
    next_rows = np.empty(count, np.int64)
    for number in range(passes):
        shift = number * digit_bits
        ends = np.zeros(digit_mask + 2, np.int64)
        for place in range(count):
            ends[((keys[place] >> shift) & digit_mask) + 1] += 1
        for digit in range(digit_mask):
            ends[digit + 1] += ends[digit]
        for place in range(count):
            key = keys[place]
            digit = (key >> shift) & digit_mask
            target = ends[digit]
            ends[digit] = target + 1
            next_keys[target] = key
            next_rows[target] = rows[place]
        keys, next_keys = next_keys, keys
        rows, next_rows = next_rows, rows
    return rows


@register_jitable
def _sort_by_position(ledger_id: Int64Array, entry_id: Int64Array) -> Int64Array:
    rows = _sort_rows_by(entry_id, np.arange(len(ledger_id)))
    return _sort_rows_by(ledger_id, rows)


@_kernels.add(COLUMN, COLUMN, COLUMN)
def delivery_order(deliver_at_ms: Int64Array, ledger_id: Int64Array, entry_id: Int64Array) -> Int64Array:
    """Row numbers in the order (deliver_at_ms, ledger_id, entry_id), equal rows in the order given; O(n).

    Cheap for columns that arrive in order already: deadlines, ledgers and entries are looked at one by one.
    """
    return _sort_rows_by(deliver_at_ms, _sort_by_position(ledger_id, entry_id))


@_kernels.add(COLUMN, COLUMN, COLUMN)
def merged_order(deliver_at_ms: Int64Array, ledger_id: Int64Array, entry_id: Int64Array) -> Int64Array:
    """The same order for rows of sorted runs that lie one behind the other, run by run.

    Twice as fast where runs with equal deadlines lie in the order of their positions, as buckets do that follow each other.
    """
    rows = _sort_rows_by(deliver_at_ms, np.arange(len(deliver_at_ms)))
    in_order = True
    for place in range(1, len(rows)):
        row, previous = rows[place], rows[place - 1]
        if deliver_at_ms[row] == deliver_at_ms[previous]:
            in_order &= ledger_id[previous] < ledger_id[row] or (
                ledger_id[previous] == ledger_id[row] and entry_id[previous] <= entry_id[row]
            )
    if in_order:
        return rows
    return _sort_rows_by(deliver_at_ms, _sort_by_position(ledger_id, entry_id))


@_kernels.add(COLUMN, COLUMN)
def position_order(ledger_id: Int64Array, entry_id: Int64Array) -> Int64Array:
    """Row numbers in the order (ledger_id, entry_id), equal rows in the order given; O(n)."""
    return _sort_by_position(ledger_id, entry_id)


@_kernels.add(COLUMN, INT64, INT64)
def segment_starts(deliver_at_ms: Int64Array, step_ms: int, count_max: int) -> Int64Array:
    """The rows at which segments of ascending deadlines begin: see :func:`tracker.core.segment.cut_segments`. O(n)."""
    count = len(deliver_at_ms)
    starts = np.empty(count, np.int64)
    found = 0
    first = 0
    for row in range(count):
        # The difference, because a deadline and a step together may exceed 63 bits.
        if not row or deliver_at_ms[row] - deliver_at_ms[first] >= step_ms or row - first == count_max:
            first = row
            starts[found] = row
            found += 1
    return starts[:found].copy()


@_kernels.add(COLUMN, COLUMN, COLUMN)
def position_order_in_segments(ledger_id: Int64Array, entry_id: Int64Array, starts: Int64Array) -> Int64Array:
    """Row numbers in the order (segment, ledger_id, entry_id); O(n).

    ``starts``: the row at which each segment begins, and one past the last row.
    """
    rows = _sort_by_position(ledger_id, entry_id)
    segment_of_row = np.empty(len(rows), np.int64)
    for segment in range(len(starts) - 1):
        segment_of_row[starts[segment] : starts[segment + 1]] = segment
    # Rows stay in their segment, so that its start is where the first of them goes.
    next_slot = starts.copy()
    ordered = np.empty(len(rows), np.int64)
    for row in rows:
        segment = segment_of_row[row]
        ordered[next_slot[segment]] = row
        next_slot[segment] += 1
    return ordered
