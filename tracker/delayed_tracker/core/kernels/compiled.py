"""Compiled kernels of the core; :mod:`delayed_tracker.core.kernels.jit` has the rules for writing one."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import COLUMN, INT64, OCTETS, Kernels, jitable

Int64Array = NDArray[np.int64]
UInt8Array = NDArray[np.uint8]
Int = int | np.int64

_DIGIT_BITS_MAX = 11
"""Bits of a digit of a radix sort: 2,048 counters stay in the first-level cache."""
_COOKIE_RUNS = 12_347
_OFFSETS_FROM = 4
_ARRAY_VALUES_MAX = 4_096
_BITSET_BYTES = 8_192
_PLACE = 4
"""Numbers for each slot of a container table."""

KERNELS: Final = Kernels()


@jitable()
def _sort_rows_by(values: Int64Array, rows: Int64Array) -> Int64Array:
    """Return row numbers reordered so that their values ascend; equal values keep their order. May reuse ``rows``.

    A radix sort, least significant digit first, over the bits in which the values differ.
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


@jitable()
def _sort_by_position(ledger_id: Int64Array, entry_id: Int64Array) -> Int64Array:
    rows = _sort_rows_by(entry_id, np.arange(len(ledger_id)))
    return _sort_rows_by(ledger_id, rows)


@KERNELS.add(COLUMN, COLUMN, COLUMN)
def delivery_order(deliver_at_ms: Int64Array, ledger_id: Int64Array, entry_id: Int64Array) -> Int64Array:
    """Return row numbers in the order (deliver_at_ms, ledger_id, entry_id); equal rows keep their order. O(n).

    Columns that are already in order are fast: deadlines, ledgers and entries are each tested first.
    """
    return _sort_rows_by(deliver_at_ms, _sort_by_position(ledger_id, entry_id))


@KERNELS.add(COLUMN, COLUMN, COLUMN)
def merged_order(deliver_at_ms: Int64Array, ledger_id: Int64Array, entry_id: Int64Array) -> Int64Array:
    """Return the same order for the rows of sorted runs, concatenated run by run.

    Twice as fast if runs with equal deadlines are given in the order of their positions, as adjacent buckets are.
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


@KERNELS.add(COLUMN, COLUMN)
def position_order(ledger_id: Int64Array, entry_id: Int64Array) -> Int64Array:
    """Return row numbers in the order (ledger_id, entry_id); equal rows keep their order. O(n)."""
    return _sort_by_position(ledger_id, entry_id)


@KERNELS.add(COLUMN, INT64, INT64)
def segment_starts(deliver_at_ms: Int64Array, step_ms: int, count_max: int) -> Int64Array:
    """Return the rows at which segments of ascending deadlines begin. O(n).

    See :func:`delayed_tracker.core.rules.segment.cut_segments`.
    """
    count = len(deliver_at_ms)
    starts = np.empty(count, np.int64)
    found = 0
    first = 0
    for row in range(count):
        # The difference is compared, because the sum of a deadline and a step may exceed 63 bits.
        if not row or deliver_at_ms[row] - deliver_at_ms[first] >= step_ms or row - first == count_max:
            first = row
            starts[found] = row
            found += 1
    return starts[:found].copy()


@KERNELS.add(COLUMN, INT64, INT64)
def joined_segments(counts: Int64Array, rows_min: int, count_max: int) -> Int64Array:
    """Return the segments at which joined ones begin, from the rows of each segment. O(segments).

    See :func:`delayed_tracker.core.rules.segment.join_segments`.
    """
    starts = np.empty(len(counts), np.int64)
    found = 0
    rows = np.int64(0)
    for segment in range(len(counts)):
        count = counts[segment]
        if not segment or rows >= rows_min or (count_max >= 0 and rows + count > count_max):
            starts[found] = segment
            found += 1
            rows = np.int64(0)
        rows += count
    return starts[:found].copy()


@KERNELS.add(COLUMN, COLUMN, COLUMN)
def position_order_in_segments(ledger_id: Int64Array, entry_id: Int64Array, starts: Int64Array) -> Int64Array:
    """Return row numbers in the order (segment, ledger_id, entry_id). O(n).

    ``starts``: the row at which each segment begins, and one past the last row.
    """
    rows = _sort_by_position(ledger_id, entry_id)
    segment_of_row = np.empty(len(rows), np.int64)
    for segment in range(len(starts) - 1):
        segment_of_row[starts[segment] : starts[segment + 1]] = segment
    # Rows stay in their segment, so its first row in the new order goes to its start.
    next_slot = starts.copy()
    ordered = np.empty(len(rows), np.int64)
    for row in rows:
        segment = segment_of_row[row]
        ordered[next_slot[segment]] = row
        next_slot[segment] += 1
    return ordered


@jitable(forceinline=True)
def _pair(octets: UInt8Array, at: Int) -> Int:
    """Return the value of two octets, the lower one first.

    The indexes are unsigned: for signed ones numba tests whether they count from the end.
    """
    return np.int64(octets[np.uint64(at)]) | np.int64(octets[np.uint64(at + 1)]) << 8


@jitable(forceinline=True)
def _four(octets: UInt8Array, at: Int) -> Int:
    """Return the value of four octets, the lowest one first: a bitmap may have 65,536 containers."""
    return _pair(octets, at) | _pair(octets, at + 2) << 16


@jitable(forceinline=True)
def _first_place(ledger: Int, high: Int, mask: Int) -> Int:
    """Return the first slot to probe in a container table: the last bits of a product that fits in 63 bits."""
    mixed = ((ledger ^ ledger >> 24 ^ ledger >> 48) & 0xFF_FFFF) * 0x9E37_79B1 + high * 0x85EB_CA77
    return (mixed ^ mixed >> 29) & mask


@KERNELS.add(OCTETS, COLUMN, COLUMN)
def container_table(octets: UInt8Array, begins: Int64Array, ledger_id: Int64Array) -> Int64Array:
    """Return the places of the containers of some bitmaps, as a hash table that is at most half full. O(containers).

    Args:
        octets: bitmaps in the portable format (RoaringFormatSpec), one after the other.
        begins: offset of each bitmap.
        ledger_id: the ledger of each bitmap; none twice.
    Returns: for each slot four numbers: ledger (-1 if empty), upper half of its entries, offset of the container's
    values,
        and their kind: the number of values, 0 for a bitset, or minus the number of runs.
    """
    count = np.int64(0)
    for at in begins:
        count += 1 + _pair(octets, at + 2) if _pair(octets, at) == _COOKIE_RUNS else _four(octets, at + 4)
    size = np.int64(2)
    while size < 2 * count:
        size *= 2
    table = np.full(_PLACE * size, -1, np.int64)
    for number in range(len(begins)):
        at = begins[number]
        has_runs = _pair(octets, at) == _COOKIE_RUNS
        if has_runs:
            containers = 1 + _pair(octets, at + 2)
            flags = at + 4
            keys = flags + (containers + 7) // 8
            body = keys + 4 * containers + (4 * containers if containers >= _OFFSETS_FROM else 0)
        else:
            containers = _four(octets, at + 4)
            flags = at
            keys = at + 8
            body = keys + 8 * containers
        for container in range(containers):
            high = _pair(octets, keys + 4 * container)
            kind = 1 + _pair(octets, keys + 4 * container + 2)
            begin = body
            if has_runs and octets[flags + container // 8] >> (container % 8) & 1:
                kind = -_pair(octets, body)
                begin = body + 2
                body = begin - 4 * kind
            elif kind <= _ARRAY_VALUES_MAX:
                body += 2 * kind
            else:
                kind = np.int64(0)
                body += _BITSET_BYTES
            place = _first_place(ledger_id[number], high, size - 1)
            while table[_PLACE * place] >= 0:
                place = (place + 1) & (size - 1)
            table[_PLACE * place] = ledger_id[number]
            table[_PLACE * place + 1] = high
            table[_PLACE * place + 2] = begin
            table[_PLACE * place + 3] = kind
    return table


@KERNELS.add(OCTETS, COLUMN, COLUMN, COLUMN)
def contained(octets: UInt8Array, table: Int64Array, ledger_id: Int64Array, entry_id: Int64Array) -> NDArray[np.bool_]:
    """Return a mask of the positions in the bitmaps of :func:`container_table`. O(n log container)."""
    found = np.zeros(len(ledger_id), np.bool_)
    mask = len(table) // _PLACE - 1
    place: Int = 0
    for row in range(len(ledger_id)):
        ledger, entry = ledger_id[row], entry_id[row]
        high, low = entry >> 16, entry & 0xFFFF
        if table[_PLACE * place] != ledger or table[_PLACE * place + 1] != high:
            place = _first_place(ledger, high, mask)
            while table[_PLACE * place] >= 0 and (table[_PLACE * place] != ledger or table[_PLACE * place + 1] != high):
                place = (place + 1) & mask
        if table[_PLACE * place] < 0:
            continue
        begin, kind = table[_PLACE * place + 2], table[_PLACE * place + 3]
        if kind == 0:
            found[row] = octets[np.uint64(begin + (low >> 3))] >> (low & 7) & 1
            continue
        # Search for the last value, or last first value of a run, that is not above it, without a branch that is hard
        # to predict.
        width = 2 if kind > 0 else 4
        last = np.int64(0)
        left = abs(kind)
        while left > 1:
            half = left >> 1
            last += half if _pair(octets, begin + width * (last + half)) <= low else 0
            left -= half
        beyond = low - _pair(octets, begin + width * last)
        found[row] = beyond == 0 if kind > 0 else 0 <= beyond <= _pair(octets, begin + width * last + 2)
    return found
