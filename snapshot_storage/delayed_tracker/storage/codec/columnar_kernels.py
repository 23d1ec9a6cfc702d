"""Compiled kernels of the columnar codec: rows to bit-packed segments and back.

:mod:`delayed_tracker.core.kernels.jit` has the rules for writing one;
:mod:`delayed_tracker.storage.codec.columnar` defines the meaning of the bytes and raises the errors.

All bytes are read and written as a sequence of bits in words of 64, the lowest bit first, so that a value of any width up
to 63 is two reads. Segments begin at whole bytes.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.kernels.jit import COLUMN, INT64, ArgumentType, Kernels, jitable

Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]
Int = int | np.int64

WORDS: Final = ArgumentType("uint64", is_column=True)
READ_AHEAD_BYTES: Final = 64
"""Bytes behind the last segment that are read before a length is tested: a header without its table of ledgers."""

_FIRST_OCTET: Final = 0x0F
_ENTRY_ID_MAX: Final = 2**32 - 1
_INT63_MAX: Final = 2**63 - 1
_ROWS_MAX: Final = 2**31 - 1
_WIDTH_MAX: Final = 63
_ENTRY_WIDTH_MAX: Final = 32
_HEADER_BYTES_MAX: Final = 1 + 5 + 1 + 1 + 9 + 5 + 5 + 9
_ROW_BITS_MAX: Final = 63 + 63
_LEDGER_BITS_MAX: Final = 72

# Faults, by the field that is wrong; columnar.py has their sentences.
SOUND: Final = 0
FIRST_OCTET: Final = 1
ROW_COUNT: Final = 2
DEADLINE_WIDTH: Final = 3
ENTRY_WIDTH: Final = 4
FIRST_DEADLINE: Final = 5
LOWEST_ENTRY: Final = 6
LEDGER_COUNT: Final = 7
LEDGER_ID: Final = 8
SIZE: Final = 9
DEADLINE: Final = 10
LEDGER_INDEX: Final = 11
ENTRY_ID: Final = 12
PADDING: Final = 13

KERNELS: Final = Kernels()


@jitable()
def _bit_length(value: Int) -> int:
    width = 0
    while value > 0:
        value >>= 1
        width += 1
    return width


@jitable(forceinline=True)
def _get(words: UInt64Array, at: Int, width: Int) -> np.int64:
    """Return the value of ``width`` bits, 63 at most, from bit ``at`` on."""
    word = np.uint64(at >> 6)
    shift = np.uint64(at & 63)
    low = words[word] >> shift
    high = (words[word + np.uint64(1)] << np.uint64(1)) << (np.uint64(63) - shift)
    return np.int64((low | high) & ((np.uint64(1) << np.uint64(width)) - np.uint64(1)))


@jitable(forceinline=True)
def _put(words: UInt64Array, at: Int, width: Int, value: Int) -> Int:
    """Write a value into bits that are 0, and return the bit behind it."""
    word = np.uint64(at >> 6)
    shift = np.uint64(at & 63)
    bits = np.uint64(value)
    words[word] |= bits << shift
    words[word + np.uint64(1)] |= (bits >> np.uint64(1)) >> (np.uint64(63) - shift)
    return at + width


@jitable()
def _put_varint(words: UInt64Array, at: Int, value: Int) -> Int:
    while value >= 0x80:
        at = _put(words, at, 8, (value & 0x7F) | 0x80)
        value >>= 7
    return _put(words, at, 8, value)


@jitable()
def _get_varint(words: UInt64Array, at: Int) -> tuple[Int, Int]:
    """Read a canonical varint of up to 63 bits; return its value, or -1 for any other bytes, and its end."""
    value = _get(words, at, 8)
    at += 8
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    octet = np.int64(0x80)
    while octet >= 0x80 and shift < 63:
        octet = _get(words, at, 8)
        at += 8
        value |= (octet & 0x7F) << shift
        shift += 7
    return (value if 0 < octet < 0x80 else np.int64(-1)), at


@KERNELS.add(COLUMN, COLUMN, COLUMN, COLUMN, COLUMN)
def encode_segments(
    deliver_at_ms: Int64Array, ledger_id: Int64Array, entry_id: Int64Array, order: Int64Array, starts: Int64Array
) -> tuple[UInt64Array, Int64Array]:
    """Encode all segments, one after the other.

    Args:
        deliver_at_ms: ascending within each segment.
        ledger_id: of the positions.
        entry_id: of the positions.
        order: rows by segment, ledger and entry; empty if all rows have one ledger.
        starts: the row at which each segment begins, and one past the last row. No segment is empty.
    Returns: the bytes, in words, and the byte at which each segment begins, and one past the last.
    """
    count = len(starts) - 1
    has_ledgers = len(order) > 0
    row_bits = _ROW_BITS_MAX + _LEDGER_BITS_MAX if has_ledgers else _WIDTH_MAX + _ENTRY_WIDTH_MAX
    words = np.zeros((8 * (_HEADER_BYTES_MAX + 1) * count + row_bits * len(deliver_at_ms)) // 64 + 2, np.uint64)
    offsets = np.empty(count + 1, np.int64)
    place = np.zeros(len(order), np.int64)
    at: Int = 0
    for segment in range(count):
        first, end = starts[segment], starts[segment + 1]
        rows = end - first
        step_bits = np.int64(0)
        lowest = highest = entry_id[first]
        for row in range(first + 1, end):
            step_bits |= deliver_at_ms[row] - deliver_at_ms[row - 1]
            lowest = min(lowest, entry_id[row])
            highest = max(highest, entry_id[row])
        ledgers = 1
        if has_ledgers:
            for number in range(first + 1, end):
                if ledger_id[order[number]] != ledger_id[order[number - 1]]:
                    ledgers += 1
                place[order[number]] = ledgers - 1
            place[order[first]] = 0
        place_width = _bit_length(ledgers - 1)
        step_width = _bit_length(step_bits)
        # Positions are distinct; a caller whose positions are not gets its rows back all the same.
        entry_width = max(_bit_length(highest - lowest), _bit_length(rows - 1) - place_width)
        offsets[segment] = at >> 3
        at = _put(words, at, 8, _FIRST_OCTET)
        at = _put_varint(words, at, rows)
        at = _put(words, at, 8, step_width)
        at = _put(words, at, 8, entry_width)
        at = _put_varint(words, at, deliver_at_ms[first])
        at = _put_varint(words, at, lowest)
        at = _put_varint(words, at, ledgers)
        if has_ledgers:
            at = _put_varint(words, at, ledger_id[order[first]])
            for number in range(first + 1, end):
                distance = ledger_id[order[number]] - ledger_id[order[number - 1]]
                if distance:
                    at = _put_varint(words, at, distance)
        else:
            at = _put_varint(words, at, ledger_id[first])
        for row in range(first + 1, end):
            at = _put(words, at, step_width, deliver_at_ms[row] - deliver_at_ms[row - 1])
        position_width = place_width + entry_width
        if place_width:
            for row in range(first, end):
                at = _put(words, at, position_width, (place[row] << entry_width) | (entry_id[row] - lowest))
        else:
            for row in range(first, end):
                at = _put(words, at, position_width, entry_id[row] - lowest)
        at = (at + 7) & ~7
    offsets[count] = at >> 3
    return words, offsets


@jitable()
def _read_header(words: UInt64Array, begin: Int, end: Int) -> tuple[int, Int, Int, Int, Int, Int, Int, Int]:
    """Read and verify a header up to the number of ledgers, and compare the size of its segment with it.

    Returns: the fault and a value for its sentence, or SOUND and the first deadline; then the numbers of rows and of
    ledgers, the widths of a deadline and of an entry, the lowest entry, and the bit behind all this.
    """
    at = 8 * begin
    octet = _get(words, at, 8)
    if begin == end or octet != _FIRST_OCTET:
        return FIRST_OCTET, octet, 0, 0, 0, 0, 0, at
    rows, at = _get_varint(words, at + 8)
    if not 1 <= rows <= _ROWS_MAX:
        return ROW_COUNT, rows, 0, 0, 0, 0, 0, at
    step_width = _get(words, at, 8)
    if step_width > _WIDTH_MAX:
        return DEADLINE_WIDTH, step_width, 0, 0, 0, 0, 0, at
    entry_width = _get(words, at + 8, 8)
    if entry_width > _ENTRY_WIDTH_MAX:
        return ENTRY_WIDTH, entry_width, 0, 0, 0, 0, 0, at
    deadline, at = _get_varint(words, at + 16)
    if deadline < 0:
        return FIRST_DEADLINE, deadline, 0, 0, 0, 0, 0, at
    lowest, at = _get_varint(words, at)
    if not 0 <= lowest <= _ENTRY_ID_MAX:
        return LOWEST_ENTRY, lowest, 0, 0, 0, 0, 0, at
    ledgers, at = _get_varint(words, at)
    if not 1 <= ledgers <= rows:
        return LEDGER_COUNT, ledgers, 0, 0, 0, 0, 0, at
    # Every ledger takes a byte, and so many positions as rows need so many bits: the rows are in proportion to the bytes.
    position_width = _bit_length(ledgers - 1) + entry_width
    if position_width < _bit_length(rows - 1):
        return ENTRY_WIDTH, entry_width, 0, 0, 0, 0, 0, at
    if at + 8 * ledgers + (rows - 1) * step_width + rows * position_width > 8 * end:
        return SIZE, end - begin, 0, 0, 0, 0, 0, at
    return SOUND, deadline, rows, ledgers, step_width, entry_width, lowest, at


@KERNELS.add(WORDS, COLUMN)
def decode_segments(
    words: UInt64Array, ends: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array, tuple[int, Int, Int]]:
    """Decode segments.

    Args:
        words: segments, one after the other, then :data:`READ_AHEAD_BYTES` of any value.
        ends: byte behind each segment, ascending.
    Returns: the three columns, then the fault, the segment that has it, and a value for its sentence.
    """
    nothing = np.empty(0, np.int64)
    # The first pass verifies the counts before anything is allocated for them.
    total = np.int64(0)
    ledgers_max: Int = 0
    begin = np.int64(0)
    for segment in range(len(ends)):
        fault, value, rows, ledgers, step_width, entry_width, lowest, at = _read_header(words, begin, ends[segment])
        if fault:
            return nothing, nothing, nothing, (fault, segment, value)
        total += rows
        ledgers_max = max(ledgers_max, ledgers)
        begin = ends[segment]
    deliver_at_ms = np.empty(total, np.int64)
    ledger_id = np.empty(total, np.int64)
    entry_id = np.empty(total, np.int64)
    table = np.empty(ledgers_max, np.int64)
    row = np.int64(0)
    begin = np.int64(0)
    for segment in range(len(ends)):
        end = ends[segment]
        fault, deadline, rows, ledgers, step_width, entry_width, lowest, at = _read_header(words, begin, end)
        ledger = np.int64(0)
        for number in range(ledgers):
            if at >= 8 * end:
                return nothing, nothing, nothing, (SIZE, segment, end - begin)
            distance, at = _get_varint(words, at)
            if distance < (1 if number else 0) or distance > _INT63_MAX - ledger:
                return nothing, nothing, nothing, (LEDGER_ID, segment, number)
            ledger += distance
            table[number] = ledger
        place_width = _bit_length(ledgers - 1)
        position_width = place_width + entry_width
        close = at + (rows - 1) * step_width + rows * position_width
        if (close + 7) >> 3 != end:
            return nothing, nothing, nothing, (SIZE, segment, end - begin)
        if _get(words, close, 8 * end - close):
            return nothing, nothing, nothing, (PADDING, segment, end - begin)
        deliver_at_ms[row] = deadline
        for number in range(row + 1, row + rows):
            step = _get(words, at, step_width)
            if step > _INT63_MAX - deadline:
                return nothing, nothing, nothing, (DEADLINE, segment, number - row)
            deadline += step
            deliver_at_ms[np.uint64(number)] = deadline
            at += step_width
        highest = np.int64(0)
        if place_width:
            mask = (np.int64(1) << entry_width) - 1
            for number in range(row, row + rows):
                position = _get(words, at, position_width)
                place = position >> entry_width
                if place >= ledgers:
                    return nothing, nothing, nothing, (LEDGER_INDEX, segment, place)
                offset = position & mask
                highest = max(highest, offset)
                ledger_id[np.uint64(number)] = table[np.uint64(place)]
                entry_id[np.uint64(number)] = lowest + offset
                at += position_width
        else:
            for number in range(row, row + rows):
                offset = _get(words, at, position_width)
                highest = max(highest, offset)
                ledger_id[np.uint64(number)] = ledger
                entry_id[np.uint64(number)] = lowest + offset
                at += position_width
        if lowest + highest > _ENTRY_ID_MAX:
            return nothing, nothing, nothing, (ENTRY_ID, segment, lowest + highest)
        row += rows
        begin = end
    return deliver_at_ms, ledger_id, entry_id, (SOUND, len(ends), np.int64(0))


@KERNELS.add(COLUMN, INT64)
def pack(values: Int64Array, width: int) -> UInt64Array:
    """Return values of up to 63 bits, none negative, one after the other in ``width`` bits each."""
    words = np.zeros(len(values) * width // 64 + 2, np.uint64)
    at: Int = 0
    for number in range(len(values)):
        at = _put(words, at, width, values[number])
    return words


@KERNELS.add(WORDS, INT64, INT64, INT64)
def unpack(words: UInt64Array, at: int, width: int, count: int) -> Int64Array:
    """Return ``count`` values of ``width`` bits from bit ``at`` on; there is a whole word behind the last."""
    values = np.empty(count, np.int64)
    for number in range(count):
        values[number] = _get(words, at + number * width, width)
    return values
